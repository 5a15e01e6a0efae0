//! Edges that may apply to an object that is deleted. In doubt, an edge applies.

use std::sync::Arc;

use crate::applicability::api_bindings::{Binding, Origin};
use crate::applicability::workspace_paths::Workspaces;
use crate::model::api::OnDelete;
use crate::model::names::LogicalCluster;
use crate::rule::compiled_edge::CompiledEdge;
use crate::rule::cycles::Graph;
use crate::rule::kind_edges::KindEdges;

/// The most APIExports that are kept as those that serve the target's kind. In kcp there is one. If there are more, each
/// edge counts as an edge about the target.
const MAX_ORIGINS: usize = 100;

/// The edges to the target's kind that may apply in its logical cluster, as far as the APIBindings read so far show them.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    edges: Arc<KindEdges>,
    cluster: Option<LogicalCluster>,
    workspaces: Workspaces,
    /// Positions of the edges whose dependents are in this logical cluster, in order.
    found: Vec<usize>,
    /// The APIExports that serve the target's kind here.
    origins: Vec<Origin<String>>,
}

impl Candidates {
    /// Begins with the edges that need no binding.
    ///
    /// A rule without a known workspace applies everywhere. On plain Kubernetes that holds for every rule. In kcp an
    /// API server always names the workspace, so the loader of the rule must do so as well; a refusal makes the error
    /// visible.
    pub(crate) fn new(edges: Arc<KindEdges>, cluster: Option<LogicalCluster>, workspaces: Workspaces) -> Self {
        let mut candidates = Self { edges, cluster, workspaces, ..Self::default() };
        candidates.reset();
        candidates
    }

    /// Returns to the state before any binding was read.
    pub(crate) fn reset(&mut self) {
        self.origins.clear();
        let is_here = |edge: &CompiledEdge| edge.rule.cluster.is_none() || edge.dependent_export.is_none();
        self.found = self.own().filter(|(_, edge)| is_here(edge)).map(|(position, _)| position).collect();
        self.found.sort_unstable();
    }

    /// Takes an APIBinding of the logical cluster.
    pub(crate) fn observe(&mut self, binding: &Binding<'_>) {
        let Some(kind) = self.edges.kind() else { return };
        if binding.has(kind) && self.origins.len() <= MAX_ORIGINS {
            self.origins.push(binding.origin().to_owned());
        }
        let Self { edges, cluster, found, .. } = self;
        let (Some(provider), Some(export)) = (binding.provider(), binding.export()) else { return };
        let is_bound = |edge: &CompiledEdge| match (&edge.rule.cluster, &edge.dependent_export) {
            (Some(provider), Some(export)) => binding.binds(provider, export.as_str(), &edge.dependent),
            _ => false,
        };
        let seen = edges.of_export(provider, export).chain(edges.of_cluster(cluster.as_ref()));
        let bound = seen.filter(|(_, edge)| is_bound(edge)).map(|(position, _)| position);
        let new: Vec<_> = bound.filter(|position| found.binary_search(position).is_err()).collect();
        if !new.is_empty() {
            found.extend(new);
            found.sort_unstable();
        }
    }

    /// Returns true if no edge can apply in this logical cluster, whatever the cluster binds.
    pub(crate) fn is_empty(&self) -> bool {
        self.edges.exported_on_delete.is_none() && self.own().next().is_none()
    }

    /// Returns true if only APIBindings show which edges apply.
    pub(crate) fn need_bindings(&self) -> bool {
        self.edges.exported_on_delete.is_some() || self.own().count() > self.applying().count()
    }

    /// Returns the edges that apply.
    pub(crate) fn applying(&self) -> impl Iterator<Item = &Arc<CompiledEdge>> {
        let found = self.edges.at(&self.found).map(|(_, edge)| edge);
        found.filter(|edge| self.is_about_target(edge))
    }

    /// Returns the interlocked edges that are about the target, and for each whether its dependents are here.
    #[cfg(feature = "interlock")]
    pub(crate) fn interlocked(&self) -> impl Iterator<Item = (&Arc<CompiledEdge>, bool)> {
        let edges = self.edges.interlocked();
        let bearing = edges.filter(|(_, edge)| edge.may_apply_in(self.cluster.as_ref()) && self.is_about_target(edge));
        bearing.map(|(position, edge)| (edge, self.found.binary_search(&position).is_ok()))
    }

