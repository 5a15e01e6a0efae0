//! Which objects of a list refer to the target, by each of several edges.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use crate::api::OwnedDependents;
use crate::extract::{Extractor, Hit, Item, Needle, Page, PageError, Take, Turns};
use crate::path::FieldPath;
use crate::rule::{Dependent, Edge, FieldReference, Place, Reference};
use crate::ruleset::{Check, IndexedEdge};
use crate::selector::Selector;
use crate::target::Target;

/// Reads, in one pass through a list, what all edges about its objects need.
#[derive(Debug)]
pub(crate) struct References {
    extractor: Extractor,
    readings: Vec<Reading>,
}

/// The objects that are looked for, all by the same edges.
#[derive(Debug)]
pub(crate) struct Targets {
    all: Vec<Arc<Target>>,
    by_name: HashMap<String, Vec<usize>>,
}

/// Whether an object refers to the target.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refers {
    No,
    Yes,
    /// It can't be told: the end of a sentence that begins with the object.
    Unclear(String),
}

/// An edge, and where in an [`Item`] the values of its paths are.
#[derive(Debug)]
struct Reading {
    edge: Arc<IndexedEdge>,
    /// The names, or the selectors.
    subject: usize,
    namespace: Option<Beside>,
    group: Option<Beside>,
    kind: Option<Beside>,
    api_version: Option<Beside>,
    uid: Option<Beside>,
    when: Option<Beside>,
    /// The UIDs of owners, where they matter.
    owners: Option<usize>,
    /// The labels that the dependents' selector asks for.
    labels: Vec<(String, usize)>,
}

/// A value that goes along with each reference: where its values are, and how many turns they share.
#[derive(Debug, Clone, Copy)]
struct Beside {
    slot: usize,
    turns: usize,
}

impl References {
    /// What `edges` need. One that can't be followed refers to nothing here.
    pub(crate) fn new(edges: &[Arc<IndexedEdge>]) -> Self {
        let mut paths = Vec::new();
        let readings = edges.iter().filter_map(|edge| Reading::new(edge, &mut paths)).collect();
        Self { extractor: Extractor::taking(paths.iter().map(|(path, take)| (path, *take))), readings }
    }

    /// The fields that hold the names.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &FieldPath> {
        self.readings.iter().filter_map(|reading| match &reading.edge.check {
            Check::Follow { edge, .. } => Some(edge.reference.path()),
            Check::Broken(_) => None,
        })
    }

    /// What must stand in the bytes of each object that refers to one of the targets; `None` where all must be read.
    pub(crate) fn needle(&self, targets: &Targets) -> Option<Needle> {
        let stands_there = |reading: &Reading| match &reading.edge.check {
            Check::Follow { edge, .. } => match &edge.reference {
                Reference::Field(field) => field.pattern.is_none(),
                Reference::Selector(_) => false,
            },
            Check::Broken(_) => true,
        };
        let names = targets.by_name.keys().map(String::as_str);
        if self.readings.iter().all(stands_there) { Needle::new(names) } else { None }
    }

    /// Hands each object of a page that refers to a target, or may do so, to `each`: with the index of the target, and
    /// the edge that says so. Counts what is no name where one was looked for, in the objects that hold the needle.
    pub(crate) fn page(
        &self,
        bytes: &[u8],
        needle: Option<&Needle>,
        targets: &Targets,
        misfits: &mut usize,
        mut each: impl FnMut(usize, &Item<'_, '_>, &Arc<IndexedEdge>, Refers),
    ) -> Result<Page, PageError> {
        let mut meant = Vec::new();
        self.extractor.search(bytes, needle, |item| {
            *misfits += item.misfits();
            for reading in &self.readings {
                meant.clear();
                reading.may_mean(item, targets, &mut meant);
                for (index, target) in meant.iter().filter_map(|index| Some((*index, targets.all.get(*index)?))) {
                    let is_target = item.uid().is_some() && item.uid() == target.uid.as_deref();
                    match reading.refers(item, target) {
                        _ if is_target => {}
                        Refers::No => {}
                        refers => each(index, item, &reading.edge, refers),
                    }
                }
            }
        })
    }
}

