use std::collections::BTreeMap;

use serde_json::json;

use super::*;

type Edit = fn(&mut Value);

const VMS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/vms.example.com";
const VPCS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/vpcs.example.com";

fn rule() -> Value {
    json!({
        "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule",
        "metadata": {"name": "vms", "annotations": {"kcp.io/cluster": "compute"}},
        "spec": {
            "dependent": {"group": "example.com", "version": "v1", "kind": "VM", "resource": "vms"},
            "dependencies": [{
                "group": "example.com", "version": "v1", "resource": "vpcs", "fieldRef": {"path": ".spec.vpc"},
            }],
        },
    })
}

fn review(operation: &str, object: &Value, old: Option<&Value>) -> String {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "operation": operation, "name": "vms", "object": object, "oldObject": old,
        "resource": {"group": api::GROUP, "version": "v1alpha1", "resource": api::PLURAL},
    }})
    .to_string()
}

fn definition(kind: &str, resource: &str) -> Value {
    json!({"metadata": {"name": format!("{resource}.example.com")}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"kind": kind, "plural": resource},
        "versions": [{"name": "v1", "served": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "vpc": {"type": "string"}, "size": {"type": "integer"}, "kind": {"type": "string", "default": "VPC"},
                "select": {"type": "object", "properties": {"matchLabels": {"type": "object"}, "near": {"type": "boolean"}}},
            }},
        }}}}],
    }})
}

fn served() -> BTreeMap<&'static str, Value> {
    BTreeMap::from([(VMS, definition("VM", "vms")), (VPCS, definition("VPC", "vpcs"))])
}

/// Decides about a review, with the paths that were read.
fn decided(
    control_plane: ControlPlane,
    review: &str,
    served: &BTreeMap<&str, Value>,
    missing: u16,
) -> (SpecDecision, Vec<String>) {
    let review = ObjectReview::parse(review.as_bytes()).unwrap();
    let mut admission = SpecAdmission::begin(control_plane, &review);
    let mut read = Vec::new();
    while !admission.is_settled() {
        let queries = admission.queries();
        assert!(!queries.is_empty(), "nothing is asked, and nothing is settled");
        for query in queries {
            assert_eq!(query.cluster.is_some(), control_plane == ControlPlane::Kcp);
            match served.get(query.path.as_str()) {
                Some(body) => {
                    let body = body.to_string();
                    admission.answer(query.id, Answer::Response { status: 200, body: body.as_bytes() });
                }
                None => admission.answer(query.id, Answer::Response { status: missing, body: b"" }),
            }
            read.push(query.path);
        }
    }
    (admission.decide(), read)
}

fn created(edit: Edit) -> SpecDecision {
    let mut rule = rule();
    edit(&mut rule);
    decided(ControlPlane::Kubernetes, &review("CREATE", &rule, None), &served(), 404).0
}

