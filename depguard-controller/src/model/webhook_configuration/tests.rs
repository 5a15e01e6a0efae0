use depguard_core::interlock::{Buckets, RegisterKey};

use super::*;
use crate::testing::{client_configs, desired_for, kind, stored};

#[test]
fn there_is_one_entry_a_target_sorted_and_once() {
    let object = desired_for(&["vpcs.network.example.com", "configmaps", "vpcs.network.example.com"]);
    let rules = object.pointer("/webhooks/0/rules").unwrap();
    assert_eq!(
        *rules,
        json!([
            {"operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"], "scope": "*"},
            {"operations": ["DELETE"], "apiGroups": ["network.example.com"], "apiVersions": ["*"], "resources": ["vpcs"], "scope": "*"},
        ])
    );
}

/// If this fails because another configuration is made, raise [`REVISION`]: two versions of the controller would
/// write against each other.
#[test]
fn a_revision_is_of_one_configuration() {
    let clients = client_configs();
    assert_eq!(
        desired_for(&["vpcs.network.example.com"]),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {
                "name": "dependency-controller",
                "labels": {"app.kubernetes.io/managed-by": "depguard"},
                "annotations": {"dependencies.opendefense.cloud/configuration-revision": "5"},
            },
            "webhooks": [{
                "name": "dependency-controller.dependencies.opendefense.cloud", "clientConfig": clients.fail,
                "rules": [{
                    "operations": ["DELETE"], "apiGroups": ["network.example.com"], "apiVersions": ["*"],
                    "resources": ["vpcs"], "scope": "*",
                }],
                "failurePolicy": "Fail", "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
                "sideEffects": "NoneOnDryRun", "timeoutSeconds": 10, "admissionReviewVersions": ["v1"],
            }],
        })
    );
}

#[test]
fn rules_that_ignore_failures_have_a_webhook_of_their_own() {
    let mut kinds = Kinds::default();
    kinds.insert(FailurePolicy::Ignore, kind("configmaps"), &[]);
    let alone = desired(&kinds, &client_configs());
    assert_eq!(alone["webhooks"].as_array().unwrap().len(), 1);
    kinds.insert(FailurePolicy::Fail, kind("configmaps"), &[]);
    let both = desired(&kinds, &client_configs());
    assert_eq!(both["webhooks"][1], alone["webhooks"][0]);
    assert_eq!(both["webhooks"][0]["failurePolicy"], "Fail");
    assert_eq!(both["webhooks"][1]["failurePolicy"], "Ignore");
    assert_eq!(both["webhooks"][1]["clientConfig"]["url"], "https://webhook.example.com/validate/ignore");
    assert_ne!(both["webhooks"][0]["name"], both["webhooks"][1]["name"]);
    assert_eq!(step(Some(&stored(&both)), Some(&both)), Step::Nothing);
    assert_eq!(step(Some(&stored(&both)), Some(&alone)), Step::Apply);
}

#[test]
fn what_an_api_server_stores_of_it_is_installed() {
    let desired = desired_for(&["vpcs.network.example.com"]);
    assert!(is_installed(&stored(&desired), &desired));
    // The API server fills in the defaults of missing fields.
    let mut sparse = stored(&desired);
    for field in ["failurePolicy", "matchPolicy", "namespaceSelector", "objectSelector", "timeoutSeconds"] {
        sparse["webhooks"][0].as_object_mut().unwrap().remove(field);
    }
    sparse["webhooks"][0]["rules"][0].as_object_mut().unwrap().remove("scope");
    sparse["webhooks"][0]["matchConditions"] = json!([]);
    assert!(is_installed(&sparse, &desired));
}

type Edit = fn(&mut Value);

