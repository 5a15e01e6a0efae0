//! Statuses of GlobalOwners and GroupOwners.

use depguard_core::owners::{Entry, Order};
use depguard_kcp::Metadata;
use serde_json::{Value, json};

use crate::model::condition::{Finding, conditions};
use crate::model::names::OWNING;
use crate::owners::adoption::GroupObjects;
use crate::owners::removal::is_anothers;
use crate::owners::removal::order::{self, Plan};
use crate::owners::snapshot::{GroupOwner, OwnerSnapshot};
use crate::owners::write::Write;

/// Maximum number of objects that a GroupOwner's status names.
const MAX_OWNED: usize = 500;
/// Maximum number of objects that a message names.
const MAX_NAMED: usize = 5;

/// Group, with the objects that were found for it.
pub(crate) struct GroupReport<'v> {
    pub(crate) index: usize,
    pub(crate) entry: &'v Entry,
    pub(crate) group: Option<&'v GroupOwner>,
    pub(crate) group_objects: GroupObjects,
}

/// Returns the status of a GlobalOwner that can't be acted on: its objects stay as they are.
pub(crate) fn refused(observed: &OwnerSnapshot, reason: &'static str, why: String) -> Value {
    let findings =
        [("Accepted", Finding::no(reason, why)), ("Ready", Finding::no(reason, "the GlobalOwner is not accepted"))];
    let old = observed.owner.object.get("status");
    status(old, observed.owner.generation, &observed.now, findings, json!({"phase": OWNING}))
}

