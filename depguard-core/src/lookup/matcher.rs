//! Matching of a list's objects against several edges: the objects that refer to a target.

use std::collections::HashMap;
use std::sync::Arc;

use self::edge_matcher::EdgeMatcher;
use crate::lookup::reference::{Match, ObjectReference};
use crate::model::field_path::FieldPath;
use crate::protocol::deletion_target::DeletionTarget;
use crate::rule::compiled_edge::{CompiledEdge, EdgeState};
use crate::rule::{FieldReference, Reference};
use crate::scan::extract::{Extractor, Item, Page, PageError, Prefilter};

mod edge_matcher;

/// Matcher of a list's objects against several edges, in one pass.
#[derive(Debug)]
pub(crate) struct ReferenceMatcher {
    extractor: Extractor,
    edges: Vec<EdgeMatcher>,
}

/// The targets of a search, all by the same edges.
#[derive(Debug)]
pub(crate) struct Targets {
    all: Vec<Arc<DeletionTarget>>,
    by_name: HashMap<String, Vec<usize>>,
}

impl ReferenceMatcher {
    /// Creates a reader for `edges`. An edge that can't be followed yields no references here.
    pub(crate) fn new(edges: &[Arc<CompiledEdge>]) -> Self {
        let mut paths = Vec::new();
        let matchers = edges.iter().filter_map(|edge| EdgeMatcher::new(edge, &mut paths)).collect();
        Self { extractor: Extractor::taking(paths.iter().map(|(path, take)| (path, *take))), edges: matchers }
    }

    /// Returns the fields that hold the names.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &FieldPath> {
        self.edges.iter().filter_map(|matcher| match &matcher.edge.state {
            EdgeState::Usable { edge, .. } => Some(edge.reference.path()),
            EdgeState::Invalid(_) => None,
        })
    }

    /// Returns the byte pattern that every object referring to one of the targets must contain; `None` if all objects
    /// must be parsed.
    pub(crate) fn prefilter(&self, targets: &Targets) -> Option<Prefilter> {
        let stands_there = |matcher: &EdgeMatcher| match &matcher.edge.state {
            EdgeState::Usable { edge, .. } => match &edge.reference {
                Reference::Field(field) => {
                    // The other paths only narrow down a reference found by its name; keys stand in JSON literally.
                    let FieldReference {
                        path: _,
                        keys: _,
                        split,
                        pattern,
                        place: _,
                        group: _,
                        kind: _,
                        api_version: _,
                        uid: _,
                    } = &**field;
                    split.is_none() && pattern.is_none()
                }
                Reference::Fixed(_) | Reference::Selector(_) | Reference::Selected(_) => false,
            },
            EdgeState::Invalid(_) => true,
        };
        let names = targets.by_name.keys().map(String::as_str);
        if self.edges.iter().all(stands_there) { Prefilter::new(names) } else { None }
    }

    /// Hands each object of a page that refers to a target, or may refer to it, to `each`, with the target's index
    /// and the edge. Counts the values that have another type than a path asks for, in the objects that hold the
    /// prefilter.
    pub(crate) fn page(
        &self,
        bytes: &[u8],
        prefilter: Option<&Prefilter>,
        targets: &Targets,
        misfits: &mut usize,
        mut each: impl FnMut(usize, &Item<'_, '_>, &Arc<CompiledEdge>, Match),
    ) -> Result<Page, PageError> {
        self.extractor.search(bytes, prefilter, |item| {
            *misfits += item.misfits();
            for matcher in &self.edges {
                matcher.match_item(item, targets, |index, target, refers| {
                    let is_target = item.uid().is_some() && item.uid() == target.uid.as_deref();
                    if !is_target {
                        each(index, item, &matcher.edge, refers);
                    }
                });
            }
        })
    }

    /// Hands all references of an object, certain or not, to `each`.
    pub(crate) fn references(&self, json: &str, mut each: impl FnMut(ObjectReference<'_>)) -> Result<(), PageError> {
        self.extractor.object(json.as_bytes(), |item| {
            for (index, matcher) in self.edges.iter().enumerate() {
                matcher.each_reference(index, item, &mut each);
            }
        })
    }
}

impl Targets {
    pub(crate) fn new(target: &Arc<DeletionTarget>) -> Self {
        let mut targets = Self { all: Vec::new(), by_name: HashMap::new() };
        targets.push(target);
        targets
    }

    /// Returns true if one of the targets has that name.
    pub(crate) fn holds(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    pub(crate) fn push(&mut self, target: &Arc<DeletionTarget>) {
        self.by_name.entry(target.name.clone()).or_default().push(self.all.len());
        self.all.push(Arc::clone(target));
    }
}
