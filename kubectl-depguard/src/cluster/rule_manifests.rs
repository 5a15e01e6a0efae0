//! Rules in manifest files: the documents that are rules, and the kinds that they name.

use depguard_core::locks::LockKind;
use depguard_core::model::{Resource, Version};
use depguard_core::{Group, GroupVersionResource, api};
use serde_json::Value;

use crate::cluster::built_in_kinds;
use crate::cluster::documents::{Document, group_of, text};
use crate::cluster::kinds::KindInfo;
use crate::cluster::rules::ReadFailure;

/// Returns true if the object is a rule of any version.
pub(crate) fn is_rule(object: &Value) -> bool {
    text(object, "kind") == Some(api::KIND) && group_of(object) == Some(api::GROUP)
}

/// Copies a rule that was written for kcp, as if its exports were bound in the one cluster that there is.
pub(crate) fn everywhere_bound(rule: &Value) -> Value {
    let mut rule = rule.clone();
    let Some(spec) = rule.get_mut("spec") else { return rule };
    if let Some(dependent) = spec.get_mut("dependent").and_then(Value::as_object_mut) {
        dependent.remove("apiExportName");
    }
    let dependencies = spec.get_mut("dependencies").and_then(Value::as_array_mut).into_iter().flatten();
    for dependency in dependencies {
        if let Some(dependency) = dependency.as_object_mut() {
            dependency.remove("apiExportRef");
        }
    }
    rule
}

/// Returns true if the object was meant as a rule or a lock, but depguard has no such kind in any version.
pub(crate) fn is_mistaken_for_none(object: &Value) -> bool {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let looks_like_a_rule = spec.get("dependent").is_some() || spec.get("dependencies").is_some();
    match (group_of(object) == Some(api::GROUP), text(object, "kind")) {
        (true, kind) => !kind.is_some_and(|kind| LockKind::ALL.iter().any(|lock| lock.kind() == kind)),
        (false, kind) => kind == Some(api::KIND) && looks_like_a_rule,
    }
}

/// Explains why such a document is neither a rule nor a lock.
pub(crate) fn mistake(document: &Document) -> ReadFailure {
    let api_version = text(&document.value, "apiVersion").unwrap_or_default();
    let why = format!("`{api_version}` has no such kind: rules are of {}/{}", api::GROUP, api::VERSION);
    ReadFailure::new(document.shown(), why)
}

/// Returns the dependent and the targets of a rule's spec.
pub(crate) fn ends_of(spec: &Value) -> impl Iterator<Item = &Value> {
    let dependencies = spec.get("dependencies").and_then(Value::as_array).into_iter().flatten();
    spec.get("dependent").into_iter().chain(dependencies)
}

/// Returns the kind of a rule's dependent or target.
pub(crate) fn kind_of(end: &Value) -> Option<GroupVersionResource> {
    Some(GroupVersionResource {
        group: Group::parse(text(end, "group")?).ok()?,
        version: Version::parse(text(end, "version")?).ok()?,
        resource: Resource::parse(text(end, "resource")?).ok()?,
    })
}

/// Returns the kinds that a rule names: Kubernetes' own, and those of which it gives the name of the `kind`.
pub(crate) fn named_by(rule: &Value) -> Vec<KindInfo> {
    let ends = ends_of(rule.get("spec").unwrap_or(&Value::Null));
    let kind = |end: &Value| {
        let gvr = kind_of(end)?;
        match built_in_kinds::get(&gvr.group_resource()) {
            Some(built_in) => Some(built_in.in_version(gvr.version)),
            None => Some(KindInfo::bare(gvr, text(end, "kind")?, None)),
        }
    };
    ends.filter_map(kind).collect()
}
