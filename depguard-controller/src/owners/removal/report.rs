//! Report of a removal: the GlobalOwner's status, and its events.

use std::collections::BTreeSet;

use depguard_core::owners::Entry;
use depguard_kcp::Metadata;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::model::condition::Finding;
use crate::model::names::{RELEASING, REMOVING};
use crate::owners::api::{GLOBAL_OWNERS, GROUP_OWNERS, Names};
use crate::owners::removal::failures::{LONG, Memory};
use crate::owners::removal::look::LeftBehind;
use crate::owners::snapshot::{GlobalOwner, GroupOwner, Object, OwnerSnapshot, Role};
use crate::owners::status::status as with_conditions;
use crate::owners::write::{Next, Write};
use crate::runtime::events::Event;

/// Reason for a wait if nobody refused, and no finalizer holds the object.
pub(super) const UNDONE: &str =
    "depguard has tried for more than 30 s: the object changes each time before the write reaches it";
/// Maximum number of stuck things that a status names.
const MAX_STUCK: usize = 20;
/// Maximum number of characters in the message of each.
const MAX_WORDS: usize = 500;

/// Progress of a removal.
#[derive(Debug)]
pub(super) struct Progress {
    pub(super) phase: &'static str,
    /// Number of the wave that is being removed, from 1 on; `None` if all groups are done.
    pub(super) wave: Option<usize>,
    pub(super) waves: usize,
    /// Number of objects of this wave that are still there.
    pub(super) remaining: usize,
    pub(super) stuck: AllStuck,
    pub(super) left_behind: LeftBehind,
}

/// Things that do not go: the first few of them, and the number of all.
#[derive(Debug, Default)]
pub(super) struct AllStuck {
    first: Vec<Stuck>,
    count: usize,
}

/// Thing that does not go, and the reason.
#[derive(Debug)]
pub(super) struct Stuck {
    api_version: String,
    kind: String,
    namespace: Option<String>,
    name: String,
    why: String,
}

/// Returns the report while the order of the groups is not known.
pub(super) fn unordered(observed: &OwnerSnapshot, why: &str, memory: &Memory, now: Instant) -> Next {
    let uid = &observed.owner.uid;
    let mut stuck = AllStuck::default();
    if memory.is_long(uid, now) {
        let why = format!("the order of its groups comes from DependencyRules, which can't be read: {why}");
        stuck.push(|| Stuck::owner(&observed.owner, &why));
    }
    let left_behind = LeftBehind::of_groups(&observed.groups);
    let progress = Progress { phase: REMOVING, wave: None, waves: 0, remaining: 0, stuck, left_behind };
    Next {
        writes: events(observed, &progress).into_iter().map(Write::Event).collect(),
        waits: BTreeSet::from([uid.clone()]),
        status: Some(status(observed, &progress)),
        ..Next::default()
    }
}

/// Returns the status that the GlobalOwner should have.
pub(super) fn status(observed: &OwnerSnapshot, progress: &Progress) -> Value {
    let old = observed.owner.object.get("status");
    let mut more = Map::from_iter([
        ("phase".to_owned(), json!(progress.phase)),
        ("waves".to_owned(), json!(progress.waves)),
        ("remaining".to_owned(), json!(progress.remaining)),
    ]);
    if let Some(wave) = progress.wave {
        more.insert("wave".to_owned(), json!(wave));
    }
    if let Some(plan) = old.and_then(|old| old.get("plan")) {
        more.insert("plan".to_owned(), plan.clone());
    }
    if progress.stuck.count > 0 {
        more.insert("stuck".to_owned(), progress.stuck.first.iter().map(Stuck::told).collect());
        more.insert("stuckCount".to_owned(), json!(progress.stuck.count));
    }
    more.extend(progress.left_behind.fields());
    let (reason, message) = match progress.stuck.told() {
        None => (progress.phase, progress.told()),
        Some(stuck) => ("Stuck", format!("{}; {stuck}", progress.told())),
    };
    let ready = ("Ready", Finding::no(reason, message));
    with_conditions(old, observed.owner.generation, &observed.now, [ready], Value::Object(more))
}

/// Returns events for the differences from the GlobalOwner's present status.
pub(super) fn events(observed: &OwnerSnapshot, progress: &Progress) -> Vec<Value> {
    let owner = &observed.owner.object;
    let told = |field: &str| owner.pointer(&format!("/status/{field}")).and_then(Value::as_u64).unwrap_or_default();
    let before = if observed.owner.phase() == Some(progress.phase) { usize::try_from(told("wave")).ok() } else { None };
    let mut events = Vec::new();
    let api_version = Names::api_version();
    let about = Event { api_version: &api_version, kind: GLOBAL_OWNERS.kind, object: owner };
    let mut event = |kind, reason, message| events.push(about.told(kind, reason, message, &observed.now));
    let before = before.filter(|before| *before > 0);
    // Without a known order there are no waves.
    if before != progress.wave && progress.waves > 0 {
        if let Some(before) = before {
            event("Normal", "WaveDone", format!("wave {before} of {}: no objects are left", progress.waves));
        }
        if progress.wave.is_some() {
            event("Normal", "WaveBegun", progress.told());
        }
    }
    if let Some(stuck) = progress.stuck.told()
        && (told("stuckCount") == 0 || before != progress.wave)
    {
        event("Warning", "Stuck", stuck);
    }
    if progress.left_behind.tells_more_than(&LeftBehind::read(owner.get("status"))) {
        event("Warning", "LeftBehind", progress.left_behind.told());
    }
    events
}

