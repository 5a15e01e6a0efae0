//! Derives a rule from a PublishedResource.

use std::collections::BTreeMap;

use depguard_core::api::{Dependency, DependencyRule, Dependent, LabelSelector, OnDelete};
use depguard_core::model::Selector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Original;
use super::fields::{RuleReference, fields};
use super::report::{Effect, Report};
use super::side::{Exports, KindError, Side, SideKind};
use super::written::{Published, Related, RelatedOrigin, Spec};
use crate::cluster::kinds::{Kinds, resource_name};
use crate::engine::rule_draft;
use crate::engine::synced_names::{self, Naming, NoName};
use crate::io::report::CommandReport;

/// Settings of an import.
#[derive(Debug, Clone, Copy)]
pub(super) struct Import<'a> {
    pub(super) side: Side,
    pub(super) kinds: &'a Kinds,
    pub(super) exports: &'a Exports,
    /// Effect of a rule on the deletion of copies.
    pub(super) copies: OnDelete,
}

/// Result of an import.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct ImportResult {
    /// DependencyRules, as the definition of their kind describes them.
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub(super) rules: Vec<DependencyRule>,
    pub(super) report: Report,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) copies: Vec<CopyOf>,
    /// Names of the rules, with the number of times that each was needed.
    #[serde(skip)]
    names: BTreeMap<String, usize>,
}

impl CommandReport for ImportResult {
    const KIND: &'static str = "ImportReport";
}

/// Namespace and name of an object's copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CopyOf {
    pub(super) published_resource: String,
    pub(super) resource: String,
    /// Namespace of a copy that is made now; an existing copy may be named otherwise.
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    /// Labels by which an existing copy is found.
    pub(super) labels: BTreeMap<&'static str, String>,
}

