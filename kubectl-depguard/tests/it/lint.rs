//! `lint`, on files and against an API server.

mod built_in;
mod definitions;
mod names;
mod wrong_rules;

use std::path::PathBuf;
use std::time::Duration;

use depguard_controller::{Config, Controller, WebhookTarget};
use depguard_core::ControlPlane;
use depguard_kcp::{ConnectOptions, Connection, Endpoint};
use depguard_testbed::{Fault, Options, Testbed, When};
use kubectl_depguard::ExitStatus;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::tool::depguard_reading;

const RULES: &str = "/apis/dependencies.opendefense.cloud/v1alpha1/dependencyrules";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const SCHEMAS: &str = "/apis/apis.kcp.io/v1alpha1/apiresourceschemas";
const EXPORTS: &str = "/apis/apis.kcp.io/v1alpha2/apiexports";

/// Folder with files, and perhaps with the kubeconfig of an API server.
struct Bed {
    folder: TempDir,
}

impl Bed {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// Writes a file with these documents, and returns its path.
    fn file(&self, name: &str, documents: &[Value]) -> String {
        let texts: Vec<_> = documents.iter().map(|document| format!("{document:#}")).collect();
        self.text(name, &texts.join("\n---\n"))
    }

    fn text(&self, name: &str, text: &str) -> String {
        let path: PathBuf = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    async fn connect(&self, testbed: &Testbed, workspace: &str, control_plane: ControlPlane) -> Connection {
        let kubeconfig = self.text("kubeconfig", &testbed.kubeconfig(workspace, "admin"));
        let options = ConnectOptions::new(control_plane).kubeconfig(PathBuf::from(kubeconfig));
        Connection::open(&options).await.unwrap()
    }

    /// Runs the command, with the kubeconfig of the last connection if the command reads an API server.
    async fn lint(&self, args: &[&str]) -> (ExitStatus, String, String) {
        let kubeconfig = self.folder.path().join("kubeconfig");
        let server = ["--kubeconfig", kubeconfig.to_str().unwrap()];
        let reads_files = args.contains(&"-f") && !args.contains(&"--live");
        let server = if reads_files { &[][..] } else { &server };
        depguard_reading(&[&["lint"], server, args].concat(), "").await
    }

    /// Returns each finding as `code field`.
    async fn codes(&self, args: &[&str]) -> Vec<String> {
        let (_, out, err) = self.lint(&[args, &["-o", "json"]].concat()).await;
        let report: Value = serde_json::from_str(&out).unwrap_or_else(|why| panic!("{why}: {out}{err}"));
        let findings = report["findings"].as_array().unwrap().iter();
        let text = |finding: &Value, field: &str| finding[field].as_str().unwrap_or_default().to_owned();
        findings.map(|finding| format!("{} {}", text(finding, "code"), text(finding, "field"))).collect()
    }
}

/// Builds a version of a kind with `spec.vpcRef.name`.
fn version(schema_of: impl Fn(Value) -> Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "vpcRef": {"type": "object", "properties": {"name": {"type": "string"}}},
    }}}});
    json!({"name": "v1", "served": true, "storage": true, "schema": schema_of(schema)})
}

/// Builds the spec of a kind such as `VM` or `VPC`.
fn spec(group: &str, kind: &str, version: &Value) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    json!({
        "group": group, "scope": "Namespaced", "versions": [version],
        "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
    })
}

fn crd(kind: &str) -> Value {
    let spec = spec("example.com", kind, &version(|schema| json!({"openAPIV3Schema": schema})));
    let name = format!("{}s.example.com", kind.to_lowercase());
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name}, "spec": spec})
}

fn rule(name: &str, path: &str) -> Value {
    json!({
        "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule", "metadata": {"name": name},
        "spec": {
            "dependent": {"group": "example.com", "version": "v1", "kind": "VM", "resource": "vms"},
            "dependencies": [{"group": "example.com", "version": "v1", "resource": "vpcs", "fieldRef": {"path": path}}],
        },
    })
}