#[test]
fn a_rule_that_does_not_work_is_refused_with_its_field() {
    for (edit, field, expected) in [
        (
            (|rule| rule["spec"]["dependencies"][0]["fieldRef"]["path"] = json!(".spec.vcp")) as Edit,
            "spec.dependencies[0].fieldRef.path",
            "`.spec` has no field `vcp`: it has",
        ),
        (
            |rule| rule["spec"]["dependencies"][0]["fieldRef"]["path"] = json!(".spec.size"),
            "spec.dependencies[0].fieldRef.path",
            "does not fit vms.example.com v1",
        ),
        (
            |rule| rule["spec"]["dependencies"][0]["fieldRef"]["path"] = json!(".spec.vpc-ref"),
            "spec.dependencies[0].fieldRef.path",
            "quote the name",
        ),
        (
            |rule| {
                rule["spec"]["dependencies"][0]["kind"] = json!("VPC");
                rule["spec"]["dependencies"][0]["fieldRef"] =
                    json!({"path": ".spec.vpc", "kindPath": ".spec.kind", "defaultKind": "VM"});
            },
            "spec.dependencies[0].fieldRef.defaultKind",
            "write `defaultKind: VPC`",
        ),
        (|rule| rule["spec"]["dependent"]["kind"] = json!("Vm"), "spec.dependent.kind", "is VM"),
        (|rule| rule["spec"]["dependencies"][0]["kind"] = json!("Vpc"), "spec.dependencies[0].kind", "is VPC"),
        (
            |rule| {
                rule["spec"]["dependencies"][0]["group"] = json!("authorization.k8s.io");
                rule["spec"]["dependencies"][0]["resource"] = json!("subjectaccessreviews");
            },
            "spec.dependencies[0]",
            "has no effect",
        ),
    ] {
        let decision = created(edit);
        assert!(!decision.allowed() && decision.label() == "refused", "{decision:?}");
        let message = decision.message().unwrap();
        assert!(message.starts_with("the rule does not work as written: ") && message.contains(expected), "{message}");
        let SpecDecision::Refused(_, errors) = &decision else { panic!("{decision:?}") };
        assert_eq!(errors[0].1.as_deref(), Some(field), "{message}");
        assert_eq!(decision.causes().words(), ["RuleInvalid"]);
    }
    assert_eq!(created(|_| {}), SpecDecision::Accepted(Vec::new()));
    let by_default = created(|rule| {
        rule["spec"]["dependencies"][0]["kind"] = json!("VPC");
        rule["spec"]["dependencies"][0]["fieldRef"] =
            json!({"path": ".spec.vpc", "kindPath": ".spec.kind", "defaultKind": "VPC"});
    });
    assert_eq!(by_default, SpecDecision::Accepted(Vec::new()));
}

#[test]
fn a_selector_that_may_have_fields_which_nobody_names_is_a_warning() {
    let selecting = |rule: &mut Value, by: Value| {
        let dependency = rule["spec"]["dependencies"][0].as_object_mut().unwrap();
        dependency.remove("fieldRef");
        dependency.insert("selectorRef".to_owned(), by);
    };
    let decided = |by: Value| {
        let mut rule = rule();
        selecting(&mut rule, by);
        decided(ControlPlane::Kubernetes, &review("CREATE", &rule, None), &served(), 404).0
    };
    let decision = decided(json!({"path": ".spec.select"}));
    assert!(decision.allowed() && decision.warnings()[0].contains("a selector at `.spec.select` may have `near`"));
    let named = decided(json!({"path": ".spec.select", "narrowedBy": ["near"]}));
    assert_eq!(named, SpecDecision::Accepted(Vec::new()));
}

/// Rules are applied before the definitions of their kinds.
#[test]
fn a_kind_or_a_version_that_is_not_served_is_a_warning() {
    for (edit, expected) in [
        ((|rule| rule["spec"]["dependencies"][0]["resource"] = json!("vpc")) as Edit, "there is no vpc.example.com v1"),
        (|rule| rule["spec"]["dependent"]["version"] = json!("v2"), "is not served in version v2, but in v1"),
    ] {
        let mut rule = rule();
        edit(&mut rule);
        let mut served = served();
        served.insert("/apis/example.com/v1", json!({"resources": [{"name": "vpcs", "kind": "VPC"}]}));
        let decision = decided(ControlPlane::Kubernetes, &review("CREATE", &rule, None), &served, 404).0;
        assert!(decision.allowed() && decision.label() == "warned", "{decision:?}");
        assert!(decision.warnings()[0].contains(expected), "{decision:?}");
    }
    // An API server stores only the fields that the installed definition has, which may be a newer one.
    let newer = created(|rule| rule["spec"]["dependencies"][0]["newer"] = json!("a"));
    let said = "not a DependencyRule that this version knows: unknown field `newer`";
    assert!(newer.allowed() && newer.warnings()[0].starts_with(said), "{newer:?}");
    // A pack's rule about a product that is not installed sleeps.
    let absent = |rule: &mut Value| rule["spec"]["dependencies"][0]["group"] = json!("other.example.com");
    assert_eq!(created(absent), SpecDecision::Accepted(Vec::new()));
}

