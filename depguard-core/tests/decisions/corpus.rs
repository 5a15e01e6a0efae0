//! The corpus in `tests/corpus`: rules, objects and a deletion, a creation or an update, the expected decision, and one
//! edit that changes the decision.
//!
//! Each case runs in a plain cluster and in a kcp that exports both kinds, against the core and the naive procedure.
//! The README there describes the form.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use depguard_core::api::FailurePolicy;
use depguard_core::decision::{Denial, Reason};
use depguard_core::{ControlPlane, Decision, Rule};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::naive::{self, NaiveVerdict, Said};
use crate::world::*;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kinds {
    kinds: BTreeMap<String, KindEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KindEntry {
    group: String,
    resource: String,
    namespaced: bool,
    #[serde(default = "yes")]
    served: bool,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    case: String,
    rules: Value,
    #[serde(default)]
    objects: Vec<Value>,
    /// Object that is deleted.
    delete: Option<Value>,
    /// Object that is created.
    create: Option<Value>,
    update: Option<Update>,
    #[serde(default)]
    failure_policy: FailurePolicy,
    expect: Expected,
    twin: Option<Twin>,
}

/// Both states of an object that is updated.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Update {
    from: Value,
    to: Value,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Twin {
    edit: BTreeMap<String, Value>,
    #[serde(default)]
    expect: Expected,
}

/// Expected decision. Without any field: allowed, because nothing refers to the target, or because all targets are there.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    /// Names of the blockers.
    denied: Option<BTreeSet<String>>,
    /// Names of the missing targets.
    missing: Option<BTreeSet<String>>,
    /// Part of the message that says which fact could not be found out.
    undecided: Option<String>,
    /// Label of the decision.
    allowed: Option<String>,
    #[serde(default)]
    warned: BTreeSet<String>,
    #[serde(default)]
    audited: BTreeSet<String>,
    /// Complete message of the refusal, or else the first warning.
    message: Option<String>,
}

impl Expected {
    fn is_refusal(&self) -> bool {
        self.denied.is_some() || self.missing.is_some() || self.undecided.is_some()
    }
}

fn kinds() -> BTreeMap<String, Kind> {
    let text = include_str!("../corpus/kinds.yaml");
    let Kinds { kinds } = serde_saphyr::from_str(text).expect("kinds");
    let leak = |text: String| -> &'static str { text.leak() };
    let kind = |(name, KindEntry { group, resource, namespaced, served }): (String, KindEntry)| {
        let (kind, versions): (_, &[&str]) = (leak(name.clone()), if served { &["v1"] } else { &[] });
        (name, Kind { group: leak(group), versions, resource: leak(resource), kind, namespaced })
    };
    kinds.into_iter().map(kind).collect()
}

fn cases() -> Vec<(String, Case)> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus"));
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "yaml") && !file.ends_with("kinds.yaml"));
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file).unwrap();
        let cases: Vec<Case> = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        all.extend(cases.into_iter().map(|case| (format!("{name}: {}", case.case), case)));
    }
    all
}

// === From the short form of a case to the long one ===

/// Takes a field out of a map; returns `null` if the field is absent.
fn take(fields: &mut Map<String, Value>, field: &str) -> Value {
    fields.remove(field).unwrap_or_default()
}

fn object(kinds: &BTreeMap<String, Kind>, short: &Value) -> Object {
    let mut fields = short.as_object().expect("an object").clone();
    let kind = kinds[take(&mut fields, "kind").as_str().expect("a kind")];
    let namespace = take(&mut fields, "namespace");
    let mut object =
        Object::new(kind, namespace.as_str().unwrap_or("ns"), take(&mut fields, "name").as_str().expect("a name"));
    for (field, value) in fields {
        match field.as_str() {
            "uid" | "labels" | "annotations" | "ownerReferences" | "finalizers" | "deletionTimestamp" => {
                object.json["metadata"][field] = value;
            }
            _ => object.json[field] = value,
        }
    }
    object
}