/// Returns the status of a GlobalOwner that owns its objects.
pub(crate) fn of_owner(observed: &OwnerSnapshot, groups: &[GroupReport<'_>]) -> Value {
    let accepted = Finding::yes("Accepted", "depguard owns the selected objects");
    let adopted = adopted(observed, groups);
    let owned: usize = groups.iter().map(|grouped| grouped.group_objects.owned.len()).sum();
    let ready = match adopted.status {
        "True" => Finding::yes("Ready", format!("{owned} objects in {} groups are owned", groups.len())),
        _ => Finding::no(
            adopted.reason,
            format!("{owned} objects are owned, and others are not yet: see the condition Adopted"),
        ),
    };
    let old = observed.owner.object.get("status");
    let plan = plan(observed, groups);
    let ordered = ordered(observed, &plan).map(|ordered| ("Ordered", ordered));
    let findings = [Some(("Accepted", accepted)), Some(("Adopted", adopted)), ordered, Some(("Ready", ready))];
    let more = json!({"phase": OWNING, "remaining": owned, "plan": plan.waves});
    status(old, observed.owner.generation, &observed.now, findings.into_iter().flatten(), more)
}

/// Returns the order in which all groups would be removed.
fn plan(observed: &OwnerSnapshot, groups: &[GroupReport<'_>]) -> Plan {
    let owner = &observed.owner;
    let objects = |index: usize| {
        let grouped = groups.iter().find(|grouped| grouped.index == index)?;
        grouped.group_objects.unseen.is_none().then_some(grouped.group_objects.owned.len())
    };
    let entries = owner.entries.as_deref().unwrap_or_default();
    order::plan((&owner.name, Some(&owner.uid)), owner.order, entries, observed.usable_rules(), objects)
}

/// Returns the condition `Ordered`, if the groups are to go in the order of rules.
fn ordered(observed: &OwnerSnapshot, plan: &Plan) -> Option<Finding> {
    if observed.owner.order != Order::ByRules {
        return None;
    }
    if !plan.cycles.is_empty() {
        let cycles: Vec<_> =
            plan.cycles.iter().map(|cycle| cycle.iter().cloned().collect::<Vec<_>>().join(", ")).collect();
        let message = format!(
            "these kinds refer to each other in a cycle and are removed at the same time: {}",
            bounded(&cycles)
        );
        return Some(Finding::no("Cycle", message));
    }
    let broken = observed.rules.iter().filter(|rule| rule.rule().is_err());
    let broken: Vec<_> = broken.map(|rule| rule.key().name.as_str()).collect();
    if !broken.is_empty() {
        let message = format!("the order ignores these invalid rules: {}", bounded(&broken));
        return Some(Finding::no("InvalidRules", message));
    }
    Some(Finding::yes("Ordered", format!("the rules result in {} waves", plan.waves.len())))
}

/// Returns the write of a GroupOwner's status, if the status changes.
pub(crate) fn of_group(grouped: &GroupReport<'_>, observed: &OwnerSnapshot) -> Option<Write> {
    let group = grouped.group.filter(|group| !group.is_deleting)?;
    let GroupObjects { owned, kind, unseen, .. } = &grouped.group_objects;
    let old = group.object.get("status");
    // Objects that are not seen may still be owned.
    let mut more = match unseen {
        Some(_) => {
            let known = |field| old.and_then(|old| old.get(field));
            json!({"owned": known("owned"), "ownedResources": known("ownedResources")})
        }
        None => {
            let version = grouped.entry.api_version();
            let shown = owned.iter().take(MAX_OWNED).map(|object| {
                let Metadata { name, namespace, .. } = &object.metadata;
                match namespace {
                    Some(namespace) => {
                        json!({"apiVersion": version, "kind": kind, "name": name, "namespace": namespace})
                    }
                    None => json!({"apiVersion": version, "kind": kind, "name": name}),
                }
            });
            json!({"owned": owned.len(), "ownedResources": shown.collect::<Vec<_>>()})
        }
    };
    if let Some(fields) = more.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
        fields.insert("phase".to_owned(), json!(OWNING));
    }
    let adopted = adopted(observed, std::slice::from_ref(grouped));
    let generation = group.object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
    let desired = status(old, generation, &observed.now, [("Adopted", adopted)], more);
    if old == Some(&desired) || observed.owner.entries.is_err() {
        return None;
    }
    let mut object = group.object.clone();
    object.as_object_mut()?.insert("status".to_owned(), desired);
    Some(Write::MarkGroup { uid: group.uid.clone(), object })
}

/// Returns the condition `Adopted`: true if all selected objects are owned.
fn adopted(observed: &OwnerSnapshot, groups: &[GroupReport<'_>]) -> Finding {
    let unseen: Vec<_> = groups.iter().filter_map(|grouped| grouped.group_objects.unseen.as_deref()).collect();
    if !unseen.is_empty() {
        return Finding::no("NotListed", bounded(&unseen));
    }
    let left: Vec<String> = groups
        .iter()
        .flat_map(|grouped| {
            let of_kind = |object: &crate::owners::snapshot::Object| {
                format!("{} {}", grouped.group_objects.kind, object.display())
            };
            grouped.group_objects.not_adopted.iter().map(move |(object, why)| format!("{} {why}", of_kind(object)))
        })
        .collect();
    if !left.is_empty() {
        return Finding::no("NotAdopted", bounded(&left));
    }
    let under_way: usize = groups.iter().map(|grouped| grouped.group_objects.adopt.len()).sum();
    if under_way > 0 {
        return Finding::no("Adopting", format!("{under_way} objects are being adopted"));
    }
    let shared: Vec<String> = groups
        .iter()
        .flat_map(|GroupReport { group_objects, .. }| {
            let shared = group_objects.owned.iter().filter(|object| is_anothers(object, &observed.groups));
            shared.map(|object| format!("{} {}", group_objects.kind, object.display()))
        })
        .collect();
    if shared.is_empty() {
        return Finding::yes("Adopted", "all selected objects are owned");
    }
    let message = "all selected objects are owned; these have other owners too and stay when this one is deleted";
    Finding::yes("Adopted", format!("{message}: {}", bounded(&shared)))
}

fn bounded<T: AsRef<str>>(texts: &[T]) -> String {
    let shown: Vec<_> = texts.iter().take(MAX_NAMED).map(AsRef::as_ref).collect();
    match texts.len().saturating_sub(MAX_NAMED) {
        0 => shown.join("; "),
        more => format!("{}; and {more} more", shown.join("; ")),
    }
}

/// Returns a status with these conditions, each with the time since which it has its status, and with the fields of
/// `more`.
pub(super) fn status(
    old: Option<&Value>,
    generation: i64,
    now: &str,
    findings: impl IntoIterator<Item = (&'static str, Finding)>,
    more: Value,
) -> Value {
    let mut status = more;
    if let Some(fields) = status.as_object_mut() {
        fields.insert("observedGeneration".to_owned(), json!(generation));
        fields.insert("conditions".to_owned(), json!(conditions(findings, old, Some(generation), now)));
    }
    status
}
