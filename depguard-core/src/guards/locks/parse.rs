//! Parser of locks, which reads as much as possible.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Error};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::holder::Holder;
use super::lock::{DuringTeardown, Lock, LockError, LockKind, LockTarget, Operations, Pick};
use super::timestamp::{Timestamp, duration};
use super::wire::{Operation, Teardown, WireHolder, WireTarget};
use super::{MAX_FIELDS, MAX_HOLDERS, MAX_REASON, MAX_TABLES, MAX_TARGETS, tables_of};
use crate::model::api;
use crate::model::field_path::{FieldPath, Segment};
use crate::model::label_selector::Selector;
use crate::model::names::{Group, GroupResource, Namespace, Resource, Version};
use crate::protocol::deletion_target::is_stored_name;

/// The spec that is being read, and the first error in it.
struct Reader<'v> {
    spec: Option<&'v Map<String, Value>>,
    problem: Option<LockError>,
}

pub(super) const FIELDS: [&str; 8] =
    ["targets", "operations", "fields", "reason", "holder", "expiresAt", "ttl", "duringTeardown"];

/// Maximum weight of a lock's spec. A lock of 64 targets with selectors weighs some 2,000.
const MAX_WEIGHT: usize = 16 << 10;
/// Weight of a map: as a tree, a map takes as much memory as many texts.
const MAP: usize = 8;

/// Returns the parts of a lock's JSON that are read, as a tree. The tree of the whole lock would take many times its
/// text, and a tenant chooses the lock.
pub(super) fn tree(json: &str) -> Result<Value, serde_json::Error> {
    #[derive(Deserialize)]
    struct Parts<'a> {
        kind: Option<String>,
        #[serde(default)]
        metadata: Metadata,
        #[serde(borrow)]
        spec: Option<&'a RawValue>,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Metadata {
        name: Option<String>,
        namespace: Option<String>,
        creation_timestamp: Option<String>,
    }
    let Parts { kind, metadata: Metadata { name, namespace, creation_timestamp }, spec } = serde_json::from_str(json)?;
    let spec = spec.map_or("null", RawValue::get);
    let weight = |byte| match byte {
        b'{' => MAP,
        b'[' | b',' => 1,
        _ => 0,
    };
    if spec.bytes().map(weight).sum::<usize>() > MAX_WEIGHT {
        return Err(serde_json::Error::custom("its spec is too large: split the lock"));
    }
    let metadata = json!({"name": name, "namespace": namespace, "creationTimestamp": creation_timestamp});
    let spec: Value = serde_json::from_str(spec)?;
    Ok(json!({"kind": kind, "metadata": metadata, "spec": spec}))
}

pub(super) fn lock(kind: LockKind, object: &Value) -> Lock {
    let metadata = object.get("metadata");
    let text = |field: &str| metadata?.get(field)?.as_str().filter(|text| !text.is_empty());
    let name = text("name").filter(|name| is_stored_name(name));
    let namespace = text("namespace").and_then(|namespace| Namespace::parse(namespace).ok());
    let mut reader = Reader { spec: object.get("spec").and_then(Value::as_object), problem: None };
    if reader.spec.is_none() {
        reader.wrong("spec", "is missing: write at least spec.targets");
    }
    if name.is_none() {
        reader.wrong("metadata.name", "is missing or invalid");
    }
    match (kind, &namespace) {
        (LockKind::ObjectLock, None) => {
            reader.wrong("metadata.namespace", "is missing or invalid");
        }
        (LockKind::ClusterObjectLock, Some(_)) => {
            reader.wrong("metadata.namespace", "is set, but a ClusterObjectLock has no namespace: leave it out");
        }
        _ => {}
    }
    let unknown = reader.spec.and_then(|spec| spec.keys().find(|key| !FIELDS.contains(&key.as_str())));
    if let Some(unknown) = unknown {
        reader.wrong(&format!("spec.{unknown}"), "is unknown to this version: leave it out, or upgrade depguard");
    }
    let targets = reader.targets(kind, namespace.as_ref());
    let fields = reader.fields();
    let lock = Lock {
        kind,
        name: name.unwrap_or_default().to_owned(),
        operations: reader.operations(),
        reason: reader.reason(),
        holder: reader.holder(),
        expires: reader.expires(text("creationTimestamp")),
        during_teardown: match reader.get("duringTeardown") {
            Some(Teardown::Hold) => DuringTeardown::Hold,
            Some(Teardown::Release) | None => DuringTeardown::Release,
        },
        namespace,
        targets,
        fields,
        problem: None,
    };
    let tables = tables_of(&lock).len();
    if tables > MAX_TABLES {
        reader.wrong(
            "spec.targets",
            &format!("name {tables} kinds, and at most {MAX_TABLES} are allowed: split the lock"),
        );
    }
    match reader.problem {
        None => lock,
        Some(problem) => Lock {
            operations: Operations::ALL,
            fields: Vec::new(),
            holder: Holder::default(),
            expires: None,
            during_teardown: DuringTeardown::Hold,
            problem: Some(problem),
            ..lock
        },
    }
}

