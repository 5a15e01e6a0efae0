//! What GlobalOwners and GroupOwners say, checked.

use std::collections::{BTreeMap, BTreeSet};

use depguard_core::owners::CASCADE_ANNOTATION;
use depguard_core::{
    Group, GroupVersionResource, NameError, Namespace, Resource, Selector, SelectorError, Version, api,
};
use depguard_kcp::Metadata;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::api::{GROUP, MAX_GROUPS, MAX_NAMES, SKIP_ADOPTION};
use super::removal::Order;

/// One group: which objects belong to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Their resource, in the version to read it in.
    pub(crate) resource: GroupVersionResource,
    /// Their names; empty: whatever they are called.
    pub(crate) names: BTreeSet<String>,
    /// Their namespace; `None`: any, or none.
    pub(crate) namespace: Option<Namespace>,
    /// Their labels.
    pub(crate) selector: Selector,
    /// Which one of the entries of this group and resource it is, from 0 on.
    pub(crate) number: usize,
    /// `spec` of its GroupOwner.
    pub(crate) group_spec: Value,
}

/// What becomes of the objects when a GlobalOwner is deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum DeletionPolicy {
    /// They are removed, in order.
    #[default]
    Delete,
    /// They are released.
    Orphan,
}

/// Why a GlobalOwner can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// Not of its shape.
    #[error("{field}: {why}")]
    Shape {
        /// Where.
        field: String,
        /// What is wrong there.
        why: String,
    },
    /// A name that is none.
    #[error("{field}: {why}")]
    Name {
        /// Where.
        field: String,
        /// What is wrong with it.
        #[source]
        why: NameError,
    },
    /// A selector that is none.
    #[error("{field}: {why}")]
    Selector {
        /// Where.
        field: String,
        /// What is wrong with it.
        #[source]
        why: SelectorError,
    },
    /// Too much.
    #[error("{field}: more than the {most} that are allowed")]
    TooMany {
        /// Of what.
        field: String,
        /// The most that there may be.
        most: usize,
    },
    /// A selector, and names or a namespace.
    #[error("{field}: has a selector beside names or a namespace: write one or the other")]
    Both {
        /// Where.
        field: String,
    },
    /// Nothing says which objects belong to it.
    #[error(
        "{field}: no selector, names or namespace say which objects belong to it: for all of them write `selector: {{}}`"
    )]
    Everything {
        /// Where.
        field: String,
    },
    /// GlobalOwners and GroupOwners themselves.
    #[error("{field}: GlobalOwners and GroupOwners can't be owned: name other resources")]
    Itself {
        /// Where.
        field: String,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    selector: Option<Value>,
    child_resources: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChildWire {
    api_version: String,
    resource: String,
    names: Option<Vec<String>>,
    namespace: Option<String>,
    selector: Option<Value>,
}

/// The groups of a GlobalOwner's `spec`, in its order.
pub(crate) fn entries(spec: &Value) -> Result<Vec<Entry>, SpecError> {
    let wire = Wire::deserialize(spec).map_err(|why| shape("spec", &why))?;
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

/// The group of a GroupOwner's `spec`.
pub(crate) fn entry_of_group(spec: &Value) -> Result<Entry, SpecError> {
    let child = spec.get("childResource").unwrap_or(&Value::Null);
    entry("spec.childResource", child, spec.get("selector"))
}

/// `spec.order`; what is not known is taken for the order in which they are listed, which nobody can mistake.
pub(crate) fn order(spec: &Value) -> Order {
    match spec.get("order").and_then(Value::as_str) {
        Some("ByRules") => Order::ByRules,
        _ => Order::Listed,
    }
}

/// What a whole GlobalOwner says of its deletion, in its spec or by the webhook's annotation; what is not known deletes
/// nothing.
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

/// A GroupOwner's name, and its role's. Neither the order of the entries nor what they select is in it: both may change
/// without every object getting another owner.
pub(crate) fn group_name(owner: &str, owner_uid: &str, entry: &Entry) -> String {
    let kind = entry.resource.group_resource();
    let hash = Sha256::digest(format!("{owner_uid}\n{kind}\n{}", entry.number));
    let hash: String = hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let resource = entry.resource.resource.as_str();
    let tail = format!("-{resource}-{}-{hash}", entry.number);
    // A name has at most 253 characters, and none is cut in the middle of what it may end with.
    let space = 253_usize.saturating_sub(tail.len());
    let head: String = owner.chars().take(space).collect();
    format!("{}{tail}", head.trim_end_matches(['.', '-']))
}

impl Entry {
    /// Whether the object belongs to the group.
    pub(crate) fn selects(&self, object: &Metadata) -> bool {
        self.fits(object) && self.selector.matches(|key| object.labels.get(key).map(String::as_str))
    }

    /// Whether the object is meant by its very name, whatever its labels.
    pub(crate) fn names(&self, object: &Metadata) -> bool {
        !self.names.is_empty() && self.fits(object)
    }

    /// The group and version of its objects, as they write it.
    pub(crate) fn api_version(&self) -> String {
        match self.resource.group.is_core() {
            true => self.resource.version.to_string(),
            false => format!("{}/{}", self.resource.group, self.resource.version),
        }
    }

    fn fits(&self, object: &Metadata) -> bool {
        self.namespace.as_ref().is_none_or(|wanted| object.namespace.as_deref() == Some(wanted.as_str()))
            && (self.names.is_empty() || self.names.contains(&object.name))
    }
}

fn entry(field: &str, child: &Value, of_all: Option<&Value>) -> Result<Entry, SpecError> {
    let named = |name: &str| format!("{field}.{name}");
    let wire = ChildWire::deserialize(child).map_err(|why| shape(field, &why))?;
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
    // As the older tool has it where no selector is given.
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
