//! From a PublishedResource to a rule.

use std::collections::BTreeMap;

use depguard_core::Selector;
use depguard_core::api::{Dependency, DependencyRule, Dependent, LabelSelector, OnDelete};
use depguard_core::naming::{self, Naming, NoName};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Original;
use super::fields::{By, fields};
use super::report::{Effect, Report};
use super::side::{Exports, NoKind, Side, SideKind};
use super::written::{Published, Related, RelatedOrigin, Spec};
use crate::draft;
use crate::kinds::{Kinds, resource_name};

/// By what it is derived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Import<'a> {
    pub(super) side: Side,
    pub(super) kinds: &'a Kinds,
    pub(super) exports: &'a Exports,
    /// What a rule does for copies.
    pub(super) copies: OnDelete,
}

/// What was derived.
#[derive(Debug, Default, Serialize)]
pub(super) struct Imported {
    pub(super) rules: Vec<DependencyRule>,
    pub(super) report: Report,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) copies: Vec<CopyOf>,
    /// The rules' names, and how often each was asked for.
    #[serde(skip)]
    names: BTreeMap<String, usize>,
}

/// Where the copy of an object is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CopyOf {
    pub(super) published_resource: String,
    pub(super) resource: String,
    /// Where it is when it is made now; an existing one may have had another name.
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    /// By which an existing one is found.
    pub(super) labels: BTreeMap<&'static str, String>,
}

impl Import<'_> {
    /// Adds the rule of a PublishedResource, and what is to be said of it.
    pub(super) fn add(&self, published: &Published<'_>, imported: &mut Imported) {
        let report = &mut imported.report;
        for field in &published.unknown {
            report.add(published, Effect::Missing, field, "isn't known here: what it says is in no rule");
        }
        let spec = match &published.spec {
            Ok(spec) => spec,
            Err(why) => return report.add(published, Effect::Missing, "spec", why),
        };
        if published.name.is_empty() {
            return report.add(published, Effect::Missing, "metadata.name", "is missing: a rule is called by it");
        }
        let related = spec.related.as_deref().unwrap_or_default();
        if related.is_empty() {
            return report.add(published, Effect::Nothing, "spec.related", "there are no related resources");
        }
        if spec.synchronization.as_ref().is_some_and(|synchronization| !synchronization.enabled) {
            let message = "nothing of this kind is synchronized, and so nothing related to it";
            return report.add(published, Effect::Nothing, "spec.synchronization.enabled", message);
        }
        // No rule needs it, but whoever looks for copies.
        naming_of(published, spec, report);
        let Some(primary) = self.primary(self.side, published, spec, report) else { return };
        let (selector, unfiltered) = selector(spec);
        let name = unique(published.name, &mut imported.names);
        let mut rule = draft::rule(name, self.dependent(&primary, selector));
        for (index, written) in related.iter().enumerate() {
            let at = format!("spec.related[{index}]");
            let dependencies = self.related(published, &primary, written, &at, report);
            for dependency in dependencies {
                match draft::can_be_used(&rule, &dependency, self.side.home()) {
                    Ok(()) => rule.spec.dependencies.push(dependency),
                    Err(why) => report.add(published, Effect::Missing, &at, format!("can't be said in a rule: {why}")),
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

    /// Adds where the copy of an object is, or why that can't be told: what is in no rule may have a copy all the same.
    pub(super) fn locate(&self, published: &Published<'_>, original: &Original, imported: &mut Imported) {
        // That it can't be read was said.
        let Ok(spec) = &published.spec else { return };
        let report = &mut imported.report;
        let kind = self.primary(Side::ServiceCluster, published, spec, report);
        let (Some(naming), Some(kind)) = (naming_of(published, spec, report), kind) else { return };
        let namespace = original.namespace.as_ref().map(depguard_core::Namespace::as_str);
        let original =
            naming::Original { cluster: original.cluster.as_str(), path: None, namespace, name: &original.name };
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
                    "the copy's name can't be told, for the template asks for the workspace's path, which `--copy-of` \
                     doesn't name: an existing copy is found by its labels, `-l {}`",
                    label_selector(&labels)
                );
                report.add(published, Effect::Assumed, "spec.naming", message);
            }
            Err(why) => report.add(published, Effect::Assumed, "spec.naming", why.to_string()),
        }
    }

    /// The published kind on a side, or why it can't be told.
    fn primary(&self, side: Side, published: &Published<'_>, spec: &Spec, report: &mut Report) -> Option<SideKind> {
        let (effect, field, why) = match side.primary(published, spec, self.kinds, self.exports) {
            Ok(primary) => return Some(primary),
            Err(NoKind::Unknown(field, why)) => (Effect::Missing, field, why),
            Err(NoKind::NotEnforceable(why)) => (Effect::NotEnforceable, "spec.resource", why),
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

    /// The dependencies that a related resource comes to.
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
            Err(NoKind::Unknown(field, why)) => {
                report.add(published, Effect::Missing, format!("{at}.{field}"), why);
                return Vec::new();
            }
            Err(NoKind::NotEnforceable(why)) => {
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
            let message = "the published kind has no namespace here and none is said: the agent can't sync this, and the \
                           rule holds the name in every namespace";
            report.add(published, Effect::Wider, format!("{at}.object.namespace"), message);
        }
        let on_delete = if self.side.has_originals(related.origin) { OnDelete::Deny } else { self.copies };
        if on_delete != OnDelete::Deny {
            let message = match related.origin {
                RelatedOrigin::Kcp => {
                    "these are copies of what is in kcp: the agent deletes them before the published object's own copy, \
                     which a refusal would hold up for ever, and makes anew what somebody else deletes; `--copies deny` \
                     refuses all the same"
                }
                RelatedOrigin::Service => {
                    "these are copies of what is on the service cluster: the agent makes anew what somebody else deletes, \
                     and where it cleans up a refusal would hold it up for ever; `--copies deny` refuses all the same"
                }
            };
            report.add(published, Effect::Weaker, format!("{at}.origin"), message);
        }
        let mut dependencies = Vec::new();
        for (by, said) in fields {
            for (effect, field, message) in said {
                report.add(published, effect, format!("{at}.{field}"), message);
            }
            let (field_ref, selector_ref) = match by {
                By::Field(field) => (Some(field), None),
                By::Labels(selector) => (None, Some(selector)),
            };
            if selector_ref.is_some() && !self.side.has_originals(related.origin) {
                let message = "the copies are taken to have the labels of what they are copies of: a `mutation` may \
                               change that";
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
                on_delete: Some(on_delete).filter(|on_delete| *on_delete != OnDelete::Deny),
                owned_dependents: None,
                message: None,
            });
        }
        dependencies
    }
}