/// Changes of a webhook, each of which may have less reviewed, or reviewed in another way.
const WEAKENING: &[(&str, Edit)] = &[
    ("namespaceSelector", |w| w["namespaceSelector"] = json!({"matchLabels": {"a": "b"}})),
    ("objectSelector", |w| w["objectSelector"] = json!({"matchLabels": {"a": "b"}})),
    ("matchConditions", |w| w["matchConditions"] = json!([{"name": "no", "expression": "false"}])),
    ("fewer rules", |w| w["rules"] = json!([])),
    ("another group", |w| w["rules"][0]["apiGroups"] = json!(["other.example.com"])),
    ("one version", |w| w["rules"][0]["apiVersions"] = json!(["v1"])),
    ("another operation", |w| w["rules"][0]["operations"] = json!(["CREATE"])),
    ("a scope", |w| w["rules"][0]["scope"] = json!("Cluster")),
    ("failurePolicy", |w| w["failurePolicy"] = json!("Ignore")),
    ("matchPolicy", |w| w["matchPolicy"] = json!("Exact")),
    ("timeout", |w| w["timeoutSeconds"] = json!(1)),
    ("url", |w| w["clientConfig"]["url"] = json!("https://elsewhere.example.com/validate")),
    ("caBundle", |w| w["clientConfig"]["caBundle"] = json!("AAAA")),
    ("no caBundle", |w| {
        w["clientConfig"].as_object_mut().unwrap().remove("caBundle");
    }),
    ("review versions", |w| w["admissionReviewVersions"] = json!(["v1beta1", "v1"])),
    ("side effects", |w| w["sideEffects"] = json!("None")),
    ("a field not known here", |w| w["onlyOnSundays"] = json!(true)),
    ("its name", |w| w["name"] = json!("x.example.com")),
];

#[test]
fn whatever_weakens_it_is_put_right() {
    let desired = desired_for(&["vpcs.network.example.com"]);
    for (what, edit) in WEAKENING {
        let mut existing = stored(&desired);
        edit(&mut existing["webhooks"][0]);
        assert_eq!(step(Some(&existing), Some(&desired)), Step::Apply, "{what}");
        assert!(is_installed(&replacement(&existing, &desired), &desired), "{what}");
    }
    let mut existing = stored(&desired);
    existing["webhooks"].as_array_mut().unwrap().push(json!({"name": "a.b.c"}));
    assert_eq!(step(Some(&existing), Some(&desired)), Step::Apply, "a second webhook");
    assert!(is_installed(&replacement(&existing, &desired), &desired));
}

#[test]
fn what_others_put_on_it_stays() {
    let desired = desired_for(&["vpcs.network.example.com"]);
    let mut existing = stored(&desired);
    existing["metadata"]["labels"]["claimed.internal.apis.kcp.io/x"] = json!("y");
    existing["metadata"]["annotations"]["note"] = json!("kept");
    assert_eq!(step(Some(&existing), Some(&desired)), Step::Nothing);

    existing["webhooks"] = json!([]);
    let replacement = replacement(&existing, &desired);
    assert_eq!(replacement["metadata"]["labels"]["claimed.internal.apis.kcp.io/x"], "y");
    assert_eq!(replacement["metadata"]["annotations"]["note"], "kept");
    assert_eq!(replacement["metadata"]["resourceVersion"], existing["metadata"]["resourceVersion"]);
}

#[test]
fn the_reference_s_own_is_taken_over_and_a_foreign_one_is_left() {
    let desired = desired_for(&["vpcs.network.example.com"]);
    let mut unlabelled = stored(&desired);
    unlabelled["metadata"].as_object_mut().unwrap().remove("labels");
    assert_eq!(step(Some(&unlabelled), Some(&desired)), Step::Apply);
    assert_eq!(step(Some(&unlabelled), None), Step::Delete);
    assert!(is_installed(&replacement(&unlabelled, &desired), &desired));

    let mut two = unlabelled.clone();
    two["webhooks"].as_array_mut().unwrap().push(json!({"name": "mine.example.com"}));
    let mut other = unlabelled.clone();
    other["webhooks"][0]["name"] = json!("mine.example.com");
    let mut none = unlabelled.clone();
    none["webhooks"] = json!([]);
    for foreign in [two, other, none] {
        assert_eq!(step(Some(&foreign), Some(&desired)), Step::LeaveForeign);
        assert_eq!(step(Some(&foreign), None), Step::LeaveForeign);
    }
}