#[test]
fn what_is_not_read_is_no_reason() {
    let mut wrong = rule();
    wrong["spec"]["dependencies"][0]["fieldRef"]["path"] = json!(".spec.vcp");
    let review = review("CREATE", &wrong, None);
    for status in [403, 500, 503] {
        let (decision, read) = decided(ControlPlane::Kubernetes, &review, &BTreeMap::new(), status);
        assert_eq!((decision, read.len()), (SpecDecision::Accepted(Vec::new()), 2), "{status}");
    }
    let broken = BTreeMap::from([(VMS, json!([])), (VPCS, json!({"spec": {}}))]);
    assert_eq!(decided(ControlPlane::Kubernetes, &review, &broken, 404).0, SpecDecision::Accepted(Vec::new()));
    // The time is up before any answer.
    let parsed = ObjectReview::parse(review.as_bytes()).unwrap();
    let mut admission = SpecAdmission::begin(ControlPlane::Kubernetes, &parsed);
    assert_eq!(admission.queries().len(), 2);
    assert_eq!(admission.queries(), []);
    assert_eq!(admission.decide(), SpecDecision::Accepted(Vec::new()));
}

#[test]
fn only_a_new_spec_is_reviewed() {
    let mut wrong = rule();
    wrong["spec"]["dependencies"][0]["fieldRef"]["path"] = json!(".spec.vcp");
    let decide = |review: &str| decided(ControlPlane::Kubernetes, review, &served(), 404);
    let unasked = |review: &str| assert_eq!(decide(review), (SpecDecision::NotReviewed, Vec::new()), "{review}");
    let mut labelled = wrong.clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    unasked(&review("UPDATE", &labelled, Some(&wrong)));
    let mut leaving = wrong.clone();
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    unasked(&review("UPDATE", &leaving, Some(&rule())));
    unasked(&review("DELETE", &Value::Null, Some(&wrong)));
    let whole = review("CREATE", &wrong, None);
    unasked(&whole.replace("dependencyrules", "locktables"));
    unasked(&whole.replace(r#""operation""#, r#""subResource":"status","operation""#));
    unasked(&review("CREATE", &Value::Null, None));
    assert!(!decide(&review("UPDATE", &wrong, Some(&rule()))).0.allowed());
    assert!(!decide(&whole).0.allowed());
    assert_eq!(decide(&review("UPDATE", &rule(), Some(&wrong))).0, SpecDecision::Accepted(Vec::new()));
}

#[test]
fn kinds_of_kubernetes_are_read_from_what_is_published() {
    let mut rule = rule();
    rule["spec"]["dependent"] = json!({"group": "", "version": "v1", "kind": "Pod", "resource": "pods"});
    rule["spec"]["dependencies"][0] = json!({
        "group": "apps", "version": "v1", "resource": "deployments", "fieldRef": {"path": ".spec.nodename"},
    });
    let pods = json!({"resources": [{"name": "pods", "kind": "Pod", "namespaced": true}]});
    let deployments = json!({"resources": [{"name": "deployments", "kind": "Deployment", "namespaced": true}]});
    let published = json!({"components": {"schemas": {"Pod": {
        "type": "object", "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Pod"}],
        "properties": {"spec": {"type": "object", "properties": {"nodeName": {"type": "string"}}}},
    }}}});
    let served = BTreeMap::from([("/api/v1", pods), ("/apis/apps/v1", deployments), ("/openapi/v3/api/v1", published)]);
    let (decision, mut read) = decided(ControlPlane::Kubernetes, &review("CREATE", &rule, None), &served, 404);
    assert!(decision.message().unwrap().contains("`.spec` has no field `nodename`: it has `nodeName`"), "{decision:?}");
    read.sort();
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/deployments.apps";
    assert_eq!(read, ["/api/v1", definition, "/apis/apps/v1", "/openapi/v3/api/v1"]);
    rule["spec"]["dependencies"][0]["fieldRef"]["path"] = json!(".spec.nodeName");
    let (decision, _) = decided(ControlPlane::Kubernetes, &review("CREATE", &rule, None), &served, 404);
    assert_eq!(decision, SpecDecision::Accepted(Vec::new()));
}