impl Targets {
    pub(crate) fn of(target: &Arc<Target>) -> Self {
        let mut targets = Self { all: Vec::new(), by_name: HashMap::new() };
        targets.push(target);
        targets
    }

    /// Whether one of them has that name.
    pub(crate) fn holds(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    pub(crate) fn push(&mut self, target: &Arc<Target>) {
        self.by_name.entry(target.name.clone()).or_default().push(self.all.len());
        self.all.push(Arc::clone(target));
    }
}

impl Reading {
    fn new(edge: &Arc<IndexedEdge>, paths: &mut Vec<(FieldPath, Take)>) -> Option<Self> {
        let Check::Follow { dependent, edge: followed } = &edge.check else { return None };
        let mut slot = |path: &FieldPath, take| {
            paths.push((path.clone(), take));
            paths.len() - 1
        };
        let take = match &followed.reference {
            Reference::Field(field) if field.keys => Take::Keys,
            Reference::Field(_) => Take::Texts,
            Reference::Selector(_) => Take::Json,
        };
        let subject = slot(followed.reference.path(), take);
        let mut beside = |path: &FieldPath| Beside { slot: slot(path, Take::Text), turns: path.wildcards() };
        let when = followed.when.as_ref().map(|when| beside(&when.path));
        let mut reading = Self {
            edge: Arc::clone(edge),
            subject,
            namespace: None,
            group: None,
            kind: None,
            api_version: None,
            uid: None,
            when,
            owners: None,
            labels: Vec::new(),
        };
        if let Reference::Field(field) = &followed.reference {
            if let Place::Said { path: Some(path), .. } = &field.place {
                reading.namespace = Some(beside(path));
            }
            reading.group = field.group.as_ref().map(&mut beside);
            reading.kind = field.kind.as_ref().map(&mut beside);
            reading.api_version = field.api_version.as_ref().map(&mut beside);
            reading.uid = field.uid.as_ref().map(&mut beside);
        }
        if followed.owned_dependents == OwnedDependents::Ignore {
            reading.owners = Some(slot(&FieldPath::owners(), Take::Text));
        }
        let labels = dependent.selector.iter().flat_map(Selector::keys);
        reading.labels = labels.map(|key| (key.to_owned(), slot(&FieldPath::label(key), Take::Text))).collect();
        Some(reading)
    }

    /// The targets that the object may refer to: many are told apart by the names that it holds.
    fn may_mean(&self, item: &Item<'_, '_>, targets: &Targets, meant: &mut Vec<usize>) {
        let field = match &self.edge.check {
            Check::Follow { edge, .. } => match &edge.reference {
                Reference::Field(field) if targets.all.len() > 1 && !item.is_cut() => field,
                Reference::Field(_) | Reference::Selector(_) => return meant.extend(0..targets.all.len()),
            },
            Check::Broken(_) => return,
        };
        for hit in item.hits(self.subject) {
            let name = match &field.pattern {
                None => Some(Cow::Borrowed(hit.text.as_ref())),
                Some(pattern) => pattern.cut(&hit.text).map(Cow::Owned),
            };
            meant.extend(name.and_then(|name| targets.by_name.get(name.as_ref())).into_iter().flatten());
        }
        meant.sort_unstable();
        meant.dedup();
    }

    fn refers(&self, item: &Item<'_, '_>, target: &Target) -> Refers {
        let Check::Follow { dependent, edge } = &self.edge.check else { return Refers::No };
        if item.is_cut() {
            let most = Extractor::MOST_VALUES;
            return Refers::Unclear(format!(
                "holds more than the {most} references that are read of one object; split it"
            ));
        }
        if !self.counts(dependent, item, target) {
            return Refers::No;
        }
        let hits = item.hits(self.subject).iter();
        match &edge.reference {
            Reference::Field(field) => {
                let means = |hit: &&Hit<'_>| self.means(field, item, hit, target) && self.holds(edge, item, hit.at);
                if hits.into_iter().any(|hit| means(&hit)) { Refers::Yes } else { Refers::No }
            }
            Reference::Selector(path) => {
                if elsewhere(item, target) {
                    return Refers::No;
                }
                let mut refers = Refers::No;
                for hit in hits.filter(|hit| self.holds(edge, item, hit.at)) {
                    match Selector::read(&hit.text) {
                        Ok(Some(selector)) if selector.matches(|key| target.label(key)) => return Refers::Yes,
                        Ok(_) => {}
                        Err(error) => {
                            refers = Refers::Unclear(format!("has a selector at `{path}` that can't be used: {error}"));
                        }
                    }
                }
                refers
            }
        }
    }

