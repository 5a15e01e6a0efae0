//! Specs of GlobalOwners and GroupOwners, parsed and checked.

use std::collections::{BTreeMap, BTreeSet};

#[cfg(feature = "schemars")]
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{CASCADE_ANNOTATION, GROUP};
use crate::model::api;
use crate::model::label_selector::{Selector, SelectorError};
use crate::model::names::{Group, GroupVersionResource, NameError, Namespace, Resource, Version};
#[cfg(feature = "schemars")]
use crate::model::schema;

/// Maximum number of groups of a GlobalOwner.
const MAX_GROUPS: usize = 256;
/// Maximum number of names in a group.
const MAX_NAMES: usize = 1024;
/// Label whose objects the older tool leaves out if no selector is given.
const SKIP_ADOPTION: &str = "skipAdoption";

/// Group, as a selection of objects of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "depguard's other crates construct it with all fields")]
pub struct Entry {
    /// Resource of the objects, in the version in which they are read.
    pub resource: GroupVersionResource,
    /// Names of the objects; empty: any name.
    pub names: BTreeSet<String>,
    /// Namespace of the objects; `None`: any namespace, or none.
    pub namespace: Option<Namespace>,
    /// Label selector of the objects.
    pub selector: Selector,
    /// Number of the entry among the entries of this resource and API group, from 0 on.
    pub number: usize,
    /// `spec` of its GroupOwner.
    pub group_spec: Value,
}

/// Order in which the groups of a GlobalOwner are removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum Order {
    /// Groups go as they are listed, one after the other.
    #[default]
    Listed,
    /// Groups go as DependencyRules demand, dependents first; groups that no rule puts in an order go together.
    ByRules,
}

/// Policy for the objects when a GlobalOwner is deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum DeletionPolicy {
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

impl SpecError {
    /// Returns the path of the field that is wrong.
    pub fn field(&self) -> &str {
        let (Self::Shape { field, .. }
        | Self::Name { field, .. }
        | Self::Selector { field, .. }
        | Self::TooMany { field, .. }
        | Self::Both { field }
        | Self::Everything { field }
        | Self::Itself { field }) = self;
        field
    }
}

/// Returns the schema of a GlobalOwner's spec.
#[cfg(feature = "schemars")]
pub fn global_owner_schema(generator: &mut SchemaGenerator) -> Schema {
    GlobalSpec::json_schema(generator)
}

/// Returns the schema of a GroupOwner's spec.
#[cfg(feature = "schemars")]
pub fn group_owner_schema(generator: &mut SchemaGenerator) -> Schema {
    GroupSpec::json_schema(generator)
}

/// The adopted objects, and the way in which they are removed.
#[derive(Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
struct GlobalSpec {
    /// Counts for each entry that has no selector of its own. Empty: every object.
    #[cfg_attr(feature = "schemars", schemars(with = "Option<api::LabelSelector>"))]
    selector: Option<Value>,
    /// The groups of objects. Their order is that of their removal, the first one first.
    #[cfg_attr(feature = "schemars", schemars(with = "Vec<ChildResource>", length(max = MAX_GROUPS)))]
    child_resources: Vec<Value>,
    /// The order in which groups are removed. Left out: `Listed`.
    #[cfg_attr(feature = "schemars", schemars(with = "Option<Order>"))]
    #[expect(dead_code, reason = "`Order::from_spec` reads it, so that an unknown value is no error")]
    order: Option<Value>,
    /// The outcome for the objects when the GlobalOwner is deleted. Left out: `Delete`.
    #[cfg_attr(feature = "schemars", schemars(with = "Option<DeletionPolicy>"))]
    #[expect(dead_code, reason = "`DeletionPolicy::from_owner` reads it, so that an unknown value is no error")]
    deletion_policy: Option<Value>,
}

/// The group.
#[cfg(feature = "schemars")]
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "`entry_of_group` reads the fields one by one")]
struct GroupSpec {
    /// The labels by which the group's objects are selected.
    selector: Option<api::LabelSelector>,
    child_resource: ChildResource,
}

/// One group: objects of one resource.
#[derive(Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema), schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.selector) || (!has(self.names) && !has(self.__namespace__))",
    "message": "a selector, or names and namespace: write one or the other",
}])))]
#[serde(rename_all = "camelCase")]
struct ChildResource {
    /// The resource's group and version, such as `v1` or `apps/v1`.
    #[cfg_attr(
        feature = "schemars",
        schemars(
            length(min = 1, max = 317),
            pattern(r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[1-9][0-9]*([a-z]+[1-9][0-9]*)?$"),
            transform = schema::explained(
                "write the group and the version, such as apps/v1, or the version alone for the core group",
            ),
        )
    )]
    api_version: String,
    /// The resource's plural name, such as `configmaps`.
    #[cfg_attr(feature = "schemars", schemars(with = "schema::Resource", length(max = 253)))]
    resource: String,
    /// The names of the objects. Left out: objects of any name.
    #[cfg_attr(
        feature = "schemars",
        schemars(length(max = MAX_NAMES), inner(length(min = 1, max = 253), pattern("^[^/%]+$")))
    )]
    names: Option<Vec<String>>,
    /// The namespace of the objects. Left out: objects of all namespaces, or objects without one.
    #[cfg_attr(feature = "schemars", schemars(with = "Option<schema::Namespace>"))]
    namespace: Option<String>,
    /// The labels of the objects, instead of `spec.selector`.
    #[cfg_attr(feature = "schemars", schemars(with = "Option<api::LabelSelector>"))]
    selector: Option<Value>,
}

/// Reads the groups in a GlobalOwner's `spec`, in the order of the list.
pub fn entries(spec: &Value) -> Result<Vec<Entry>, SpecError> {
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
pub fn entry_of_group(spec: &Value) -> Result<Entry, SpecError> {
    let child = spec.get("childResource").unwrap_or(&Value::Null);
    entry("spec.childResource", child, spec.get("selector"))
}

impl Order {
    /// Reads `spec.order`. An unknown value counts as the order of the list, which nobody can mistake.
    pub fn from_spec(spec: &Value) -> Self {
        match spec.get("order").and_then(Value::as_str) {
            Some("ByRules") => Self::ByRules,
            _ => Self::Listed,
        }
    }
}

impl DeletionPolicy {
    /// Returns the deletion policy of a GlobalOwner, from its spec or from the webhook's annotation. An unknown value
    /// deletes nothing.
    pub fn from_owner(owner: &Value) -> Self {
        let annotations = owner.pointer("/metadata/annotations");
        if annotations.and_then(|annotations| annotations.get(CASCADE_ANNOTATION)).is_some() {
            return Self::Orphan;
        }
        match owner.pointer("/spec/deletionPolicy") {
            None | Some(Value::Null) => Self::Delete,
            Some(Value::String(policy)) if policy == "Delete" => Self::Delete,
            Some(_) => Self::Orphan,
        }
    }
}

impl Entry {
    /// Returns the group and version of the objects, as their `apiVersion` has it.
    pub fn api_version(&self) -> String {
        match self.resource.group.is_core() {
            true => self.resource.version.to_string(),
            false => format!("{}/{}", self.resource.group, self.resource.version),
        }
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