const EXPORTS: &str = "/apis/apis.kcp.io/v1alpha2/apiexports";

/// Returns the APIExport `compute.example.com`, which serves VMs, and its APIResourceSchema.
fn exported() -> BTreeMap<&'static str, Value> {
    let mut schema = definition("VM", "vms");
    let whole = schema["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take();
    schema["spec"]["versions"][0]["schema"] = whole;
    let resource = json!({"group": "example.com", "name": "vms", "schema": "v1.vms.example.com"});
    let export = json!({"metadata": {"name": "compute.example.com"}, "spec": {"resources": [resource]}});
    BTreeMap::from([
        (EXPORTS, json!({"items": [{"metadata": {"name": "other.example.com"}}, export]})),
        ("/apis/apis.kcp.io/v1alpha1/apiresourceschemas/v1.vms.example.com", schema),
    ])
}

fn exporting(edit: Edit) -> String {
    let mut rule = rule();
    rule["spec"]["dependent"]["apiExportName"] = json!("compute.example.com");
    rule["spec"]["dependencies"][0]["apiExportRef"] = json!({"path": "root:network", "name": "network.example.com"});
    edit(&mut rule);
    review("CREATE", &rule, None)
}

#[test]
fn in_kcp_a_rule_is_held_against_the_schema_of_its_own_export() {
    let decide = |edit: Edit| decided(ControlPlane::Kcp, &exporting(edit), &exported(), 404);
    let (right, read) = decide(|_| {});
    // The targets are another provider's.
    assert_eq!((right, read.len()), (SpecDecision::Accepted(Vec::new()), 2));
    let (wrong, _) = decide(|rule| rule["spec"]["dependencies"][0]["fieldRef"]["path"] = json!(".spec.vcp"));
    assert!(wrong.message().unwrap().contains("`.spec` has no field `vcp`: it has `"), "{wrong:?}");
    let (wrong, _) = decide(|rule| rule["spec"]["dependent"]["kind"] = json!("Vm"));
    assert!(wrong.message().unwrap().contains("is VM"), "{wrong:?}");
    for (edit, said) in [
        (
            (|rule| rule["spec"]["dependent"]["apiExportName"] = json!("comput.example.com")) as Edit,
            "no APIExport comput.example.com of this workspace serves vms.example.com",
        ),
        (|rule| rule["spec"]["dependent"]["resource"] = json!("vmes"), "serves vmes.example.com"),
        (|rule| rule["spec"]["dependent"]["version"] = json!("v2"), "is not served in version v2, but in v1"),
        (
            |rule| drop(rule["spec"]["dependent"].as_object_mut().unwrap().remove("apiExportName")),
            "spec.dependent has no apiExportName, so it means vms.example.com of the rule's own workspace only",
        ),
        (
            |rule| {
                rule["spec"]["dependencies"][0]["resource"] = json!("vms");
                drop(rule["spec"]["dependencies"][0].as_object_mut().unwrap().remove("apiExportRef"));
            },
            "spec.dependencies[0] has no apiExportRef, so the rule protects vms.example.com in its own workspace only",
        ),
    ] {
        let (decision, _) = decide(edit);
        assert!(decision.allowed() && decision.warnings().len() == 1, "{decision:?}");
        assert!(decision.warnings()[0].contains(said), "{decision:?}");
    }
}