#[tokio::test]
async fn the_exit_code_is_what_was_asked_for() {
    let bed = Bed::new();
    let schemas = bed.file("crds.yaml", &[crd("VM"), crd("VPC")]);
    let good = bed.file("good.yaml", &[rule("vms", ".spec.vpcRef.name")]);
    let bad = bed.file("bad.yaml", &[rule("vms", ".spec.vpcRef.nam")]);
    for (args, status) in [
        (vec!["-f", &good, "--schemas", &schemas], ExitStatus::Well),
        (vec!["-f", &good, "--schemas", &schemas, "--fail-on", "info"], ExitStatus::Finding),
        (vec!["-f", &bad, "--schemas", &schemas], ExitStatus::Finding),
        (vec!["-f", &bad], ExitStatus::Well),
        (vec!["-f", &schemas], ExitStatus::Failure),
        (vec!["-f", "no-such-file"], ExitStatus::Failure),
        (vec![], ExitStatus::Failure),
    ] {
        let (found, out, err) = bed.lint(&args).await;
        assert_eq!(found, status, "{args:?}: {out}{err}");
    }
}

#[tokio::test]
async fn a_finding_is_shown_at_its_line() {
    let bed = Bed::new();
    let schemas = bed.file("crds.yaml", &[crd("VM"), crd("VPC")]);
    let yaml = serde_saphyr::to_string(&rule("vms", ".spec.vpcRef.nam")).unwrap();
    let rules = bed.text("rules.yaml", &format!("# rules\n---\n{yaml}"));
    let line = 3 + yaml.lines().position(|line| line.contains("path:")).unwrap();
    let (_, out, err) = bed.lint(&["-f", &rules, "--schemas", &schemas, "-o", "wide"]).await;
    let row = out.lines().nth(1).unwrap();
    assert!(row.starts_with(&format!("{rules}:{line}   error      DG101  ")), "{out}");
    assert!(
        row.ends_with("   does not fit vms.example.com v1: `.spec.vpcRef` has no field `nam`: it has `name`; write `.spec.vpcRef.name` if you mean that")
    );
    assert_eq!(err, "1 rule: 1 error, 0 warnings, 1 note\n");
    let (_, out, _) = bed.lint(&["-f", &rules, "--schemas", &schemas, "-o", "github"]).await;
    let title = "title=DG101 path not in the schema";
    assert!(out.starts_with(&format!("::error file={rules},line={line},{title}::spec.dependencies[0].")), "{out}");
}

#[tokio::test]
async fn a_person_sees_the_line_and_a_mark_below_the_key() {
    let bed = Bed::new();
    let schemas = bed.file("crds.yaml", &[crd("VM"), crd("VPC")]);
    let yaml = serde_saphyr::to_string(&rule("vms", ".spec.vpcRef.nam")).unwrap();
    let source = yaml.lines().position(|line| line.contains("path:")).unwrap();
    let (line, source) = (source + 1, yaml.lines().nth(source).unwrap());
    let rules = bed.text("rules.yaml", &yaml);
    let (_, out, _) = bed.lint(&["-f", &rules, "--schemas", &schemas]).await;
    let column = source.find("path").unwrap();
    let indent = " ".repeat(line.to_string().len());
    let told = format!(
        "error[DG101]: spec.dependencies[0].fieldRef.path does not fit vms.example.com v1: `.spec.vpcRef` has no field \
         `nam`: it has `name`; write `.spec.vpcRef.name` if you mean that\n\
         {indent}--> {rules}:{line}:{}\n{indent} |\n{line} | {source}\n{indent} | {}^^^^ path not in the schema\n",
        column + 1,
        " ".repeat(column)
    );
    assert!(out.contains(&told), "{out}\n--- has no\n{told}");
}