impl Import<'_> {
    /// Adds the rule of a PublishedResource, and its findings.
    pub(super) fn add(&self, published: &Published<'_>, imported: &mut ImportResult) {
        let report = &mut imported.report;
        for field in &published.unknown {
            report.add(published, Effect::Missing, field, "is unknown to depguard: no rule contains it");
        }
        let spec = match &published.spec {
            Ok(spec) => spec,
            Err(why) => return report.add(published, Effect::Missing, "spec", why),
        };
        if published.name.is_empty() {
            return report.add(
                published,
                Effect::Missing,
                "metadata.name",
                "is missing: write it, since the rule takes its name from it",
            );
        }
        let related = spec.related.as_deref().unwrap_or_default();
        if related.is_empty() {
            return report.add(published, Effect::Nothing, "spec.related", "there are no related resources");
        }
        if spec.synchronization.as_ref().is_some_and(|synchronization| !synchronization.enabled) {
            let message = "the agent does not synchronize this kind, nor its related objects";
            return report.add(published, Effect::Nothing, "spec.synchronization.enabled", message);
        }
        // No rule needs the naming, but a user who looks for copies does: its problems are reported here.
        naming_of(published, spec, report);
        let Some(primary) = self.primary(self.side, published, spec, report) else { return };
        let (selector, unfiltered) = selector(spec);
        let name = unique(published.name, &mut imported.names);
        let mut rule = rule_draft::rule(name, self.dependent(&primary, selector));
        for (index, written) in related.iter().enumerate() {
            let at = format!("spec.related[{index}]");
            let dependencies = self.related(published, &primary, written, &at, report);
            for dependency in dependencies {
                match rule_draft::can_be_used(&rule, &dependency, self.side.control_plane()) {
                    Ok(()) => rule.spec.dependencies.push(dependency),
                    Err(why) => report.add(published, Effect::Missing, &at, format!("a rule can't express it: {why}")),
                }
            }
        }
        if !rule.spec.dependencies.is_empty() {
            for (field, what) in &primary.assumed {
                report.add(published, Effect::Assumed, *field, what);
            }
            for (field, what) in unfiltered {
                report.add(published, Effect::Wider, field, what);
            }
            imported.rules.push(rule);
        }
    }

    /// Adds the place of an object's copy, or the reason why it is unknown. A PublishedResource may have
    /// copies even if no rule is made from it.
    pub(super) fn locate(&self, published: &Published<'_>, original: &Original, imported: &mut ImportResult) {
        // An unreadable spec is reported already.
        let Ok(spec) = &published.spec else { return };
        let report = &mut imported.report;
        let kind = self.primary(Side::ServiceCluster, published, spec, report);
        let (Some(naming), Some(kind)) = (naming_of(published, spec, report), kind) else { return };
        let namespace = original.namespace.as_ref().map(depguard_core::model::Namespace::as_str);
        let original =
            synced_names::Original { cluster: original.cluster.as_str(), path: None, namespace, name: &original.name };
        for (field, what) in &kind.assumed {
            report.add(published, Effect::Assumed, *field, what);
        }
        let labels = published.agent.labels(&original);
        match naming.copy(&original) {
            Ok(copied) => imported.copies.push(CopyOf {
                published_resource: published.name.to_owned(),
                resource: resource_name(&kind.resource, &kind.group),
                namespace: Some(copied.namespace).filter(|_| kind.namespaced != Some(false)),
                name: copied.name,
                labels,
            }),
            Err(NoName::NoPath) => {
                let message = format!(
                    "the copy's name is unknown: its template needs the workspace's path, which `--copy-of` does not \
                     give; find an existing copy by its labels, `-l {}`",
                    label_selector(&labels)
                );
                report.add(published, Effect::Assumed, "spec.naming", message);
            }
            Err(why) => report.add(published, Effect::Assumed, "spec.naming", why.to_string()),
        }
    }

    /// Returns the published kind on a side; `None` after a report of the reason.
    fn primary(&self, side: Side, published: &Published<'_>, spec: &Spec, report: &mut Report) -> Option<SideKind> {
        let (effect, field, why) = match side.primary(published, spec, self.kinds, self.exports) {
            Ok(primary) => return Some(primary),
            Err(KindError::Unknown(field, why)) => (Effect::Missing, field, why),
            Err(KindError::NotEnforceable(why)) => (Effect::NotEnforceable, "spec.resource", why),
        };
        report.add(published, effect, field, why);
        None
    }

    fn dependent(&self, primary: &SideKind, selector: Option<LabelSelector>) -> Dependent {
        let export = self.exports.own().filter(|_| self.side == Side::Kcp);
        Dependent {
            api_export_name: export.map(ToString::to_string),
            api_export_ref: None,
            group: primary.group.clone(),
            version: primary.version.clone(),
            kind: primary.kind.clone().unwrap_or_default(),
            resource: primary.resource.clone(),
            selector,
        }
    }

    /// Returns the dependencies that a related resource results in.
    fn related(
        &self,
        published: &Published<'_>,
        primary: &SideKind,
        written: &Value,
        at: &str,
        report: &mut Report,
    ) -> Vec<Dependency> {
        let related = match Related::deserialize(written) {
            Ok(related) => related,
            Err(why) => {
                report.add(published, Effect::Missing, at, format!("can't be read: {why}"));
                return Vec::new();
            }
        };
        let at = match related.identifier.as_str() {
            "" => at.to_owned(),
            identifier => format!("{at} ({identifier})"),
        };
        let (target, export) = match self.side.related(&related, self.kinds, self.exports) {
            Ok(target) => target,
            Err(KindError::Unknown(field, why)) => {
                report.add(published, Effect::Missing, format!("{at}.{field}"), why);
                return Vec::new();
            }
            Err(KindError::NotEnforceable(why)) => {
                report.add(published, Effect::NotEnforceable, at, why);
                return Vec::new();
            }
        };
        let fields = match fields(&related) {
            Ok(fields) => fields,
            Err((field, why)) => {
                report.add(published, Effect::Missing, format!("{at}.{field}"), why);
                return Vec::new();
            }
        };
        let names_namespace = related.reference.as_ref().is_some_and(|reference| reference.namespace.is_some())
            || related.object.as_ref().is_some_and(|object| object.namespace.is_some());
        if primary.namespaced == Some(false) && target.namespaced != Some(false) && !names_namespace {
            let message = "the published kind is cluster-scoped here, and the reference names no namespace: the agent \
                           can't sync this, and the rule protects the name in every namespace";
            report.add(published, Effect::Wider, format!("{at}.object.namespace"), message);
        }
        let on_delete = if self.side.has_originals(related.origin) { OnDelete::Deny } else { self.copies };
        if on_delete != OnDelete::Deny {
            let message = match related.origin {
                RelatedOrigin::Kcp => {
                    "these are copies of objects in kcp: the agent deletes them before the published object's own \
                     copy, and a refusal would block it for good; if somebody else deletes a copy, the agent creates \
                     it again; `--copies deny` refuses all the same"
                }
                RelatedOrigin::Service => {
                    "these are copies of objects on the service cluster: if somebody else deletes a copy, the agent \
                     creates it again; a refusal would block the agent's own clean-up for good; `--copies deny` \
                     refuses all the same"
                }
            };
            report.add(published, Effect::Weaker, format!("{at}.origin"), message);
        }
        let mut dependencies = Vec::new();
        for (by, findings) in fields {
            for (effect, field, message) in findings {
                report.add(published, effect, format!("{at}.{field}"), message);
            }
            let (field_ref, selector_ref) = match by {
                RuleReference::Field(field) => (Some(*field), None),
                RuleReference::Labels(selector) => (None, Some(selector)),
            };
            if selector_ref.is_some() && !self.side.has_originals(related.origin) {
                let message = "the copies probably have the labels of their originals; a `mutation` may change them";
                report.add(published, Effect::Assumed, format!("{at}.object.selector"), message);
            }
            dependencies.push(Dependency {
                api_export_ref: export.clone(),
                group: target.group.clone(),
                version: target.version.clone(),
                resource: target.resource.clone(),
                kind: target.kind.clone(),
                field_ref,
                selector_ref,
                when: None,
                optional: false,
                exclude_names: None,
                on_delete: Some(on_delete).filter(|on_delete| *on_delete != OnDelete::Deny),
                owned_dependents: None,
                on_missing: None,
                message: None,
            });
        }
        dependencies
    }
}

