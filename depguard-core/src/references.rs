//! Which objects of a list refer to the target, by each of several edges.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use crate::api::OwnedDependents;
use crate::extract::{Extractor, Hit, Item, Needle, Page, PageError, Take, Turns};
use crate::path::FieldPath;
use crate::rule::{Dependent, Edge, FieldReference, Place, Reference};
use crate::ruleset::{Check, IndexedEdge};
use crate::selector::{Selector, SelectorError};
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
                reading.look(item, targets, &mut meant, |index, target, refers| {
                    let is_target = item.uid().is_some() && item.uid() == target.uid.as_deref();
                    if !is_target {
                        each(index, item, &reading.edge, refers);
                    }
                });
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

    /// Hands each target that the object refers to, or may do so, to `each`, with its index. `meant` is room to work in.
    fn look<'t>(
        &self,
        item: &Item<'_, '_>,
        targets: &'t Targets,
        meant: &mut Vec<(usize, usize)>,
        mut each: impl FnMut(usize, &'t Target, Refers),
    ) {
        let Check::Follow { dependent, edge } = &self.edge.check else { return };
        let all = || targets.all.iter().map(|target| &**target).enumerate();
        if item.is_cut() {
            let most = Extractor::MOST_VALUES;
            let why = format!("holds more than the {most} references that are read of one object; split it");
            return all().for_each(|(index, target)| each(index, target, Refers::Unclear(why.clone())));
        }
        if !self.is_selected(dependent, item) {
            return;
        }
        match &edge.reference {
            Reference::Field(field) => {
                self.meet(field, item, targets, meant);
                let mut last = None;
                for (index, hit) in meant.drain(..) {
                    let (Some(target), Some(hit)) = (targets.all.get(index), item.hits(self.subject).get(hit)) else {
                        continue;
                    };
                    let refers = last != Some(index)
                        && self.means(field, item, hit, target)
                        && self.holds(edge, item, hit.at)
                        && !self.is_owned(item, target);
                    if refers {
                        last = Some(index);
                        each(index, target, Refers::Yes);
                    }
                }
            }
            Reference::Selector(path) => {
                let hits = item.hits(self.subject).iter().filter(|hit| self.holds(edge, item, hit.at));
                let selectors: Vec<_> = hits.map(|hit| Selector::read(&hit.text)).collect();
                for (index, target) in all().filter(|(_, target)| !elsewhere(item, target)) {
                    match refers_by_labels(&selectors, path, target) {
                        Refers::No => {}
                        _ if self.is_owned(item, target) => {}
                        refers => each(index, target, refers),
                    }
                }
            }
        }
    }

    /// Which target may be meant by which hit, in the order of the targets: many are told apart by their names.
    fn meet(&self, field: &FieldReference, item: &Item<'_, '_>, targets: &Targets, meant: &mut Vec<(usize, usize)>) {
        let hits = item.hits(self.subject).iter().enumerate();
        if targets.all.len() == 1 {
            return meant.extend(hits.map(|(hit, _)| (0, hit)));
        }
        for (hit, Hit { text, .. }) in hits {
            let name = match &field.pattern {
                None => Some(Cow::Borrowed(text.as_ref())),
                Some(pattern) => pattern.cut(text).map(Cow::Owned),
            };
            let named = name.and_then(|name| targets.by_name.get(name.as_ref())).into_iter().flatten();
            meant.extend(named.map(|target| (*target, hit)));
        }
        meant.sort_unstable();
    }

    /// Whether the rule is about the object at all.
    fn is_selected(&self, dependent: &Dependent, item: &Item<'_, '_>) -> bool {
        let label = |key: &str| {
            let (_, slot) = self.labels.iter().find(|(label, _)| label == key)?;
            item.value(*slot)
        };
        dependent.selector.as_ref().is_none_or(|selector| selector.matches(label))
    }

    /// Whether the target owns the object, and that matters.
    fn is_owned(&self, item: &Item<'_, '_>, target: &Target) -> bool {
        let Some((owners, uid)) = self.owners.zip(target.uid.as_deref()) else { return false };
        item.values(owners).any(|owner| owner == uid)
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

/// Whether one of the selectors at a path selects the target.
fn refers_by_labels(
    selectors: &[Result<Option<Selector>, SelectorError>],
    path: &FieldPath,
    target: &Target,
) -> Refers {
    let mut refers = Refers::No;
    for selector in selectors {
        match selector {
            Ok(Some(selector)) if selector.matches(|key| target.label(key)) => return Refers::Yes,
            Ok(_) => {}
            Err(error) => {
                refers = Refers::Unclear(format!("has a selector at `{path}` that can't be used: {}", error.reason()));
            }
        }
    }
    refers
}

/// Only where both have a namespace must they share it: an object without one may refer to any.
fn elsewhere(item: &Item<'_, '_>, target: &Target) -> bool {
    matches!((item.namespace(), &target.namespace), (Some(own), Some(other)) if own != other.as_str())
}