/// Text of a file is data: it ends no line, and gives the terminal no command.
#[tokio::test]
async fn a_hostile_field_gives_the_terminal_no_command() {
    let bed = Bed::new();
    let mut hostile = rule("vms", ".spec.vpcRef.name");
    hostile["spec"]["a\u{1b}[2J\nerror[DG999]: b"] = json!(1);
    let rules = bed.file("rules.yaml", &[hostile]);
    let (_, out, _) = bed.lint(&["-f", &rules]).await;
    assert!(out.contains("error[DG001]") && !out.contains('\u{1b}'), "{out}");
    assert!(!out.lines().any(|line| line.starts_with("error[DG999]")), "{out}");
}

/// Applies a JSON patch with the operations `test` and `add`.
fn patch(object: &mut Value, operations: &Value) {
    for operation in operations.as_array().unwrap() {
        let (path, value) = (operation["path"].as_str().unwrap(), operation["value"].clone());
        let (outer, last) = path.rsplit_once('/').unwrap();
        match (operation["op"].as_str().unwrap(), object.pointer_mut(outer).unwrap()) {
            ("test", outer) => assert_eq!(outer[last], value),
            ("add", Value::Array(items)) if last == "-" => items.push(value),
            ("add", Value::Object(fields)) => _ = fields.insert(last.to_owned(), value),
            (other, _) => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn with_the_patch_no_field_is_left_to_be_made_selectable() {
    let bed = Bed::new();
    let mut definition = crd("VM");
    let schemas = bed.file("crds.yaml", &[definition.clone(), crd("VPC")]);
    let rules = bed.file("rules.yaml", &[rule("vms", ".spec.vpcRef.name")]);
    let (_, out, _) = bed.lint(&["-f", &rules, "--schemas", &schemas, "-o", "json"]).await;
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["findings"][0]["code"], "DG301");
    assert_eq!(report["patches"][0]["name"], "vms.example.com");
    let (_, out, _) = bed.lint(&["-f", &rules, "--schemas", &schemas, "--patch"]).await;
    assert!(out.starts_with("kubectl patch customresourcedefinition 'vms.example.com' --type json -p '["), "{out}");
    patch(&mut definition, &report["patches"][0]["patch"]);
    let schemas = bed.file("crds.yaml", &[definition, crd("VPC")]);
    assert_eq!(bed.codes(&["-f", &rules, "--schemas", &schemas]).await, ["DG302 spec.dependencies[0].resource"]);
}

#[tokio::test]
async fn a_cluster_is_asked_for_its_kinds_and_rules() {
    let bed = Bed::new();
    let testbed = Testbed::start(Options::kubernetes()).await.unwrap();
    let endpoint = bed.connect(&testbed, "", ControlPlane::Kubernetes).await.own_endpoint();
    for object in [crd("VM"), crd("VPC"), depguard_controller::manifests::crd()] {
        endpoint.post_json(CRDS, &object).await.unwrap();
    }
    endpoint.post_json(RULES, &rule("there", ".spec.vpcRef.name")).await.unwrap();
    // The API server has other names for the kind, its version, its resource and its paths.
    let mut wrong = rule("wrong", ".spec.vpcRef.nam");
    let dependencies = wrong["spec"]["dependencies"].as_array_mut().unwrap();
    let dependency = |version: &str, resource: &str, kind: &str| json!({"group": "example.com", "version": version, "resource": resource, "kind": kind, "fieldRef": {"path": ".spec.vpcRef.name"}});
    dependencies.extend([
        dependency("v1", "vpc", "VPC"),
        dependency("v2", "vpcs", "VPC"),
        dependency("v1", "vpcs", "Vpc"),
    ]);
    let rules = bed.file("rules.yaml", &[wrong]);
    let mut codes = bed.codes(&["-f", &rules, "--live"]).await;
    codes.retain(|code| !code.starts_with("DG203") && !code.starts_with("DG301"));
    codes.sort();
    assert_eq!(
        codes,
        [
            "DG101 spec.dependencies[0].fieldRef.path",
            "DG111 spec.dependencies[1].resource",
            "DG112 spec.dependencies[2].version",
            "DG113 spec.dependencies[3].kind",
        ]
    );
    let (_, out, _) = bed.lint(&["-f", &rules, "--live"]).await;
    assert!(out.contains("there is no vpc.example.com v1: correct the group, version and resource of "), "{out}");
    assert!(out.contains("; write `vpcs` if you mean that\n"), "{out}");
    // The rules on the API server count, too.
    let rules = bed.file("rules.yaml", &[rule("another", ".spec.vpcRef.name")]);
    let again = "spec.dependencies[0].fieldRef.path";
    assert_eq!(bed.codes(&["-f", &rules, "--live"]).await, [format!("DG203 {again}"), format!("DG301 {again}")]);
    // Without files, the command checks the rules on the API server.
    let (status, out, err) = bed.lint(&[]).await;
    assert_eq!((status, err.as_str()), (ExitStatus::Well, "1 rule: 0 errors, 0 warnings, 1 note\n"));
    assert!(out.starts_with("note[DG301]: ") && out.contains("\n--> dependencyrule/there\n"), "{out}");
    // The message is the controller's.
    let rules = bed.file("rules.yaml", &[rule("there", ".spec.vpcRef.nam")]);
    let (_, out, _) = bed.lint(&["-f", &rules, "--live", "-o", "json"]).await;
    let report: Value = serde_json::from_str(&out).unwrap();
    let found = report["findings"][0]["message"].as_str().unwrap();
    let said = accepted(&bed, &endpoint, ".spec.vpcRef.nam").await;
    assert!(said.contains("does not fit"), "{said}");
    assert_eq!(found, format!("{said}; write `.spec.vpcRef.name` if you mean that"));
    testbed.stop().await;
}

/// Returns the controller's message in the condition `Accepted` of the rule `there`, with that path.
async fn accepted(bed: &Bed, endpoint: &Endpoint, path: &str) -> String {
    let object = format!("{RULES}/there");
    let mut stored = endpoint.get_json(&object).await.unwrap();
    stored["spec"]["dependencies"][0]["fieldRef"]["path"] = json!(path);
    let generation = endpoint.put_json(&object, &stored).await.unwrap()["metadata"]["generation"].clone();
    let export = "dependencies.opendefense.cloud".parse().unwrap();
    let url = "https://webhook.example.com/validate".to_owned();
    let config = Config::new(ControlPlane::Kubernetes, export, WebhookTarget::Url(url))
        .kubeconfig(Some(bed.folder.path().join("kubeconfig")))
        .probe_addr(None)
        .metrics_addr(None);
    let controller = Controller::start(config).await.unwrap();
    let said = async {
        loop {
            let stored = endpoint.get_json(&object).await.unwrap();
            let conditions = stored["status"]["conditions"].as_array().into_iter().flatten();
            let accepted = conditions.into_iter().find(|condition| condition["type"] == "Accepted");
            match accepted
                .filter(|accepted| accepted["observedGeneration"] == generation && accepted["status"] != "True")
            {
                Some(accepted) => return accepted["message"].as_str().unwrap().to_owned(),
                None => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    let said = tokio::time::timeout(Duration::from_secs(60), said).await.expect("the controller says something");
    controller.stop().await;
    said
}

#[tokio::test]
async fn who_must_not_read_rules_is_told_what_was_not_looked_at() {
    let bed = Bed::new();
    let options = Options::kubernetes().rbac();
    let testbed = Testbed::start(options).await.unwrap();
    let endpoint = bed.connect(&testbed, "", ControlPlane::Kubernetes).await.own_endpoint();
    for object in [crd("VM"), crd("VPC"), depguard_controller::manifests::crd()] {
        endpoint.post_json(CRDS, &object).await.unwrap();
    }
    bed.text("kubeconfig", &testbed.kubeconfig("", "tenant"));
    let rules = bed.file("rules.yaml", &[rule("vms", ".spec.vpcRef.name")]);
    let (status, out, err) = bed.lint(&["-f", &rules, "--live"]).await;
    assert_eq!(status, ExitStatus::Failure, "nobody can tell of cycles with them: {out}{err}");
    // Every user may know whether a kind is served.
    assert!(out.contains("note[DG104]: the paths were not checked: the schema of vms"), "{out}");
    assert!(err.contains("could not read the existing rules (no right to read)"), "{err}");
    testbed.stop().await;
}

#[tokio::test]
async fn a_kind_of_an_aggregated_server_is_told_where_reviews_matter() {
    let bed = Bed::new();
    let testbed = Testbed::start(Options::kubernetes()).await.unwrap();
    let endpoint = bed.connect(&testbed, "", ControlPlane::Kubernetes).await.own_endpoint();
    for object in [crd("VM"), crd("VPC"), depguard_controller::manifests::crd()] {
        endpoint.post_json(CRDS, &object).await.unwrap();
    }
    let looking = |on_missing: &str| {
        let mut rule = rule("vms", ".spec.vpcRef.name");
        rule["spec"]["dependencies"][0]["onMissing"] = json!(on_missing);
        rule
    };
    let told = async |rule: Value, args: &[&str]| {
        let rules = bed.file("rules.yaml", &[rule]);
        let mut codes = bed.codes(&[&["-f", &rules], args].concat()).await;
        codes.retain(|code| code.starts_with("DG118"));
        codes
    };
    // So an API server answers about a kind that another server serves.
    let without = |name: &str, fault| testbed.faults().inject(fault, When::always().path(&format!("{CRDS}/{name}")));
    let fault = without("vpcs.example.com", Fault::NotFound);
    assert_eq!(told(looking("Ignore"), &["--live"]).await, ["DG118 spec.dependencies[0]"]);
    let strict = ["-f", &bed.file("rules.yaml", &[looking("Ignore")]), "--live", "--fail-on", "warning"];
    let (status, out, _) = bed.lint(&strict).await;
    assert_eq!(status, ExitStatus::Finding, "{out}");
    assert!(out.contains("vpcs.example.com has no CustomResourceDefinition, so an aggregated API server"), "{out}");
    testbed.faults().clear(fault);
    let fault = without("vms.example.com", Fault::NotFound);
    assert_eq!(told(looking("Warn"), &["--live"]).await, ["DG118 spec.dependent"]);
    assert_eq!(told(looking("Ignore"), &["--live"]).await, [""; 0], "the dependents are only listed");
    testbed.faults().clear(fault);
    without("", Fault::Forbidden);
    assert_eq!(told(looking("Warn"), &["--live"]).await, [""; 0], "nobody can tell");
    testbed.faults().clear_all();
    assert_eq!(told(looking("Warn"), &["--live"]).await, [""; 0]);
    assert_eq!(bed.lint(&strict).await.0, ExitStatus::Well);
    testbed.stop().await;
}

/// Creates a provider's workspace with an APIExport of one kind.
async fn provider(root: &Endpoint, connection: &Connection, name: &str, group: &str, kind: &str) -> Endpoint {
    let workspace = json!({"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name}});
    root.post_json("/apis/tenancy.kcp.io/v1alpha1/workspaces", &workspace).await.unwrap();
    let endpoint = connection.workspace(&format!("root:{name}").parse().unwrap());
    let plural = format!("{}s", kind.to_lowercase());
    let schema = format!("v1.{plural}.{group}");
    let object = json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": schema},
        "spec": spec(group, kind, &version(|schema| schema)),
    });
    endpoint.post_json(SCHEMAS, &object).await.unwrap();
    let export = json!({
        "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": group},
        "spec": {"resources": [{"group": group, "name": plural, "schema": schema, "storage": {"crd": {}}}]},
    });
    endpoint.post_json(EXPORTS, &export).await.unwrap();
    endpoint
}

#[tokio::test]
async fn in_kcp_the_exports_of_the_workspace_and_of_the_targets_are_asked() {
    let bed = Bed::new();
    let testbed = Testbed::start(Options::default()).await.unwrap();
    let root = bed.connect(&testbed, "root", ControlPlane::Kcp).await;
    provider(&root.own_endpoint(), &root, "compute", "compute.example.com", "VM").await;
    provider(&root.own_endpoint(), &root, "network", "network.example.com", "VPC").await;
    bed.connect(&testbed, "root:compute", ControlPlane::Kcp).await;
    let dependency = |path: &str, export: &str, resource: &str, field: &str| {
        json!({
            "apiExportRef": {"path": path, "name": export}, "group": "network.example.com", "version": "v1",
            "resource": resource, "fieldRef": {"path": field},
        })
    };
    let mut rule = rule("vms", "");
    rule["spec"]["dependent"] = json!({
        "apiExportName": "compute.example.com", "group": "compute.example.com", "version": "v1", "kind": "VM", "resource": "vms",
    });
    rule["spec"]["dependencies"] = json!([
        dependency("root:network", "network.example.com", "vpcs", ".spec.vpcRef.name"),
        dependency("root:network", "network.example.com", "vpcs", ".spec.vpcref.name"),
        dependency("root:network", "network.example.com", "subnets", ".spec.vpcRef.name"),
        dependency("root:network", "other.example.com", "vpcs", ".spec.vpcRef.name"),
    ]);
    let rules = bed.file("rules.yaml", &[rule.clone()]);
    let mut codes = bed.codes(&["-f", &rules, "--live"]).await;
    codes.retain(|code| !code.starts_with("DG301"));
    codes.sort();
    assert_eq!(
        codes,
        [
            "DG101 spec.dependencies[1].fieldRef.path",
            "DG114 spec.dependencies[2].resource",
            "DG114 spec.dependencies[3].resource",
        ]
    );
    let (_, out, _) = bed.lint(&["-f", &rules, "--live"]).await;
    for message in [
        "APIExport network.example.com in workspace root:network does not serve subnets.network.example.com: correct the export, ",
        "APIExport other.example.com not found in workspace root:network: create it, or correct its name",
        "an APIResourceSchema can't be changed, so create a new one (--patch prints the command)",
    ] {
        assert!(out.contains(message), "{message}: {out}");
    }
    // The export of the dependents is checked, too.
    rule["spec"]["dependent"]["apiExportName"] = json!("none.example.com");
    let rules = bed.file("rules.yaml", &[rule]);
    assert!(bed.codes(&["-f", &rules, "--live"]).await.contains(&"DG114 spec.dependent.resource".to_owned()));
    let (_, out, _) = bed.lint(&["-f", &rules, "--live"]).await;
    assert!(out.contains("APIExport none.example.com not found in this workspace: create it"), "{out}");
    // No aggregated API server is there, although kcp's own kinds have no definition either.
    let mut own = self::rule("own", ".spec.vpcRef.name");
    let target = &mut own["spec"]["dependencies"][0];
    (target["group"], target["version"], target["resource"]) =
        (json!("apis.kcp.io"), json!("v1alpha2"), json!("apibindings"));
    let codes = bed.codes(&["-f", &bed.file("rules.yaml", &[own]), "--live"]).await;
    assert!(
        codes.iter().all(|code| !code.contains("dependencies[0].resource") && !code.starts_with("DG118")),
        "{codes:?}"
    );
    testbed.stop().await;
}

#[tokio::test]
async fn a_rule_without_its_kind_is_one_all_the_same() {
    let bed = Bed::new();
    let mut nameless = rule("a", ".spec.vpcRef.name");
    nameless.as_object_mut().unwrap().retain(|field, _| !["apiVersion", "kind"].contains(&field.as_str()));
    let rules = bed.file("rules.yaml", &[rule("b", ".spec.vpcRef.name"), nameless, crd("VM"), crd("VPC")]);
    let codes = bed.codes(&["-f", &rules]).await;
    for expected in ["DG002 apiVersion", "DG002 kind"] {
        assert!(codes.contains(&expected.to_owned()), "{codes:?}");
    }
}

#[tokio::test]
async fn a_kind_that_is_never_reviewed_is_an_error_wherever_it_is_named() {
    let bed = Bed::new();
    let of = |dependent: [&str; 3], target: [&str; 2]| {
        let [group, kind, resource] = dependent;
        let mut rule = rule("unreviewed", ".spec.ref");
        rule["spec"]["dependent"] = json!({"group": group, "version": "v1", "kind": kind, "resource": resource});
        let [group, resource] = target;
        rule["spec"]["dependencies"][0]["group"] = json!(group);
        rule["spec"]["dependencies"][0]["resource"] = json!(resource);
        if kind == "ValidatingAdmissionPolicy" {
            rule["spec"]["dependencies"][0]["fieldRef"]["path"] = json!(".spec.paramKind.kind");
        }
        rule
    };
    let vms = ["example.com", "VM", "vms"];
    let policies = ["admissionregistration.k8s.io", "ValidatingAdmissionPolicy", "validatingadmissionpolicies"];
    let reviews = ["authentication.k8s.io", "TokenReview", "tokenreviews"];
    let fields = ["DG116 spec.dependencies[0]", "DG116 spec.dependent"];
    for (dependent, target, expected) in [
        (vms, ["admissionregistration.k8s.io", "mutatingwebhookconfigurations"], &fields[..1]),
        (vms, ["admissionregistration.k8s.io", "validatingadmissionpolicybindings"], &fields[..1]),
        (vms, ["authentication.k8s.io", "tokenreviews"], &fields[..1]),
        (reviews, ["example.com", "vpcs"], &fields[1..]),
        // Such a policy is stored, so it may refer to an object that is protected.
        (policies, ["example.com", "vpcs"], &[]),
        (vms, ["example.com", "validatingwebhookconfigurations"], &[]),
    ] {
        let rules = bed.file("rules.yaml", &[of(dependent, target)]);
        let mut codes = bed.codes(&["-f", &rules]).await;
        codes.retain(|code| code.starts_with("DG116"));
        assert_eq!(codes, expected, "{dependent:?} {target:?}");
        let status = if expected.is_empty() { ExitStatus::Well } else { ExitStatus::Finding };
        assert_eq!(bed.lint(&["-f", &rules]).await.0, status, "{dependent:?} {target:?}");
    }
}

/// Returns the YAML in a page, or in a file of YAML.
fn yaml_of(path: &std::path::Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    if path.extension().is_none_or(|extension| extension != "md") {
        return text;
    }
    let blocks = text.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.filter(|block| block.contains("kind: DependencyRule")).collect::<Vec<_>>().join("\n---\n")
}

#[tokio::test]
async fn each_rule_of_the_documents_and_examples_is_taken_without_a_warning() {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let definitions = root.join("examples/guide/crds.yaml");
    let definitions = ["--schemas", definitions.to_str().unwrap()];
    let mut rules = 0;
    for (page, schemas) in [
        ("README.md", &[][..]),
        ("docs/install-kcp.md", &[]),
        ("docs/guide.md", &definitions),
        ("docs/instead-of-finalizers.md", &[]),
        ("docs/rules.md", &[]),
        ("docs/test-suites.md", &[]),
        ("examples/crossplane-provider/rules.yaml", &[]),
        ("examples/guide/rules.yaml", &definitions),
        ("examples/provider/rule.yaml", &[]),
        ("examples/quickstart/rule.yaml", &[]),
        ("examples/suites/virtualmachines.yaml", &[]),
    ] {
        let bed = Bed::new();
        let file = bed.text("rules.yaml", &yaml_of(&root.join(page)));
        let (_, out, err) = bed.lint(&[&["-f", &file, "-o", "json"], schemas].concat()).await;
        let report: Value = serde_json::from_str(&out).unwrap_or_else(|why| panic!("{page}: {why}: {out}{err}"));
        rules += report["summary"]["rules"].as_u64().unwrap();
        let findings = report["findings"].as_array().unwrap().iter();
        let worse: Vec<_> = findings.filter(|finding| finding["severity"] != "info").collect();
        assert!(worse.is_empty(), "{page}: {worse:#?}");
    }
    assert!(rules > 10, "{rules}");
}
