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
    /// Index of the edge that needs a slot's values to find a reference.
    edge_of_slot: Vec<Option<usize>>,
    /// Indexes of the edges that find a reference in any object.
    of_each: Vec<usize>,
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
        let edges: Vec<_> = edges.iter().filter_map(|edge| EdgeMatcher::new(edge, &mut paths)).collect();
        let (mut edge_of_slot, mut of_each) = (vec![None; paths.len()], Vec::new());
        for (index, matcher) in edges.iter().enumerate() {
            if matcher.is_in_rule() {
                of_each.push(index);
            }
            for slot in matcher.slots() {
                if let Some(edge) = edge_of_slot.get_mut(slot) {
                    *edge = Some(index);
                }
            }
        }
        let extractor = Extractor::taking(paths.iter().map(|(path, take)| (path, *take)));
        Self { extractor, edges, edge_of_slot, of_each }
    }

    /// Returns true if reviews at the same time may use the matcher. Patterns have working memory, of which one would wait for
    /// another's.
    pub(crate) fn may_be_shared(&self) -> bool {
        !self.edges.iter().any(EdgeMatcher::cuts)
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
                    // The other paths only narrow down a reference found by its name; keys stand in JSON literally, and in
                    // the JSON of a string by escapes.
                    let FieldReference {
                        path,
                        keys: _,
                        split,
                        pattern,
                        place: _,
                        group: _,
                        kind: _,
                        default_kind: _,
                        api_version: _,
                        uid: _,
                    } = &**field;
                    split.is_none() && pattern.is_none() && !path.reads_json()
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
        let mut due = Vec::new();
        self.extractor.search(bytes, prefilter, |item| {
            *misfits += item.misfits();
            for (_, matcher) in self.matchers(item, &mut due) {
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
            for (index, matcher) in self.matchers(item, &mut Vec::new()) {
                matcher.each_reference(index, item, &mut each);
            }
        })
    }

    /// Returns the edges by which the object may refer to something, in their order, each with its index. Edges whose fields
    /// the object doesn't have cost nothing. `due` is a buffer.
    fn matchers<'m>(
        &'m self,
        item: &Item<'_, '_>,
        due: &'m mut Vec<usize>,
    ) -> impl Iterator<Item = (usize, &'m EdgeMatcher)> {
        due.clone_from(&self.of_each);
        due.extend(item.paths_with_values().filter_map(|path| self.edge_of_slot.get(path).copied().flatten()));
        due.sort_unstable();
        due.dedup();
        due.iter().filter_map(|index| Some((*index, self.edges.get(*index)?)))
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::model::api::FailurePolicy;
    use crate::model::control_plane::ControlPlane;
    use crate::rule::set::RuleSet;

    #[test]
    fn an_object_costs_the_edges_whose_fields_it_has() {
        let dependency =
            |field_ref: Value| json!({"group": "a.io", "version": "v1", "resource": "vpcs", "fieldRef": field_ref});
        let fields = (0..100).map(|n| dependency(json!({"path": format!(".spec.ref{n}.name")})));
        let in_rule = dependency(json!({"value": "vpc"}));
        let rule = json!({"metadata": {"name": "r"}, "spec": {
            "dependent": {"group": "a.io", "version": "v1", "resource": "vms", "kind": "VM"},
            "dependencies": fields.chain([in_rule]).collect::<Vec<_>>(),
        }});
        let rules = RuleSet::load(ControlPlane::Kubernetes, [&rule]);
        let edges = rules.edges_to("a.io", "vpcs", FailurePolicy::Fail).unwrap().edges();
        assert_eq!((rules.broken(), edges.len()), (0, 101));
        let matcher = ReferenceMatcher::new(edges);
        let visited = |spec: &str| {
            let object = format!(r#"{{"metadata":{{"name":"m"}},"spec":{spec}}}"#);
            let mut visited = Vec::new();
            let each = |item: &Item<'_, '_>| {
                visited = matcher.matchers(item, &mut Vec::new()).map(|(index, _)| index).collect();
            };
            matcher.extractor.object(object.as_bytes(), each).unwrap();
            visited
        };
        assert_eq!(visited("{}"), [100]);
        assert_eq!(visited(r#"{"ref7":{"name":"vpc"},"ref3":{"name":"vpc"},"other":{"name":"vpc"}}"#), [3, 7, 100]);
    }
}