fn rule(control_plane: ControlPlane, kinds: &BTreeMap<String, Kind>, index: usize, short: &Value) -> Value {
    let mut fields = short.as_object().expect("a rule").clone();
    let dependent = kinds[take(&mut fields, "from").as_str().expect("from")];
    let exported = |kind: Kind| control_plane == ControlPlane::Kcp && !kind.group.is_empty();
    let mut rule = local_rule(CONSUMER, dependent, "", dependent);
    rule["metadata"]["name"] = fields.remove("name").unwrap_or(format!("rule-{index}").into());
    let spec = &mut rule["spec"];
    if exported(dependent) {
        spec["dependent"]["apiExportName"] = dependent.group.into();
    }
    if let Some(selector) = fields.remove("selector") {
        spec["dependent"]["selector"] = selector;
    }
    if let Some(policy) = fields.remove("failurePolicy") {
        spec["failurePolicy"] = policy;
    }
    let edges = match fields.remove("edges") {
        Some(edges) => edges.as_array().expect("edges").clone(),
        None => vec![fields.into()],
    };
    let edges = edges.into_iter().map(|mut edge| {
        let fields = edge.as_object_mut().expect("an edge");
        let target = kinds[take(fields, "to").as_str().expect("to")];
        fields.insert("group".to_owned(), target.group.into());
        fields.insert("version".to_owned(), "v1".into());
        fields.insert("resource".to_owned(), target.resource.into());
        fields.insert("kind".to_owned(), target.kind.into());
        if exported(target) {
            fields.insert("apiExportRef".to_owned(), json!({"path": "root:consumer", "name": target.group}));
        }
        edge
    });
    spec["dependencies"] = edges.collect();
    rule
}

fn world(control_plane: ControlPlane, kinds: &BTreeMap<String, Kind>, case: &Case) -> World {
    let mut world = World::new(control_plane);
    world.kinds = kinds.values().copied().collect();
    world.failure_policy = case.failure_policy;
    let rules = case.rules.as_array().cloned().unwrap_or_else(|| vec![case.rules.clone()]);
    world.rules = rules.iter().enumerate().map(|(index, short)| rule(control_plane, kinds, index, short)).collect();
    world.objects = case.objects.iter().map(|short| object(kinds, short)).collect();
    if control_plane == ControlPlane::Kcp {
        world.knows("root:consumer", CONSUMER);
        let exported = world.kinds.iter().filter(|kind| !kind.group.is_empty() && !kind.versions.is_empty());
        world.bindings = exported.map(|kind| binding(CONSUMER, "root:consumer", *kind)).collect();
    }
    world
}

// === Checks of the decision ===

fn check(name: &str, case: &Case, expected: &Expected) {
    let kinds = kinds();
    for control_plane in [ControlPlane::Kubernetes, ControlPlane::Kcp] {
        let world = &world(control_plane, &kinds, case);
        let at = |way: &str| format!("{name}{way}, on {control_plane:?}");
        let (old, object) = match (&case.delete, &case.create, &case.update) {
            (Some(target), None, None) => {
                check_deletion(at, world, &object(&kinds, target), expected);
                continue;
            }
            (None, Some(made), None) => (None, object(&kinds, made)),
            (None, None, Some(Update { from, to })) => (Some(object(&kinds, from)), object(&kinds, to)),
            _ => panic!("{name}: one change"),
        };
        let decision = match &old {
            None => world.creates(&object).decision,
            Some(old) => world.updates(old, &object).decision,
        };
        let naive = || naive::missing::decide(world, old.as_ref(), &object);
        check_one(&at(""), world, &decision, naive, expected);
    }
}

fn check_deletion(at: impl Fn(&str) -> String, world: &World, target: &Object, expected: &Expected) {
    let naive = || naive::decide(world, target);
    let selecting = world.but(|world| world.selects = |_| true);
    let shared = world.deletes_together(&[Object::new(target.kind, "ns", "decoy"), target.clone()]).remove(1);
    check_one(&at(""), world, &world.deletes(target).decision, naive, expected);
    check_one(&at(", selected"), world, &selecting.deletes(target).decision, naive, expected);
    check_one(&at(", by a shared list"), world, &shared.decision, naive, expected);
}

