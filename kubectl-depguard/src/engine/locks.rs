//! Locks of a cluster or workspace, and the objects that they protect from deletion.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use depguard_core::locks::{Lock, LockKind, Timestamp};
use depguard_core::model::{GroupResource, Namespace, Resource};
use depguard_core::{Group, api};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::cluster::rules::ReadFailure;
use crate::cluster::source::Source;
use crate::io::exit::Failure;
use crate::io::terminal::Terminal;

/// Existing locks of every kind.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    locks: Vec<(Lock, LockState)>,
    /// Namespaces and names of the older tool's Locks.
    compat: BTreeSet<(String, String)>,
    /// Kinds and objects that could not be read.
    pub(crate) unread: Vec<ReadFailure>,
}

/// State of a lock: whether API servers call the webhook for the locked objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LockState {
    InForce,
    /// The lock's condition `Programmed` isn't true yet.
    Unknown,
}

/// Lock that protects one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LockSummary {
    /// Name of the lock: `ObjectLock default/freeze`.
    pub(crate) lock: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) held_by: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) until: String,
    /// True if API servers are known to call the webhook for the object.
    pub(crate) in_force: bool,
}

/// Group and resource of the older tool's locks.
const COMPAT: (&str, &str) = ("kotas.tech", "locks");

impl Locks {
    /// Reads the locks of one namespace or of all, and cluster-scoped locks. Without their kinds, there are no locks.
    pub(crate) async fn read(
        source: &Source,
        namespace: Option<&Namespace>,
        terminal: &Terminal,
    ) -> Result<Self, Failure> {
        let mut found = Self::default();
        for kind in LockKind::ALL {
            let named = group_resource(api::GROUP, kind.plural())?;
            let Some(info) = source.kind_of(&named).await? else {
                found.miss(&named.group, source).await?;
                continue;
            };
            let is_live = matches!(source, Source::ApiServer(_));
            let locks = &mut found.locks;
            let each = |object: Value| {
                let in_force = if is_live && !is_programmed(&object) { LockState::Unknown } else { LockState::InForce };
                locks.push((Lock::read(kind, &object), in_force));
            };
            found.unread.extend(source.objects(&info, namespace, terminal, each).await?);
        }
        let compat = group_resource(COMPAT.0, COMPAT.1)?;
        found.miss(&compat.group, source).await?;
        if let Some(info) = source.kind_of(&compat).await? {
            let compat = &mut found.compat;
            let text = |object: &Value, pointer: &str| {
                object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            let each = |object: Value| {
                compat.insert((text(&object, "/metadata/namespace"), text(&object, "/metadata/name")));
            };
            found.unread.extend(source.objects(&info, namespace, terminal, each).await?);
        }
        Ok(found)
    }

    /// Records the kinds of a group that could not be read: any of them may be a kind of locks.
    async fn miss(&mut self, group: &Group, source: &Source) -> Result<(), Failure> {
        for unread in source.kinds().await?.unread_of(group) {
            if !self.unread.contains(unread) {
                self.unread.push(unread.clone());
            }
        }
        Ok(())
    }

    /// Returns true if there are no locks.
    pub(crate) fn is_empty(&self) -> bool {
        self.locks.is_empty() && self.compat.is_empty()
    }

    /// Returns the locks that keep an object from being deleted by anyone but their holders.
    pub(crate) fn of(
        &self,
        kind: &GroupResource,
        namespace: Option<&str>,
        name: &str,
        labels: &BTreeMap<String, String>,
    ) -> Vec<LockSummary> {
        let now = now();
        let parsed = namespace.and_then(|namespace| Namespace::parse(namespace).ok());
        let locks = self.locks.iter().filter(|(lock, _)| {
            let targets = lock.targets().iter().filter(|target| target.subresource.is_none());
            let mut targets = targets.filter(|target| target.is_about(kind, parsed.as_ref(), name, Some(labels)));
            // A lock that can't be read forbids the deletion of everything that it names.
            let forbids = lock.problem().is_some() || (lock.operations().delete && lock.holds_at(now));
            forbids && targets.next().is_some()
        });
        let locks = locks.map(|(lock, in_force)| LockSummary::new(lock, *in_force));
        let own = (namespace.unwrap_or_default().to_owned(), name.to_owned());
        let compat = self.compat.contains(&own).then(|| LockSummary {
            lock: format!("Lock {}/{}", own.0, own.1),
            reason: "applies if --compat-lock-kinds names the kind".to_owned(),
            held_by: String::new(),
            until: String::new(),
            in_force: false,
        });
        locks.chain(compat).collect()
    }
}

impl LockSummary {
    fn new(lock: &Lock, in_force: LockState) -> Self {
        Self {
            lock: lock.to_string(),
            reason: match lock.problem() {
                Some(problem) => format!("the lock can't be read: {problem}"),
                None => lock.reason().to_owned(),
            },
            held_by: lock.holder().to_string(),
            until: lock.expires().map(|expires| expires.to_string()).unwrap_or_default(),
            in_force: in_force == LockState::InForce,
        }
    }
}

fn group_resource(group: &str, resource: &str) -> Result<GroupResource, Failure> {
    Ok(GroupResource {
        group: Group::parse(group).map_err(Failure::new)?,
        resource: Resource::parse(resource).map_err(Failure::new)?,
    })
}

fn is_programmed(lock: &Value) -> bool {
    let conditions = lock.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let mut programmed = conditions.filter(|condition| condition.get("type").is_some_and(|it| it == "Programmed"));
    programmed.any(|condition| condition.get("status").is_some_and(|status| status == "True"))
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_unix_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
