//! Required reads of a rule, so that missing rights show before a deletion fails because of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::api::OnMissing;
use crate::model::control_plane::ControlPlane;
use crate::model::names::{GroupResource, GroupVersionResource};
use crate::protocol::problem::clipped;
use crate::protocol::request::{Accept, Query, QueryId};
use crate::protocol::response::Answer;
use crate::protocol::response_error::failure;
use crate::rule::RuleKey;
use crate::rule::compiled_edge::{CompiledEdge, EdgeState};
use crate::rule::set::RuleSet;

/// A small read that is allowed exactly if a read that a rule needs is allowed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequiredRead(Read);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Read {
    /// The list of a rule's dependents.
    Dependents(GroupVersionResource),
    /// A Pod whose eviction is requested.
    Pod,
    /// A target whose existence matters.
    Target(GroupVersionResource),
}

/// Path of a Pod that need not exist: the question is only if reading is allowed.
const ANY_POD: &str = "/api/v1/namespaces/default/pods/depguard-may-read-pods";
/// Name of a target that need not exist.
const ANY_TARGET: &str = "depguard-may-read-targets";

impl RequiredRead {
    /// Returns the query: it reads at most one object. A list asks for metadata alone.
    pub fn query(&self) -> Query {
        let (path, accept) = match &self.0 {
            Read::Dependents(gvr) => (format!("{}?limit=1", gvr.path(None, None)), Accept::Metadata),
            Read::Pod => (ANY_POD.to_owned(), Accept::Json),
            Read::Target(gvr) => (gvr.path(None, Some(ANY_TARGET)), Accept::ObjectMetadata),
        };
        Query { id: QueryId(0), cluster: None, export: None, path, accept }
    }

    /// Returns the missing right, as a sentence, according to the answer to the [query](Self::query). `None` if the
    /// right is not missing, or if that is unknown.
    pub fn lacks(&self, answer: Answer<'_>) -> Option<String> {
        let Answer::Response { status: 403, body } = answer else { return None };
        let lacks = match &self.0 {
            Read::Dependents(gvr) => failure(403, body, "get and list it").about(format_args!("the list of {gvr}")),
            Read::Target(gvr) => {
                failure(403, body, "get it").about(format_args!("the read of a target, one of {gvr},"))
            }
            Read::Pod => failure(403, body, "get pods").about("the read of Pods that are to be evicted"),
        };
        Some(clipped(&lacks.to_string()))
    }

    fn from_edge(edge: &CompiledEdge) -> impl Iterator<Item = Self> {
        let dependents = match &edge.state {
            EdgeState::Usable { dependent, .. } => Some(Self(Read::Dependents(dependent.gvr.clone()))),
            EdgeState::Invalid(_) => None,
        };
        let evicted = |kind: &GroupResource| kind.group.is_core() && kind.resource.as_str() == "pods";
        let checked = edge.target_gvr().filter(|_| edge.on_missing() != OnMissing::Ignore);
        let target = checked.map(|gvr| Self(Read::Target(gvr.clone())));
        dependents.into_iter().chain(evicted(&edge.target).then_some(Self(Read::Pod))).chain(target)
    }
}

impl RuleSet {
    /// Returns the reads that these rules need, on plain Kubernetes. In kcp the reads differ between consumers'
    /// workspaces, so the result is empty.
    pub fn required_reads(&self, rules: &BTreeSet<RuleKey>) -> BTreeMap<RuleKey, BTreeSet<RequiredRead>> {
        let mut required: BTreeMap<RuleKey, BTreeSet<RequiredRead>> = BTreeMap::new();
        if self.control_plane() == ControlPlane::Kubernetes {
            for edge in self.edges().filter(|edge| rules.contains(&edge.rule)) {
                required.entry(edge.rule.clone()).or_default().extend(RequiredRead::from_edge(edge));
            }
        }
        required
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rule(name: &str, targets: &[&str]) -> Value {
        let edges = targets
            .iter()
            .map(|target| json!({"group": "", "version": "v1", "resource": target, "fieldRef": {"path": ".spec.a"}}));
        json!({"metadata": {"name": name}, "spec": {
            "dependent": {"group": "g.example.com", "version": "v1", "kind": "A", "resource": "as"},
            "dependencies": edges.collect::<Vec<_>>(),
        }})
    }

    #[test]
    fn a_rule_needs_its_dependents_and_one_about_pods_these_too() {
        let (objects, keys) =
            ([rule("a", &["secrets", "configmaps"]), rule("b", &["pods"]), rule("c", &["secrets"])], ["a", "b"]);
        let keys = keys.map(|name| RuleKey { cluster: None, name: name.to_owned() });
        let required = RuleSet::load(ControlPlane::Kubernetes, &objects).required_reads(&keys.clone().into());
        let paths = |key| required[key].iter().map(|read| read.query().path).collect::<Vec<_>>();
        let list = "/apis/g.example.com/v1/as?limit=1";
        assert_eq!(required.len(), 2);
        assert_eq!(paths(&keys[0]), [list]);
        assert_eq!(paths(&keys[1]), [list, ANY_POD]);
        assert!(RuleSet::load(ControlPlane::Kcp, &objects).required_reads(&keys.into()).is_empty());
    }

    #[test]
    fn only_what_is_forbidden_is_a_missing_right() {
        let gvr = GroupVersionResource {
            group: "g.example.com".parse().unwrap(),
            version: "v1".parse().unwrap(),
            resource: "as".parse().unwrap(),
        };
        let read = RequiredRead(Read::Dependents(gvr));
        let lacks = |status| read.lacks(Answer::Response { status, body: br#"{"message":"no"}"# });
        assert_eq!(
            lacks(403).unwrap(),
            "the list of as.g.example.com v1 failed with HTTP 403 (no); give the webhook's user the right to get and list \
             it there"
        );
        assert_eq!([200, 401, 404, 500].map(lacks), [None, None, None, None]);
        assert_eq!(read.lacks(Answer::Failed("cut")), None);
    }
}