    /// Returns the strictest `onDelete` action of the edges that may apply.
    pub(crate) fn strictest(&self) -> OnDelete {
        let own = self.own().map(|(_, edge)| edge.on_delete);
        own.chain(self.edges.exported_on_delete).min().unwrap_or_default()
    }

    /// Returns true if an edge that may apply may lie on a cycle.
    pub(crate) fn may_close(&self, graph: &Graph) -> bool {
        self.edges.exported_may_close || self.own().any(|(_, edge)| graph.may_close(edge))
    }

    /// Returns the edges that may apply here, but for the edges between exported kinds.
    fn own(&self) -> impl Iterator<Item = (usize, &Arc<CompiledEdge>)> {
        self.edges.of_cluster(self.cluster.as_ref())
    }

    /// Returns true if the edge is about the target: its kind is bound from the APIExport that the rule names.
    fn is_about_target(&self, edge: &CompiledEdge) -> bool {
        let Some(export) = edge.target_export.as_ref().filter(|_| edge.rule.cluster.is_some()) else { return true };
        let provider = self.workspaces.cluster(&export.path);
        self.origins.len() > MAX_ORIGINS || self.origins.iter().any(|origin| origin.is(export, provider))
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;
    use serde_json::{Value, json};

    use super::*;
    use crate::applicability::api_bindings::read_page;
    use crate::model::api::FailurePolicy;
    use crate::model::control_plane::ControlPlane;
    use crate::model::names::WorkspacePath;
    use crate::rule::set::RuleSet;

    const CLUSTERS: [&str; 3] = ["a", "b", "consumer"];
    const PATHS: [&str; 3] = ["root:a", "root:b", "root:unknown"];
    const EXPORTS: [&str; 2] = ["x", "y"];
    const KINDS: [&str; 3] = ["vpcs", "vms", "disks"];

    fn rule() -> impl Strategy<Value = Value> {
        let target = (prop::option::weighted(0.8, (select(&PATHS[..]), select(&EXPORTS[..]))), select(&KINDS[..2]));
        let dependent = (select(&CLUSTERS[..]), prop::option::weighted(0.8, select(&EXPORTS[..])), select(&KINDS[..]));
        (dependent, vec(target, 1..4), any::<u32>()).prop_map(|((cluster, export, kind), targets, name)| {
            let dependencies = targets.into_iter().map(|(export, kind)| {
                let export = export.map(|(path, name)| json!({"path": path, "name": name}));
                json!({"apiExportRef": export, "group": "e.io", "version": "v1", "resource": kind,
                    "fieldRef": {"path": ".spec.ref"}, "onMissing": "Deny"})
            });
            let dependent =
                json!({"apiExportName": export, "group": "e.io", "version": "v1", "kind": "K", "resource": kind});
            json!({
                "metadata": {"name": format!("r{name}"), "annotations": {"kcp.io/cluster": cluster}},
                "spec": {"dependent": dependent, "dependencies": dependencies.collect::<Vec<_>>()},
            })
        })
    }

    fn binding() -> impl Strategy<Value = Value> {
        let path = select(vec!["root:a", "root:b", "root:unknown", "root:other", "", "2x3y"]);
        let provider = prop::option::weighted(0.8, select(&CLUSTERS[..2]));
        (path, provider, select(&EXPORTS[..]), vec(select(&KINDS[..]), 0..3)).prop_map(
            |(path, provider, export, kinds)| {
                let bound: Vec<_> = kinds.into_iter().map(|kind| json!({"group": "e.io", "resource": kind})).collect();
                json!({"spec": {"reference": {"export": {"path": path, "name": export}}},
                "status": {"apiExportClusterName": provider, "boundResources": bound}})
            },
        )
    }

    /// Returns whether the edge applies, and whether it is about the target, without an index.
    fn naive(edge: &CompiledEdge, cluster: Option<&LogicalCluster>, known: &Workspaces, list: &str) -> (bool, bool) {
        if !edge.may_apply_in(cluster) {
            return (false, false);
        }
        let (mut dependent, mut target) = (edge.dependent_export.is_none(), edge.target_export.is_none());
        read_page(list.as_bytes(), |binding| {
            if let (Some(provider), Some(export)) = (&edge.rule.cluster, &edge.dependent_export) {
                dependent |= binding.binds(provider, export.as_str(), &edge.dependent);
            }
            if let Some(export) = &edge.target_export {
                target |= binding.binds_ref(export, known.cluster(&export.path), &edge.target);
            }
        })
        .unwrap();
        (dependent && target, target)
    }

    proptest! {
        #[test]
        fn the_index_leaves_out_what_does_not_apply_and_nothing_else(
            rules in vec(rule(), 0..12), pages in vec(vec(binding(), 0..4), 1..3), known in any::<[bool; 2]>(),
        ) {
            let set = RuleSet::load(ControlPlane::Kcp, &rules);
            let known = (PATHS.iter().zip(CLUSTERS)).zip(known).filter(|(_, known)| *known);
            let known: Workspaces = known
                .map(|((path, id), _)| (WorkspacePath::parse(path).unwrap(), LogicalCluster::parse(id).unwrap()))
                .collect();
            let cluster = LogicalCluster::parse("consumer").ok();
            for edges in KINDS.iter().filter_map(|kind| set.edges_to("e.io", kind, FailurePolicy::Fail)) {
                let mut candidates = Candidates::new(Arc::clone(edges), cluster.clone(), known.clone());
                let unread: Vec<_> = candidates.applying().map(|edge| Arc::as_ptr(edge).addr()).collect();
                let list = |items: &[Value]| json!({"items": items}).to_string();
                for page in &pages {
                    read_page(list(page).as_bytes(), |binding| candidates.observe(binding)).unwrap();
                }
                let all = list(&pages.concat());
                let naively = |list: &str| -> Vec<(usize, (bool, bool))> {
                    let each = edges.edges().iter();
                    each.map(|edge| (Arc::as_ptr(edge).addr(), naive(edge, cluster.as_ref(), &known, list))).collect()
                };
                let applying = |naively: Vec<(usize, (bool, bool))>| -> Vec<usize> {
                    naively.into_iter().filter(|(_, (applies, _))| *applies).map(|(edge, _)| edge).collect()
                };
                let found: Vec<_> = candidates.applying().map(|edge| Arc::as_ptr(edge).addr()).collect();
                prop_assert_eq!(&found, &applying(naively(&all)));
                prop_assert_eq!(unread, applying(naively(r#"{"items": []}"#)));
                #[cfg(feature = "interlock")]
                {
                    let is_interlocked = |address: &usize| {
                        edges.edges().iter().any(|edge| Arc::as_ptr(edge).addr() == *address && edge.is_interlocked())
                    };
                    let about: Vec<_> = naively(&all).into_iter().filter(|(edge, (_, about))| *about && is_interlocked(edge)).collect();
                    let about: Vec<_> = about.into_iter().map(|(edge, (applies, _))| (edge, applies)).collect();
                    let interlocked: Vec<_> = candidates.interlocked().map(|(edge, found)| (Arc::as_ptr(edge).addr(), found)).collect();
                    prop_assert_eq!(interlocked, about);
                }
                candidates.reset();
                prop_assert_eq!(candidates.applying().count(), applying(naively(r#"{"items": []}"#)).len());
            }
        }
    }

    #[test]
    fn of_a_kind_with_too_many_exports_each_edge_counts() {
        let rule = json!({
            "metadata": {"name": "r", "annotations": {"kcp.io/cluster": "a"}},
            "spec": {
                "dependent": {"apiExportName": "x", "group": "e.io", "version": "v1", "kind": "K", "resource": "vms"},
                "dependencies": [{"apiExportRef": {"path": "root:b", "name": "y"}, "group": "e.io", "version": "v1",
                    "resource": "vpcs", "fieldRef": {"path": ".spec.ref"}}],
            },
        });
        let set = RuleSet::load(ControlPlane::Kcp, [&rule]);
        let edges = set.edges_to("e.io", "vpcs", FailurePolicy::Fail).unwrap();
        let applying = |others: usize| {
            let of = |provider: String, export: &str, kind: &str| {
                json!({"spec": {"reference": {"export": {"path": "root:other", "name": export}}},
                    "status": {"apiExportClusterName": provider, "boundResources": [{"group": "e.io", "resource": kind}]}})
            };
            let others = (0..others).map(|n| of(format!("other{n}"), "y", "vpcs"));
            let items: Vec<_> = others.chain([of("a".to_owned(), "x", "vms")]).collect();
            let mut candidates = Candidates::new(Arc::clone(edges), None, Workspaces::new());
            let list = json!({"items": items}).to_string();
            read_page(list.as_bytes(), |binding| candidates.observe(binding)).unwrap();
            candidates.applying().count()
        };
        assert_eq!([0, MAX_ORIGINS, MAX_ORIGINS + 1].map(applying), [0, 0, 1]);
    }
}
