//! Generators of random worlds. They draw from few names, so that the parts of a world often meet.

use std::collections::BTreeSet;

use depguard_core::ControlPlane;
use depguard_core::api::FailurePolicy;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use serde_json::{Value, json};

use crate::world::*;

const V1: &[&str] = &["v1"];
const V2: &[&str] = &["v2"];
const BOTH: &[&str] = &["v1", "v2"];

/// Kinds that occur in these worlds.
pub(crate) const KINDS: [Kind; 5] = [
    Kind { group: "a.example.com", versions: BOTH, resource: "gears", kind: "Gear", namespaced: true },
    Kind { group: "a.example.com", versions: V1, resource: "racks", kind: "Rack", namespaced: false },
    Kind { group: "b.example.com", versions: V2, resource: "gears", kind: "Gear", namespaced: true },
    Kind { group: "b.example.com", versions: BOTH, resource: "zones", kind: "Zone", namespaced: false },
    Kind { group: "", versions: V1, resource: "pods", kind: "Pod", namespaced: true },
];

/// Workspace path and logical cluster of each provider.
const PROVIDERS: [(&str, &str); 2] = [("root:a", COMPUTE), ("root:b", NETWORK)];

/// Fields that a server selects by, or prints in tables.
const NO_FIELD: fn(&str) -> bool = |_| false;
const EVERY_FIELD: fn(&str) -> bool = |_| true;
const SOME_FIELDS: fn(&str) -> bool = |field| field.len().is_multiple_of(2);

/// World, and an object in it whose deletion is to be decided.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) world: World,
    pub(crate) target: Object,
}

/// World, and a creation or an update that is to be decided.
#[derive(Debug, Clone)]
pub(crate) struct ChangeCase {
    pub(crate) world: World,
    /// The old state of an object that is updated.
    pub(crate) old: Option<Object>,
    pub(crate) object: Object,
}

/// Rule, and the kinds that it names.
#[derive(Debug, Clone)]
struct Ruled {
    json: Value,
    dependent: Kind,
    targets: Vec<Kind>,
}

pub(crate) fn case() -> impl Strategy<Value = Case> {
    let control_plane = prop_oneof![2 => Just(ControlPlane::Kcp), 1 => Just(ControlPlane::Kubernetes)];
    let rules =
        |control_plane| prop_oneof![1 => vec(ruled(control_plane), 1..4).boxed(), 1 => knotted(control_plane).boxed()];
    control_plane.prop_flat_map(move |control_plane| (Just(control_plane), rules(control_plane))).prop_flat_map(
        |(control_plane, rules)| {
            let dependents: Vec<_> = rules.iter().map(|rule| rule.dependent).collect();
            let targets: Vec<_> = rules.iter().flat_map(|rule| rule.targets.clone()).collect();
            let rules: Vec<_> = rules.into_iter().map(|rule| rule.json).collect();
            let server = (vec(object_of(dependents), 0..20), subsequence(KINDS.to_vec(), 4..=5), bindings());
            let scopes = (
                vec(select(vec![NO_FIELD, EVERY_FIELD, SOME_FIELDS]), 2),
                subsequence(vec!["x".to_owned(), "y".to_owned()], 0..=2),
                prop::bool::weighted(0.2),
            );
            (server, vec(prop::bool::weighted(0.7), 2), object_of(targets), scopes).prop_map(
                move |((objects, kinds, bindings), known, target, (selects, going, cluster_going))| {
                    let mut world = World::new(control_plane);
                    (world.objects, world.kinds, world.bindings, world.rules) =
                        (objects, kinds, bindings, rules.clone());
                    (world.selects, world.prints) = (selects[0], selects[1]);
                    (world.going, world.cluster_going) = (going.into_iter().collect(), cluster_going);
                    for ((path, cluster), _) in PROVIDERS.into_iter().zip(known).filter(|(_, known)| *known) {
                        world.knows(path, cluster);
                    }
                    world.objects.iter_mut().for_each(|object| name_owner(object, &target));
                    Case { world, target }
                },
            )
        },
    )
}

