//! Tests of `suggest --definitions`: rules by which a definition stays while objects of its kind exist.

use depguard_core::{ControlPlane, Rule};
use kubectl_depguard::ExitStatus;
use serde_json::{Value, json};

use super::command::{crd, export, schema};
use super::suggest;

/// Returns the definition of databases, which another object made.
fn databases(metadata: &[(&str, Value)]) -> Value {
    let mut made = crd("example.org", "Database", "databases", json!({}));
    for (field, value) in metadata {
        made["metadata"][field] = value.clone();
    }
    made
}

/// Returns the targets of each proposed rule, each with the reference by which all objects refer to it.
async fn targets(documents: &[Value]) -> Vec<Vec<(String, Value)>> {
    let (status, out, err) = suggest(documents, &["--definitions", "-o", "json"]).await;
    assert_eq!(status, ExitStatus::Well, "{err}");
    let printed: Value = serde_json::from_str(&out).unwrap();
    let targets = |proposal: &Value| {
        let _ = Rule::parse(ControlPlane::Kubernetes, &proposal["rule"]).unwrap();
        let dependencies = proposal["rule"]["spec"]["dependencies"].as_array().unwrap();
        let target =
            |target: &Value| (target["resource"].as_str().unwrap().to_owned(), target["fieldRef"]["value"].clone());
        dependencies.iter().map(target).collect()
    };
    printed["proposals"].as_array().unwrap().iter().map(targets).collect()
}

fn target(resource: &str, name: &str) -> (String, Value) {
    (resource.to_owned(), json!(name))
}

#[tokio::test]
async fn a_definition_and_its_controller_are_protected_while_objects_of_the_kind_exist() {
    let owner = |kind: &str, controls: bool| {
        json!({"apiVersion": "apiextensions.crossplane.io/v1", "kind": kind, "name": "databases.example.org",
            "uid": "1", "controller": controls})
    };
    let owners = json!([owner("CompositeResourceDefinition", true), owner("Lock", false)]);
    let made = databases(&[("ownerReferences", owners)]);
    let kind_of_owner =
        crd("apiextensions.crossplane.io", "CompositeResourceDefinition", "compositeresourcedefinitions", json!({}));
    assert_eq!(
        targets(&[made.clone(), kind_of_owner]).await,
        [
            vec![target("customresourcedefinitions", "compositeresourcedefinitions.apiextensions.crossplane.io")],
            vec![
                target("customresourcedefinitions", "databases.example.org"),
                target("compositeresourcedefinitions", "databases.example.org"),
            ],
        ]
    );

    // Without the definition of the owner's kind, nobody knows the owner's resource.
    let (_, out, _) = suggest(&[made], &["--definitions"]).await;
    let missing =
        "# high: CompositeResourceDefinition/databases.example.org made the definition, but the definition of its";
    assert!(out.contains(missing), "{out}");
}

/// Uses a definition as kro makes it: without an ownerReference, and with the name of the ResourceGraphDefinition in a
/// label.
#[tokio::test]
async fn a_resource_graph_definition_is_protected_while_objects_of_its_kind_exist() {
    let graphs = crd("kro.run", "ResourceGraphDefinition", "resourcegraphdefinitions", json!({}));
    for prefix in ["kro.run", "internal.kro.run"] {
        let mut labels = json!({"kro.run/owned": "true"});
        labels[format!("{prefix}/resource-graph-definition-name")] = json!("database");
        let made = databases(&[("labels", labels)]);
        let of_databases = [
            target("customresourcedefinitions", "databases.example.org"),
            target("resourcegraphdefinitions", "database"),
        ];
        let own = [target("customresourcedefinitions", "resourcegraphdefinitions.kro.run")];
        assert_eq!(targets(&[made, graphs.clone()]).await, [of_databases.to_vec(), own.to_vec()], "{prefix}");
    }
    let unlabelled = databases(&[("labels", json!({"kro.run/owned": "true"}))]);
    assert_eq!(targets(&[unlabelled]).await, [vec![target("customresourcedefinitions", "databases.example.org")]]);
}

#[tokio::test]
async fn each_rule_about_a_definition_comes_with_the_right_to_list_the_objects() {
    let documents = [databases(&[]), crd("example.com", "Queue", "queues", json!({}))];
    let (status, out, err) = suggest(&documents, &["--definitions"]).await;
    assert_eq!(status, ExitStatus::Well, "{err}");
    let printed: Vec<Value> = serde_saphyr::from_multiple(&out).unwrap();
    let names: Vec<_> = printed.iter().map(|object| object["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "depguard-webhook-definition-queues.example.com",
            "definition-queues.example.com",
            "depguard-webhook-definition-databases.example.org",
            "definition-databases.example.org",
        ]
    );
    assert_eq!(
        printed[2],
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {
                "name": "depguard-webhook-definition-databases.example.org",
                "labels": {"dependencies.opendefense.cloud/aggregate-to-webhook": "true"},
            },
            "rules": [{"apiGroups": ["example.org"], "resources": ["databases"], "verbs": ["get", "list"]}],
        })
    );
    // Rules that are for review only come without rights.
    let (_, out, _) =
        suggest(&[crd("example.com", "Queue", "queues", json!({"secretName": {"type": "string"}}))], &[]).await;
    assert!(out.contains("kind: DependencyRule") && !out.contains("ClusterRole"), "{out}");
}

#[tokio::test]
async fn kcp_has_a_pack_instead_of_rules_about_definitions() {
    let exported = [schema("a", "VPC", "vpcs", json!({})), export("a", "v1.vpcs.a", Some("root:a"))];
    let (status, _, err) = suggest(&exported, &["--definitions"]).await;
    assert_eq!(status, ExitStatus::Failure);
    assert!(err.contains("rules apply kcp"), "{err}");
}
