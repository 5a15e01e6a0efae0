use super::*;
use crate::model::webhook_configuration::{Step, step};
use crate::testing::{clients, local, looking, rule, stored};
use depguard_core::ControlPlane;

/// Returns the references of a local rule about Pods after an edit of its spec.
fn checked(edit: impl Fn(&mut Value)) -> Option<CheckedReferences> {
    let mut rule = looking(local(rule("compute", "a", &[("", "vpcs.network.example.com")])), "Deny");
    edit(&mut rule["spec"]);
    CheckedReferences::from_rule(&Rule::parse(ControlPlane::Kubernetes, &rule).unwrap())
}

/// Returns the configuration for these references, in plain Kubernetes.
fn desired_for(references: &[(FailurePolicy, CheckedReferences)]) -> Value {
    let mut kinds = ReferringKinds::default();
    references.iter().for_each(|(policy, references)| kinds.insert(*policy, references));
    let clients =
        crate::runtime::client_config::Clients { own_namespace: Some("depguard-system".to_owned()), ..clients() };
    desired(&kinds, &clients.for_references(&None))
}

fn webhooks(configuration: &Value) -> &[Value] {
    configuration["webhooks"].as_array().unwrap()
}

/// Returns the names of the webhook's match conditions.
fn conditions(webhook: &Value) -> Vec<&str> {
    let conditions = webhook["matchConditions"].as_array().into_iter().flatten();
    conditions.map(|condition| condition["name"].as_str().unwrap()).collect()
}

/// Returns the references of a local rule about a kind of Kubernetes' own, with this path.
fn built_in(group: &str, kind: &str, resource: &str, path: &str) -> CheckedReferences {
    let references = checked(|spec| {
        spec["dependent"] = json!({"group": group, "version": "v1", "kind": kind, "resource": resource});
        spec["dependencies"][0]["fieldRef"]["path"] = json!(path);
    });
    references.unwrap()
}