/// Replaces the number that stands for the object's owners by ownerReferences, most of which name `owner`. Beside the
/// version of reviews, all name one version at most.
fn name_owner(object: &mut Object, owner: &Object) {
    let Some(form) = object.json["metadata"]["ownerReferences"].as_u64() else { return };
    let own = owner.as_owner(owner.kind.versions[0]);
    let further = owner.as_owner(owner.kind.versions.get(1).copied().unwrap_or("v9"));
    let other = |field: &str| {
        let mut other = own.clone();
        other[field] = "other".into();
        other
    };
    object.json["metadata"]["ownerReferences"] = match form % 10 {
        0..3 => json!([own]),
        3 => json!([further]),
        4 => json!([own, further]),
        5 => json!([own, other("uid")]),
        6 => json!([other("uid"), own]),
        7 => json!([other("kind")]),
        8 => json!([other("name")]),
        _ => json!([]),
    };
}

/// Generates a case whose edges may only warn or audit, and whose rules and review may have failurePolicy `Ignore`.
pub(crate) fn softened_case() -> impl Strategy<Value = Case> {
    let on_delete = select(vec![json!(null), json!(null), json!("Deny"), json!("Warn"), json!("Audit")]);
    let policy = select(vec![json!(null), json!(null), json!("Fail"), json!("Ignore")]);
    (case(), vec(on_delete, 12), vec(policy, 3), prop::bool::weighted(0.3)).prop_map(
        |(Case { mut world, target }, on_delete, policies, ignore)| {
            let mut on_delete = on_delete.into_iter().cycle();
            for (rule, policy) in world.rules.iter_mut().zip(policies.into_iter().cycle()) {
                rule["spec"]["failurePolicy"] = policy;
                for dependency in rule["spec"]["dependencies"].as_array_mut().unwrap() {
                    dependency["onDelete"] = on_delete.next().unwrap();
                }
            }
            world.failure_policy = if ignore { FailurePolicy::Ignore } else { FailurePolicy::Fail };
            Case { world, target }
        },
    )
}

/// Generates a creation or an update, in a world whose rules look for targets.
pub(crate) fn change_case() -> impl Strategy<Value = ChangeCase> {
    let on_missing =
        select(vec![json!(null), json!("Deny"), json!("Deny"), json!("Deny"), json!("Warn"), json!("Audit")]);
    (softened_case(), vec(on_missing, 12)).prop_flat_map(|(Case { mut world, .. }, on_missing)| {
        let mut on_missing = on_missing.into_iter().cycle();
        for rule in &mut world.rules {
            for dependency in rule["spec"]["dependencies"].as_array_mut().unwrap() {
                // A selector and an optional reference may mean nothing; a rule that says otherwise is in error.
                let (outcome, is_odd) = (on_missing.next().unwrap(), world.objects.len() % 8 == 7);
                if (dependency["selectorRef"].is_null() && dependency["optional"].is_null()) || is_odd {
                    dependency["onMissing"] = outcome;
                }
            }
        }
        // In a real server, each name belongs to one object.
        let mut seen = BTreeSet::new();
        world.objects.retain(|Object { kind, json }| {
            let [namespace, name] = ["namespace", "name"].map(|field| json["metadata"][field].to_string());
            seen.insert((kind.group, kind.resource, namespace, name))
        });
        let is_dependent = |kind: &Kind, rule: &Value| {
            let dependent = &rule["spec"]["dependent"];
            dependent["group"] == kind.group && dependent["resource"] == kind.resource
        };
        let dependents: Vec<_> =
            world.rules.iter().filter_map(|rule| KINDS.iter().find(|kind| is_dependent(kind, rule))).copied().collect();
        let labels = select(vec![json!({}), json!({"tier": "prod"})]);
        let old = prop::option::of((spec(), labels, prop::option::of(0..10u8)));
        (Just(world), object_of(dependents), old).prop_map(|(world, object, old)| {
            let owner = world.objects.first().unwrap_or(&object).clone();
            let owned = |mut object: Object| {
                name_owner(&mut object, &owner);
                object
            };
            let old = old.map(|(spec, labels, form)| {
                let old = object.clone().set("/spec", spec).set("/metadata/labels", labels);
                owned(if let Some(form) = form { old.set("/metadata/ownerReferences", form) } else { old })
            });
            ChangeCase { world, old, object: owned(object) }
        })
    })
}