/// Returns true if the status says that all groups are done: the GroupOwners and roles go, and nothing is made again.
pub(super) fn is_ending(observed: &OwnerSnapshot) -> bool {
    let field = |field: &str| observed.owner.object.pointer(&format!("/status/{field}"));
    let has_waves = field("waves").and_then(Value::as_u64).is_some_and(|waves| waves > 0);
    observed.owner.phase() == Some(REMOVING) && has_waves && field("wave").is_none()
}

/// Returns the reason why something that is being deleted is not gone. `None` unless it has been waited for long, or
/// its deletionTimestamp is long ago.
pub(super) fn held(metadata: &Metadata, now: &str, is_long: bool) -> Option<String> {
    let since = metadata.deletion_timestamp.as_deref()?;
    let seconds = |time: &str| time.parse().ok().map(Timestamp::as_second);
    let elapsed = seconds(now).zip(seconds(since)).map(|(now, since)| now.saturating_sub(since));
    let limit = i64::try_from(LONG.as_secs()).unwrap_or(i64::MAX);
    if !is_long && elapsed.is_none_or(|elapsed| elapsed <= limit) {
        return None;
    }
    Some(match metadata.finalizers.join(", ") {
        none if none.is_empty() => format!("its deletion began at {since}"),
        finalizers => format!("its deletion began at {since}, and its finalizers hold it: {finalizers}"),
    })
}

/// Returns `1 object is` or `2 objects are`.
fn counted(count: usize) -> String {
    if count == 1 { "1 object is".to_owned() } else { format!("{count} objects are") }
}

impl Progress {
    fn told(&self) -> String {
        let Self { wave, waves, remaining, .. } = self;
        match (wave, self.phase == RELEASING) {
            (Some(_), true) => format!("{} to be released", counted(*remaining)),
            (None, _) if *waves == 0 => "the order of the groups is not known yet".to_owned(),
            (Some(wave), false) => format!("wave {wave} of {waves}: {} left", counted(*remaining)),
            (None, _) => "only the GroupOwners and ClusterRoles that depguard made are left to remove".to_owned(),
        }
    }
}

impl AllStuck {
    pub(super) fn push(&mut self, stuck: impl FnOnce() -> Stuck) {
        self.count = self.count.saturating_add(1);
        if self.first.len() < MAX_STUCK {
            self.first.push(stuck());
        }
    }

    /// Returns the number of stuck things, and the first one with its reason; `None` if nothing is stuck.
    fn told(&self) -> Option<String> {
        let first = self.first.first()?;
        Some(match self.count {
            1 => format!("1 is stuck: {first}"),
            count => format!("{count} are stuck, such as {first}"),
        })
    }
}

impl Stuck {
    pub(super) fn object(entry: &Entry, kind: &str, object: &Object, why: &str) -> Self {
        let metadata = &object.metadata;
        Self::new(entry.api_version(), kind, metadata.namespace.clone(), &metadata.name, why)
    }

    pub(super) fn group(group: &GroupOwner, why: &str) -> Self {
        Self::group_of_name(&group.name, why)
    }

    pub(super) fn group_of_name(name: &str, why: &str) -> Self {
        Self::new(Names::api_version(), GROUP_OWNERS.kind, None, name, why)
    }

    pub(super) fn owner(owner: &GlobalOwner, why: &str) -> Self {
        Self::new(Names::api_version(), GLOBAL_OWNERS.kind, None, &owner.name, why)
    }

    pub(super) fn role(role: &Role, why: &str) -> Self {
        Self::new("rbac.authorization.k8s.io/v1".to_owned(), "ClusterRole", None, &role.name, why)
    }

    fn new(api_version: String, kind: &str, namespace: Option<String>, name: &str, why: &str) -> Self {
        let why = why.chars().take(MAX_WORDS).collect();
        Self { api_version, kind: kind.to_owned(), namespace, name: name.to_owned(), why }
    }

    fn told(&self) -> Value {
        let Self { api_version, kind, name, why, .. } = self;
        let mut told = json!({"apiVersion": api_version, "kind": kind, "name": name, "message": why});
        if let (Some(namespace), Some(told)) = (&self.namespace, told.as_object_mut()) {
            told.insert("namespace".to_owned(), json!(namespace));
        }
        told
    }
}

/// Writes `ConfigMap default/a: why`.
impl std::fmt::Display for Stuck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ", self.kind)?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        write!(f, "{}: {}", self.name, self.why)
    }
}