fn check_one(
    name: &str,
    world: &World,
    decision: &Decision,
    naive: impl Fn() -> (NaiveVerdict, Said),
    expected: &Expected,
) {
    let control_plane = world.control_plane;
    let at = format!("{name}: {decision:?}");
    let (verdict, said) = (NaiveVerdict::from_decision(decision), Said::from_decision(decision));
    let reason = decision.denial().map(Denial::reason);
    match (&verdict, &expected.denied, &expected.missing, &expected.undecided) {
        (NaiveVerdict::Denied { blockers, problems }, Some(names), None, None) => {
            assert!(matches!(reason, Some(Reason::Referenced { .. })), "{at}");
            assert_eq!((blockers, problems), (names, &false), "{at}");
        }
        (NaiveVerdict::Denied { blockers, problems }, None, Some(names), None) => {
            assert!(matches!(reason, Some(Reason::MissingTargets { .. })), "{at}");
            assert_eq!((blockers, problems), (names, &false), "{at}");
        }
        (NaiveVerdict::Denied { .. }, None, None, Some(part)) => {
            assert!(matches!(reason, Some(Reason::Undecided { .. })), "{at}");
            assert!(decision.message().is_some_and(|message| message.contains(part)), "{at}");
        }
        (NaiveVerdict::Allowed(_), None, None, None) => {
            let allowed = expected.allowed.as_deref();
            let usual = ["unreferenced", "targets-exist"];
            assert!(
                allowed.map_or_else(|| usual.contains(&decision.label()), |label| label == decision.label()),
                "{at}"
            );
        }
        _ => panic!("{at}"),
    }
    assert_eq!((&said.warned, &said.audited), (&expected.warned, &expected.audited), "{at}");
    // In kcp, the logical cluster stands before a rule's name in the message.
    if let (Some(message), ControlPlane::Kubernetes) = (&expected.message, control_plane) {
        let told = decision.message().or(decision.diagnostics().warnings().into_iter().next());
        assert_eq!(told.as_ref(), Some(message), "{at}");
    }
    if world.rules.iter().all(|rule| Rule::parse(control_plane, rule).is_ok()) {
        assert_eq!((verdict, said), naive(), "{at}");
    }
}

/// Returns the case with one edit: replaces the value at a pointer, or removes the value if the new one is `null`.
fn edited(case: &Case, pointer: &str, value: &Value) -> Case {
    let mut json = json!({
        "rules": case.rules, "objects": case.objects, "failure_policy": case.failure_policy,
        "delete": case.delete, "create": case.create, "update": case.update,
    });
    let before = json.clone();
    match (value, pointer.rsplit_once('/')) {
        (Value::Null, Some((parent, last))) => match json.pointer_mut(parent).expect(pointer) {
            Value::Array(list) => drop(list.remove(last.parse().expect("an index"))),
            parent => drop(parent.as_object_mut().expect("a map").remove(&last.replace("~1", "/"))),
        },
        _ => set(&mut json, pointer, value.clone()),
    }
    assert_ne!(json, before, "{pointer}: the edit changes nothing");
    Case {
        rules: json["rules"].clone(),
        objects: json["objects"].as_array().unwrap().clone(),
        delete: Option::deserialize(&json["delete"]).unwrap(),
        create: Option::deserialize(&json["create"]).unwrap(),
        update: Option::deserialize(&json["update"]).unwrap(),
        failure_policy: FailurePolicy::deserialize(&json["failure_policy"]).unwrap(),
        ..case.clone()
    }
}

#[test]
fn every_case_is_decided_as_it_says_and_so_is_its_twin() {
    let (mut decided, mut wrong) = (0, Vec::new());
    // Collects all cases that fail, so that the test names each of them.
    let mut decide = |name: String, case: &Case, expected: &Expected| {
        decided += 1;
        if catch_unwind(AssertUnwindSafe(|| check(&name, case, expected))).is_err() {
            wrong.push(name);
        }
    };
    for (name, case) in cases() {
        decide(name.clone(), &case, &case.expect);
        if let Some(Twin { edit, expect }) = &case.twin {
            assert_eq!(edit.len(), 1, "{name}: a twin is one edit away");
            let (pointer, value) = edit.first_key_value().unwrap();
            decide(format!("{name}, edited at {pointer}"), &edited(&case, pointer, value), expect);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(decided >= 400, "{decided} are too few");
}

#[test]
fn every_refusal_has_a_twin_that_is_allowed() {
    for (name, case) in cases() {
        if case.expect.is_refusal() {
            let twin = case.twin.unwrap_or_else(|| panic!("{name} has no twin"));
            assert!(!twin.expect.is_refusal(), "{name}: its twin is refused too");
        }
    }
}