/// Generates an object, likely of one of these kinds.
fn object_of(kinds: Vec<Kind>) -> impl Strategy<Value = Object> {
    prop_oneof![5 => select(kinds), 1 => select(&KINDS[..])].prop_flat_map(object)
}

pub(crate) fn any_object() -> impl Strategy<Value = Object> {
    select(&KINDS[..]).prop_flat_map(object)
}

fn object(kind: Kind) -> impl Strategy<Value = Object> {
    let identity = (select(vec!["x", "y"]), select(vec!["a", "b"]), 0..4u8);
    let labels = select(vec![json!(null), json!({}), json!({"tier": "prod"}), json!({"tier": "test"})]);
    (identity, spec(), labels, 0..9u8, 0..12u8).prop_map(move |((namespace, name, uid), spec, labels, odd, deleted)| {
        let object = Object::new(kind, namespace, name)
            .set("/metadata/uid", uid.to_string())
            .set("/metadata/labels", labels)
            .set("/spec", spec);
        let object = match deleted {
            0 => object.set("/metadata/finalizers", json!(["orphan"])),
            1 => object.annotated(PROPAGATION, "Orphan"),
            2 => object.set("/metadata/finalizers", json!(["orphan"])).annotated(PROPAGATION, "Background"),
            _ => object,
        };
        match odd {
            0 => object.terminating(),
            1..3 => object.set("/metadata/ownerReferences", u64::from(uid) + 4 * u64::from(deleted)),
            3..5 => object.set("/metadata/annotations", json!({"example.com/ref": "a"})),
            _ => object,
        }
    })
}

