//! Status of each lock: pure.

use std::collections::{BTreeMap, BTreeSet};

use depguard_core::protocol::Unreviewed;
use serde_json::{Value, json};

use crate::locks::lock_kinds::Served;
use crate::locks::plan::{LockKey, LockSnapshot, PlanInput};
use crate::model::condition::{Finding, Findings, conditions};
use crate::model::install_outcome::Outcome;
use crate::model::install_place::InstallPlace;
use crate::model::names::LOCKS_CONFIGURATION;
use crate::model::vital_kind::shown;
use crate::rules::programmed::{Installing, of_outcome};

/// Condition of a lock that holds.
pub(super) const PROGRAMMED: &str = "Programmed";

/// Order of reasons: those on which somebody must act come before those that only wait.
const ORDER: [&str; 13] = [
    "Invalid",
    "NotPossible",
    "Vital",
    "WrongScope",
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

/// Results of carrying out a plan.
#[derive(Debug, Default)]
pub(super) struct RoundOutcomes {
    pub(super) outcomes: BTreeMap<InstallPlace, Outcome>,
    /// Places that have bound neither of depguard's exports.
    pub(super) unbound: BTreeSet<InstallPlace>,
    /// Locks whose tables could not be repaired, each with the reason.
    pub(super) tables: BTreeMap<LockKey, String>,
}

/// Returns the status of a lock, whose stored `object` has the present one. `now` is in RFC 3339.
pub(super) fn status(
    input: &PlanInput<'_>,
    seen: &LockSnapshot<'_>,
    object: &Value,
    found: &RoundOutcomes,
    now: &str,
) -> Value {
    let generation = object.pointer("/metadata/generation").and_then(Value::as_i64);
    let findings = [("Accepted", accepted(seen)), (PROGRAMMED, programmed(input, seen, found))];
    let conditions = conditions(findings, object.get("status"), generation, now);
    let mut status = json!({"conditions": conditions});
    if let (Some(status), Some(generation)) = (status.as_object_mut(), generation) {
        status.insert("observedGeneration".to_owned(), json!(generation));
    }
    status
}

fn accepted(seen: &LockSnapshot<'_>) -> Finding {
    match seen.lock.problem() {
        None => Finding::yes("Accepted", "the lock can be used"),
        Some(problem) => Finding::no(
            "Invalid",
            format!(
                "{problem}: until this is corrected, unreadable parts of the lock apply to all operations, fields and \
                 times, and nobody counts as its holder"
            ),
        ),
    }
}

fn programmed(input: &PlanInput<'_>, seen: &LockSnapshot<'_>, found: &RoundOutcomes) -> Finding {
    if !input.counts(&seen.lock) {
        return Finding::no("Expired", "the lock has ended and locks nothing any more: delete it");
    }
    let mut findings = Findings::default();
    if seen.lock.targets().is_empty() {
        findings.push(Finding::no("Invalid", "no target of the lock can be read, so it locks nothing"));
    } else if input.targets(seen).next().is_none() {
        let own = input.own_namespace.unwrap_or_default();
        findings.push(Finding::no(
            "Invalid",
            format!("the lock locks nothing: depguard locks no objects in its own namespace {own}"),
        ));
    }
    if let Some(why) = found.tables.get(&seen.key) {
        let message =
            format!("could not write the lock into its LockTable, so reviews do not find it yet; trying again: {why}");
        findings.push(Finding::no("TableNotWritten", message));
    }
    let mut kinds = BTreeSet::new();
    for target in input.targets(seen) {
        let (kind, of) = (&target.kind, target.subresource.as_deref());
        if let Some(why) = Unreviewed::from_kind(kind) {
            findings.push(Finding::no("NotPossible", format!("{kind} can't be locked: they {why}")));
            continue;
        }
        match input.kinds.serves(&seen.key.cluster, kind, of) {
            Ok(Served::Yes { namespaced: Some(namespaced) }) => {
                let why = target.wrong_scope(seen.key.kind, namespaced);
                findings.extend(why.map(|why| Finding::no("WrongScope", why)));
            }
            Ok(Served::Yes { namespaced: None }) => findings.push(Finding::unknown(
                "Unseen",
                format!("could not find out whether {} are in namespaces, as the target says", shown(kind, of)),
            )),
            Ok(Served::No) => findings.push(Finding::no(
                "KindNotServed",
                format!(
                    "the API server does not serve {} in any version: correct the target's group and resource (the \
                     plural, in lower case), or install the kind",
                    shown(kind, of)
                ),
            )),
            Err(why) => findings.push(Finding::unknown(
                "Unseen",
                format!("could not find out whether the API server serves {}: {why}", shown(kind, of)),
            )),
        }
        if input.is_out_of_reach(target) {
            findings.push(Finding::no(
                "NotPossible",
                format!(
                    "{} can't be locked in kcp: kcp's requests about it do not name the workspace",
                    shown(kind, of)
                ),
            ));
            continue;
        }
        if let Some(vital) = input.withheld(target) {
            findings.push(Finding::no(
                "Vital",
                format!(
                    "{vital} is not locked: the cluster's own controllers write it, and could not while the webhook \
                     is away; to lock it all the same, set --vital-lock-kinds={vital} on the controller"
                ),
            ));
            continue;
        }
        match input.place(&seen.key, kind) {
            Ok(place) => findings.extend(of_place(&place, kind, found)),
            Err(why) => findings.push(Finding::unknown(
                "Unseen",
                format!("could not find out which APIExport serves {kind} in this workspace: {why}"),
            )),
        }
        kinds.insert(shown(kind, of));
    }
    let kinds: Vec<_> = kinds.into_iter().collect();
    findings.sum_up(&ORDER, PROGRAMMED, &format!("the webhook reviews requests on {}", kinds.join(", ")))
}

fn of_place(
    place: &InstallPlace,
    kind: &depguard_core::model::GroupResource,
    found: &RoundOutcomes,
) -> Option<Finding> {
    let shown = match place {
        Some(cluster) => format!("the workspace with logical cluster {cluster}"),
        None => "the cluster".to_owned(),
    };
    if found.unbound.contains(place) {
        return Some(Finding::no(
            "NotBound",
            format!(
                "{kind} can't be locked yet: its APIExport is in {shown}, which has not bound depguard, so the \
                 webhook configuration can't be installed there; create the APIBinding there"
            ),
        ));
    }
    let installing = Installing { name: LOCKS_CONFIGURATION, place: &shown, export: "depguard" };
    of_outcome(&installing, found.outcomes.get(place))
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use depguard_core::ControlPlane;
    use depguard_core::locks::{LockKind, Timestamp};
    use depguard_kcp::ObjectText;

    use super::*;
    use crate::locks::lock_kinds::Kinds;
    use crate::testing;

    const NOW: &str = "2026-01-01T00:00:00Z";

    fn said(kind: LockKind, target: &Value, served: Served) -> String {
        let object = json!({
            "metadata": {"name": "l", "namespace": (kind == LockKind::ObjectLock).then_some("a")},
            "spec": {"targets": [target]},
        });
        let kinds = Kinds::of_one(&testing::kind("as.example.com"), served);
        let key = LockKey { cluster: None, kind, name: "l".to_owned() };
        let input = PlanInput {
            control_plane: ControlPlane::Kubernetes,
            now: Timestamp::parse(NOW).unwrap(),
            own_namespace: None,
            vital: &BTreeSet::new(),
            locks: vec![LockSnapshot::read(key, Cow::Owned(ObjectText::new(&object)), "")],
            kinds: &kinds,
        };
        let found = RoundOutcomes { outcomes: [(None, Outcome::Installed)].into(), ..RoundOutcomes::default() };
        let status = status(&input, &input.locks[0], &object, &found, NOW);
        let text = |field: &str| status["conditions"][1][field].as_str().unwrap().to_owned();
        format!("{} {}: {}", text("status"), text("reason"), text("message"))
    }

    #[test]
    fn a_target_that_means_no_object_of_its_scope_says_which_form_would_lock() {
        let target = |more: &Value| {
            let mut target = json!({"group": "example.com", "resource": "as"});
            target.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            target
        };
        let [name, all] = [json!({"name": "x"}), json!({"selector": {}})].map(|pick| target(&pick));
        let [name_there, all_there] =
            [json!({"name": "x", "namespace": "a"}), json!({"selector": {}, "namespace": "a"})]
                .map(|pick| target(&pick));
        let (own, cluster) = (LockKind::ObjectLock, LockKind::ClusterObjectLock);
        let holds = "True Programmed: the webhook reviews requests on as.example.com";
        let take_other = "False WrongScope: as.example.com have no namespace, so an ObjectLock locks none of them: take a \
             ClusterObjectLock";
        let leave_out = "False WrongScope: as.example.com have no namespace, so a target with a namespace locks none of them: leave \
             the target's namespace out";
        let write = "False WrongScope: as.example.com are in namespaces, so a target without a namespace locks no object named x: \
             write the target's namespace, or take an ObjectLock in that namespace";
        for (lock, target, of_namespaced, of_others) in [
            (own, &name, holds, take_other),
            (own, &all, holds, take_other),
            (cluster, &name, write, holds),
            (cluster, &all, holds, holds),
            (cluster, &name_there, holds, leave_out),
            (cluster, &all_there, holds, leave_out),
        ] {
            let of = |namespaced| said(lock, target, Served::Yes { namespaced });
            assert_eq!([of(Some(true)), of(Some(false))], [of_namespaced, of_others], "{lock:?} {target}");
            assert!(of(None).starts_with("Unknown Unseen: could not find out whether as.example.com are in"));
            assert!(said(lock, target, Served::No).starts_with("False KindNotServed: "));
        }
    }
}
