//! Object that blocks a deletion by a rule, and the ways to release it.

use depguard_core::Rule;
use depguard_core::decision::Blocker;
use depguard_core::model::{GroupResource, Namespace};
use depguard_core::rule::Edge;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::release::{Release, TargetIdentity};
use super::target::Target;
use super::text;
use crate::cluster::kinds::KindInfo;
use crate::cluster::rules::Rules;
use crate::cluster::source::Source;

/// Object that blocks the deletion.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BlockerDetails {
    /// Name as in a refusal: `VirtualMachine/ns/m1`.
    #[serde(skip)]
    pub(crate) shown: String,
    pub(crate) kind: String,
    /// `None` if only the API server named the blocker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resource: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rule: Option<String>,
    pub(crate) field: String,
    pub(crate) released_by: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
}

impl BlockerDetails {
    /// Describes a blocker, and how it lets go, as far as the caller may read its object.
    pub(super) async fn find(
        source: &Source,
        target: &Target,
        rules: &Rules,
        usable: &[(&Value, Rule)],
        blocker: &Blocker,
    ) -> Self {
        let Some((rule, edge)) = edge_of(usable, blocker, &target.info.gvr.group_resource()) else {
            let rule = Some(rules.shown(&blocker.rule));
            return Self { rule, ..Self::from_refusal(&blocker.to_string(), &blocker.field) };
        };
        let gvr = rule.dependent().gvr.clone();
        let namespaced = source.kind_of(&gvr.group_resource()).await.ok().flatten().and_then(|kind| kind.namespaced);
        let kind = KindInfo::bare(gvr, &blocker.kind, namespaced);
        let namespace = blocker.namespace.as_ref().or(target.namespace.as_ref());
        let namespace = namespace.and_then(|namespace| Namespace::parse(namespace).ok());
        // An object that can't be read is explained as far as the rule allows.
        let object = source.object(&kind, namespace.as_ref(), &blocker.name).await.ok().flatten();
        let shown = rules.shown(rule.key());
        Self { rule: Some(shown), ..Self::new(target, rule, edge, blocker, object.as_deref()) }
    }

    /// Describes a blocker that refers by an edge of a rule.
    pub(super) fn new(target: &Target, rule: &Rule, edge: &Edge, blocker: &Blocker, object: Option<&Value>) -> Self {
        let gvr = &rule.dependent().gvr;
        let held =
            TargetIdentity { shown: &target.shown(), name: &target.name, uid: text(&target.object, "/metadata/uid") };
        let namespace = match object {
            Some(object) => text(object, "/metadata/namespace").map(str::to_owned),
            None => blocker.namespace.clone(),
        };
        let blocking = Self {
            shown: blocker.to_string(),
            kind: blocker.kind.clone(),
            group: Some(gvr.group.as_str().to_owned()),
            resource: Some(gvr.resource.as_str().to_owned()),
            namespace,
            name: blocker.name.clone(),
            rule: Some(blocker.rule.to_string()),
            field: blocker.field.clone(),
            released_by: Vec::new(),
            notes: Vec::new(),
        };
        blocking.with_release(Release::new(edge, object, held))
    }

    /// Describes a blocker from its name in a refusal.
    pub(super) fn from_refusal(shown: &str, field: &str) -> Self {
        let mut parts = shown.splitn(3, '/');
        let (kind, second, third) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
        let (namespace, name) = match (second, third) {
            (Some(namespace), Some(name)) => (Some(namespace.to_owned()), name),
            (Some(name), None) => (None, name),
            (None, _) => (None, ""),
        };
        Self {
            shown: shown.to_owned(),
            kind: kind.to_owned(),
            group: None,
            resource: None,
            namespace,
            name: name.to_owned(),
            rule: None,
            field: field.to_owned(),
            released_by: Vec::new(),
            notes: Vec::new(),
        }
        .with_release(Release::of_field(field))
    }

    fn with_release(mut self, release: Release) -> Self {
        (self.released_by, self.notes) = (release.by, release.notes);
        self
    }
}

/// Returns the rule and the edge by which an object blocks.
fn edge_of<'r>(
    usable: &'r [(&Value, Rule)],
    blocker: &Blocker,
    target: &GroupResource,
) -> Option<(&'r Rule, &'r Edge)> {
    let (_, rule) = usable.iter().find(|(_, rule)| *rule.key() == blocker.rule)?;
    let is_it = |edge: &&Edge| edge.target.gvr.group_resource() == *target && edge.field() == blocker.field;
    Some((rule, rule.edges().iter().find(is_it)?))
}
