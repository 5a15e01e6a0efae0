//! Parts of a cluster that a test plays, since they need machines: scheduler, kubelet, provisioner of volumes.

use std::convert::Infallible;

use serde_json::{Value, json};

use crate::api::{Api, Reply};
use crate::outcome::Outcome;

const NODE: &str = "played";
const STORAGE_CLASS: &str = "played";

/// Calls `attend` with each object of a collection, and again when the object changes, until that fails.
pub async fn attend_all(
    api: &Api,
    collection: &str,
    mut attend: impl AsyncFnMut(&Value) -> Outcome,
) -> Outcome<Infallible> {
    loop {
        let list = api.get(collection).await?.ok()?;
        for object in list["items"].as_array().into_iter().flatten() {
            attend(object).await?;
        }
        let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let mut watch = api.watch(collection, version).await?;
        while let Some(event) = watch.next().await? {
            if ["ADDED", "MODIFIED"].iter().any(|kind| event["type"] == *kind) {
                attend(&event["object"]).await?;
            }
        }
    }
}

/// Says that a pending Pod runs and is ready, as its kubelet would.
pub async fn run_pod(api: &Api, pod: &Value) -> Outcome {
    if pod["status"]["phase"] != "Pending" {
        return Ok(());
    }
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten().map(|container| {
        json!({
            "name": container["name"], "image": container["image"], "imageID": container["image"],
            "ready": true, "started": true, "restartCount": 0, "state": {"running": {"startedAt": pod["metadata"]["creationTimestamp"]}},
        })
    });
    let is = |condition: &str| json!({"type": condition, "status": "True"});
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(is);
    let status = json!({
        "phase": "Running", "podIP": "192.0.2.1", "podIPs": [{"ip": "192.0.2.1"}], "hostIP": "127.0.0.1",
        "containerStatuses": containers.collect::<Vec<_>>(),
        "conditions": conditions,
    });
    told(api.merge(&format!("{}/status", path(pod)), &patch(pod, &status)).await?)
}

/// Plays one node and its volumes for a whole cluster, until that fails.
pub async fn play_cluster(api: &Api) -> Outcome<Infallible> {
    let node =
        json!({"metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux"}}});
    api.post("/api/v1/nodes", &node).await?.ok()?;
    let ready = json!({"status": {
        "conditions": [{"type": "Ready", "status": "True"}],
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "capacity": {"cpu": "64", "memory": "256Gi", "pods": "999"},
        "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "999"},
    }});
    api.merge(&format!("/api/v1/nodes/{NODE}/status"), &ready).await?.ok()?;
    // The API server gives each new Node a taint that the controller of Nodes takes away.
    api.merge(&format!("/api/v1/nodes/{NODE}"), &json!({"spec": {"taints": null}})).await?.ok()?;
    let class = json!({
        "metadata": {"name": STORAGE_CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "depguard.invalid/played",
    });
    api.post("/apis/storage.k8s.io/v1/storageclasses", &class).await?.ok()?;
    tokio::try_join!(
        attend_all(api, "/api/v1/pods", async |pod| attend_pod(api, pod).await),
        attend_all(api, "/api/v1/persistentvolumeclaims", async |claim| provision(api, claim).await),
    )
    .map(|(never, _)| never)
}

/// Binds a Pod, runs it, ends it if its command says only that, and finishes its deletion.
async fn attend_pod(api: &Api, pod: &Value) -> Outcome {
    let (path, metadata) = (path(pod), &pod["metadata"]);
    if pod["spec"]["nodeName"].is_null() {
        let target = json!({"metadata": {"name": metadata["name"], "uid": metadata["uid"]}, "target": {"kind": "Node", "name": NODE}});
        return told(api.post(&format!("{path}/binding"), &target).await?);
    }
    if !metadata["deletionTimestamp"].is_null() {
        let at_once = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}});
        return told(api.delete_with(&path, &at_once).await?);
    }
    let ends =
        pod["spec"]["containers"][0]["command"].as_array().and_then(|words| words.last()) == Some(&json!("exit 0"));
    if ends && pod["status"]["phase"] == "Running" {
        let ended = patch(pod, &json!({"phase": "Succeeded"}));
        return told(api.merge(&format!("{path}/status"), &ended).await?);
    }
    run_pod(api, pod).await
}

/// Creates the volume of a claim of the default class.
async fn provision(api: &Api, claim: &Value) -> Outcome {
    let (metadata, spec) = (&claim["metadata"], &claim["spec"]);
    let is_free = spec["volumeName"].is_null() && metadata["deletionTimestamp"].is_null();
    if !is_free || spec["storageClassName"] != STORAGE_CLASS {
        return Ok(());
    }
    let volume = json!({
        "metadata": {"name": format!("pvc-{}", metadata["uid"].as_str().unwrap_or_default())},
        "spec": {
            "accessModes": spec["accessModes"], "capacity": spec["resources"]["requests"],
            "storageClassName": STORAGE_CLASS, "volumeAttributesClassName": spec["volumeAttributesClassName"],
            "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/played"},
            "claimRef": {"namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]},
        },
    });
    told(api.post("/api/v1/persistentvolumes", &volume).await?)
}

/// Accepts the answer about an object that is gone, has changed, or ends with its namespace: the next event shows that.
fn told(reply: Reply) -> Outcome {
    let ends = reply.status == 403 && reply.message().contains("because it is being terminated");
    if ends || reply.is_gone() { Ok(()) } else { reply.ok_or_there() }
}

/// Builds a patch of the status of this Pod, and of no later one of the same name.
fn patch(pod: &Value, status: &Value) -> Value {
    json!({"metadata": {"uid": pod["metadata"]["uid"]}, "status": status})
}

fn path(pod: &Value) -> String {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    format!("/api/v1/namespaces/{}/pods/{}", text("namespace"), text("name"))
}