/// How copies are named, or why that can't be told.
fn naming_of(published: &Published<'_>, spec: &Spec, report: &mut Report) -> Option<Naming> {
    let said = spec.naming.clone().unwrap_or_default();
    let naming = Naming::parse(published.agent, said.namespace.as_deref(), said.name.as_deref());
    let unknown =
        |why| report.add(published, Effect::Assumed, "spec.naming", format!("names of copies can't be told: {why}"));
    naming.map_err(unknown).ok()
}

/// As `kubectl get -l` takes them.
pub(super) fn label_selector(labels: &BTreeMap<&'static str, String>) -> String {
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

/// Which objects are synced, as far as a rule can say that, and the fields that it can't say.
fn selector(spec: &Spec) -> (Option<LabelSelector>, Vec<(&'static str, &'static str)>) {
    let Some(filter) = &spec.filter else { return (None, Vec::new()) };
    let mut unfiltered = Vec::new();
    if filter.namespace.is_some() {
        let message = "a rule selects by the labels of objects, not by those of their namespaces: it holds for the \
                       objects of all namespaces";
        unfiltered.push(("spec.filter.namespace", message));
    }
    let Some(written) = &filter.resource else { return (None, unfiltered) };
    let selector = LabelSelector::deserialize(written).ok().filter(|selector| Selector::parse(selector).is_ok());
    if selector.is_none() {
        unfiltered.push(("spec.filter.resource", "is no label selector: the rule holds for all objects"));
    }
    (selector, unfiltered)
}

/// A name that no other rule has: PublishedResources of both agents may have the same.
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