#[test]
fn in_kcp_what_the_webhook_may_not_read_is_no_reason() {
    let decide = |review: &str| decided(ControlPlane::Kcp, review, &BTreeMap::new(), 403).0;
    let wrong = exporting(|rule| rule["spec"]["dependencies"][0]["fieldRef"]["path"] = json!(".spec.vcp"));
    assert_eq!(decide(&wrong), SpecDecision::Accepted(Vec::new()));
    let unusable = exporting(|rule| rule["spec"]["dependencies"][0]["fieldRef"]["path"] = json!("$.spec.vpc"));
    assert!(!decide(&unusable).allowed());
    let local = exporting(|rule| drop(rule["spec"]["dependencies"][0].as_object_mut().unwrap().remove("apiExportRef")));
    assert!(decide(&local).warnings()[0].contains("has no apiExportRef"), "{:?}", decide(&local));
    let of_nowhere = exporting(|rule| drop(rule["metadata"].as_object_mut().unwrap().remove("annotations")));
    assert_eq!(decide(&of_nowhere), SpecDecision::NotReviewed);
    // Kinds of the workspace itself are read where an API server serves them.
    let mut own = rule();
    own["spec"]["dependencies"][0]["fieldRef"]["path"] = json!(".spec.vcp");
    let (decision, read) = decided(ControlPlane::Kcp, &review("CREATE", &own, None), &served(), 403);
    assert!(decision.message().unwrap().contains("`.spec` has no field `vcp`"), "{decision:?}");
    assert_eq!(read, [EXPORTS, EXPORTS, VMS, VPCS]);
}

/// Whoever writes a rule with many kinds has no more read than these.
#[test]
fn a_review_reads_few_kinds_and_says_few_sentences() {
    let mut rule = rule();
    let edge = rule["spec"]["dependencies"][0].clone();
    let edges = (0..100).map(|number| {
        let mut edge = edge.clone();
        edge["resource"] = json!(format!("vpc{number}s"));
        edge["fieldRef"]["path"] = json!(".spec.vcp");
        edge
    });
    rule["spec"]["dependencies"] = edges.collect();
    let (decision, read) = decided(ControlPlane::Kubernetes, &review("CREATE", &rule, None), &served(), 404);
    assert_eq!(read.len(), 2 * MAX_KINDS - 1);
    let message = decision.message().unwrap();
    assert!(message.ends_with("; and 97 more problems") && message.len() < 2000, "{message}");
}

#[test]
fn a_namespace_that_the_rule_does_not_read_is_a_warning_unless_it_says_why() {
    let mut served = served();
    let fields = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let vms = served.get_mut(VMS).unwrap().pointer_mut(fields).unwrap();
    vms["vpcNamespace"] = json!({"type": "string"});
    let warnings =
        |rule: &Value| decided(ControlPlane::Kubernetes, &review("CREATE", rule, None), &served, 404).0.warnings();
    let said = warnings(&rule());
    assert!(said.len() == 1 && said[0].ends_with("write `namespacePath: .spec.vpcNamespace`"), "{said:?}");
    let mut silent = rule();
    silent["metadata"]["annotations"][api::LEFT_OUT_ANNOTATION] = json!(".spec.vpcNamespace: it is always empty");
    assert!(warnings(&silent).is_empty());
    let mut right = rule();
    right["spec"]["dependencies"][0]["fieldRef"]["namespacePath"] = json!(".spec.vpcNamespace");
    assert!(warnings(&right).is_empty());
}

/// Covers two authors who choose the same name, such as a pack's `jobs` and a rule about another product's jobs.
#[test]
fn a_rule_that_takes_the_place_of_another_is_a_warning() {
    let mut other = rule();
    other["spec"]["dependent"]["resource"] = json!("disks");
    let warnings = |old: &Value| {
        let review = review("UPDATE", &rule(), Some(old));
        [ControlPlane::Kcp, ControlPlane::Kubernetes]
            .map(|control_plane| decided(control_plane, &review, &served(), 404).0.warnings())
    };
    for warnings in warnings(&other) {
        let said = "a rule of this name was about disks.example.com, and is about vms.example.com now: ";
        assert!(warnings.len() == 1 && warnings[0].starts_with(said), "{warnings:?}");
    }
    let mut same = rule();
    same["spec"]["dependent"]["version"] = json!("v1beta1");
    assert_eq!(warnings(&same), [[].to_vec(), Vec::<String>::new()]);
}

