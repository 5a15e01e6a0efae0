//! Checks that an API server makes by the schemas of rules, locks and owners.

use std::sync::Arc;

use depguard_core::{ControlPlane, Rule};
use depguard_e2e::locks::named;
use depguard_e2e::owners::group;
use depguard_e2e::rules::{RULES, rule};
use depguard_e2e::{Depguard, Outcome, Stop, World, ensure};
use serde_json::{Value, json};

type Edit = fn(&mut Value);

/// Correct rules: an API server accepts them.
const RIGHT: &[(&str, Edit)] = &[
    ("nothing more than the reference has", |_| {}),
    ("no dependencies", |r| r["spec"]["dependencies"] = json!([])),
    ("every field of a reference by name", |r| {
        let first = &mut r["spec"]["dependencies"][0];
        first["kind"] = json!("VPC");
        first["fieldRef"] = json!({
            "path": ".spec.networks[*].vpcRef.name", "namespacePath": ".spec.networks[*].vpcRef.namespace",
            "groupPath": ".spec.networks[*].vpcRef.group", "kindPath": ".spec.networks[*].vpcRef.kind",
            "apiVersionPath": ".spec.networks[*].vpcRef.apiVersion", "uidPath": ".spec.networks[*].vpcRef.uid",
            "keys": false, "pattern": "^vpc/(.*)$", "replacement": "$1", "defaultKind": "VPC",
        });
        first["when"] = json!({"path": ".spec.state", "in": ["Running", "Paused"]});
        first["onDelete"] = json!("Warn");
        first["ownedDependents"] = json!("Ignore");
        first["message"] = json!("detach it first");
        r["spec"]["failurePolicy"] = json!("Ignore");
    }),
    ("strings, booleans and integers that do not count", |r| {
        r["spec"]["dependencies"][0]["when"] = json!({"path": ".spec.state", "notIn": ["Paused", true, 7],
            "and": [{"path": ".spec.up", "in": [true, 1, "on"]}]});
        r["spec"]["dependencies"][0]["optional"] = json!(true);
    }),
    ("names of targets that do not count", |r| {
        r["spec"]["dependencies"][0]["excludeNames"] = json!(["default", "kube-root-ca.crt", "system:a"]);
    }),
    ("a fixed namespace", |r| field_ref(r)["namespace"] = json!("shared-1")),
    ("a reference by labels", |r| by_labels(r)),
    ("a selector with fields that only narrow", |r| {
        by_labels(r);
        r["spec"]["dependencies"][0]["selectorRef"]["narrowedBy"] = json!(["matchControllerRef", "policy"]);
    }),
    ("a selector of dependents", |r| {
        r["spec"]["dependent"]["selector"] = json!({
            "matchLabels": {"tier": "prod"},
            "matchExpressions": [
                {"key": "a", "operator": "In", "values": ["b", ""]}, {"key": "a", "operator": "Exists"},
                {"key": "a", "operator": "DoesNotExist", "values": []},
            ],
        });
    }),
    ("an empty selector of dependents", |r| r["spec"]["dependent"]["selector"] = json!({})),
    ("a namespace cut out of the name", |r| {
        field_ref(r)["pattern"] = json!("^.*/(.*)$");
        field_ref(r)["namespacePattern"] = json!("^(.*)/.*$");
    }),
    ("several names in one string, with kinds and groups", |r| {
        r["spec"]["dependencies"][0]["kind"] = json!("VPC");
        r["spec"]["dependencies"][0]["fieldRef"] = json!({
            "path": ".metadata.annotations['config.kubernetes.io/depends-on']", "split": ",", "pattern": "([^/]+)$",
            "namespacePattern": "/namespaces/([^/]+)/", "kindPattern": "([^/]+)/[^/]+$", "groupPattern": "^([^/]*)/",
        });
    }),
    ("a name in the rule", |r| {
        r["spec"]["dependencies"][0]["fieldRef"] = json!({"value": "vpcs.network.example.com", "keys": false, "namespacePath": ".spec.project",
                "namespacePattern": "^project-(.*)$"});
    }),
    ("a message with placeholders", |r| {
        r["spec"]["dependencies"][0]["message"] = json!("{blockers} use {target} ({rule}), é {{x}} }");
    }),
    ("a quoted name in double quotes", |r| path(r, r#".a["it's"]['a\\b']["\""].b"#)),
    ("the longest path", |r| path(r, &format!(".spec.{}", "a".repeat(248)))),
    ("a quoted name", |r| path(r, ".metadata.annotations['example.com/vpc']")),
    ("JSON in a string", |r| path(r, ".metadata.annotations['example.com/vpcs'].fromJSON()[*].name")),
    ("a name like the call", |r| path(r, ".spec.fromJSON.fromJSON()")),
    ("a map's values", |r| path(r, ".spec.vpcs.*.name")),
    ("an index", |r| path(r, "spec.vpcs[0].name")),
    ("one name", |r| path(r, "provisioner")),
    ("a core kind", |r| {
        let first = r["spec"]["dependencies"][0].as_object_mut().unwrap();
        first.remove("apiExportRef");
        first["group"] = json!("");
        first["version"] = json!("v1");
        first["resource"] = json!("configmaps");
    }),
    ("a thousand dependencies", |r| {
        let first = r["spec"]["dependencies"][0].clone();
        r["spec"]["dependencies"] = vec![first; 1000].into();
    }),
];

/// Wrong rules, each with a part of the expected message.
const WRONG: &[(&str, Edit, &str)] = &[
    (
        "the older form",
        |r| r["spec"]["dependent"]["apiExportRef"] = json!({"path": "root:a", "name": "b"}),
        "apiExportRef was replaced",
    ),
    (
        "the older form without its fields",
        |r| r["spec"]["dependent"]["apiExportRef"] = json!({}),
        "apiExportRef was replaced",
    ),
    (
        "two references in one",
        |r| {
            let field = field_ref(r).clone();
            by_labels(r);
            r["spec"]["dependencies"][0]["fieldRef"] = field;
        },
        "exactly one of fieldRef and selectorRef",
    ),
    (
        "a selector beside the path of one",
        |r| {
            by_labels(r);
            r["spec"]["dependencies"][0]["selectorRef"]["selector"] = json!({"matchLabels": {"tier": "prod"}});
        },
        "exactly one of path and selector",
    ),
    (
        "no reference",
        |r| {
            r["spec"]["dependencies"][0].as_object_mut().unwrap().remove("fieldRef");
        },
        "exactly one of fieldRef and selectorRef",
    ),
    (
        "two namespaces",
        |r| {
            field_ref(r)["namespace"] = json!("a");
            field_ref(r)["namespacePath"] = json!(".spec.namespace");
        },
        "write namespace, or namespacePath and namespacePattern",
    ),
    ("a replacement of nothing", |r| field_ref(r)["replacement"] = json!("$1"), "replacement needs a pattern"),
    ("a name and a path", |r| field_ref(r)["value"] = json!("a"), "exactly one of path and value"),
    ("neither a name nor a path", |r| *field_ref(r) = json!({"namespace": "a"}), "exactly one of path and value"),
    (
        "a name that is split",
        |r| *field_ref(r) = json!({"value": "a", "split": ","}),
        "value can be combined only with namespace, namespacePath and namespacePattern",
    ),
    (
        "a name with a namespace out of nothing",
        |r| *field_ref(r) = json!({"value": "a", "namespacePattern": "^(.*)/"}),
        "value with namespacePattern needs namespacePath, too",
    ),
    ("a name that no object has", |r| *field_ref(r) = json!({"value": "a/b"}), "write the name of an object: "),
    ("an empty separator", |r| field_ref(r)["split"] = json!(""), "fieldRef.split"),
    (
        "a kind in a string that is not told",
        |r| field_ref(r)["kindPattern"] = json!("^(.*)/"),
        "fieldRef.kindPath and fieldRef.kindPattern need kind",
    ),
    (
        "a kind that is not told",
        |r| field_ref(r)["kindPath"] = json!(".spec.kind"),
        "fieldRef.kindPath and fieldRef.kindPattern need kind",
    ),
    (
        "an exported core kind",
        |r| {
            r["spec"]["dependent"]["group"] = json!("");
            r["spec"]["dependent"]["apiExportName"] = json!("a");
        },
        "leave apiExportName",
    ),
    (
        "a core kind of an export",
        |r| {
            r["spec"]["dependencies"][0]["group"] = json!("");
            r["spec"]["dependencies"][0]["apiExportRef"] = json!({"path": "root:a", "name": "b"});
        },
        "leave apiExportRef out",
    ),
    ("another onDelete", |r| r["spec"]["dependencies"][0]["onDelete"] = json!("deny"), "onDelete: Unsupported value"),
    ("another failurePolicy", |r| r["spec"]["failurePolicy"] = json!("Skip"), "failurePolicy: Unsupported value"),
    (
        "another ownedDependents",
        |r| r["spec"]["dependencies"][0]["ownedDependents"] = json!(""),
        "ownedDependents: Unsupported value",
    ),
    ("In without values", |r| requirement(r, &json!({"key": "a", "operator": "In"})), "In and NotIn need values"),
    (
        "Exists with values",
        |r| requirement(r, &json!({"key": "a", "operator": "Exists", "values": ["b"]})),
        "take none",
    ),
    (
        "no value that counts",
        |r| {
            r["spec"]["dependencies"][0]["when"] = json!({"path": ".spec.state", "in": []});
        },
        "when.in: Invalid value",
    ),
    (
        "an optional reference that is looked for",
        |r| {
            r["spec"]["dependencies"][0]["optional"] = json!(true);
            r["spec"]["dependencies"][0]["onMissing"] = json!("Deny");
        },
        "leave onMissing or optional out",
    ),
    (
        "excluded names beside the one name that counts",
        |r| {
            r["spec"]["dependencies"][0]["fieldRef"] = json!({"value": "a"});
            r["spec"]["dependencies"][0]["excludeNames"] = json!(["b"]);
        },
        "leave excludeNames out",
    ),
    (
        "a selector that its own labels only narrow",
        |r| {
            by_labels(r);
            r["spec"]["dependencies"][0]["selectorRef"]["narrowedBy"] = json!(["policy", "matchLabels"]);
        },
        "leave them out of narrowedBy",
    ),
    (
        "a selector in the rule that has further fields",
        |r| {
            by_labels(r);
            r["spec"]["dependencies"][0]["selectorRef"] = json!({"selector": {}, "narrowedBy": ["policy"]});
        },
        "narrowedBy needs a path",
    ),
    ("a default of no kind", |r| field_ref(r)["defaultKind"] = json!("VPC"), "defaultKind needs a kindPath"),
    (
        "an excluded name that no object has",
        |r| r["spec"]["dependencies"][0]["excludeNames"] = json!(["a*"]),
        "excludeNames[0]: Invalid value",
    ),
    ("no excluded name", |r| r["spec"]["dependencies"][0]["excludeNames"] = json!([]), "excludeNames: Invalid value"),
    ("an empty path", |r| path(r, ""), "fieldRef.path: Invalid value"),
    ("another call", |r| path(r, ".spec.vpcs.fromYAML()"), "write the path of a field, such as .spec.vpcRef.name"),
    ("a call of the object", |r| path(r, ".fromJSON().spec"), "write the path of a field, such as .spec.vpcRef.name"),
    ("two dots", |r| path(r, ".spec..name"), "write the path of a field, such as .spec.vpcRef.name"),
    ("a filter", |r| path(r, ".spec.vpcs[?(@.a=='b')].name"), "fieldRef.path: Invalid value"),
    ("recursion", |r| path(r, "..name"), "fieldRef.path: Invalid value"),
    ("an open bracket", |r| path(r, ".spec.vpcs[*"), "fieldRef.path: Invalid value"),
    ("a long path", |r| path(r, &format!(".spec.{}", "a".repeat(249))), "fieldRef.path: Too long"),
    ("a path with a space", |r| field_ref(r)["uidPath"] = json!(".spec. uid"), "fieldRef.uidPath: Invalid value"),
    (
        "a namespace in capitals",
        |r| field_ref(r)["namespace"] = json!("Shared"),
        "write the name of a namespace, such as team-a",
    ),
    (
        "a kind in small letters",
        |r| r["spec"]["dependent"]["kind"] = json!("vm"),
        "write the name of a kind, such as VirtualMachine",
    ),
    (
        "no dependent",
        |r| {
            r["spec"].as_object_mut().unwrap().remove("dependent");
        },
        "dependent: Required value",
    ),
    (
        "no version",
        |r| {
            r["spec"]["dependencies"][0].as_object_mut().unwrap().remove("version");
        },
        "version: Required value",
    ),
];

pub(crate) async fn checks(world: Arc<World>) -> Outcome {
    let (network, compute) = tokio::try_join!(world.network("providers:network"), world.compute())?;
    world.bind_depguard(&compute).await?;
    let right = rule("r", &compute.kind("VirtualMachine")?, &[(&network.kind("VPC")?, ".spec.vpcRef.name")]);
    let dry_run = format!("{RULES}?dryRun=All&fieldValidation=Strict");
    let mut failures = Vec::new();
    let right_cases = RIGHT.iter().map(|(name, edit)| (*name, *edit, None));
    let wrong_cases = WRONG.iter().map(|(name, edit, said)| (*name, *edit, Some(*said)));
    let exports: &[(&str, Edit, Option<&str>)] = if world.is_kcp() {
        &[(
            "a local dependent of an exported target",
            |r| drop(r["spec"]["dependent"].as_object_mut().unwrap().remove("apiExportName")),
            None,
        )]
    } else {
        &[
            (
                "an exported dependent",
                |r| r["spec"]["dependent"]["apiExportName"] = json!("a"),
                Some("has no APIExports"),
            ),
            (
                "an exported target",
                |r| r["spec"]["dependencies"][0]["apiExportRef"] = json!({"path": "root:a", "name": "b"}),
                Some("has no APIExports"),
            ),
        ]
    };
    for (name, edit, said) in right_cases.chain(wrong_cases).chain(exports.iter().copied()) {
        let mut rule = right.clone();
        edit(&mut rule);
        let reply = compute.api.post(&dry_run, &rule).await?;
        let message = reply.message();
        let as_expected = match said {
            None => reply.status == 201,
            Some(said) => reply.status == 422 && message.contains(said),
        };
        // The schema and the parser must agree: a stored rule that depguard cannot use refuses deletions.
        rule["metadata"]["annotations"] = json!({"kcp.io/cluster": "any"});
        let control_plane = if world.is_kcp() { ControlPlane::Kcp } else { ControlPlane::Kubernetes };
        if let (None, Err(why)) = (said, Rule::parse(control_plane, &rule)) {
            failures.push(format!("{name}: can't be used: {why}"));
        }
        if said.is_some() && Rule::parse(control_plane, &rule).is_ok() {
            failures.push(format!("{name}: could be used all the same"));
        }
        if !as_expected {
            let message: String = message.chars().take(400).collect();
            failures.push(format!("{name}: expected {}, got {}: {message}", said.unwrap_or("success"), reply.status));
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(Stop::Failed(failures.join("\n    "))) }
}

/// Checks that an ObjectLock can't name another namespace than its own.
pub(crate) async fn of_locks(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    world.bind_locks(&cast.consumer).await?;
    let mut target = named(&cast.vm, "m1");
    let spec = |target: &Value| json!({"targets": [target], "reason": "change freeze"});
    cast.consumer.lock("here", spec(&target)).await?;
    target["namespace"] = json!("elsewhere");
    let made = cast.consumer.lock("there", spec(&target)).await;
    is_refused(&made, "an ObjectLock locks objects of its own namespace: leave namespace out")?;
    let mut spec = spec(&named(&cast.vm, "m1"));
    spec["ttl"] = json!("soon");
    let made = cast.consumer.lock("soon", spec).await;
    is_refused(&made, "write hours, minutes and seconds, such as 2h or 1h30m")
}

/// Checks that an owner's group is chosen in one way only.
pub(crate) async fn of_owners(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    for (field, value) in [("names", json!(["m1"])), ("namespace", json!("a"))] {
        let mut group = group(&cast.vm);
        group["selector"] = json!({"matchLabels": {"tier": "prod"}});
        group[field] = value;
        let made = world.own(field, json!({"childResources": [group]})).await;
        is_refused(&made, "a selector, or names and namespace: write one or the other")?;
    }
    let mut group = group(&cast.vm);
    group["selector"] = json!({"matchLabels": {"tier": "prod"}});
    group["apiVersion"] = json!("V1");
    let made = world.own("capitals", json!({"childResources": [group]})).await;
    is_refused(&made, "write the group and the version, such as apps/v1")
}

fn is_refused<T>(made: &Outcome<T>, because: &str) -> Outcome {
    match made {
        Err(Stop::Failed(message)) if message.contains("got 422") && message.contains(because) => Ok(()),
        Err(stop) => Err(Stop::Failed(format!("not refused because of `{because}`: {stop}"))),
        Ok(_) => Err(Stop::Failed(format!("accepted in spite of `{because}`"))),
    }
}

/// Checks the columns of `kubectl get dependencyrules`.
pub(crate) async fn columns(world: Arc<World>) -> Outcome {
    let cast = world.cast().await?;
    let compute = &cast.compute;
    let edges = [(&cast.vpc, ".spec.vpcRef.name"), (&cast.region, ".spec.region")];
    world.add_rule(compute, &rule("machines", &cast.vm, &edges)).await?;
    let _depguard = Depguard::start(&world).await?;
    world.condition(compute, "machines", "Enforced", "True").await?;
    let (names, rows) = compute.api.table(RULES).await?;
    let wide = ["Name", "Dependent", "Targets", "Ready", "Accepted", "Resolved", "Programmed", "Age"];
    ensure(names == wide, || format!("the columns are {names:?}"))?;
    let row = rows.iter().find(|row| row.first() == Some(&json!("machines"))).cloned().unwrap_or_default();
    let shown = [json!("machines"), json!("virtualmachines"), json!("vpcs,regions"), json!("True")];
    ensure(row.starts_with(&shown), || format!("the row is {row:?}"))
}

fn field_ref(rule: &mut Value) -> &mut Value {
    &mut rule["spec"]["dependencies"][0]["fieldRef"]
}

fn path(rule: &mut Value, path: &str) {
    field_ref(rule)["path"] = json!(path);
}

fn by_labels(rule: &mut Value) {
    let first = rule["spec"]["dependencies"][0].as_object_mut().unwrap();
    first.remove("fieldRef");
    first.insert("selectorRef".to_owned(), json!({"path": ".spec.vpcSelector"}));
}

fn requirement(rule: &mut Value, requirement: &Value) {
    rule["spec"]["dependent"]["selector"] = json!({"matchExpressions": [requirement]});
}
