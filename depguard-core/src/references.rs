//! Which objects of a list refer to the target, by each of several edges.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use crate::api::OwnedDependents;
use crate::extract::{Extractor, Hit, Item, Needle, Page, PageError, Take, Turns};
use crate::held::{Held, Means};
use crate::path::FieldPath;
use crate::pattern::{Cutter, Pattern};
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
    /// What cuts the name out of what is at its path, and the namespace out of what is at its own.
    cuts_name: Option<Cutter>,
    cuts_namespace: Option<Cutter>,
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
                Reference::Selector(_) | Reference::Selected(_) => false,
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

    /// Hands all that the objects of a page refer to, or may refer to, to `each`.
    pub(crate) fn held(&self, bytes: &[u8], mut each: impl FnMut(Held<'_>)) -> Result<Page, PageError> {
        self.extractor.page(bytes, |item| {
            for (index, reading) in self.readings.iter().enumerate() {
                reading.held(index, item, &mut each);
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
            Reference::Field(_) | Reference::Selected(_) => Take::Texts,
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
            cuts_name: None,
            cuts_namespace: None,
        };
        if let Reference::Field(field) = &followed.reference {
            reading.cuts_name = field.pattern.as_ref().map(Pattern::cutter);
            if let Place::Said { pattern, .. } = &field.place {
                reading.cuts_namespace = pattern.as_ref().map(Pattern::cutter);
            }
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
        if !self.is_selected(dependent, item) {
            return;
        }
        if let Some(means) = self.cut(edge, item) {
            return all().for_each(|(index, target)| match means.target(target) {
                Refers::No => {}
                refers => each(index, target, refers),
            });
        }
        match &edge.reference {
            Reference::Field(field) => {
                self.meet(item, targets, meant);
                let mut last = None;
                for (index, hit) in meant.drain(..) {
                    let (Some(target), Some(hit)) = (targets.all.get(index), item.hits(self.subject).get(hit)) else {
                        continue;
                    };
                    let means = || {
                        let name = self.name(hit).filter(|name| *name == target.name)?;
                        self.means(edge, field, item, hit, name)
                    };
                    if last != Some(index)
                        && means().is_some_and(|means| means.target(target) == Refers::Yes)
                        && !self.is_owned(item, target)
                    {
                        last = Some(index);
                        each(index, target, Refers::Yes);
                    }
                }
            }
            Reference::Selector(_) | Reference::Selected(_) => {
                let selections: Vec<_> = self.selections(edge, item).collect();
                for (index, target) in all() {
                    match refers_by_labels(&selections, target) {
                        Refers::No => {}
                        _ if self.is_owned(item, target) => {}
                        refers => each(index, target, refers),
                    }
                }
            }
        }
    }

    /// Hands all that the object refers to, or may refer to, to `each`.
    fn held<'i>(&'i self, index: usize, item: &'i Item<'_, '_>, each: &mut impl FnMut(Held<'i>)) {
        let Check::Follow { dependent, edge } = &self.edge.check else { return };
        let owners = self.owners.into_iter().flat_map(|owners| item.values(owners));
        let owners: Vec<_> = owners.map(Cow::Borrowed).collect();
        if !self.is_selected(dependent, item) {
            return;
        }
        if let Some(means) = self.cut(edge, item) {
            return each(Held::new(index, means, item.uid(), Vec::new()));
        }
        let mut each = |means| each(Held::new(index, means, item.uid(), owners.clone()));
        match &edge.reference {
            Reference::Field(field) => {
                for hit in item.hits(self.subject) {
                    // No object has an empty name: it is what Go writes for what is absent.
                    let name = self.name(hit).filter(|name| !name.is_empty());
                    if let Some(means) = name.and_then(|name| self.means(edge, field, item, hit, name)) {
                        each(means);
                    }
                }
            }
            Reference::Selector(_) | Reference::Selected(_) => self.selections(edge, item).for_each(each),
        }
    }

    /// Which target may be meant by which hit, in the order of the targets: many are told apart by their names.
    fn meet(&self, item: &Item<'_, '_>, targets: &Targets, meant: &mut Vec<(usize, usize)>) {
        let hits = item.hits(self.subject).iter().enumerate();
        if targets.all.len() == 1 {
            return meant.extend(hits.map(|(hit, _)| (0, hit)));
        }
        for (hit, found) in hits {
            let named = self.name(found).and_then(|name| targets.by_name.get(name.as_ref())).into_iter().flatten();
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

    /// Where an object may refer to, of which not all was read that the edge looks at. Labels are always read.
    fn cut<'i>(&self, edge: &'i Edge, item: &'i Item<'_, '_>) -> Option<Means<'i>> {
        let beside = [self.namespace, self.group, self.kind, self.api_version, self.uid, self.when];
        let mut slots = beside.iter().flatten().map(|beside| beside.slot).chain([self.subject]);
        slots.any(|slot| item.is_path_cut(slot)).then(|| {
            let most = Extractor::MOST_VALUES;
            let why = format!("holds more than the {most} references that are read of one object; split it");
            let own = || item.namespace().map(Cow::Borrowed);
            let namespace = match &edge.reference {
                Reference::Field(field) => match &field.place {
                    Place::Own => own(),
                    Place::Fixed(fixed) => Some(Cow::Borrowed(fixed.as_str())),
                    Place::Said { .. } => None,
                },
                Reference::Selector(_) | Reference::Selected(_) => own(),
            };
            Means::Unclear { why, namespace }
        })
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

    /// What is meant by a name that was found; `None` where it doesn't count, or says another kind than the edge's.
    fn means<'i>(
        &'i self,
        edge: &Edge,
        field: &'i FieldReference,
        item: &'i Item<'_, '_>,
        hit: &'i Hit<'_>,
        name: Cow<'i, str>,
    ) -> Option<Means<'i>> {
        // What is absent, or empty as Go writes what is absent, counts.
        let said = |beside: Option<Beside>| {
            beside.and_then(|beside| beside.value(item, hit.at)).filter(|value| !value.is_empty())
        };
        let group = edge.target.gvr.group.as_str();
        let group_of = |version: &'i str| version.rsplit_once('/').map_or("", |(group, _)| group);
        let is_kind = |kind: &str| edge.target.kind.as_ref().is_none_or(|own| own.as_str() == kind);
        let counts = self.holds(edge, item, hit.at)
            && said(self.group).is_none_or(|said| said == group)
            && said(self.kind).is_none_or(is_kind)
            && said(self.api_version).is_none_or(|version| group_of(version) == group);
        counts.then(|| {
            let namespace = self.place(&field.place, item, hit);
            Means::Named { name, namespace, uid: said(self.uid).map(Cow::Borrowed) }
        })
    }

    /// The name that was found, where the value holds one.
    fn name<'i>(&self, hit: &'i Hit<'_>) -> Option<Cow<'i, str>> {
        match &self.cuts_name {
            None => Some(Cow::Borrowed(hit.text.as_ref())),
            Some(cutter) => cutter.cut(&hit.text).map(Cow::Owned),
        }
    }

    /// The namespace that a reference means; `None`: any.
    fn place<'i>(&self, place: &'i Place, item: &'i Item<'_, '_>, hit: &'i Hit<'_>) -> Option<Cow<'i, str>> {
        let own = || item.namespace().map(Cow::Borrowed);
        match place {
            Place::Own => own(),
            Place::Fixed(fixed) => Some(Cow::Borrowed(fixed.as_str())),
            Place::Said { .. } => {
                let whole = match self.namespace {
                    Some(beside) => beside.value(item, hit.at),
                    None => Some(hit.text.as_ref()),
                };
                let said = match &self.cuts_namespace {
                    None => whole.map(Cow::Borrowed),
                    Some(cutter) => whole.and_then(|whole| cutter.cut(whole)).map(Cow::Owned),
                };
                said.filter(|said| !said.is_empty()).or_else(own)
            }
        }
    }

    /// What is meant by each selector, the object's or the rule's.
    fn selections<'i>(&'i self, edge: &'i Edge, item: &'i Item<'_, '_>) -> impl Iterator<Item = Means<'i>> {
        let hits = item.hits(self.subject).iter().filter(|hit| self.holds(edge, item, hit.at));
        hits.filter_map(move |hit| {
            let namespace = item.namespace().map(Cow::Borrowed);
            let selector = match &edge.reference {
                Reference::Selected(selector) => Ok(Some(Cow::Borrowed(selector))),
                Reference::Field(_) | Reference::Selector(_) => {
                    Selector::read(&hit.text).map(|read| read.map(Cow::Owned))
                }
            };
            match selector {
                Ok(selector) => Some(Means::Selected { selector: selector?, namespace }),
                Err(error) => {
                    let path = edge.reference.path();
                    let why = format!("has a selector at `{path}` that can't be used: {}", error.reason());
                    Some(Means::Unclear { why, namespace })
                }
            }
        })
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
fn refers_by_labels(selections: &[Means<'_>], target: &Target) -> Refers {
    let mut refers = Refers::No;
    for selection in selections {
        match selection.target(target) {
            Refers::Yes => return Refers::Yes,
            Refers::No => {}
            unclear => refers = unclear,
        }
    }
    refers
}
