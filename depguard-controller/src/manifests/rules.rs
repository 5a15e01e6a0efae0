//! Rules worth having: references between kinds that every kcp, or every Kubernetes, has, and between openMCP's.

mod openmcp;

use depguard_core::{Home, api};
use serde_json::{Value, json};

use super::rbac::dependents_of;
use super::{File, YamlError, with};

pub use openmcp::openmcp_rules;

/// Ready-made local rules, a file a subject. Apply them where the kinds are.
pub fn rule_files(home: Home) -> Result<Vec<File>, YamlError> {
    let (name, place) = match home {
        Home::Kcp => (
            "kcp-apiresourceschema.yaml",
            "Apply in the workspace of each provider: keeps an APIResourceSchema that an APIExport still uses.",
        ),
        Home::Kubernetes => (
            "kubernetes-workloads.yaml",
            "Apply in the cluster: keeps ConfigMaps, Secrets, PersistentVolumeClaims and ServiceAccounts that Pods and\n\
             # workloads use. A Pod that is being deleted still uses them. Begin with `onDelete: Warn` where tools delete\n\
             # both at once, and take `failurePolicy: Ignore` where these must go even while depguard can't be reached.\n\
             # The ClusterRole lets the webhook list Pods and workloads; what they use, it never reads.",
        ),
    };
    let mut files = vec![pack(name, place, role_of_rules(home), rules(home))?];
    if home == Home::Kubernetes {
        let rules = openmcp_rules();
        let role = dependents_of("depguard-webhook-openmcp", &rules);
        files.push(pack("openmcp.yaml", openmcp::PLACE, Some(role), rules)?);
    }
    Ok(files)
}

/// Rules that belong together, behind the role that lets the webhook list their dependents.
fn pack(name: &'static str, place: &str, role: Option<Value>, mut rules: Vec<Value>) -> Result<File, YamlError> {
    rules.splice(0..0, role);
    File::new(name, place, &rules)
}

/// Those of the rules of [`rule_files`] whose kinds are there anyway.
pub fn rules(home: Home) -> Vec<Value> {
    match home {
        Home::Kcp => vec![api_resource_schemas()],
        Home::Kubernetes => WORKLOADS.iter().map(workload).collect(),
    }
}

/// The ClusterRole that lets the webhook read the dependents of [`rules`], where it may not read everything.
pub fn role_of_rules(home: Home) -> Option<Value> {
    (home == Home::Kubernetes).then(|| dependents_of("depguard-webhook-workloads", &rules(home)))
}

/// kcp itself lets go of a schema that is in use: the API is then gone from wherever it is bound next.
fn api_resource_schemas() -> Value {
    let dependent =
        json!({"group": "apis.kcp.io", "version": "v1alpha2", "kind": "APIExport", "resource": "apiexports"});
    let target = json!({
        "group": "apis.kcp.io",
        "version": "v1alpha1",
        "kind": "APIResourceSchema",
        "resource": "apiresourceschemas",
        "fieldRef": {"path": ".spec.resources[*].schema"},
    });
    rule("apiresourceschemas", &dependent, &[target])
}

/// What runs Pods.
struct Workload {
    group: &'static str,
    kind: &'static str,
    resource: &'static str,
    /// Where its Pods are specified.
    pod: &'static str,
}

/// Not ReplicaSets: a Deployment keeps those of its former revisions, with what they used.
const WORKLOADS: [Workload; 6] = [
    Workload { group: "", kind: "Pod", resource: "pods", pod: ".spec" },
    Workload { group: "apps", kind: "Deployment", resource: "deployments", pod: ".spec.template.spec" },
    Workload { group: "apps", kind: "StatefulSet", resource: "statefulsets", pod: ".spec.template.spec" },
    Workload { group: "apps", kind: "DaemonSet", resource: "daemonsets", pod: ".spec.template.spec" },
    Workload { group: "batch", kind: "Job", resource: "jobs", pod: ".spec.template.spec" },
    Workload { group: "batch", kind: "CronJob", resource: "cronjobs", pod: ".spec.jobTemplate.spec.template.spec" },
];

const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

fn workload(workload: &Workload) -> Value {
    let Workload { group, kind: kind_of_dependent, resource, pod } = workload;
    let dependent = json!({"group": group, "version": "v1", "kind": kind_of_dependent, "resource": resource});
    let target = |kind: &str, resource: &str, path: &str| {
        let target = json!({
            "group": "", "version": "v1", "kind": kind, "resource": resource,
            "fieldRef": {"path": format!("{pod}.{path}")},
        });
        // A Pod that has ended uses nothing any more.
        let running = json!({"path": ".status.phase", "in": ["Pending", "Running", "Unknown"]});
        if *kind_of_dependent == "Pod" { with(target, "when", running) } else { target }
    };
    let in_containers = |field: &'static str| CONTAINERS.map(|containers| format!("{containers}[*].{field}"));
    let config_maps =
        ["volumes[*].configMap.name", "volumes[*].projected.sources[*].configMap.name"].map(str::to_owned);
    let config_maps = config_maps
        .into_iter()
        .chain(in_containers("envFrom[*].configMapRef.name"))
        .chain(in_containers("env[*].valueFrom.configMapKeyRef.name"));
    let secrets = [
        "imagePullSecrets[*].name",
        "volumes[*].secret.secretName",
        "volumes[*].projected.sources[*].secret.name",
        "volumes[*].csi.nodePublishSecretRef.name",
        "volumes[*].iscsi.secretRef.name",
        "volumes[*].azureFile.secretName",
        "volumes[*].flexVolume.secretRef.name",
    ];
    let secrets = secrets.map(str::to_owned);
    let secrets = secrets
        .into_iter()
        .chain(in_containers("envFrom[*].secretRef.name"))
        .chain(in_containers("env[*].valueFrom.secretKeyRef.name"));
    let targets = config_maps
        .map(|path| target("ConfigMap", "configmaps", &path))
        .chain(secrets.map(|path| target("Secret", "secrets", &path)))
        .chain([
            target("PersistentVolumeClaim", "persistentvolumeclaims", "volumes[*].persistentVolumeClaim.claimName"),
            target("ServiceAccount", "serviceaccounts", "serviceAccountName"),
        ]);
    rule(resource, &dependent, &targets.collect::<Vec<_>>())
}

fn rule(name: &str, dependent: &Value, dependencies: &[Value]) -> Value {
    json!({
        "apiVersion": format!("{}/{}", api::GROUP, api::VERSION),
        "kind": api::KIND,
        "metadata": {"name": name},
        "spec": {"dependent": dependent, "dependencies": dependencies},
    })
}
