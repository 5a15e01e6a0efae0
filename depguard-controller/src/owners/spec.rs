//! Specs of GlobalOwners and GroupOwners, parsed and checked.

use std::collections::{BTreeMap, BTreeSet};

use depguard_core::model::{NameError, Namespace, Resource, Selector, SelectorError, Version};
use depguard_core::owners::CASCADE_ANNOTATION;
use depguard_core::{Group, GroupVersionResource, api};
use depguard_kcp::Metadata;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::owners::api::{GROUP, MAX_GROUPS, MAX_NAMES, SKIP_ADOPTION};
use crate::owners::removal::Order;

/// Group, as a selection of objects of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Resource of the objects, in the version in which they are read.
    pub(crate) resource: GroupVersionResource,
    /// Names of the objects; empty: any name.
    pub(crate) names: BTreeSet<String>,
    /// Namespace of the objects; `None`: any namespace, or none.
    pub(crate) namespace: Option<Namespace>,
    /// Label selector of the objects.
    pub(crate) selector: Selector,
    /// Number of the entry among the entries of this resource and API group, from 0 on.
    pub(crate) number: usize,
    /// `spec` of its GroupOwner.
    pub(crate) group_spec: Value,
}

/// Policy for the objects when a GlobalOwner is deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, JsonSchema)]
pub(crate) enum DeletionPolicy {
    /// The objects are removed, in order.
    #[default]
    Delete,
    /// The objects are released.
    Orphan,
}

/// Reason why a GlobalOwner or a GroupOwner can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// A value of the wrong shape.
    #[error("{field}: {why}")]
    Shape {
        /// Path of the field.
        field: String,
        /// Problem with the value.
        why: String,
    },
    /// An invalid name.
    #[error("{field}: {why}")]
    Name {
        /// Path of the field.
        field: String,
        /// Problem with the name.
        #[source]
        why: NameError,
    },
    /// An invalid selector.
    #[error("{field}: {why}")]
    Selector {
        /// Path of the selector.
        field: String,
        /// Problem with the selector.
        #[source]
        why: SelectorError,
    },
    /// Too many entries in a list.
    #[error("{field}: has more than {most} entries")]
    TooMany {
        /// Path of the list.
        field: String,
        /// Maximum number of entries.
        most: usize,
    },
    /// A selector beside names or a namespace.
    #[error("{field}: has both a selector and names or a namespace: write only one of them")]
    Both {
        /// Path of the entry.
        field: String,
    },
    /// Neither a selector nor names nor a namespace: the entry does not say which objects belong to it.
    #[error("{field}: has no selector, names or namespace: for all objects write `selector: {{}}`")]
    Everything {
        /// Path of the entry.
        field: String,
    },
    /// GlobalOwners or GroupOwners as the objects to own.
    #[error("{field}: GlobalOwners and GroupOwners can't be owned: name other resources")]
    Itself {
        /// Path of the entry.
        field: String,
    },
}

/// The adopted objects, and the way in which they are removed.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GlobalSpec {
    /// Counts for each entry that has no selector of its own. Empty: every object.
    #[schemars(with = "Option<api::LabelSelector>")]
    selector: Option<Value>,
    /// The groups of objects. Their order is that of their removal, the first one first.
    #[schemars(with = "Vec<ChildResource>", length(max = MAX_GROUPS))]
    child_resources: Vec<Value>,
    /// The order in which groups are removed. Left out: `Listed`.
    #[schemars(with = "Option<Order>")]
    #[expect(dead_code, reason = "`order` reads it, so that an unknown value is no error")]
    order: Option<Value>,
    /// The outcome for the objects when the GlobalOwner is deleted. Left out: `Delete`.
    #[schemars(with = "Option<DeletionPolicy>")]
    #[expect(dead_code, reason = "`deletion_policy` reads it, so that an unknown value is no error")]
    deletion_policy: Option<Value>,
}