#[test]
fn the_last_target_gone_it_is_deleted_once() {
    let mut existing = stored(&desired_for(&["vpcs.network.example.com"]));
    assert_eq!(step(Some(&existing), None), Step::Delete);
    existing["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(step(Some(&existing), None), Step::Nothing);
    assert_eq!(step(None, None), Step::Nothing);
}

/// Returns the desired configuration in plain Kubernetes.
fn in_kubernetes(kinds: &[&str]) -> Value {
    of_kubernetes(&Kinds { fail: kinds.iter().map(|name| (kind(name), BTreeSet::new())).collect(), ..Kinds::default() })
}

fn of_kubernetes(kinds: &Kinds) -> Value {
    desired(kinds, &ClientConfigs { own_namespace: Some("depguard-system".to_owned()), ..client_configs() })
}

#[test]
fn a_webhook_does_not_hear_of_a_name_if_all_its_rules_exclude_it() {
    let names = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect::<Vec<_>>();
    let condition = "request.resource.group != '' || request.resource.resource != 'configmaps' || \
         oldObject == null || !has(oldObject.metadata.name) || !(oldObject.metadata.name in ['b'])";
    let mut kinds = Kinds::default();
    kinds.insert(FailurePolicy::Fail, kind("configmaps"), &names(&["a", "b"]));
    kinds.insert(FailurePolicy::Fail, kind("configmaps"), &names(&["c", "b"]));
    kinds.insert(FailurePolicy::Fail, kind("vpcs.network.example.com"), &[]);
    let conditions = |kinds: &Kinds| of_kubernetes(kinds)["webhooks"][0]["matchConditions"].clone();
    assert_eq!(conditions(&kinds), json!([{"name": "configmaps", "expression": condition}]));
    assert_eq!(desired(&kinds, &client_configs())["webhooks"][0].get("matchConditions"), None, "in a kcp");
    // What a rule of the other policy says is that webhook's.
    kinds.insert(FailurePolicy::Ignore, kind("configmaps"), &[]);
    assert_eq!(of_kubernetes(&kinds)["webhooks"][1].get("matchConditions"), None);
    assert_eq!(conditions(&kinds)[0]["expression"], condition);
    // One rule that doesn't exclude the name is enough, in whatever order.
    let mut other = Kinds::default();
    other.insert(FailurePolicy::Fail, kind("configmaps"), &[]);
    other.insert(FailurePolicy::Fail, kind("configmaps"), &names(&["b"]));
    kinds.insert(FailurePolicy::Fail, kind("configmaps"), &[]);
    assert_eq!((conditions(&kinds), conditions(&other)), (Value::Null, Value::Null));
    // Helm's releases keep the condition of their own.
    let mut secrets = Kinds::default();
    secrets.insert(FailurePolicy::Fail, kind("secrets"), &names(&["b"]));
    assert_eq!(conditions(&secrets).as_array().unwrap().len(), 2);
    // With a list that is too long, API servers ask about each name.
    let long: Vec<_> = (0..32).map(|n| format!("{n}{}", "x".repeat(250)).parse().unwrap()).collect();
    let mut many = Kinds::default();
    many.insert(FailurePolicy::Fail, kind("configmaps"), &long);
    assert_eq!(conditions(&many), Value::Null);
}

#[test]
fn depguards_own_namespace_and_helms_releases_are_never_held_up() {
    let object = in_kubernetes(&["pods", "secrets"]);
    let exempt = json!({"matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["depguard-system"]},
    ]});
    assert_eq!(object["webhooks"][0]["namespaceSelector"], exempt);
    let condition = object["webhooks"][0]["matchConditions"][0]["expression"].as_str().unwrap();
    assert!(condition.ends_with("oldObject.type != 'helm.sh/release.v1'"), "{condition}");
    // Without Secrets there are no conditions, so an API server that knows none will do.
    assert_eq!(in_kubernetes(&["pods"])["webhooks"][0].get("matchConditions"), None);
    let in_kcp = desired_for(&["pods", "secrets"]);
    assert_eq!(in_kcp["webhooks"][0]["namespaceSelector"], json!({}));
    assert_eq!(in_kcp["webhooks"][0].get("matchConditions"), None);
    assert!(is_installed(&stored(&object), &object));
}

#[test]
fn who_protects_pods_hears_of_evictions_too() {
    let asked = |object: &Value| {
        let rules = object.pointer("/webhooks/0/rules").and_then(Value::as_array).unwrap().clone();
        rules.iter().map(|rule| format!("{} {}", rule["operations"][0], rule["resources"][0])).collect::<Vec<_>>()
    };
    let pods = in_kubernetes(&["pods", "secrets", "pods.example.com"]);
    let expected =
        ["\"DELETE\" \"pods\"", "\"CREATE\" \"pods/eviction\"", "\"DELETE\" \"secrets\"", "\"DELETE\" \"pods\""];
    assert_eq!(asked(&pods), expected);
    assert_eq!(asked(&in_kubernetes(&["secrets"])), [expected[2]]);
    // A kcp serves no evictions.
    assert_eq!(asked(&desired_for(&["pods"])), [expected[0]]);
}