/// Returns the resources of the only webhook.
fn resources(references: CheckedReferences) -> Vec<String> {
    let desired = desired_for(&[(FailurePolicy::Fail, references)]);
    let [webhook] = webhooks(&desired) else { panic!("{desired}") };
    let rules = webhook["rules"].as_array().unwrap().iter();
    rules.map(|rule| rule["resources"][0].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_rule_that_looks_for_no_target_is_not_in_it() {
    assert_eq!(checked(|spec| spec["dependencies"][0]["onMissing"] = json!("Ignore")), None);
    assert_eq!(checked(|spec| _ = spec["dependencies"][0].as_object_mut().unwrap().remove("onMissing")), None);
    for outcome in ["Audit", "Warn", "Deny"] {
        assert!(checked(|spec| spec["dependencies"][0]["onMissing"] = json!(outcome)).is_some(), "{outcome}");
    }
}

#[test]
fn creations_and_updates_are_reviewed_in_the_rule_s_version() {
    let desired = desired_for(&[(FailurePolicy::Fail, checked(|_| ()).unwrap())]);
    let [webhook] = webhooks(&desired) else { panic!("{desired}") };
    assert_eq!(desired["metadata"]["name"], "dependency-references");
    assert_eq!(webhook["name"], "v1alpha1.dependency-references.dependencies.opendefense.cloud");
    assert_eq!(webhook["clientConfig"]["url"], "https://webhook.example.com/reference");
    assert_eq!(webhook["failurePolicy"], "Fail");
    assert_eq!(webhook["matchPolicy"], "Equivalent");
    assert_eq!(webhook["sideEffects"], "NoneOnDryRun");
    assert_eq!(webhook["namespaceSelector"]["matchExpressions"][0]["values"], json!(["depguard-system"]));
    assert_eq!(
        webhook["rules"],
        json!([{
            "operations": ["CREATE", "UPDATE"], "apiGroups": ["compute.example.com"], "apiVersions": ["v1alpha1"],
            "resources": ["virtualmachines"], "scope": "*",
        }])
    );
    assert_eq!(step(Some(&stored(&desired)), Some(&desired)), Step::Nothing);
}

#[test]
fn the_condition_compares_all_that_the_rule_reads() {
    let references = checked(|spec| {
        spec["dependent"]["selector"] = json!({"matchLabels": {"tier": "prod"}});
        spec["dependencies"][0]["fieldRef"] = json!({
            "path": ".spec.refs[*].name", "kindPath": ".spec.refs[*].kind", "namespacePath": ".spec.namespace",
            "uidPath": ".spec.uid", "groupPath": ".spec.group",
        });
        spec["dependencies"][0]["kind"] = json!("VPC");
        spec["dependencies"][0]["when"] = json!({"path": ".spec.state", "in": ["on"]});
        spec["dependencies"].as_array_mut().unwrap().push(json!({
            "group": "", "version": "v1", "resource": "secrets", "fieldRef": {"path": ".spec.never"},
        }));
    });
    let desired = desired_for(&[(FailurePolicy::Fail, references.unwrap())]);
    let conditions = webhooks(&desired)[0]["matchConditions"].as_array().unwrap();
    let [deleted, condition] = conditions.as_slice() else { panic!("{conditions:?}") };
    assert_eq!(deleted["name"], "not-being-deleted");
    assert_eq!(condition["name"], "compute.example.com/virtualmachines");
    let expression = condition["expression"].as_str().unwrap();
    for field in [
        r#"[?"metadata"][?"labels"][?"tier"]"#,
        r#"[?"metadata"][?"ownerReferences"]"#,
        r#"[?"spec"][?"refs"]"#,
        r#"[?"spec"][?"namespace"]"#,
        r#"[?"spec"][?"uid"]"#,
        r#"[?"spec"][?"group"]"#,
        r#"[?"spec"][?"state"]"#,
    ] {
        assert!(expression.contains(&format!("object{field} != oldObject{field}")), "{field}: {expression}");
    }
    assert!(!expression.contains("never"), "{expression}");
}

#[test]
fn subresources_that_can_change_an_input_are_reviewed() {
    let at = |path: &'static str| checked(|spec| spec["dependencies"][0]["fieldRef"]["path"] = json!(path)).unwrap();
    assert_eq!(resources(at(".spec.vpc")), ["virtualmachines"]);
    assert_eq!(resources(at(".metadata.annotations.vpc")), ["virtualmachines"]);
    assert_eq!(resources(at(".status.vpc")), ["virtualmachines", "virtualmachines/status"]);
    assert_eq!(resources(at("*.vpc")), ["virtualmachines", "virtualmachines/status"]);
    let pods = |path| resources(built_in("", "Pod", "pods", path));
    // The ownerReferences are an input of each rule.
    assert_eq!(pods(".spec.vpc"), ["pods", "pods/status"]);
    assert_eq!(pods(".spec.ephemeralContainers[*].image"), ["pods", "pods/ephemeralcontainers", "pods/status"]);
    assert_eq!(pods(".spec.containers[*].resources.claims[*].name"), ["pods", "pods/resize", "pods/status"]);
    assert_eq!(pods(".metadata.ownerReferences[*].name"), ["pods", "pods/status"]);
    let namespaces = |path| resources(built_in("", "Namespace", "namespaces", path));
    assert_eq!(namespaces(".metadata.labels.vpc"), ["namespaces", "namespaces/finalize", "namespaces/status"]);
    assert_eq!(namespaces(".spec.vpc"), ["namespaces", "namespaces/finalize", "namespaces/status"]);
    let requests = "certificatesigningrequests";
    let expected = [requests.to_owned(), format!("{requests}/approval"), format!("{requests}/status")];
    assert_eq!(
        resources(built_in("certificates.k8s.io", "CertificateSigningRequest", requests, ".metadata.labels.vpc")),
        expected
    );
}

#[test]
fn nothing_is_asked_about_what_is_being_deleted() {
    let references = built_in("", "Namespace", "namespaces", ".metadata.labels.vpc");
    let unknown = CheckedReferences { inputs: None, ..references.clone() };
    for references in [references, unknown] {
        let desired = desired_for(&[(FailurePolicy::Fail, references)]);
        assert_eq!(
            webhooks(&desired)[0]["matchConditions"][0]["expression"],
            r#"request.operation != 'UPDATE' || object[?"metadata"][?"deletionTimestamp"].orValue(null) == null"#
        );
    }
}

#[test]
fn no_webhook_that_is_down_stops_the_scheduler() {
    let annotation = r#"object[?"metadata"][?"annotations"][?"a.b/c"].hasValue()"#;
    let label = r#"object[?"metadata"][?"labels"][?"tier"].hasValue()"#;
    let (annotations, bindings) = ("annotations.v1.", "bindings.v1.");
    for (paths, expected) in [
        (&[".spec.vpc", ".metadata.ownerReferences[*].name"][..], vec![]),
        (&[".metadata.annotations['a.b/c']"], vec![(annotations, "Fail", Some(annotation))]),
        (&[".metadata.labels.tier"], vec![(bindings, "Ignore", Some(label))]),
        (&[".spec.nodeName", ".metadata.labels.tier"], vec![(bindings, "Ignore", None)]),
        (
            &[".spec.nodeName", ".metadata.annotations['a.b/c']"],
            vec![(annotations, "Fail", Some(annotation)), (bindings, "Ignore", None)],
        ),
    ] {
        let all: Vec<_> = paths.iter().map(|path| (FailurePolicy::Fail, built_in("", "Pod", "pods", path))).collect();
        let desired = desired_for(&all);
        let shown = webhooks(&desired)[1..].iter().map(|webhook| {
            assert_eq!(webhook["rules"][0]["resources"], json!(["pods/binding"]));
            assert_eq!(webhook["rules"][1]["resources"], json!(["bindings"]));
            assert_eq!(webhook["rules"][1]["operations"], json!(["CREATE"]));
            assert_eq!(webhook["clientConfig"]["url"], "https://webhook.example.com/reference");
            assert_eq!(webhook["namespaceSelector"]["matchExpressions"][0]["values"], json!(["depguard-system"]));
            let name =
                webhook["name"].as_str().unwrap().strip_suffix("dependency-references.dependencies.opendefense.cloud");
            (
                name.unwrap(),
                webhook["failurePolicy"].as_str().unwrap(),
                webhook["matchConditions"][0]["expression"].as_str(),
            )
        });
        assert_eq!(shown.collect::<Vec<_>>(), expected, "{paths:?}");
        let tolerated = all.iter().any(|(_, references)| references.tolerate_bindings());
        assert_eq!(tolerated, expected.iter().any(|(_, policy, _)| *policy == "Ignore"), "{paths:?}");
    }
    let long = format!(".metadata.annotations['{}']", "a".repeat(200));
    let many: Vec<_> = (0..30).map(|number| long.replace("aa']", &format!("{number}']"))).collect();
    let many: Vec<_> = many.iter().map(|path| (FailurePolicy::Fail, built_in("", "Pod", "pods", path))).collect();
    let desired = desired_for(&many);
    assert_eq!(
        webhooks(&desired)[1]["matchConditions"][0]["expression"],
        r#"object[?"metadata"][?"annotations"].hasValue()"#
    );
}

#[test]
fn each_policy_and_version_has_a_webhook_and_a_rule_that_cannot_be_used_has_all_versions() {
    let mut broken = looking(local(rule("compute", "a", &[("", "vpcs.network.example.com")])), "Deny");
    broken["spec"]["dependencies"][0]["fieldRef"]["path"] = json!("..");
    let partial = PartialRule::read(ControlPlane::Kubernetes, &broken).unwrap();
    let broken = CheckedReferences::from_partial(&partial).unwrap();
    let other = checked(|spec| spec["dependent"]["version"] = json!("v1")).unwrap();
    let (fail, ignore) = (FailurePolicy::Fail, FailurePolicy::Ignore);
    let usable = checked(|_| ()).unwrap();
    let desired =
        desired_for(&[(ignore, usable.clone()), (fail, usable.clone()), (fail, other), (fail, broken), (fail, usable)]);
    let shown = webhooks(&desired).iter().map(|webhook| {
        let name =
            webhook["name"].as_str().unwrap().strip_suffix("dependency-references.dependencies.opendefense.cloud");
        let versions = webhook["rules"][0]["apiVersions"][0].as_str().unwrap();
        let url = webhook["clientConfig"]["url"].as_str().unwrap().strip_prefix("https://webhook.example.com").unwrap();
        (name.unwrap(), versions, url, webhook["matchConditions"].as_array().map(Vec::len))
    });
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            ("", "*", "/reference", Some(1)),
            ("v1.", "v1", "/reference", Some(2)),
            ("v1alpha1.", "v1alpha1", "/reference", Some(2)),
            ("v1alpha1.ignore.", "v1alpha1", "/reference/ignore", Some(2)),
        ]
    );
}

