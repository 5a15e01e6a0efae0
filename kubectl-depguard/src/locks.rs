//! The locks of a place, and what they keep from being deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use depguard_core::locks::{Lock, LockKind, Moment};
use depguard_core::{Group, GroupResource, Namespace, Resource, api};
use serde::Serialize;
use serde_json::Value;

use crate::outcome::Failure;
use crate::rules::Unread;
use crate::source::Source;
use crate::terminal::Terminal;

/// The locks that there are, whatever they lock.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    locks: Vec<(Lock, InForce)>,
    /// Namespace and name of the older tool's Locks.
    compat: BTreeSet<(String, String)>,
    /// What could not be looked at.
    pub(crate) unread: Vec<Unread>,
}

/// Whether API servers ask about what a lock locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InForce {
    Yes,
    /// Its condition `Programmed` isn't true yet, or the kinds of an older lock are named at the webhook alone.
    Perhaps,
}

/// A lock of one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LockedBy {
    /// `ObjectLock default/freeze`
    pub(crate) lock: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) held_by: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) until: String,
    /// Whether API servers are known to ask about it.
    pub(crate) in_force: bool,
}

/// Group and resource of the older tool's locks.
const COMPAT: (&str, &str) = ("kotas.tech", "locks");

impl Locks {
    /// Reads the locks of a namespace, or of all, and those that are in none. Where their kinds are not known there are none.
    pub(crate) async fn read(
        source: &Source,
        namespace: Option<&Namespace>,
        terminal: &Terminal,
    ) -> Result<Self, Failure> {
        let mut found = Self::default();
        for kind in LockKind::ALL {
            let Some(info) = source.kind_of(&group_resource(api::GROUP, kind.plural())?).await? else { continue };
            let is_live = matches!(source, Source::Live(_));
            let locks = &mut found.locks;
            let each = |object: Value| {
                let in_force = if is_live && !is_programmed(&object) { InForce::Perhaps } else { InForce::Yes };
                locks.push((Lock::read(kind, &object), in_force));
            };
            found.unread.extend(source.objects(&info, namespace, terminal, each).await?);
        }
        if let Some(info) = source.kind_of(&group_resource(COMPAT.0, COMPAT.1)?).await? {
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

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.locks.is_empty() && self.compat.is_empty()
    }

    /// Those that keep an object from being deleted by anyone but their holders.
    pub(crate) fn of(
        &self,
        kind: &GroupResource,
        namespace: Option<&str>,
        name: &str,
        labels: &BTreeMap<String, String>,
    ) -> Vec<LockedBy> {
        let now = now();
        let parsed = namespace.and_then(|namespace| Namespace::parse(namespace).ok());
        let locks = self.locks.iter().filter(|(lock, _)| {
            let targets = lock.targets().iter().filter(|target| target.subresource.is_none());
            let mut targets = targets.filter(|target| target.is_about(kind, parsed.as_ref(), name, Some(labels)));
            // One that can't be read forbids whatever it names.
            let forbids = lock.problem().is_some() || (lock.operations().delete && lock.holds_at(now));
            forbids && targets.next().is_some()
        });
        let locks = locks.map(|(lock, in_force)| LockedBy::of(lock, *in_force));
        let own = (namespace.unwrap_or_default().to_owned(), name.to_owned());
        let compat = self.compat.contains(&own).then(|| LockedBy {
            lock: format!("Lock {}/{}", own.0, own.1),
            reason: "where its kind is among --compat-lock-kinds".to_owned(),
            held_by: String::new(),
            until: String::new(),
            in_force: false,
        });
        locks.chain(compat).collect()
    }
}

impl LockedBy {
    fn of(lock: &Lock, in_force: InForce) -> Self {
        Self {
            lock: lock.to_string(),
            reason: match lock.problem() {
                Some(problem) => format!("the lock can't be read: {problem}"),
                None => lock.reason().to_owned(),
            },
            held_by: lock.holder().to_string(),
            until: lock.expires().map(|expires| expires.to_string()).unwrap_or_default(),
            in_force: in_force == InForce::Yes,
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

fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment::from_unix_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