/// Returns the review of a lock or an owner with this spec.
fn review_of(group: &str, resource: &str, spec: &Value, before: Option<&Value>) -> String {
    let namespace = (resource == "objectlocks").then_some("a");
    let object = |spec: &Value| json!({"metadata": {"name": "o", "namespace": namespace}, "spec": spec});
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "operation": if before.is_some() { "UPDATE" } else { "CREATE" }, "name": "o", "namespace": namespace,
        "object": object(spec), "oldObject": before.map(object),
        "resource": {"group": group, "version": "v1alpha1", "resource": resource},
    }})
    .to_string()
}

fn kubernetes(review: &str, served: &BTreeMap<&str, Value>) -> SpecDecision {
    decided(ControlPlane::Kubernetes, review, served, 404).0
}

fn locked(resource: &str, targets: &Value, served: &BTreeMap<&str, Value>) -> SpecDecision {
    kubernetes(&review_of(api::GROUP, resource, &json!({"targets": targets}), None), served)
}

fn owned(child: &Value, served: &BTreeMap<&str, Value>) -> SpecDecision {
    let review = review_of(owners::GROUP, owners::GLOBAL_OWNERS, &json!({"childResources": [child]}), None);
    kubernetes(&review, served)
}

#[test]
fn a_lock_that_can_lock_nothing_is_refused_with_the_form_that_would() {
    let mut served = served();
    served.get_mut(VPCS).unwrap()["spec"]["scope"] = json!("Cluster");
    let (vms, vpcs) = (
        json!({"group": "example.com", "resource": "vms", "name": "x"}),
        json!({"group": "example.com", "resource": "vpcs", "name": "x"}),
    );
    for (wrong, right, targets, said) in [
        (
            "clusterobjectlocks",
            "objectlocks",
            &vms,
            "vms.example.com are in namespaces, so a target without a namespace",
        ),
        ("objectlocks", "clusterobjectlocks", &vpcs, "vpcs.example.com have no namespace, so an ObjectLock"),
    ] {
        let decision = locked(wrong, &json!([targets]), &served);
        let message = decision.message().unwrap();
        assert!(message.starts_with("the lock does not work as written: spec.targets[0]: ") && message.contains(said));
        assert_eq!(decision.causes().words(), ["LockInvalid"]);
        assert_eq!(locked(right, &json!([targets]), &served), SpecDecision::Accepted(Vec::new()));
    }
    let reviews = json!({"group": "authorization.k8s.io", "resource": "subjectaccessreviews", "name": "x"});
    for control_plane in [ControlPlane::Kcp, ControlPlane::Kubernetes] {
        let spec = json!({"targets": [vpcs, reviews]});
        let review = review_of(api::GROUP, "clusterobjectlocks", &spec, None);
        let message = decided(control_plane, &review, &served, 404).0.message().unwrap();
        assert!(
            message.contains("spec.targets[1]: subjectaccessreviews.authorization.k8s.io can't be locked"),
            "{message}"
        );
    }
    // Its own review says so, and must.
    assert_eq!(
        locked("objectlocks", &json!([{"resource": "UPPER", "name": "x"}]), &served),
        SpecDecision::Accepted(Vec::new())
    );
}

#[test]
fn a_lock_names_kinds_in_whichever_version_they_are_served() {
    let lists = |name: &str| json!({"resources": [{"name": name, "kind": "A", "namespaced": false}]});
    let group = json!({"versions": [{"version": "v2"}, {"version": "not one"}, {"version": "v1beta1"}]});
    let served = BTreeMap::from([
        ("/apis/storage.example.com", group),
        ("/apis/storage.example.com/v2", lists("others")),
        ("/apis/storage.example.com/v1beta1", lists("classes")),
        ("/api/v1", lists("nodes")),
    ]);
    let class = json!({"group": "storage.example.com", "resource": "classes", "name": "x"});
    for target in [class, json!({"resource": "nodes", "name": "x"})] {
        assert!(!locked("objectlocks", &json!([target]), &served).allowed(), "{target}");
        assert_eq!(locked("clusterobjectlocks", &json!([target]), &served), SpecDecision::Accepted(Vec::new()));
    }
    for target in [
        json!({"group": "storage.example.com", "resource": "class", "name": "x"}),
        json!({"group": "absent.example.com", "resource": "classes", "name": "x"}),
        json!({"resource": "node", "name": "x"}),
    ] {
        let decision = locked("objectlocks", &json!([target]), &served);
        assert!(
            decision.allowed() && decision.warnings()[0].contains("spec.targets[0]: the API server does not serve")
        );
    }
}