/// Returns the naming of the copies; `None` after a report of the reason.
fn naming_of(published: &Published<'_>, spec: &Spec, report: &mut Report) -> Option<Naming> {
    let naming_spec = spec.naming.clone().unwrap_or_default();
    let naming = Naming::parse(published.agent, naming_spec.namespace.as_deref(), naming_spec.name.as_deref());
    let unknown =
        |why| report.add(published, Effect::Assumed, "spec.naming", format!("the names of copies are unknown: {why}"));
    naming.map_err(unknown).ok()
}

/// Joins labels as `kubectl get -l` takes them.
pub(super) fn label_selector(labels: &BTreeMap<&'static str, String>) -> String {
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

/// Returns the selector of the synced objects, as far as a rule can express it, and the filter fields that a rule can't
/// express.
fn selector(spec: &Spec) -> (Option<LabelSelector>, Vec<(&'static str, &'static str)>) {
    let Some(filter) = &spec.filter else { return (None, Vec::new()) };
    let mut unfiltered = Vec::new();
    if filter.namespace.is_some() {
        let message = "a rule can't select objects by the labels of their namespaces: it applies to the objects of all \
                       namespaces";
        unfiltered.push(("spec.filter.namespace", message));
    }
    let Some(written) = &filter.resource else { return (None, unfiltered) };
    let selector = LabelSelector::deserialize(written).ok().filter(|selector| Selector::parse(selector).is_ok());
    if selector.is_none() {
        unfiltered.push(("spec.filter.resource", "is not a label selector: the rule applies to all objects"));
    }
    (selector, unfiltered)
}

/// Returns a name that no other rule has: PublishedResources of both agents may share a name.
fn unique(name: &str, names: &mut BTreeMap<String, usize>) -> String {
    let mut asked = names.get(name).copied().unwrap_or_default();
    let mut free = name.to_owned();
    while names.contains_key(&free) {
        asked = asked.saturating_add(1);
        free = format!("{name}-{asked}");
    }
    names.insert(name.to_owned(), asked.max(1));
    names.entry(free.clone()).or_insert(1);
    free
}
