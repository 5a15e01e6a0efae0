//! What is said about a removal: the GlobalOwner's status, and its events.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::RELEASING;
use crate::events::Event;
use crate::findings::Finding;
use crate::owners::api::{GLOBAL_OWNERS, GROUP_OWNERS, Names};
use crate::owners::observed::{GroupOwner, Object, Observed, Role};
use crate::owners::spec::Entry;
use crate::owners::status::status as with_conditions;

/// How long an object may take to go before it is said to be stuck: finalizers are expected to take a while.
const LONG: i64 = 30;
/// The most of those that are stuck that a status names.
const MOST_STUCK: usize = 20;
/// The most characters of each one's message.
const MOST_WORDS: usize = 500;

/// How far a removal has come.
#[derive(Debug)]
pub(super) struct Progress {
    pub(super) phase: &'static str,
    /// Which wave is being removed, from 1 on; `None`: all are.
    pub(super) wave: Option<usize>,
    pub(super) waves: usize,
    /// Objects of that wave that are there yet.
    pub(super) remaining: usize,
    pub(super) stuck: AllStuck,
}

/// What does not go: the first few of them, and how many.
#[derive(Debug, Default)]
pub(super) struct AllStuck {
    first: Vec<Stuck>,
    count: usize,
}

/// One that does not go, and why.
#[derive(Debug)]
pub(super) struct Stuck {
    api_version: String,
    kind: String,
    namespace: Option<String>,
    name: String,
    why: String,
}

/// The status that a GlobalOwner is to have.
pub(super) fn status(observed: &Observed, progress: &Progress) -> Value {
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
    let (reason, message) = match progress.stuck.first.first() {
        None => (progress.phase, progress.told()),
        Some(first) => ("Stuck", format!("{}; {} don't go, as {first}", progress.told(), progress.stuck.count)),
    };
    let ready = ("Ready", Finding::no(reason, message));
    with_conditions(old, observed.owner.generation, &observed.now, [ready], Value::Object(more))
}

/// The events for what is different from what the GlobalOwner's status says.
pub(super) fn events(observed: &Observed, progress: &Progress) -> Vec<Value> {
    let owner = &observed.owner.object;
    let told = |field: &str| owner.pointer(&format!("/status/{field}")).and_then(Value::as_u64).unwrap_or_default();
    let before = if observed.owner.phase() == Some(progress.phase) { usize::try_from(told("wave")).ok() } else { None };
    let mut events = Vec::new();
    let api_version = Names::api_version();
    let about = Event { api_version: &api_version, kind: GLOBAL_OWNERS.kind, object: owner };
    let mut event = |kind, reason, message| events.push(about.told(kind, reason, message, &observed.now));
    let before = before.filter(|before| *before > 0);
    if before != progress.wave {
        if let Some(before) = before {
            event("Normal", "WaveDone", format!("wave {before} of {}: nothing is left", progress.waves));
        }
        if progress.wave.is_some() {
            event("Normal", "WaveBegun", progress.told());
        }
    }
    if let Some(first) = progress.stuck.first.first()
        && (told("stuckCount") == 0 || before != progress.wave)
    {
        event("Warning", "Stuck", format!("{} don't go, as {first}", progress.stuck.count));
    }
    events
}

/// Why an object that is being deleted is not gone, where it has been for long.
pub(super) fn held(object: &Object, now: &str) -> Option<String> {
    let since = object.metadata.deletion_timestamp.as_deref()?;
    let seconds = |time: &str| time.parse().ok().map(Timestamp::as_second);
    let is_long = seconds(now)?.saturating_sub(seconds(since)?) > LONG;
    let finalizers = object.metadata.finalizers.join(", ");
    is_long.then(|| format!("it is being deleted since {since}, and held by its finalizers: {finalizers}"))
}

impl Progress {
    fn told(&self) -> String {
        let Self { wave, waves, remaining, .. } = self;
        match (wave, self.phase == RELEASING) {
            (Some(_), true) => format!("{remaining} objects are to be released"),
            (Some(wave), false) => format!("wave {wave} of {waves}: {remaining} objects are left"),
            (None, _) => "nothing is left to remove but the GroupOwners and ClusterRoles that depguard made".to_owned(),
        }
    }
}

impl AllStuck {
    pub(super) fn push(&mut self, stuck: impl FnOnce() -> Stuck) {
        self.count = self.count.saturating_add(1);
        if self.first.len() < MOST_STUCK {
            self.first.push(stuck());
        }
    }
}

impl Stuck {
    pub(super) fn object(entry: &Entry, kind: &str, object: &Object, why: &str) -> Self {
        let metadata = &object.metadata;
        let version = match entry.resource.group.is_core() {
            true => entry.resource.version.to_string(),
            false => format!("{}/{}", entry.resource.group, entry.resource.version),
        };
        Self::new(version, kind, metadata.namespace.clone(), &metadata.name, why)
    }

    pub(super) fn group(group: &GroupOwner, why: &str) -> Self {
        Self::new(Names::api_version(), GROUP_OWNERS.kind, None, &group.name, why)
    }

    pub(super) fn role(role: &Role, why: &str) -> Self {
        Self::new("rbac.authorization.k8s.io/v1".to_owned(), "ClusterRole", None, &role.name, why)
    }

    fn new(api_version: String, kind: &str, namespace: Option<String>, name: &str, why: &str) -> Self {
        let why = why.chars().take(MOST_WORDS).collect();
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

/// `ConfigMap default/a: why`
impl std::fmt::Display for Stuck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ", self.kind)?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        write!(f, "{}: {}", self.name, self.why)
    }
}
