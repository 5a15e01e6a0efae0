//! Objects of depguard, and the place of each. The CRD of the rules, the roles and the accounts are the controller's
//! manifests; the processes are the chart's.

use depguard_controller::manifests::{self, Identity, NAMESPACE, Place as RightsIn, Setup};
use depguard_core::{ControlPlane, LogicalCluster, WorkspacePath};
use serde_json::{Value, json};

use super::chart::{self, Issuer, Names};
use crate::io::exit::Failure;

/// Field manager that applies the objects.
pub(crate) const MANAGER: &str = "kubectl-depguard";
/// Label that names the tool which made an object.
pub(crate) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Place of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Cluster in which the processes run.
    Cluster,
    /// Workspace of the kcp.
    Workspace(WorkspacePath),
    /// Workspace `system:admin` of a shard, by its number among the shards that the user named.
    Shard(usize),
    /// Place that can't be reached; the text names it.
    Nowhere(&'static str),
}

/// Object, and its place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Item {
    pub(crate) place: Place,
    pub(crate) object: Value,
}

/// Workspaces of a kcp in which depguard is installed.
#[derive(Debug, Clone)]
pub(crate) struct Workspaces {
    /// depguard's own workspace.
    pub(crate) own: WorkspacePath,
    /// Logical cluster of depguard's workspace, if it is known.
    pub(crate) cluster: Option<LogicalCluster>,
    pub(crate) providers: Vec<WorkspacePath>,
    /// Number of reachable shards, in which rights are granted.
    pub(crate) shards: usize,
}

/// Returns the namespace, the CRD of the rules, accounts and rights, for plain Kubernetes.
pub(crate) fn rights(namespace: &str) -> Vec<Item> {
    let setup = Setup::new(ControlPlane::Kubernetes, manifests::ReadThrough::default());
    let mut objects: Vec<Value> = manifests::rbac(&setup).into_iter().flat_map(|(_, objects)| objects).collect();
    // The first object is the namespace. The CRD has no namespace, and goes behind it.
    objects.insert(1.min(objects.len()), manifests::crd());
    objects.into_iter().map(|object| item(Place::Cluster, signed(object, "rights", namespace))).collect()
}

/// Returns the processes, and the objects that make their certificate.
pub(crate) fn processes(names: &Names, issuer: Option<&Issuer>) -> Result<Vec<Item>, Failure> {
    let objects = chart::objects(names, issuer)?;
    Ok(objects.into_iter().map(|object| item(Place::Cluster, object)).collect())
}

/// Returns the namespace of the processes in a cluster other than depguard's own control plane.
pub(crate) fn namespace(name: &str) -> Item {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    item(Place::Cluster, signed(object, "rights", name))
}

/// Builds a Secret of `install`.
pub(crate) fn secret(namespace: &str, name: &str, data: &Value, annotations: &Value) -> Value {
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
        "data": data,
    });
    signed(secret, "webhook", namespace)
}

/// Returns the export, the rights and the bindings, for kcp.
pub(crate) fn in_workspaces(workspaces: &Workspaces, read_through: manifests::ReadThrough) -> Vec<Item> {
    let own = || Place::Workspace(workspaces.own.clone());
    let setup = Setup {
        dep_ctrl_path: workspaces.own.to_string(),
        identity: Identity::ServiceAccounts { cluster: workspaces.cluster.clone() },
        ..Setup::new(ControlPlane::Kcp, read_through)
    };
    let mut items = vec![item(own(), manifests::api_resource_schema()), item(own(), manifests::api_export())];
    let bindings = workspaces
        .providers
        .iter()
        .map(|provider| item(Place::Workspace(provider.clone()), manifests::provider_binding(&setup.dep_ctrl_path)));
    let mut elsewhere: Vec<Item> = bindings.collect();
    for (right, objects) in manifests::rbac(&setup) {
        let places = match right {
            RightsIn::Cluster | RightsIn::DepCtrl => vec![own()],
            RightsIn::Providers => workspaces.providers.iter().cloned().map(Place::Workspace).collect(),
            RightsIn::Shards if workspaces.shards == 0 => {
                vec![Place::Nowhere("the workspace system:admin of every shard")]
            }
            RightsIn::Shards => (0..workspaces.shards).map(Place::Shard).collect(),
            RightsIn::Parents => Vec::new(),
        };
        let items = if right == RightsIn::DepCtrl { &mut items } else { &mut elsewhere };
        for place in places {
            items.extend(objects.iter().map(|object| item(place.clone(), object.clone())));
        }
    }
    items.extend(elsewhere);
    for item in &mut items {
        let object = item.object.take();
        item.object = signed(object, "rights", NAMESPACE);
    }
    items
}

/// Returns true if `install` made the object.
pub(crate) fn is_ours(object: &Value) -> bool {
    object.pointer("/metadata/labels").and_then(|labels| labels.get(MANAGED_BY)).is_some_and(|by| by == MANAGER)
}

fn item(place: Place, object: Value) -> Item {
    Item { place, object }
}

/// Returns the object in that namespace, with the labels that the chart gives.
fn signed(mut object: Value, component: &str, namespace: &str) -> Value {
    if namespace != NAMESPACE {
        chart::replace(&mut object, &[(NAMESPACE, namespace)]);
    }
    let labels = object.get_mut("metadata").and_then(Value::as_object_mut).map(|metadata| {
        let labels = metadata.entry("labels").or_insert_with(|| json!({}));
        labels.as_object_mut()
    });
    if let Some(Some(labels)) = labels {
        for (label, value) in [
            ("app.kubernetes.io/name", "depguard"),
            ("app.kubernetes.io/instance", "depguard"),
            ("app.kubernetes.io/component", component),
            ("app.kubernetes.io/version", env!("CARGO_PKG_VERSION")),
            (MANAGED_BY, MANAGER),
        ] {
            labels.insert(label.to_owned(), json!(value));
        }
    }
    object
}

impl Place {
    /// Returns the text behind an object's name: empty for the one cluster of plain Kubernetes.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Cluster => String::new(),
            Self::Workspace(path) => format!(" in workspace {path}"),
            Self::Shard(number) => format!(" in workspace system:admin of shard {}", number.saturating_add(1)),
            Self::Nowhere(where_) => format!(" in {where_}"),
        }
    }
}
