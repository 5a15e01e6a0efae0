//! Tests of the command, on small schemas.

use depguard_core::api::CLUSTER_ANNOTATION;
use depguard_core::{ControlPlane, Rule};
use kubectl_depguard::ExitStatus;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::suggest::suggest;
use crate::tool::{depguard, depguard_reading, write};

/// Returns the fields that are found to refer, with their targets and confidence.
async fn rows(documents: &[Value]) -> Vec<String> {
    let (status, out, err) = suggest(documents, &["-o", "json"]).await;
    assert_eq!(status, ExitStatus::Well, "{err}");
    let printed: Value = serde_json::from_str(&out).unwrap();
    let mut rows = Vec::new();
    for proposal in printed["proposals"].as_array().unwrap() {
        for list in ["references", "unresolved"] {
            rows.extend(proposal[list].as_array().unwrap().iter().map(|reason| {
                let text = |field: &str| reason[field].as_str().unwrap_or("?").to_owned();
                format!("{} {} {}", text("path"), text("target"), text("confidence"))
            }));
        }
    }
    rows
}

pub(super) fn crd(group: &str, kind: &str, resource: &str, spec: Value) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": format!("{resource}.{group}")},
    "spec": {"group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": resource}, "versions": [
        {"name": "v1alpha1", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object"}}},
        {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "metadata": {"type": "object", "properties": {"secretName": {"type": "string"}}},
            "spec": object(spec.clone()), "status": object(spec),
        }}}},
    ]}})
}

pub(super) fn schema(group: &str, kind: &str, resource: &str, spec: Value) -> Value {
    let mut schema = crd(group, kind, resource, spec);
    schema["kind"] = json!("APIResourceSchema");
    schema["apiVersion"] = json!("apis.kcp.io/v1alpha1");
    schema["metadata"]["name"] = json!(format!("v1.{resource}.{group}"));
    for version in schema["spec"]["versions"].as_array_mut().unwrap() {
        version["schema"] = version["schema"]["openAPIV3Schema"].take();
    }
    schema
}

pub(super) fn export(name: &str, schema: &str, workspace: Option<&str>) -> Value {
    let annotations = workspace.map(|path| json!({"kcp.io/path": path})).unwrap_or(json!({}));
    json!({"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": name, "annotations": annotations},
        "spec": {"resources": [{"group": "g", "name": "r", "schema": schema, "storage": {"crd": {}}}]}})
}

fn object(properties: Value) -> Value {
    let mut object = json!({"type": "object"});
    object["properties"] = properties;
    object
}

fn list(items: Value) -> Value {
    let mut list = json!({"type": "array"});
    list["items"] = items;
    list
}

fn names(names: &[&str]) -> Value {
    object(names.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect())
}

fn vpc() -> Value {
    crd("network.example.com", "VPC", "vpcs", json!({}))
}

fn vm(spec: Value) -> Value {
    crd("compute.example.com", "VirtualMachine", "virtualmachines", spec)
}

#[tokio::test]
async fn each_convention_is_found() {
    let text = json!({"type": "string"});
    for (field, shape, expected) in [
        ("vpcRef", names(&["name"]), ".spec.vpcRef.name vpcs.network.example.com high"),
        (
            "peerVPCReference",
            names(&["name", "namespace"]),
            ".spec.peerVPCReference.name vpcs.network.example.com high",
        ),
        ("vpcRefName", text.clone(), ".spec.vpcRefName vpcs.network.example.com high"),
        ("vpcName", text.clone(), ".spec.vpcName vpcs.network.example.com high"),
        ("vpc", text.clone(), ".spec.vpc vpcs.network.example.com low"),
        ("vpcRefs", list(names(&["name"])), ".spec.vpcRefs[*].name vpcs.network.example.com high"),
        ("vpcNames", list(text.clone()), ".spec.vpcNames[*] vpcs.network.example.com high"),
        (
            "vpcRefs",
            json!({"type": "object", "additionalProperties": names(&["name"])}),
            ".spec.vpcRefs[*].name vpcs.network.example.com high",
        ),
        ("secretName", text.clone(), ".spec.secretName secrets high"),
        ("configMapName", text.clone(), ".spec.configMapName configmaps high"),
        ("claimName", text.clone(), ".spec.claimName persistentvolumeclaims high"),
        ("serviceAccountName", text.clone(), ".spec.serviceAccountName serviceaccounts high"),
        ("passwordSecretRef", names(&["name", "key"]), ".spec.passwordSecretRef.name secrets high"),
        ("secretKeyRef", names(&["name", "key"]), ".spec.secretKeyRef.name secrets high"),
        ("imagePullSecrets", list(names(&["name"])), ".spec.imagePullSecrets[*].name secrets high"),
        ("writeTokenSecretRef", names(&["name"]), ".spec.writeTokenSecretRef.name secrets low"),
        ("target", names(&["apiVersion", "kind", "name"]), ".spec.target.name ? medium"),
        ("mysteryRef", names(&["name"]), ".spec.mysteryRef.name ? medium"),
        // Kinds of Kubernetes, but none that is alpha or beta: others have a Workload, too.
        ("networkPolicyRef", names(&["name"]), ".spec.networkPolicyRef.name networkpolicies.networking.k8s.io high"),
        (
            "volumeAttributesClassName",
            text.clone(),
            ".spec.volumeAttributesClassName volumeattributesclasses.storage.k8s.io medium",
        ),
        ("workloadRef", names(&["name"]), ".spec.workloadRef.name ? medium"),
    ] {
        assert_eq!(rows(&[vpc(), vm(json!({ field: shape }))]).await, [expected], "{field}");
    }
}