    /// Whether the object counts as a dependent at all.
    fn counts(&self, dependent: &Dependent, item: &Item<'_, '_>, target: &Target) -> bool {
        let label = |key: &str| {
            let (_, slot) = self.labels.iter().find(|(label, _)| label == key)?;
            item.value(*slot)
        };
        let owned = || {
            let Some((owners, uid)) = self.owners.zip(target.uid.as_deref()) else { return false };
            item.values(owners).any(|owner| owner == uid)
        };
        dependent.selector.as_ref().is_none_or(|selector| selector.matches(label)) && !owned()
    }

    /// Whether the edge's condition holds where the reference stands.
    fn holds(&self, edge: &Edge, item: &Item<'_, '_>, at: Turns) -> bool {
        let Some(when) = &edge.when else { return true };
        let value = self.when.and_then(|beside| beside.value(item, at));
        value.is_some_and(|value| when.values.iter().any(|wanted| wanted == value))
    }

    /// Whether what was found means the target.
    fn means(&self, field: &FieldReference, item: &Item<'_, '_>, hit: &Hit<'_>, target: &Target) -> bool {
        let named = match &field.pattern {
            None => hit.text == target.name,
            Some(pattern) => pattern.cut(&hit.text).is_some_and(|name| name == target.name),
        };
        // What is absent, or empty as Go writes what is absent, counts.
        let said = |beside: Option<Beside>, says: &dyn Fn(&str) -> bool| {
            beside.and_then(|beside| beside.value(item, hit.at)).filter(|value| !value.is_empty()).is_none_or(says)
        };
        named
            && self.is_there(&field.place, item, hit, target)
            && said(self.group, &|group| group == target.kind.group.as_str())
            && said(self.kind, &|kind| self.is_kind(kind))
            && said(self.api_version, &|version| {
                version.rsplit_once('/').map_or("", |(group, _)| group) == target.kind.group.as_str()
            })
            && said(self.uid, &|uid| target.uid.as_deref().is_none_or(|own| own == uid))
    }

    fn is_kind(&self, kind: &str) -> bool {
        let Check::Follow { edge, .. } = &self.edge.check else { return false };
        edge.target.kind.as_ref().is_none_or(|own| own.as_str() == kind)
    }

    /// Whether the target is in the namespace that the reference means. One without a namespace is in all of them.
    fn is_there(&self, place: &Place, item: &Item<'_, '_>, hit: &Hit<'_>, target: &Target) -> bool {
        let Some(namespace) = &target.namespace else { return true };
        match place {
            Place::Own => !elsewhere(item, target),
            Place::Fixed(fixed) => fixed == namespace,
            Place::Said { pattern, .. } => {
                let whole = match self.namespace {
                    Some(beside) => beside.value(item, hit.at),
                    None => Some(hit.text.as_ref()),
                };
                let said = match pattern {
                    None => whole.map(Cow::Borrowed),
                    Some(pattern) => whole.and_then(|whole| pattern.cut(whole)).map(Cow::Owned),
                };
                match said.filter(|said| !said.is_empty()) {
                    Some(said) => said == namespace.as_str(),
                    None => !elsewhere(item, target),
                }
            }
        }
    }
}

impl Beside {
    /// The value that goes along with what was found by these turns.
    fn value<'i>(&self, item: &'i Item<'_, '_>, at: Turns) -> Option<&'i str> {
        let hits = item.hits(self.slot);
        let index = hits.binary_search_by(|hit| hit.at.cmp(&at.first(self.turns))).ok()?;
        hits.get(index).map(|hit| hit.text.as_ref())
    }
}

/// Only where both have a namespace must they share it: an object without one may refer to any.
fn elsewhere(item: &Item<'_, '_>, target: &Target) -> bool {
    matches!((item.namespace(), &target.namespace), (Some(own), Some(other)) if own != other.as_str())
}
