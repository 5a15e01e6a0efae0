//! Builders for tests: objects as an API server would return them.

use std::collections::BTreeSet;

use depguard_core::model::{GroupResource, Resource};
use depguard_core::{Group, LogicalCluster, WorkspacePath};
use serde_json::{Value, json};

use crate::model::webhook_configuration::{self, ClientConfigs, Kinds};
use crate::model::webhook_target::WebhookTarget;
use crate::runtime::client_config::Clients;

pub(crate) fn cluster(id: &str) -> LogicalCluster {
    LogicalCluster::parse(id).unwrap()
}

pub(crate) fn path(path: &str) -> WorkspacePath {
    WorkspacePath::parse(path).unwrap()
}

/// Reads a kind such as `vpcs.network.example.com`, or `configmaps`.
pub(crate) fn kind(kind: &str) -> GroupResource {
    let (resource, group) = kind.split_once('.').unwrap_or((kind, ""));
    GroupResource { group: Group::parse(group).unwrap(), resource: Resource::parse(resource).unwrap() }
}

pub(crate) fn client_configs() -> ClientConfigs {
    clients().at(&None)
}

/// Returns the same clients for every place.
pub(crate) fn clients() -> Clients {
    let target = WebhookTarget::Url("https://webhook.example.com/validate".to_owned());
    Clients {
        target,
        ca_bundle: Some(b"PEM".as_slice().into()),
        key: None,
        own_namespace: None,
        generation: None,
        generation_key: None,
    }
}

pub(crate) fn desired_for(kinds: &[&str]) -> Value {
    let fail = kinds.iter().map(|name| (kind(name), BTreeSet::new())).collect();
    webhook_configuration::desired(&Kinds { fail, ..Kinds::default() }, &client_configs())
}

/// Returns a configuration as an API server stores it.
pub(crate) fn stored(desired: &Value) -> Value {
    let mut object = desired.clone();
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.insert("uid".to_owned(), json!("2c8f0a4e"));
    metadata.insert("resourceVersion".to_owned(), json!("7"));
    metadata.insert("generation".to_owned(), json!(1));
    metadata["annotations"]["kcp.io/cluster"] = json!("any");
    object
}

/// Makes a rule of the workspace `cluster`. Its dependents are `virtualmachines.compute.example.com` of the export
/// `compute.example.com`. Its targets are written as [`kind`] reads them, and are of the export `network.example.com`
/// at `path`.
pub(crate) fn rule(cluster: &str, name: &str, targets: &[(&str, &str)]) -> Value {
    let dependencies = targets.iter().map(|(path, target)| {
        let target = kind(target);
        json!({
            "apiExportRef": {"path": path, "name": "network.example.com"},
            "group": target.group,
            "version": "v1alpha1",
            "resource": target.resource,
            "fieldRef": {"path": ".spec.vpcRef.name"},
        })
    });
    json!({
        "apiVersion": "dependencies.opendefense.cloud/v1alpha1",
        "kind": "DependencyRule",
        "metadata": {
            "name": name,
            "generation": 3,
            "resourceVersion": "11",
            "annotations": {"kcp.io/cluster": cluster},
        },
        "spec": {
            "dependent": {
                "apiExportName": "compute.example.com",
                "group": "compute.example.com",
                "version": "v1alpha1",
                "kind": "VirtualMachine",
                "resource": "virtualmachines",
            },
            "dependencies": dependencies.collect::<Vec<_>>(),
        },
    })
}

/// Returns the same rule without any export: local to its own workspace or cluster.
pub(crate) fn local(mut rule: Value) -> Value {
    rule["spec"]["dependent"].as_object_mut().unwrap().remove("apiExportName");
    for dependency in rule["spec"]["dependencies"].as_array_mut().unwrap() {
        dependency.as_object_mut().unwrap().remove("apiExportRef");
    }
    rule
}

/// Makes the APIBinding of depguard, with all claims accepted, of the workspace `cluster` at `path`.
pub(crate) fn binding(cluster: &str, path: &str) -> Value {
    let mut object = crate::manifests::provider_binding("root:dep-ctrl");
    object["metadata"]["annotations"] = json!({"kcp.io/cluster": cluster, "kcp.io/path": path});
    object["status"] = json!({"appliedPermissionClaims": object["spec"]["permissionClaims"]});
    object
}

/// Makes an APIExport of one kind, with the name of the kind's group.
pub(crate) fn export(cluster: &str, serves: &str) -> Value {
    let kind = kind(serves);
    json!({
        "metadata": {"name": kind.group, "annotations": {"kcp.io/cluster": cluster}},
        "spec": {"resources": [{"group": kind.group, "name": kind.resource, "schema": "x"}]},
    })
}

/// Returns the same APIExport, which accepts rules of these workspaces only.
pub(crate) fn accepting(mut export: Value, workspaces: &str) -> Value {
    export["metadata"]["annotations"]["dependencies.opendefense.cloud/accept-rules-from"] = json!(workspaces);
    export
}

/// Returns the same rule, whose dependents' references are looked for with this outcome.
pub(crate) fn looking(mut rule: Value, on_missing: &str) -> Value {
    for dependency in rule["spec"]["dependencies"].as_array_mut().unwrap() {
        dependency["onMissing"] = json!(on_missing);
    }
    rule
}
