//! What is said on each lock: pure.

use std::collections::{BTreeMap, BTreeSet};

use depguard_core::Unreviewed;
use serde_json::{Value, json};

use super::CONFIGURATION;
use super::plan::{LockKey, Seen, World};
use crate::findings::{Finding, Findings, conditions};
use crate::plan::Place;
use crate::programmed::{Installing, of_outcome};
use crate::status::Outcome;

/// What somebody must act on comes before what only waits.
const ORDER: [&str; 12] = [
    "Invalid",
    "NotPossible",
    "Vital",
    "KindNotServed",
    "NotBound",
    "ClaimNotAccepted",
    "ForeignConfiguration",
    "TableNotWritten",
    "ApplyFailed",
    "NewerConfiguration",
    "Unbinding",
    "Pending",
];

/// What carrying out a plan showed.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) outcomes: BTreeMap<Place, Outcome>,
    /// Places that nobody lets depguard into.
    pub(super) unbound: BTreeSet<Place>,
    /// The locks whose tables could not be put right, and why.
    pub(super) tables: BTreeMap<LockKey, String>,
}

/// The status of a lock. `now` is RFC 3339.
pub(super) fn status(world: &World<'_>, seen: &Seen<'_>, found: &Found, now: &str) -> Value {
    let generation = seen.object.pointer("/metadata/generation").and_then(Value::as_i64);
    let findings = [("Accepted", accepted(seen)), ("Programmed", programmed(world, seen, found))];
    let conditions = conditions(findings, seen.object.get("status"), generation, now);
    let mut status = json!({"conditions": conditions});
    if let (Some(status), Some(generation)) = (status.as_object_mut(), generation) {
        status.insert("observedGeneration".to_owned(), json!(generation));
    }
    status
}

/// Whether what is stored says that the lock is programmed, as it is now.
pub(super) fn is_programmed(seen: &Seen<'_>) -> bool {
    let generation = seen.object.pointer("/metadata/generation").and_then(Value::as_i64);
    let conditions = seen.object.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        condition.get("type").and_then(Value::as_str) == Some("Programmed")
            && condition.get("status").and_then(Value::as_str) == Some("True")
            && condition.get("observedGeneration").and_then(Value::as_i64) == generation
    })
}

fn accepted(seen: &Seen<'_>) -> Finding {
    match seen.lock.problem() {
        None => Finding::yes("Accepted", "the lock can be used"),
        Some(problem) => Finding::no(
            "Invalid",
            format!(
                "{problem}: until that is put right, the lock holds whatever of it can't be read, for all operations, \
                 fields and times, and nobody is its holder"
            ),
        ),
    }
}

fn programmed(world: &World<'_>, seen: &Seen<'_>, found: &Found) -> Finding {
    if !world.counts(&seen.lock) {
        return Finding::no("Expired", "the lock has ended and locks nothing any more: delete it");
    }
    let mut findings = Findings::default();
    if seen.lock.targets().is_empty() {
        findings.push(Finding::no("Invalid", "the lock names nothing that can be read, so it locks nothing"));
    } else if world.targets(seen).next().is_none() {
        let own = world.own_namespace.unwrap_or_default();
        findings.push(Finding::no(
            "Invalid",
            format!("the lock locks nothing: {own} is depguard's own namespace, where nothing is locked"),
        ));
    }
    if let Some(why) = found.tables.get(&seen.key) {
        let message = format!("the lock could not be noted where reviews look for it, trying again: {why}");
        findings.push(Finding::no("TableNotWritten", message));
    }
    let mut kinds = BTreeSet::new();
    for target in world.targets(seen) {
        let (kind, of) = (&target.kind, target.subresource.as_deref());
        if let Some(why) = Unreviewed::of(kind) {
            findings.push(Finding::no("NotPossible", format!("{kind} can't be locked: they {why}")));
            continue;
        }
        match world.kinds.serves(&seen.key.cluster, kind, of) {
            Ok(true) => {}
            Ok(false) => findings.push(Finding::no(
                "KindNotServed",
                format!(
                    "there is no {} in any version: correct the target's group and resource (the plural, in lower case), \
                     or install the kind",
                    shown(kind, of)
                ),
            )),
            Err(why) => findings.push(Finding::unknown(
                "Unseen",
                format!("it could not be seen whether there is a {}: {why}", shown(kind, of)),
            )),
        }
        if world.is_out_of_reach(target) {
            findings.push(Finding::no(
                "NotPossible",
                format!(
                    "{} can't be locked in a kcp, which does not say of it in which workspace it is",
                    shown(kind, of)
                ),
            ));
            continue;
        }
        if let Some(vital) = world.withheld(target) {
            findings.push(Finding::no(
                "Vital",
                format!(
                    "{vital} is not locked: a cluster's own controllers can't do without it, and while the webhook is away \
                     nobody could; an operator lists it at the controller, --vital-lock-kinds={vital}"
                ),
            ));
            continue;
        }
        match world.place(&seen.key, kind) {
            Ok(place) => findings.extend(of_place(&place, kind, found)),
            Err(why) => findings.push(Finding::unknown(
                "Unseen",
                format!("it could not be seen which APIExport serves {kind} here: {why}"),
            )),
        }
        kinds.insert(shown(kind, of));
    }
    let kinds: Vec<_> = kinds.into_iter().collect();
    findings.sum_up(&ORDER, "Programmed", &format!("what is done to {} is reviewed", kinds.join(", ")))
}

fn of_place(place: &Place, kind: &depguard_core::GroupResource, found: &Found) -> Option<Finding> {
    let shown = match place {
        Some(cluster) => format!("the workspace with logical cluster {cluster}"),
        None => "the cluster".to_owned(),
    };
    if found.unbound.contains(place) {
        return Some(Finding::no(
            "NotBound",
            format!(
                "{kind} can't be locked: nothing can be installed in {shown}, whose APIExport serves it, before that \
                 workspace binds depguard"
            ),
        ));
    }
    let installing = Installing { name: CONFIGURATION, place: &shown, export: "depguard" };
    of_outcome(&installing, found.outcomes.get(place))
}

pub(super) fn shown(kind: &depguard_core::GroupResource, of: Option<&str>) -> String {
    let Some(of) = of else { return kind.to_string() };
    let dot = if kind.group.is_core() { "" } else { "." };
    format!("{}/{of}{dot}{}", kind.resource, kind.group)
}