impl<'v> Reader<'v> {
    fn wrong(&mut self, field: &str, why: &str) {
        self.problem.get_or_insert_with(|| LockError { field: field.to_owned(), why: why.to_owned() });
    }

    fn value(&self, field: &str) -> Option<&'v Value> {
        self.spec?.get(field).filter(|value| !value.is_null())
    }

    /// Reads a field, if it is there.
    fn get<T: DeserializeOwned>(&mut self, field: &str) -> Option<T> {
        match T::deserialize(self.value(field)?) {
            Ok(value) => Some(value),
            Err(error) => {
                self.wrong(&format!("spec.{field}"), &format!("can't be read: {error}"));
                None
            }
        }
    }

    /// Reads a list of limited length; of a longer list, as many entries as are allowed.
    fn list(&mut self, value: Option<&'v Value>, field: &str, most: usize) -> &'v [Value] {
        let Some(value) = value else { return &[] };
        let Some(list) = value.as_array() else {
            self.wrong(field, "is not a list");
            return &[];
        };
        if list.len() > most {
            self.wrong(field, &format!("has {} entries, and at most {most} are allowed: split the lock", list.len()));
        }
        list.get(..most).unwrap_or(list)
    }

    fn targets(&mut self, kind: LockKind, own: Option<&Namespace>) -> Vec<LockTarget> {
        let written = self.value("targets");
        let list = self.list(written, "spec.targets", MAX_TARGETS);
        if list.is_empty() {
            self.wrong("spec.targets", "is empty: write at least one target");
        }
        let mut targets = Vec::new();
        for (index, value) in list.iter().enumerate() {
            match target(kind, own, value) {
                Ok(target) => targets.push(target),
                Err(LockError { field, why }) => self.wrong(&format!("spec.targets[{index}]{field}"), &why),
            }
        }
        targets
    }

    fn operations(&mut self) -> Operations {
        match self.get::<Vec<Operation>>("operations") {
            None => Operations::ALL,
            Some(list) if list.is_empty() => Operations::ALL,
            Some(list) => Operations {
                update: list.iter().any(|operation| matches!(operation, Operation::Update)),
                delete: list.iter().any(|operation| matches!(operation, Operation::Delete)),
            },
        }
    }

    fn fields(&mut self) -> Vec<FieldPath> {
        let written = self.value("fields");
        let mut fields = Vec::new();
        for (index, value) in self.list(written, "spec.fields", MAX_FIELDS).iter().enumerate() {
            let field = format!("spec.fields[{index}]");
            match value.as_str().map(FieldPath::parse) {
                None => self.wrong(&field, "is not a path, such as `.spec.disks`"),
                Some(Err(error)) => self.wrong(&field, &format!("can't be used: {error}")),
                Some(Ok(path)) if path.reads_json() => {
                    self.wrong(&field, "can't be locked: leave `.fromJSON()` out, and lock the whole string");
                }
                Some(Ok(path)) if is_exempt(&path) => {
                    self.wrong(
                        &field,
                        "can't be locked: the cluster's controllers must be able to change finalizers, \
                         ownerReferences and managedFields",
                    );
                }
                Some(Ok(path)) => fields.push(path),
            }
        }
        fields
    }

    fn reason(&mut self) -> String {
        let reason = self.get::<String>("reason").unwrap_or_default();
        if reason.chars().count() > MAX_REASON {
            self.wrong("spec.reason", &format!("is longer than {MAX_REASON} characters: shorten it"));
        }
        if reason.contains(char::is_control) {
            self.wrong("spec.reason", "has a control character: write one line");
        }
        reason.chars().filter(|c| !c.is_control()).take(MAX_REASON).collect()
    }

    fn holder(&mut self) -> Holder {
        let Some(WireHolder { users, groups, service_accounts }) = self.get("holder") else {
            return Holder::default();
        };
        let accounts = service_accounts.unwrap_or_default();
        let holder = Holder {
            users: users.unwrap_or_default().into_iter().collect(),
            groups: groups.unwrap_or_default().into_iter().collect(),
            service_accounts: accounts.into_iter().map(|account| (account.namespace, account.name)).collect(),
        };
        for (field, len) in [
            ("users", holder.users.len()),
            ("groups", holder.groups.len()),
            ("serviceAccounts", holder.service_accounts.len()),
        ] {
            if len > MAX_HOLDERS {
                self.wrong(
                    &format!("spec.holder.{field}"),
                    &format!("has {len} entries, and at most {MAX_HOLDERS} are allowed: shorten it"),
                );
            }
        }
        let accounts = holder.service_accounts.iter().flat_map(|(namespace, name)| [namespace, name]);
        let names: BTreeSet<&str> =
            holder.users.iter().chain(&holder.groups).chain(accounts).map(String::as_str).collect();
        if names.iter().any(|name| name.is_empty() || name.len() > 512 || name.contains(char::is_control)) {
            self.wrong(
                "spec.holder",
                "has a name that is empty, longer than 512 bytes, or contains a control character",
            );
        }
        holder
    }

    fn expires(&mut self, created: Option<&str>) -> Option<Timestamp> {
        let at = self.get::<String>("expiresAt");
        let ttl = self.get::<String>("ttl");
        if at.is_some() && ttl.is_some() {
            self.wrong("spec.ttl", "can't be combined with spec.expiresAt: write one of them");
        }
        if let Some(at) = at {
            let moment = Timestamp::parse(&at);
            if moment.is_none() {
                self.wrong("spec.expiresAt", "is not a point in time, such as `2026-12-01T00:00:00Z`");
            }
            return moment;
        }
        let Some(millis) = duration(&ttl?) else {
            self.wrong(
                "spec.ttl",
                "is not a duration, such as `2h` or `1h30m` (hours, minutes, seconds; at most ten years)",
            );
            return None;
        };
        // Without a creation time, the lock can't have ended.
        Some(created.and_then(Timestamp::parse)?.after(millis))
    }
}

