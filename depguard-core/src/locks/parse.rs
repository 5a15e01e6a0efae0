//! From what was written to a lock.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::holder::Holder;
use super::lock::{DuringTeardown, Lock, LockError, LockKind, LockTarget, Operations, Pick};
use super::moment::{Moment, duration};
use super::{MAX_FIELDS, MAX_HOLDERS, MAX_REASON, MAX_TABLES, MAX_TARGETS, tables_of};
use crate::api;
use crate::names::{Group, GroupResource, Namespace, Resource, Version};
use crate::path::{FieldPath, Segment};
use crate::selector::Selector;
use crate::target::is_stored_name;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireTarget {
    #[serde(default)]
    group: String,
    version: Option<String>,
    resource: String,
    name: Option<String>,
    selector: Option<api::LabelSelector>,
    namespace: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireHolder {
    users: Option<Vec<String>>,
    groups: Option<Vec<String>>,
    service_accounts: Option<Vec<WireServiceAccount>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireServiceAccount {
    namespace: String,
    name: String,
}

#[derive(Deserialize)]
enum Operation {
    Update,
    Delete,
}

#[derive(Deserialize)]
enum Teardown {
    Release,
    Hold,
}

/// What of a spec was read so far, and the first thing that is wrong with it.
struct Reader<'v> {
    spec: Option<&'v Map<String, Value>>,
    problem: Option<LockError>,
}

const FIELDS: [&str; 8] = ["targets", "operations", "fields", "reason", "holder", "expiresAt", "ttl", "duringTeardown"];

pub(super) fn lock(kind: LockKind, object: &Value) -> Lock {
    let metadata = object.get("metadata");
    let text = |field: &str| metadata?.get(field)?.as_str().filter(|text| !text.is_empty());
    let name = text("name").filter(|name| is_stored_name(name));
    let namespace = text("namespace").and_then(|namespace| Namespace::parse(namespace).ok());
    let mut reader = Reader { spec: object.get("spec").and_then(Value::as_object), problem: None };
    if reader.spec.is_none() {
        reader.wrong("spec", "is missing: say at least which targets are locked");
    }
    if name.is_none() {
        reader.wrong("metadata.name", "is missing, or none that an API server would have stored");
    }
    match (kind, &namespace) {
        (LockKind::ObjectLock, None) => {
            reader.wrong("metadata.namespace", "is missing, or none that an API server would have stored");
        }
        (LockKind::ClusterObjectLock, Some(_)) => {
            reader.wrong("metadata.namespace", "is set, but the lock's kind has no namespace");
        }
        _ => {}
    }
    let unknown = reader.spec.and_then(|spec| spec.keys().find(|key| !FIELDS.contains(&key.as_str())));
    if let Some(unknown) = unknown {
        reader.wrong(&format!("spec.{unknown}"), "is not known to this version: leave it out, or renew the webhook");
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
            &format!("are of {tables} kinds, more than the {MAX_TABLES} that are allowed: make several locks"),
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

    /// Reads a field, where it is there.
    fn get<T: DeserializeOwned>(&mut self, field: &str) -> Option<T> {
        match T::deserialize(self.value(field)?) {
            Ok(value) => Some(value),
            Err(error) => {
                self.wrong(&format!("spec.{field}"), &format!("can't be read: {error}"));
                None
            }
        }
    }

    /// Reads a list that must not be too long; of one that is, as much as is allowed.
    fn list(&mut self, value: Option<&'v Value>, field: &str, most: usize) -> &'v [Value] {
        let Some(value) = value else { return &[] };
        let Some(list) = value.as_array() else {
            self.wrong(field, "is not a list");
            return &[];
        };
        if list.len() > most {
            self.wrong(
                field,
                &format!("has {} entries, more than the {most} that are allowed: make several locks", list.len()),
            );
        }
        list.get(..most).unwrap_or(list)
    }

    fn targets(&mut self, kind: LockKind, own: Option<&Namespace>) -> Vec<LockTarget> {
        let written = self.value("targets");
        let list = self.list(written, "spec.targets", MAX_TARGETS);
        if list.is_empty() {
            self.wrong("spec.targets", "names nothing: write at least one target");
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
                Some(Ok(path)) if is_exempt(&path) => {
                    self.wrong(&field, "is never locked: finalizers, ownerReferences and managedFields are the cluster's own to change");
                }
                Some(Ok(path)) => fields.push(path),
            }
        }
        fields
    }

    fn reason(&mut self) -> String {
        let reason = self.get::<String>("reason").unwrap_or_default();
        if reason.chars().count() > MAX_REASON {
            self.wrong("spec.reason", &format!("is longer than the {MAX_REASON} characters that are allowed"));
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
                    &format!("names {len}, more than the {MAX_HOLDERS} that are allowed"),
                );
            }
        }
        let accounts = holder.service_accounts.iter().flat_map(|(namespace, name)| [namespace, name]);
        let names: BTreeSet<&str> =
            holder.users.iter().chain(&holder.groups).chain(accounts).map(String::as_str).collect();
        if names.iter().any(|name| name.is_empty() || name.len() > 512 || name.contains(char::is_control)) {
            self.wrong("spec.holder", "has a name that is empty, longer than 512 bytes, or holds a control character");
        }
        holder
    }

    fn expires(&mut self, created: Option<&str>) -> Option<Moment> {
        let at = self.get::<String>("expiresAt");
        let ttl = self.get::<String>("ttl");
        if at.is_some() && ttl.is_some() {
            self.wrong("spec.ttl", "stands beside spec.expiresAt: write one of them");
        }
        if let Some(at) = at {
            let moment = Moment::parse(&at);
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
        // Where it is not said when it was created, it can't have ended.
        Some(created.and_then(Moment::parse)?.after(millis))
    }
}

/// Reads a target; the error's field goes on from it.
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
        return Err(wrong(
            ".resource",
            "has something behind the `/` that is no subresource, such as `scale`".to_owned(),
        ));
    }
    let group = Group::parse(&wire.group).map_err(|error| wrong(".group", error.to_string()))?;
    if group.as_str() == api::GROUP {
        return Err(wrong(".group", "is the locks' own: a lock protects itself already".to_owned()));
    }
    let resource = Resource::parse(resource).map_err(|error| wrong(".resource", error.to_string()))?;
    if group.as_str() == "coordination.k8s.io" && resource.as_str() == "leases" {
        let why = "is never locked: without leases the cluster's own controllers stand still while the webhook does";
        return Err(wrong(".resource", why.to_owned()));
    }
    let version = wire.version.as_deref().map(Version::parse).transpose();
    let version = version.map_err(|error| wrong(".version", error.to_string()))?;
    let pick = match (wire.name, wire.selector) {
        (Some(name), None) if name.is_empty() || !is_stored_name(&name) => {
            return Err(wrong(".name", "is no object's name".to_owned()));
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
            return Err(wrong(".namespace", "is another one than the lock's own: use a ClusterObjectLock".to_owned()));
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

/// Whether a path leads into what no lock freezes.
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