/// The group.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "`entry_of_group` reads the fields one by one")]
pub(crate) struct GroupSpec {
    /// The labels by which the group's objects are selected.
    selector: Option<api::LabelSelector>,
    child_resource: ChildResource,
}

/// One group: objects of one resource.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.selector) || (!has(self.names) && !has(self.__namespace__))",
    "message": "a selector, or names and namespace: write one or the other",
}]))]
struct ChildResource {
    /// The resource's group and version, such as `v1` or `apps/v1`.
    #[schemars(length(min = 1, max = 317))]
    #[schemars(pattern(r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[1-9][0-9]*([a-z]+[1-9][0-9]*)?$"))]
    api_version: String,
    /// The resource's plural name, such as `configmaps`.
    #[schemars(with = "Resource", length(max = 253))]
    resource: String,
    /// The names of the objects. Left out: objects of any name.
    #[schemars(length(max = MAX_NAMES), inner(length(min = 1, max = 253), pattern("^[^/%]+$")))]
    names: Option<Vec<String>>,
    /// The namespace of the objects. Left out: objects of all namespaces, or objects without one.
    #[schemars(with = "Option<Namespace>")]
    namespace: Option<String>,
    /// The labels of the objects, instead of `spec.selector`.
    #[schemars(with = "Option<api::LabelSelector>")]
    selector: Option<Value>,
}

/// Reads the groups in a GlobalOwner's `spec`, in the order of the list.
pub(crate) fn entries(spec: &Value) -> Result<Vec<Entry>, SpecError> {
    let wire = GlobalSpec::deserialize(spec).map_err(|why| shape("spec", &why))?;
    if wire.child_resources.len() > MAX_GROUPS {
        return Err(SpecError::TooMany { field: "spec.childResources".to_owned(), most: MAX_GROUPS });
    }
    let mut seen: BTreeMap<_, usize> = BTreeMap::new();
    let mut entries = Vec::new();
    for (index, child) in wire.child_resources.iter().enumerate() {
        let mut entry = entry(&format!("spec.childResources[{index}]"), child, wire.selector.as_ref())?;
        let number = seen.entry(entry.resource.group_resource()).or_default();
        entry.number = *number;
        *number = number.saturating_add(1);
        entries.push(entry);
    }
    Ok(entries)
}

/// Reads the group in a GroupOwner's `spec`.
pub(crate) fn entry_of_group(spec: &Value) -> Result<Entry, SpecError> {
    let child = spec.get("childResource").unwrap_or(&Value::Null);
    entry("spec.childResource", child, spec.get("selector"))
}

/// Reads `spec.order`. An unknown value counts as the order of the list, which nobody can mistake.
pub(crate) fn order(spec: &Value) -> Order {
    match spec.get("order").and_then(Value::as_str) {
        Some("ByRules") => Order::ByRules,
        _ => Order::Listed,
    }
}

/// Returns the deletion policy of a GlobalOwner, from its spec or from the webhook's annotation. An unknown value
/// deletes nothing.
pub(crate) fn deletion_policy(owner: &Value) -> DeletionPolicy {
    let annotations = owner.pointer("/metadata/annotations");
    if annotations.and_then(|annotations| annotations.get(CASCADE_ANNOTATION)).is_some() {
        return DeletionPolicy::Orphan;
    }
    match owner.pointer("/spec/deletionPolicy") {
        None | Some(Value::Null) => DeletionPolicy::Delete,
        Some(Value::String(policy)) if policy == "Delete" => DeletionPolicy::Delete,
        Some(_) => DeletionPolicy::Orphan,
    }
}