#[tokio::test]
async fn what_only_looks_like_a_reference_is_left_alone() {
    let text = json!({"type": "string"});
    for (field, shape) in [
        ("hostName", text.clone()),
        ("displayName", text.clone()),
        ("secretName", json!({"type": "string", "enum": ["a"]})),
        ("secretName", json!({"type": "integer"})),
        ("vpc", json!({"type": "string", "format": "date-time"})),
        ("node", text.clone()),
        ("lease", text.clone()),
        ("endpoints", list(names(&["name", "port"]))),
        ("role", text.clone()),
        ("usernameClaim", text.clone()),
        ("labels", json!({"type": "object", "additionalProperties": {"type": "string"}})),
        ("disks", list(names(&["name", "size"]))),
    ] {
        assert_eq!(rows(&[vpc(), vm(json!({ field: shape }))]).await, [""; 0], "{field} {shape}");
    }
}

/// Returns a schema with this description.
fn told(mut schema: Value, description: &str) -> Value {
    schema["description"] = json!(description);
    schema
}

#[tokio::test]
async fn a_description_tells_the_kind_that_no_name_tells() {
    let text = || json!({"type": "string"});
    let of_name = |mut object: Value, description: &str| {
        object["properties"]["name"]["description"] = json!(description);
        object
    };
    for (field, shape, expected) in [
        ("net", told(text(), "Name of the VPC."), ".spec.net vpcs.network.example.com medium"),
        ("net", list(told(text(), "name of a VPC")), ".spec.net[*] vpcs.network.example.com medium"),
        ("config", of_name(names(&["name"]), "Name of the ConfigMap."), ".spec.config.name configmaps medium"),
        ("config", told(names(&["name", "key"]), "Reference to a Secret"), ".spec.config.name secrets medium"),
        ("tokenKey", of_name(names(&["name", "key"]), "The name of the Secret"), ".spec.tokenKey.name secrets medium"),
        // The kind of a reference that is one by its name.
        ("loginRef", told(names(&["name"]), "Reference to a Secret"), ".spec.loginRef.name secrets medium"),
        // What the name tells counts, and what the object tells.
        ("vpcRef", told(names(&["name"]), "Reference to a Secret"), ".spec.vpcRef.name vpcs.network.example.com high"),
        ("target", told(names(&["kind", "apiVersion", "name"]), "Reference to a Secret"), ".spec.target.name ? medium"),
    ] {
        assert_eq!(rows(&[vpc(), vm(json!({ field: shape }))]).await, [expected], "{field}");
    }
    let both = told(names(&["name", "namespace"]), "Reference to the Secret with the token.");
    let (_, out, _) = suggest(&[vm(json!({"login": both}))], &[]).await;
    let field = "      path: .spec.login.name\n      namespacePath: .spec.login.namespace\n";
    assert!(out.contains("  # medium: by its description `login` names Secret\n") && out.contains(field), "{out}");
}