#[test]
fn where_a_condition_would_be_too_long_or_one_too_many_each_update_is_reviewed() {
    let long = checked(|spec| {
        let path = format!(".spec.{}", vec!["a"; 100].join("."));
        spec["dependencies"][0]["fieldRef"]["path"] = json!(path);
    });
    let desired = desired_for(&[(FailurePolicy::Fail, long.unwrap())]);
    assert_eq!(conditions(&webhooks(&desired)[0]), ["not-being-deleted"]);
    let many = (0..70).map(|number| {
        let references = checked(|spec| spec["dependent"]["resource"] = json!(format!("kind{number}s")));
        (FailurePolicy::Fail, references.unwrap())
    });
    let secrets = checked(|spec| {
        spec["dependent"] = json!({"group": "", "version": "v1alpha1", "kind": "Secret", "resource": "secrets"});
    });
    let all: Vec<_> = many.chain([(FailurePolicy::Fail, secrets.unwrap())]).collect();
    let desired = desired_for(&all);
    let webhook = &webhooks(&desired)[0];
    assert_eq!(webhook["rules"].as_array().unwrap().len(), 72);
    assert_eq!(conditions(webhook).len(), 64);
    assert_eq!(conditions(webhook)[..2], ["not-a-helm-release", "not-being-deleted"]);
    assert!(
        webhook["matchConditions"][0]["expression"]
            .as_str()
            .unwrap()
            .ends_with("!has(object.type) || object.type != 'helm.sh/release.v1'")
    );
}

#[test]
fn a_kind_whose_inputs_are_unknown_has_no_condition_whatever_the_order() {
    let usable = checked(|_| ()).unwrap();
    let unknown = CheckedReferences { inputs: None, ..usable.clone() };
    for order in [[usable.clone(), unknown.clone()], [unknown, usable]] {
        let desired = desired_for(&order.map(|references| (FailurePolicy::Fail, references)));
        assert_eq!(conditions(&webhooks(&desired)[0]), ["not-being-deleted"]);
    }
}
