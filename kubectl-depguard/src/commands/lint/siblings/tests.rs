//! Tests of which fields count as similar to a rule's reference, and which don't.

use std::slice;

use serde_json::{Value, json};

use crate::cluster::documents::{Document, Origin, Text};
use crate::commands::lint::Linting;
use crate::commands::lint::code::Code;

fn text(value: &Value) -> Text {
    let origin = Origin { file: "example.yaml".into(), line: 1 };
    let text = value.to_string().into();
    Text { document: Document { value: value.clone().into(), origin }, text, begin: 1, within: String::new() }
}

/// Returns the definition of a kind with these fields, each with the schema of its value.
fn definition(fields: Value) -> Value {
    let schema = object(fields);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "vms.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "VM", "plural": "vms"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

/// Returns the schema of an object with a name.
fn reference() -> Value {
    object(json!({"name": {"type": "string"}}))
}

fn object(fields: Value) -> Value {
    let mut object = json!({"type": "object"});
    object["properties"] = fields;
    object
}

fn list(items: Value) -> Value {
    let mut list = json!({"type": "array"});
    list["items"] = items;
    list
}

/// Returns a rule by which VMs refer to VPCs in these fields.
fn rule(name: &str, fields: &[Value]) -> Value {
    let dependency =
        |field: &Value| json!({"group": "example.com", "version": "v1", "resource": "vpcs", "fieldRef": field});
    json!({
        "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule", "metadata": {"name": name},
        "spec": {
            "dependent": {"group": "example.com", "version": "v1", "kind": "VM", "resource": "vms"},
            "dependencies": fields.iter().map(dependency).collect::<Vec<_>>(),
        },
    })
}

/// Returns what is said of similar fields: everything before the colon.
fn similar(definition: &Value, rules: &[Value], stored: &[Value]) -> Vec<String> {
    let rules = rules.iter().map(text).collect();
    let report = Linting::new(None, rules, vec![text(definition)], stored.to_vec()).finish();
    let findings = report.findings.iter().filter(|finding| finding.code == Code::SimilarField);
    findings.map(|finding| finding.message.split(": ").next().unwrap_or_default().to_owned()).collect()
}

fn of_path(path: &str) -> Value {
    rule("vms", &[json!({"path": path})])
}

const LIST: [&str; 1] = ["no rule covers `.spec.vpcRefs[*].name`, which looks like the same reference"];

/// Returns the definition of VMs with one VPC and with a list of VPCs.
fn one_and_list() -> Value {
    definition(json!({"spec": object(json!({"vpcRef": reference(), "vpcRefs": list(reference())}))}))
}

#[test]
fn a_list_of_names_is_covered_by_its_path_with_and_without_a_wildcard() {
    let names = || list(json!({"type": "string"}));
    let definition =
        definition(json!({"spec": object(json!({"vpcs": names(), "other": object(json!({"vpcs": names()}))}))}));
    for path in [".spec.vpcs", ".spec.vpcs[*]"] {
        let both = rule("vms", &[json!({"path": path}), json!({"path": ".spec.other.vpcs"})]);
        assert_eq!(similar(&definition, &[both], &[]), [""; 0], "{path}");
        let said = similar(&definition, &[of_path(path)], &[]);
        assert!(
            said.len() == 1 && said[0].contains("`.spec.other.vpcs") && !said[0].contains("`.spec.vpcs"),
            "{said:?}"
        );
    }
}

#[test]
fn a_list_beside_the_same_object_alone_is_similar() {
    assert_eq!(similar(&one_and_list(), &[of_path(".spec.vpcRef.name")], &[]), LIST);
    let mut exported = one_and_list();
    exported["apiVersion"] = json!("apis.kcp.io/v1alpha1");
    exported["kind"] = json!("APIResourceSchema");
    exported["metadata"]["name"] = json!("v1.vms.example.com");
    let schema = exported["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take();
    exported["spec"]["versions"][0]["schema"] = schema;
    assert_eq!(similar(&exported, &[of_path(".spec.vpcRef.name")], &[]), LIST);
}

#[test]
fn fields_of_other_names_or_shapes_are_not_similar() {
    for (field, schema) in [
        ("subnetRef", reference()),
        ("vpcRefs", json!({"type": "integer"})),
        ("vpcRefs", object(json!({"key": {"type": "string"}}))),
        ("vpcRefs", object(json!({"name": {"type": "integer"}}))),
    ] {
        let kind = definition(json!({"spec": object(json!({"vpcRef": reference(), field: schema}))}));
        assert_eq!(similar(&kind, &[of_path(".spec.vpcRef.name")], &[]), [""; 0], "{field}: {schema}");
    }
    // A path that the schema lacks is another finding, and a plain `name` says nothing of its target.
    assert_eq!(similar(&one_and_list(), &[of_path(".spec.vpc.vpcRef.name")], &[]), [""; 0]);
    let names = definition(
        json!({"spec": object(json!({"name": {"type": "string"}, "names": list(json!({"type": "string"}))}))}),
    );
    assert_eq!(similar(&names, &[of_path(".spec.name")], &[]), [""; 0]);
}

#[test]
fn fields_that_a_controller_writes_are_not_similar() {
    let kind = |place: &str| {
        let mut fields = json!({"spec": object(json!({"vpcRef": reference()}))});
        fields[place] = object(json!({"vpcRef": reference()}));
        definition(fields)
    };
    for place in ["status", "metadata"] {
        assert_eq!(similar(&kind(place), &[of_path(".spec.vpcRef.name")], &[]), [""; 0], "{place}");
    }
    let found = similar(&kind("other"), &[of_path(".spec.vpcRef.name")], &[]);
    assert_eq!(found, ["no rule covers `.other.vpcRef.name`, which looks like the same reference"]);
}

#[test]
fn keys_of_a_map_have_no_similar_fields() {
    let map =
        json!({"type": "object", "additionalProperties": object(json!({"vpcs": list(json!({"type": "string"}))}))});
    let kind = definition(json!({"spec": object(json!({"vpcs": map, "more": object(json!({"vpcs": map}))}))}));
    let keys = rule("vms", &[json!({"path": ".spec.vpcs", "keys": true})]);
    assert_eq!(similar(&kind, &[keys], &[]), [""; 0]);
}

#[test]
fn fields_that_another_dependency_or_rule_covers_are_not_similar() {
    let (one, other) = (json!({"path": ".spec.vpcRef.name"}), json!({"path": ".spec.vpcRefs[*].name"}));
    assert_eq!(similar(&one_and_list(), &[rule("vms", &[one.clone(), other.clone()])], &[]), [""; 0]);
    let (first, second) = (rule("one", &[one]), rule("other", &[other]));
    assert_eq!(similar(&one_and_list(), &[first.clone(), second.clone()], &[]), [""; 0]);
    // A rule that an API server has counts, too, unless it is about another kind.
    assert_eq!(similar(&one_and_list(), slice::from_ref(&first), slice::from_ref(&second)), [""; 0]);
    let mut elsewhere = second;
    elsewhere["spec"]["dependent"]["resource"] = json!("disks");
    assert_eq!(similar(&one_and_list(), &[first], &[elsewhere]), LIST);
}

#[test]
fn a_finding_names_a_few_fields_and_the_number_of_the_others() {
    let of = |count: usize| {
        let lists = (0..count).map(|n| (format!("l{n}"), object(json!({"vpcRef": reference()}))));
        let fields: serde_json::Map<_, _> = [("vpcRef".to_owned(), reference())].into_iter().chain(lists).collect();
        similar(&definition(json!({"spec": object(Value::Object(fields))})), &[of_path(".spec.vpcRef.name")], &[])
    };
    let three = "no rule covers `.spec.l0.vpcRef.name`, `.spec.l1.vpcRef.name`, `.spec.l2.vpcRef.name`";
    assert_eq!(of(3), [format!("{three}, which looks like the same reference")]);
    assert_eq!(of(5), [format!("{three} and 2 more, which looks like the same reference")]);
}

#[test]
fn a_rule_may_leave_fields_out_for_a_reason() {
    for (line, is_left_out) in [
        (".spec.vpcRefs[*].name: the machine makes these VPCs", true),
        (".spec.vpcRefs: the machine makes these VPCs", true),
        (".spec.vpcRefs[*].name", false),
        (".spec.vpcRefs[*].name: ", false),
        (".spec.vpcRef: not this one", false),
        (".spec.vpcRefs[*].named: not this one", false),
        ("", false),
    ] {
        let mut rule = of_path(".spec.vpcRef.name");
        rule["metadata"]["annotations"] =
            json!({"dependencies.opendefense.cloud/left-out": format!(".spec.other: a reason\n{line}")});
        let expected = if is_left_out { &[][..] } else { &LIST };
        assert_eq!(similar(&one_and_list(), slice::from_ref(&rule), &[]), expected, "{line:?}");
        // A rule about another kind leaves out nothing of this one.
        rule["metadata"]["name"] = json!("disks");
        rule["spec"]["dependent"]["resource"] = json!("disks");
        assert_eq!(similar(&one_and_list(), &[of_path(".spec.vpcRef.name"), rule], &[]), LIST, "{line:?}");
    }
}