#[test]
fn an_owner_that_does_not_work_is_refused_with_its_field() {
    let vms = |more: &Value| {
        let mut child = json!({"apiVersion": "example.com/v1", "resource": "vms"});
        child.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        child
    };
    let right = vms(&json!({"selector": {"matchLabels": {"tier": "a"}}}));
    for (wrong, field, said) in [
        (vms(&json!({})), "spec.childResources[0]", "has no selector, names or namespace"),
        (
            vms(&json!({"selector": {"matchLabels": {"-": "a"}}})),
            "spec.childResources[0].selector",
            "spec.childResources[0].selector: ",
        ),
        (
            json!({"apiVersion": "globalowner.metacontroller.io/v1alpha1", "resource": "groupowners", "names": ["a"]}),
            "spec.childResources[0]",
            "can't be owned",
        ),
    ] {
        let decision = owned(&wrong, &served());
        let message = decision.message().unwrap();
        assert!(
            message.starts_with("the GlobalOwner does not work as written: ") && message.contains(said),
            "{message}"
        );
        assert_eq!(decision.causes().words(), ["OwnerInvalid"]);
        let SpecDecision::Refused(_, errors) = &decision else { panic!("{decision:?}") };
        assert_eq!(errors[0].1.as_deref(), Some(field));
    }
    assert_eq!(owned(&right, &served()), SpecDecision::Accepted(Vec::new()));
    for (wrong, said) in [
        (
            json!({"apiVersion": "example.com/v2", "resource": "vms", "names": ["a"]}),
            "vms.example.com v2 in this version, but in v1",
        ),
        (json!({"apiVersion": "example.com/v1", "resource": "vm", "names": ["a"]}), "does not serve vm.example.com"),
        // The schema would not let this in; that of a newer version may.
        (vms(&json!({"names": {"first": "a"}})), "spec.childResources[0]: invalid type"),
    ] {
        let decision = owned(&wrong, &served());
        assert!(decision.allowed() && decision.warnings()[0].contains(said), "{decision:?}");
    }
}

#[test]
fn of_locks_and_owners_only_a_new_spec_is_reviewed() {
    let lock = json!({"targets": [{"group": "example.com", "resource": "vms", "name": "x"}]});
    let owner = json!({"childResources": [{"apiVersion": "v1", "resource": "secrets"}]});
    for (group, resource, wrong) in
        [(api::GROUP, "clusterobjectlocks", lock), (owners::GROUP, owners::GLOBAL_OWNERS, owner)]
    {
        let decide = |review: &str| decided(ControlPlane::Kubernetes, review, &served(), 404);
        let new = review_of(group, resource, &wrong, Some(&json!({})));
        assert!(!decide(&new).0.allowed());
        let unasked = |review: &str| assert_eq!(decide(review), (SpecDecision::NotReviewed, Vec::new()), "{review}");
        unasked(&review_of(group, resource, &wrong, Some(&wrong)));
        unasked(&new.replace(r#""name":"o""#, r#""name":"o","deletionTimestamp":"2026-01-01T00:00:00Z""#));
        unasked(&new.replace("UPDATE", "DELETE"));
        unasked(&new.replace(group, "other.example.com"));
    }
    // GroupOwners are the controller's.
    let group = review_of(owners::GROUP, owners::GROUP_OWNERS, &json!({"childResource": {}}), None);
    assert_eq!(kubernetes(&group, &served()), SpecDecision::NotReviewed);
}