/// Generates references of every form, to few names.
fn spec() -> impl Strategy<Value = Value> {
    let name = || select(vec!["a", "b"]);
    let reference = prop_oneof![
        3 => name().prop_map(Value::from),
        3 => name().prop_map(|name| json!({"name": name})),
        1 => select(vec![json!(null), json!(1), json!(["b", "a", 1]), json!([{"name": "a"}])]),
    ];
    let several = (vec(one_of_several(), 0..4), prop::bool::ANY).prop_map(|(all, named)| match named {
        false => Value::from(all),
        true => map(all.into_iter().enumerate().map(|(n, one)| (format!("n{n}"), one))),
    });
    let values = select(vec![json!({}), json!({"namespace": "x"}), json!({"namespace": "y"}), json!("y")]);
    let keys =
        vec((name(), values), 0..3).prop_map(|keys| map(keys.into_iter().map(|(key, value)| (key.to_owned(), value))));
    let text =
        select(vec!["x/a", "y/a", "a", "vpc/a", "/a", "x/", "b, x/a", "a,b", " ,y/a,", "Gear:a,Zone:b", "Zone:y/a"]);
    let text = text.prop_map(Value::from);
    let selector = select(vec![
        json!(null),
        json!({}),
        json!({"tier": "prod"}),
        json!({"matchLabels": {"tier": "prod"}}),
        json!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["test"]}]}),
        json!({"matchLabels": {"tier": "prod"}, "near": true}),
        json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": []}]}),
        json!("tier"),
    ]);
    let state =
        select(vec![json!("on"), json!("off"), json!(true), json!("true"), json!(1), json!(1.0), json!(["on"])]);
    let json = select(vec![
        json!(r#"[{"name":"a","namespace":"x","state":"on"},{"name":"b"}]"#),
        json!(r#" {"n":{"name":"\u0061"},"a":{"namespace":"y","name":"b","state":"off"}}"#),
        json!("\n[\"a\", \"x/b\"]"),
        json!("b, x/a"),
        json!("a"),
        json!(r#"[{"name":"b"}] x"#),
        json!(r#"[{"name":"b"}"#),
        json!([{"name": "a"}]),
    ]);
    let fields = [
        ("json", json.boxed()),
        ("ref", reference.boxed()),
        ("refs", several.boxed()),
        ("map", keys.boxed()),
        ("text", text.boxed()),
        ("select", selector.boxed()),
        ("state", state.boxed()),
    ];
    let fields = fields.map(|(field, value)| {
        prop::option::weighted(0.8, value).prop_map(move |value| value.map(|value| (field.to_owned(), value)))
    });
    let odd = select(vec![json!(null), json!("a"), json!([{"ref": "a"}])]);
    prop_oneof![15 => fields.prop_map(|fields| map(fields.into_iter().flatten())), 1 => odd]
}

fn map(entries: impl Iterator<Item = (String, Value)>) -> Value {
    entries.collect::<serde_json::Map<_, _>>().into()
}

/// Generates a reference with the fields beside it, some of them absent.
fn one_of_several() -> impl Strategy<Value = Value> {
    let beside = [
        ("namespace", vec![json!("x"), json!("y"), json!("")]),
        ("group", vec![json!("a.example.com"), json!("b.example.com"), json!("")]),
        ("kind", vec![json!("Gear"), json!("Zone"), json!(1)]),
        ("apiVersion", vec![json!("a.example.com/v7"), json!("b.example.com/v1"), json!("v1")]),
        ("uid", vec![json!("0"), json!("1")]),
        ("state", vec![json!("on"), json!("off"), json!(true), json!("1")]),
    ];
    let beside = beside.map(|(field, values)| {
        prop::option::weighted(0.3, select(values)).prop_map(move |value| value.map(|value| (field.to_owned(), value)))
    });
    (select(vec![json!("a"), json!("b"), json!(["a"]), json!(7)]), beside)
        .prop_map(|(name, beside)| map(beside.into_iter().flatten().chain([("name".to_owned(), name)])))
}

/// Generates a dependency's own fields.
fn reference() -> impl Strategy<Value = Value> {
    let several = subsequence(vec!["namespacePath", "groupPath", "kindPath", "apiVersionPath", "uidPath"], 0..=3);
    let default = select(vec![json!(null), json!("Gear"), json!("Zone")]);
    let several = (select(vec![".spec.refs[*]", "spec.refs.*", ".spec.refs[0]"]), several, default);
    let several = several.prop_map(|(one, beside, default)| {
        let mut field = json!({"path": format!("{one}.name")});
        for path in beside {
            field[path] = format!("{one}.{}", path.trim_end_matches("Path")).into();
        }
        if !field["kindPath"].is_null() {
            field["defaultKind"] = default;
        }
        json!({"kind": "Gear", "fieldRef": field})
    });
    let fixed = select(vec![
        json!({"fieldRef": {"path": ".spec.ref", "namespace": "x"}}),
        json!({"fieldRef": {"path": ".metadata.annotations['example.com/ref']"}}),
        json!({"fieldRef": {"path": ".spec.map", "keys": true}}),
        json!({"fieldRef": {"path": ".spec.map", "keys": true, "namespacePath": ".spec.map[*].namespace"}}),
        json!({"fieldRef": {"path": ".spec.text", "pattern": "^vpc/(.*)$", "replacement": "$1"}}),
        json!({"fieldRef": {"path": ".spec.text", "pattern": "([^/]+)$", "namespacePattern": "^([^/]+)/"}}),
        json!({"fieldRef": {"path": ".spec.text", "split": ","}}),
        json!({"kind": "Gear", "fieldRef": {"path": ".spec.text", "split": ",", "pattern": "([^/:]+)$",
            "namespacePattern": "([^/:]+)/", "kindPattern": "^([A-Z][a-z]+):", "groupPath": ".spec.group"}}),
        json!({"kind": "Zone", "fieldRef": {"path": ".spec.text", "split": ",", "pattern": "([^/:]+)$",
            "kindPattern": "^([A-Z][a-z]+):", "defaultKind": "Zone"}}),
        json!({"fieldRef": {"path": ".spec.text", "split": ", ", "groupPattern": "^([^/]+)/"}}),
        json!({"fieldRef": {"value": "a"}}),
        json!({"fieldRef": {"value": "b", "namespacePath": ".spec.ref"}, "when": {"path": ".spec.state", "in": ["on"]}}),
        json!({"fieldRef": {"value": "a", "namespace": "y"}, "ownedDependents": "Ignore"}),
        json!({"fieldRef": {"path": ".spec.json.fromJSON()[*].name", "namespacePath": ".spec.json.fromJSON()[*].namespace"}}),
        json!({"fieldRef": {"path": ".spec.json.fromJSON()[*].name"}, "excludeNames": ["a"],
            "when": {"path": ".spec.json.fromJSON()[*].state", "notIn": ["on"]}}),
        json!({"fieldRef": {"path": ".spec.json.fromJSON()", "split": ",", "pattern": "([^/]+)$", "namespacePattern": "^([^/]+)/"}}),
        json!({"fieldRef": {"path": ".spec.json.fromJSON()", "keys": true, "namespace": "x"}, "ownedDependents": "Ignore"}),
        json!({"fieldRef": {"path": ".spec.*"}}),
        json!({"selectorRef": {"path": ".spec.select"}}),
        json!({"selectorRef": {"selector": {"matchLabels": {"tier": "prod"}}}}),
        json!({"selectorRef": {"selector": {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}},
            "when": {"path": ".spec.state", "in": ["on"]}}),
        json!({"fieldRef": {"path": ".spec.refs[*].name"}, "when": {"path": ".spec.refs[*].state", "in": ["on"]}}),
        json!({"fieldRef": {"path": ".spec.ref"}, "when": {"path": ".spec.state", "in": ["other", "on"]}}),
        json!({"fieldRef": {"path": ".spec.ref"}, "when": {"path": ".spec.state", "in": [true, 1]}}),
        json!({"fieldRef": {"path": ".spec.ref"}, "when": {"path": ".spec.state", "notIn": ["on", 1]}}),
        json!({"fieldRef": {"path": ".spec.refs[*].name"}, "when": {"path": ".spec.refs[*].state", "notIn": [true]}}),
        json!({"fieldRef": {"value": "a"}, "when": {"path": ".spec.state", "notIn": ["true", "off"]}}),
        json!({"fieldRef": {"path": ".spec.refs[*].name"}, "when": {"path": ".spec.refs[*].state", "notIn": ["off"],
            "and": [{"path": ".spec.state", "in": ["on", true]}]}}),
        json!({"fieldRef": {"path": ".spec.ref"}, "optional": true}),
        json!({"fieldRef": {"path": ".spec.refs[*].name"}, "excludeNames": ["a"]}),
        json!({"fieldRef": {"path": ".spec.text", "split": ","}, "excludeNames": ["b", "x"]}),
        json!({"selectorRef": {"path": ".spec.select"}, "excludeNames": ["a"]}),
        json!({"selectorRef": {"path": ".spec.select", "narrowedBy": ["near", "policy"]}}),
        json!({"fieldRef": {"path": ".spec.ref"}, "ownedDependents": "Ignore"}),
    ]);
    let plain = select(vec![".spec.ref", "spec.ref.name", ".metadata.name"]);
    prop_oneof![
        20 => plain.prop_map(|path| json!({"fieldRef": {"path": path}})),
        15 => several,
        15 => fixed,
        3 => Just(json!({"fieldRef": {"path": "spec..ref"}})),
    ]
}

/// Generates bindings: most from the provider that a rule is likely to mean, some from elsewhere.
fn bindings() -> impl Strategy<Value = Vec<Value>> {
    let usual: Vec<_> = PROVIDERS
        .iter()
        .flat_map(|(path, cluster)| KINDS[..4].iter().map(move |kind| binding(cluster, path, *kind)))
        .collect();
    let odd = (select(&PROVIDERS[..]), select(vec!["root:a", "root:c", "1d", ""]), select(&KINDS[..4]));
    let odd = odd.prop_map(|((_, cluster), path, kind)| binding(cluster, path, kind));
    let going = vec(prop::bool::weighted(0.2), 10);
    (subsequence(usual, 5..=8), vec(odd, 0..2), going).prop_map(|(usual, odd, going)| {
        let mut bindings = [usual, odd].concat();
        for (binding, _) in bindings.iter_mut().zip(going).filter(|(_, going)| *going) {
            binding["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        bindings
    })
}

/// Generates rules about few kinds, each by the kind's provider. Such rules form cycles.
fn knotted(control_plane: ControlPlane) -> impl Strategy<Value = Vec<Ruled>> {
    let ends = select(vec![(KINDS[0], PROVIDERS[0]), (KINDS[2], PROVIDERS[1])]);
    let edge = (ends.clone(), ends).prop_map(move |((dependent, (_, cluster)), (target, (path, _)))| Ruled {
        json: match control_plane {
            ControlPlane::Kcp => rule(cluster, dependent, ".spec.ref", path, target),
            ControlPlane::Kubernetes => local_rule(cluster, dependent, ".spec.ref", target),
        },
        dependent,
        targets: vec![target],
    });
    vec(edge, 2..5)
}

fn ruled(control_plane: ControlPlane) -> impl Strategy<Value = Ruled> {
    let cluster = prop_oneof![4 => select(vec![COMPUTE, NETWORK]), 1 => Just(CONSUMER)];
    let exported =
        move |chance: f64| prop::bool::weighted(if control_plane == ControlPlane::Kcp { chance } else { 0.03 });
    let dependent = (select(&KINDS[..]), exported(0.8), any::<Index>(), prop::bool::weighted(0.1));
    let provider = prop_oneof![8 => select(vec!["root:a", "root:b"]), 1 => Just("root:c")];
    let dependency = (select(&KINDS[..]), exported(0.8), provider, reference());
    let selector = prop::option::weighted(
        0.15,
        select(vec![
            json!({}),
            json!({"matchLabels": {"tier": "prod"}}),
            json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}),
        ]),
    );
    (cluster, dependent, vec(dependency, 1..4), prop::bool::weighted(0.05), selector).prop_map(
        |(cluster, (dependent, exported, version, unserved), dependencies, with_selector, selector)| {
            let mut json = local_rule(cluster, dependent, "", dependent);
            // The core group cannot be exported.
            if exported && !dependent.group.is_empty() {
                json["spec"]["dependent"]["apiExportName"] = dependent.group.into();
            }
            json["spec"]["dependent"]["version"] = if unserved { "v9" } else { version.get(dependent.versions) }.into();
            let targets = dependencies.iter().map(|dependency| dependency.0).collect();
            json["spec"]["dependencies"] = (dependencies.into_iter())
                .map(|(target, exported, provider, reference)| {
                    let rule = match exported && !target.group.is_empty() {
                        true => rule(cluster, dependent, "", provider, target),
                        false => local_rule(cluster, dependent, "", target),
                    };
                    let mut dependency = rule["spec"]["dependencies"][0].clone();
                    let fields = dependency.as_object_mut().unwrap();
                    fields.remove("fieldRef");
                    fields.extend(reference.as_object().unwrap().clone());
                    dependency
                })
                .collect();
            if let Some(selector) = selector {
                json["spec"]["dependent"]["selector"] = selector;
            }
            if with_selector {
                json["spec"]["selector"] = json!({"matchLabels": {}});
            }
            Ruled { json, dependent, targets }
        },
    )
}