/// Returns the name of a group's GroupOwner and of its role. The name depends neither on the order of the entries nor
/// on their selections: both may change without a new owner for every object.
pub(crate) fn group_name(owner: &str, owner_uid: &str, entry: &Entry) -> String {
    let kind = entry.resource.group_resource();
    let hash = Sha256::digest(format!("{owner_uid}\n{kind}\n{}", entry.number));
    let hash: String = hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let resource = entry.resource.resource.as_str();
    let tail = format!("-{resource}-{}-{hash}", entry.number);
    // A name has at most 253 characters; a cut must not leave a dot or a dash before the tail.
    let space = 253_usize.saturating_sub(tail.len());
    let head: String = owner.chars().take(space).collect();
    format!("{}{tail}", head.trim_end_matches(['.', '-']))
}

impl Entry {
    /// Returns true if the object belongs to the group.
    pub(crate) fn selects(&self, object: &Metadata) -> bool {
        self.fits(object) && self.selector.matches(|key| object.labels.get(key).map(String::as_str))
    }

    /// Returns true if the entry names the object, whatever the object's labels are.
    pub(crate) fn names(&self, object: &Metadata) -> bool {
        !self.names.is_empty() && self.fits(object)
    }

    /// Returns the group and version of the objects, as their `apiVersion` has it.
    pub(crate) fn api_version(&self) -> String {
        match self.resource.group.is_core() {
            true => self.resource.version.to_string(),
            false => format!("{}/{}", self.resource.group, self.resource.version),
        }
    }

    fn fits(&self, object: &Metadata) -> bool {
        self.namespace.as_ref().is_none_or(|selected| object.namespace.as_deref() == Some(selected.as_str()))
            && (self.names.is_empty() || self.names.contains(&object.name))
    }
}

fn entry(field: &str, child: &Value, of_all: Option<&Value>) -> Result<Entry, SpecError> {
    let named = |name: &str| format!("{field}.{name}");
    let wire = ChildResource::deserialize(child).map_err(|why| shape(field, &why))?;
    let (group, version) = wire.api_version.rsplit_once('/').unwrap_or(("", &wire.api_version));
    let name = |field: &str| {
        let field = named(field);
        move |why| SpecError::Name { field, why }
    };
    let resource = GroupVersionResource {
        group: Group::parse(group).map_err(name("apiVersion"))?,
        version: Version::parse(version).map_err(name("apiVersion"))?,
        resource: Resource::parse(&wire.resource).map_err(name("resource"))?,
    };
    if resource.group.as_str() == GROUP {
        return Err(SpecError::Itself { field: field.to_owned() });
    }
    let names = wire.names.unwrap_or_default();
    if names.len() > MAX_NAMES {
        return Err(SpecError::TooMany { field: named("names"), most: MAX_NAMES });
    }
    let namespace = wire.namespace.filter(|namespace| !namespace.is_empty());
    let own = wire.selector.as_ref().filter(|selector| !selector.is_null());
    if own.is_some() && (!names.is_empty() || namespace.is_some()) {
        return Err(SpecError::Both { field: field.to_owned() });
    }
    let given = own.or(of_all.filter(|selector| !selector.is_null()));
    if given.is_none() && names.is_empty() && namespace.is_none() {
        return Err(SpecError::Everything { field: field.to_owned() });
    }
    // The older tool selects like this if no selector is given.
    let unless_skipped = json!({"matchExpressions": [{"key": SKIP_ADOPTION, "operator": "DoesNotExist"}]});
    let raw = given.unwrap_or(&unless_skipped);
    let at = if own.is_some() { named("selector") } else { "spec.selector".to_owned() };
    let parsed = api::LabelSelector::deserialize(raw).map_err(|why| shape(&at, &why))?;
    Ok(Entry {
        selector: Selector::parse(&parsed).map_err(|why| SpecError::Selector { field: at, why })?,
        namespace: namespace.map(|namespace| Namespace::parse(&namespace)).transpose().map_err(name("namespace"))?,
        names: names.into_iter().collect(),
        resource,
        number: 0,
        group_spec: json!({"selector": raw, "childResource": child}),
    })
}

fn shape(field: &str, why: &serde_json::Error) -> SpecError {
    SpecError::Shape { field: field.to_owned(), why: why.to_string() }
}

#[cfg(test)]
mod tests;