/// Reads a target; the error's field is relative to the target.
fn target(kind: LockKind, own: Option<&Namespace>, value: &Value) -> Result<LockTarget, LockError> {
    let wrong = |field: &str, why: String| LockError { field: field.to_owned(), why };
    let wire = WireTarget::deserialize(value).map_err(|error| wrong("", format!("can't be read: {error}")))?;
    let (resource, subresource) = match wire.resource.split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource)),
        None => (wire.resource.as_str(), None),
    };
    let is_subresource = |name: &str| {
        !name.is_empty() && name.len() <= 63 && name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    if !subresource.is_none_or(is_subresource) {
        return Err(wrong(".resource", "needs a subresource such as `scale` after the `/`".to_owned()));
    }
    let group = Group::parse(&wire.group).map_err(|error| wrong(".group", error.to_string()))?;
    if group.as_str() == api::GROUP {
        return Err(wrong(".group", "is depguard's own: a lock already protects itself".to_owned()));
    }
    let resource = Resource::parse(resource).map_err(|error| wrong(".resource", error.to_string()))?;
    if group.as_str() == "coordination.k8s.io" && resource.as_str() == "leases" {
        let why = "can't be locked: the cluster's controllers need their Leases, even while the webhook is down";
        return Err(wrong(".resource", why.to_owned()));
    }
    let version = wire.version.as_deref().map(Version::parse).transpose();
    let version = version.map_err(|error| wrong(".version", error.to_string()))?;
    let pick = match (wire.name, wire.selector) {
        (Some(name), None) if name.is_empty() || !is_stored_name(&name) => {
            return Err(wrong(".name", "is not a valid object name".to_owned()));
        }
        (Some(name), None) => Pick::Name(name),
        (None, Some(wire)) => {
            let selector =
                Selector::parse(&wire).map_err(|error| wrong(".selector", format!("can't be used: {error}")))?;
            Pick::Labels { wire, selector }
        }
        _ => {
            let why = "must have either a name or a selector (`selector: {}` selects all objects of the kind)";
            return Err(wrong("", why.to_owned()));
        }
    };
    let namespace = match (kind, wire.namespace.filter(|namespace| !namespace.is_empty())) {
        (LockKind::ObjectLock, None) => own.cloned(),
        (LockKind::ObjectLock, Some(named)) if own.is_some_and(|own| own.as_str() == named) => own.cloned(),
        (LockKind::ObjectLock, Some(_)) => {
            return Err(wrong(".namespace", "differs from the lock's namespace: use a ClusterObjectLock".to_owned()));
        }
        (LockKind::ClusterObjectLock, None) => None,
        (LockKind::ClusterObjectLock, Some(named)) => {
            Some(Namespace::parse(&named).map_err(|error| wrong(".namespace", error.to_string()))?)
        }
    };
    Ok(LockTarget {
        kind: GroupResource { group, resource },
        version,
        subresource: subresource.map(str::to_owned),
        namespace,
        pick,
    })
}

/// Returns true if a path leads into metadata that no lock freezes.
fn is_exempt(path: &FieldPath) -> bool {
    match path.segments() {
        [Segment::Name(first), Segment::Name(second), ..] => {
            first == "metadata" && super::change::EXEMPT.contains(&second.as_str())
        }
        _ => false,
    }
}

impl Operations {
    const ALL: Self = Self { update: true, delete: true };
}