#[test]
fn the_canarys_webhook_can_hold_up_nothing_else() {
    let object = in_kubernetes(&["vpcs.network.example.com"]);
    let webhooks = object["webhooks"].as_array().unwrap();
    assert_eq!(webhooks[0]["name"], WEBHOOK);
    let canary = &webhooks[1];
    assert_eq!(canary["failurePolicy"], "Ignore");
    assert_eq!(canary["rules"].as_array().unwrap().len(), 1);
    assert_eq!(canary["rules"][0]["resources"], json!(["configmaps"]));
    assert_eq!(canary["namespaceSelector"], json!({"matchLabels": {"kubernetes.io/metadata.name": "depguard-system"}}));
    assert_eq!(canary["objectSelector"], json!({"matchLabels": {"dependencies.opendefense.cloud/canary": "true"}}));
    assert_eq!(desired_for(&["vpcs.network.example.com"])["webhooks"].as_array().unwrap().len(), 1);
}

#[test]
fn what_a_newer_version_wrote_is_left_to_it_while_it_has_all_that_is_needed() {
    let desired = desired_for(&["vpcs.network.example.com"]);
    let mut newer = stored(&desired_for(&["vpcs.network.example.com", "zones.network.example.com"]));
    newer["metadata"]["annotations"][REVISION_ANNOTATION] = json!((REVISION + 1).to_string());
    newer["webhooks"].as_array_mut().unwrap().push(json!({"name": "more.example.com"}));
    assert_eq!(step(Some(&newer), Some(&desired)), Step::Defer { in_force: true });
    assert!(is_in_force(&newer, &desired));
    for (what, edit) in WEAKENING {
        let mut lacking = newer.clone();
        edit(&mut lacking["webhooks"][0]);
        assert_eq!(step(Some(&lacking), Some(&desired)), Step::Defer { in_force: false }, "{what}");
        assert!(!is_in_force(&lacking, &desired), "{what}");
        assert!(is_installed(&replacement(&lacking, &desired), &desired), "{what}");
    }
    assert_eq!(step(Some(&newer), None), Step::Defer { in_force: false });
    // An older configuration, and one without a revision, are brought up to date.
    for older in [json!("0"), Value::Null, json!("what")] {
        let mut older_one = stored(&desired);
        older_one["metadata"]["annotations"][REVISION_ANNOTATION] = older;
        assert_eq!(step(Some(&older_one), Some(&desired)), Step::Apply);
    }
}

#[test]
fn a_configuration_whose_signature_is_renewed_is_in_force_all_the_while() {
    let buckets = Buckets::new(4).unwrap().keyed(RegisterKey::new([7; RegisterKey::LEN]));
    let at = |path: String| {
        let kinds = Kinds { fail: [(kind("vpcs.network.example.com"), BTreeSet::new())].into(), ..Kinds::default() };
        let client = json!({"service": {"namespace": "ns", "name": "hook", "path": path}});
        desired(&kinds, &ClientConfigs { fail: client.clone(), ignore: client, own_namespace: None })
    };
    let segment = format!("/{}", buckets.generation().unwrap().to_segment());
    let signed = |period| PathKey::of_period(buckets, period).unwrap().suffix_after(&segment, None);
    let (old, new) = (format!("/validate{}", signed(1)), format!("/validate{}", signed(2)));
    assert!(!is_installed(&at(old.clone()), &at(new.clone())) && is_in_force(&at(old.clone()), &at(new.clone())));
    let plain = PathKey::parse("0123456789abcdef0123456789abcdef").unwrap().suffix(None);
    for (existing, desired) in [
        // An unsigned path is not answered, nor is that of another place or of other registers.
        (format!("/validate{segment}"), new.clone()),
        (old.replace(PathKey::WHOLE, "2x3"), new.clone()),
        (old.replacen("/registers-", "/registers-f", 1), new.clone()),
        (old[..old.len() - 1].to_owned(), new.clone()),
        // The operator changes the key of other paths.
        (format!("/validate{plain}"), format!("/validate{}", plain.replace('a', "b"))),
    ] {
        assert!(!is_in_force(&at(existing.clone()), &at(desired)), "{existing}");
    }
}