#[tokio::test]
async fn a_description_that_names_no_other_kind_proposes_nothing() {
    let text = || json!({"type": "string"});
    for (field, shape) in [
        // Not among the definitions, or a word that means many things.
        ("net", told(text(), "Name of the Network.")),
        ("net", told(text(), "Name of the Role that is assumed.")),
        ("net", told(text(), "Name of the Namespace.")),
        // The kind itself: its name elsewhere.
        ("net", told(text(), "Name of the VirtualMachine.")),
        // Keys, and what a controller makes.
        ("vpcLabel", told(text(), "Name of the VPC.")),
        ("nameKey", told(text(), "Name of the VPC.")),
        ("net", told(text(), "Name of the VPC label.")),
        ("net", told(text(), "Name of the VPC to create.")),
        ("net", told(json!({"type": "integer"}), "Name of the VPC.")),
        ("net", told(names(&["size"]), "Reference to the VPC.")),
        ("matchLabels", told(json!({"type": "object", "additionalProperties": text()}), "Name of the VPC.")),
    ] {
        assert_eq!(rows(&[vpc(), vm(json!({ field: shape }))]).await, [""; 0], "{field} {shape}");
    }
}

#[tokio::test]
async fn what_is_proposed_passes_lint() {
    let policies = |group: &str| {
        let mut reference = names(&["name"]);
        reference["description"] = json!("Reference to a policy");
        let policy = crd(group, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", json!({}));
        [policy, vm(json!({"validatingAdmissionPolicyRef": reference, "vpcs": list(json!({"type": "string"}))})), vpc()]
    };
    let (_, out, _) = suggest(&policies("example.com"), &[]).await;
    assert!(out.contains("    resource: validatingadmissionpolicies\n"), "{out}");
    // Nobody is asked about the kind of this group.
    let (_, out, _) = suggest(&policies("admissionregistration.k8s.io"), &[]).await;
    assert!(!out.contains("    resource: validatingadmissionpolicies\n"), "{out}");
    assert!(
        out.contains("# ") && out.contains("configure admission, so API servers ask no webhook about them"),
        "{out}"
    );
    let folder = tempfile::tempdir().unwrap();
    let schemas = policies("admissionregistration.k8s.io").map(|definition| definition.to_string()).join("\n---\n");
    let [rules, schemas] =
        [("rules.yaml", &out), ("schemas.yaml", &schemas)].map(|(name, text)| write(folder.path(), name, text));
    let linted = depguard(&["lint", "-f", rules.to_str().unwrap(), "--schemas", schemas.to_str().unwrap()]).await;
    assert!(linted.err.contains("0 errors, 0 warnings") || linted.out.contains("0 errors, 0 warnings"), "{linted:?}");
}

#[tokio::test]
async fn a_typed_reference_is_read_with_its_kind_group_and_namespace() {
    let mut reference = names(&["name", "namespace", "kind", "apiGroup"]);
    reference["properties"]["kind"]["enum"] = json!(["VPC", "Secret", "Unheard"]);
    let (_, out, _) = suggest(&[vpc(), vm(json!({"owners": list(reference)}))], &[]).await;
    assert_eq!(
        out,
        "---
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata:
  name: virtualmachines.compute.example.com
spec:
  dependent:
    group: compute.example.com
    version: v1
    kind: VirtualMachine
    resource: virtualmachines
  dependencies:
  # high: `owners` has a name and a kind, and the schema lists the kinds; where it has no kind, it counts for each of them
  - group: network.example.com
    version: v1
    resource: vpcs
    kind: VPC
    fieldRef:
      path: .spec.owners[*].name
      namespacePath: .spec.owners[*].namespace
      groupPath: .spec.owners[*].apiGroup
      kindPath: .spec.owners[*].kind
  # high: `owners` has a name and a kind, and the schema lists the kinds; where it has no kind, it counts for each of them
  - group: \"\"
    version: v1
    resource: secrets
    kind: Secret
    fieldRef:
      path: .spec.owners[*].name
      namespacePath: .spec.owners[*].namespace
      groupPath: .spec.owners[*].apiGroup
      kindPath: .spec.owners[*].kind
"
    );
}

#[tokio::test]
async fn a_namespace_beside_a_name_is_used() {
    let (_, out, _) = suggest(&[vm(names(&["secretName", "secretNamespace"])["properties"].clone())], &[]).await;
    assert!(out.contains("      namespacePath: .spec.secretNamespace\n"), "{out}");
}

#[tokio::test]
async fn in_kcp_both_exports_are_named_and_what_no_rule_can_say_is_a_comment() {
    let vpcs = schema("network.example.com", "VPC", "vpcs", json!({}));
    let vms = schema(
        "compute.example.com",
        "VirtualMachine",
        "virtualmachines",
        names(&["vpcName", "secretName"])["properties"].clone(),
    );
    let network = |path| export("network.example.com", "v1.vpcs.network.example.com", path);
    let compute = export("compute.example.com", "v1.virtualmachines.compute.example.com", None);
    let known = [vpcs.clone(), vms.clone(), network(Some("root:net")), compute.clone()];
    let (status, out, _) = suggest(&known, &[]).await;
    assert_eq!(status, ExitStatus::Well);
    let mut rule: Value = serde_saphyr::from_str(&out).unwrap();
    rule["metadata"]["annotations"] = json!({CLUSTER_ANNOTATION: "c"});
    let rule = Rule::parse(ControlPlane::Kcp, &rule).unwrap();
    assert_eq!(rule.dependent().export.as_ref().unwrap().as_str(), "compute.example.com");
    let [edge] = rule.edges() else { panic!("{out}") };
    assert_eq!(edge.target.export.as_ref().unwrap().path.as_str(), "root:net");
    assert!(out.contains("# high: .spec.secretName: ") && out.contains("never applies to local kinds"), "{out}");

    let unknown = [vpcs, vms, network(None), compute];
    let (_, out, _) = suggest(&unknown, &[]).await;
    assert!(out.contains("`--export network.example.com=root:providers:network`"), "{out}");
    let (_, out, _) = suggest(&unknown, &["--export", "network.example.com=root:elsewhere"]).await;
    assert!(out.contains("      path: root:elsewhere\n"), "{out}");
}

#[tokio::test]
async fn every_rule_can_be_used_and_the_table_has_a_row_a_reference() {
    let spec = json!({"vpcRef": names(&["name"]), "a-b": object(json!({"secretName": {"type": "string"}})), "mysteryRef": names(&["name"])});
    let documents = [vpc(), vm(spec.clone()), crd("other.example.com", "VirtualMachine", "virtualmachines", spec)];
    let (_, out, _) = suggest(&documents, &[]).await;
    let rules: Vec<Value> = serde_saphyr::from_multiple(&out).unwrap();
    let names: Vec<_> = rules.iter().map(|rule| rule["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["virtualmachines.compute.example.com", "virtualmachines.other.example.com"], "{out}");
    for rule in &rules {
        assert_eq!(Rule::parse(ControlPlane::Kubernetes, rule).unwrap().edges().len(), 2);
    }
    let (_, out, _) = suggest(&documents, &["-o", "table", "--min-confidence", "high"]).await;
    assert_eq!(out.lines().count(), 5, "{out}");
    assert!(out.contains(".spec['a-b'].secretName") && !out.contains("mystery"), "{out}");
}

#[tokio::test]
async fn without_a_schema_it_says_what_to_give() {
    let (status, _, err) = suggest(&[json!({"kind": "ConfigMap"})], &[]).await;
    assert_eq!(status, ExitStatus::Failure);
    assert!(err.contains("name files with definitions with -f"), "{err}");
    let (status, out, err) = suggest(&[vpc()], &[]).await;
    assert_eq!((status, out.as_str()), (ExitStatus::Well, ""));
    assert_eq!(err, "no reference found in the schemas of 1 kind\n");
}

fn any_schema() -> impl Strategy<Value = Value> {
    let keys =
        ["properties", "items", "additionalProperties", "type", "enum", "default", "format", "name", "kind", "vpcRef"];
    let more = ["apiGroup", "apiVersion", "namespace", "secretName", "a'b\\\n", "0x", "spec", "metadata"];
    const TEXTS: [&str; 7] = ["string", "object", "array", "Secret", "v1", "a/b", ""];
    let leaf = prop_oneof![
        proptest::sample::select(TEXTS.as_slice()).prop_map(Value::from),
        any::<bool>().prop_map(Value::from)
    ];
    let key = proptest::sample::select([keys.as_slice(), more.as_slice()].concat());
    leaf.prop_recursive(6, 60, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::hash_map(key.clone().prop_map(str::to_owned), inner, 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_the_schema_every_rule_that_is_printed_can_be_used(schema in any_schema(), text in "\\PC{0,12}") {
        let mut definition = vm(json!({"vpcRef": names(&["name"])}));
        definition["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"][&text] = schema.clone();
        let mut odd = definition.clone();
        odd["spec"]["names"]["plural"] = json!(text);
        odd["spec"]["versions"] = schema;
        let documents = [vpc(), definition, odd];
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (_, printed, _) = runtime.block_on(suggest(&documents, &[]));
        let rules: Vec<Value> = serde_saphyr::from_multiple(&printed).unwrap();
        let rules: Vec<_> = rules.iter().filter(|rule| !rule.is_null()).collect();
        prop_assert!(!rules.is_empty());
        for rule in rules {
            prop_assert!(Rule::parse(ControlPlane::Kubernetes, rule).is_ok(), "{printed}");
        }
    }
}

#[tokio::test]
async fn a_definition_that_can_not_be_read_leaves_it_incomplete() {
    let name = json!({"secretName": {"type": "string"}});
    let (good, mut bad) = (crd("a.example.com", "A", "as", name.clone()), crd("b.example.com", "B", "bs", name));
    for version in bad["spec"]["versions"].as_array_mut().unwrap() {
        version.as_object_mut().unwrap().remove("schema");
    }
    let (status, out, err) = suggest(&[good, bad], &[]).await;
    assert_eq!(status, ExitStatus::Failure, "{err}");
    assert!(
        out.contains("resource: as") && err.contains("could not read the definition bs.b.example.com"),
        "{out}{err}"
    );
}

#[tokio::test]
async fn a_reference_that_lies_too_deep_for_a_rule_is_listed() {
    let deep = (0..5).fold(names(&["vpcName"]), |inner, _| object(json!({"of": list(inner)})));
    let documents = [vpc(), vm(json!({"deep": deep}))];
    assert_eq!(
        rows(&documents).await,
        [".spec.deep.of[*].of[*].of[*].of[*].of[*].vpcName vpcs.network.example.com high"]
    );
    let (_, out, _) = suggest(&documents, &[]).await;
    assert!(out.contains("a rule can't express it") && !out.contains("kind: DependencyRule"), "{out}");
}

#[tokio::test]
async fn an_absent_kind_means_what_the_schema_says_or_each_of_them() {
    const SAID: &str = "where it has no kind, it counts for each of them";
    let kinds = |kind: &Value| {
        let mut reference = object(json!({"name": {"type": "string"}, "kind": kind["schema"]}));
        reference["required"] = kind["required"].clone();
        let of = |kind: &str, resource: &str, spec: Value| crd("auth.example.com", kind, resource, spec);
        [
            of("Scaler", "scalers", json!({"authRef": reference})),
            of("Auth", "auths", json!({})),
            of("ClusterAuth", "clusterauths", json!({})),
        ]
    };
    let objects = json!([
        {"apiVersion": "auth.example.com/v1", "kind": "Auth", "metadata": {"name": "creds", "namespace": "n"}},
        {"apiVersion": "auth.example.com/v1", "kind": "Scaler", "metadata": {"name": "s", "namespace": "n"},
            "spec": {"authRef": {"name": "creds"}}},
    ]);
    let listed = json!(["Auth", "ClusterAuth"]);
    for (kind, default, overlaps) in [
        (json!({"schema": {"type": "string", "enum": listed, "default": "Auth"}}), json!("Auth"), false),
        (json!({"schema": {"type": "string", "enum": listed}}), Value::Null, true),
        (json!({"schema": {"type": "string", "enum": listed}, "required": ["name"]}), Value::Null, true),
        (json!({"schema": {"type": "string", "enum": listed}, "required": ["kind"]}), Value::Null, false),
    ] {
        let definitions = kinds(&kind);
        let (_, rules, _) = suggest(&definitions, &[]).await;
        let rule: Value = serde_saphyr::from_str(rules.trim_start_matches("---\n")).unwrap();
        let dependencies = rule["spec"]["dependencies"].as_array().unwrap();
        assert_eq!(dependencies.len(), 2, "{rules}");
        for dependency in dependencies {
            assert_eq!(dependency["fieldRef"]["defaultKind"], default, "{rules}");
            assert_eq!(dependency["fieldRef"]["kindPath"], ".spec.authRef.kind", "{rules}");
        }
        assert_eq!(rules.contains(SAID), overlaps, "{rules}");
        let objects = objects.as_array().unwrap().iter();
        let files: Vec<_> = definitions.iter().chain(objects).map(Value::to_string).collect();
        let files = format!("{rules}---\n{}", files.join("\n---\n"));
        let (status, out, err) = depguard_reading(&["lint", "-f", "-"], files.clone()).await;
        assert_eq!(status, ExitStatus::Well, "{out}{err}");
        let (status, out, err) = depguard_reading(&["dangling", "-A", "-f", "-"], files).await;
        let told = if default.is_null() { (ExitStatus::Finding, true) } else { (ExitStatus::Well, false) };
        assert_eq!((status, out.contains("ClusterAuth/")), told, "{out}{err}");
    }
}
