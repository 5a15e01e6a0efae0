//! Replacement for a node and its network: a kubelet that runs the pods of one namespace as processes of this machine,
//! and a proxy from Services to these pods.
//!
//! The real controllers look after Deployments, Jobs and EndpointSlices.

mod kubelet;
mod mount;
mod pod;
mod proxy;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use depguard_e2e::tools::binary;
use depguard_e2e::{Api, Outcome, Ring};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use self::kubelet::{Kubelet, Logs};
use self::pod::Pod;
use self::proxy::Proxy;
use crate::chart::NAMESPACE;

/// Interval between two looks at the cluster.
const TICK: Duration = Duration::from_millis(200);

/// Name of the only node.
const NAME: &str = "this-machine";

/// Runs the pods of a namespace until this is dropped.
pub(crate) struct Node {
    task: JoinHandle<()>,
    _kubelet: Kubelet,
}

/// Folders with the binaries of images.
pub(crate) struct Images {
    pub(crate) usual: PathBuf,
    /// Images that have another folder than the usual one.
    pub(crate) special: BTreeMap<String, PathBuf>,
}

impl Images {
    /// Returns the folder of the binaries that Cargo built, for all images.
    pub(crate) fn built() -> Outcome<Images> {
        binary("depguard-webhook")?;
        let usual = binary("depguard-controller")?.parent().map(PathBuf::from).unwrap_or_default();
        Ok(Images { usual, special: BTreeMap::new() })
    }

    pub(crate) fn folder(&self, image: &str) -> &Path {
        self.special.get(image).unwrap_or(&self.usual)
    }
}

/// Surroundings of a pod.
pub(crate) struct Site {
    pub(crate) api: Api,
    pub(crate) ring: Arc<Ring>,
    pub(crate) namespace: String,
    pub(crate) images: Images,
    logs: Logs,
}

impl Node {
    pub(crate) async fn start(ring: &Arc<Ring>, namespace: &str, images: Images) -> Outcome<Node> {
        let api = ring.admin().await?;
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NAME}});
        api.post("/api/v1/nodes", &node).await?.ok_or_there()?;
        let logs = Logs::default();
        let kubelet = Kubelet::start(Arc::clone(&logs)).await?;
        let status = json!({"status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port}},
        }});
        api.merge(&format!("/api/v1/nodes/{NAME}/status"), &status).await?.ok()?;
        let site = Site { api, ring: Arc::clone(ring), namespace: namespace.to_owned(), images, logs };
        Ok(Node { task: tokio::spawn(run(site)), _kubelet: kubelet })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(site: Site) {
    let (mut pods, mut proxy) = (BTreeMap::new(), Proxy::default());
    loop {
        // If the server is gone or an object has changed meanwhile, the next look shows it.
        if let Err(why) = look(&site, &mut pods, &mut proxy).await {
            println!("chart:      the node: {why}");
        }
        tokio::time::sleep(TICK).await;
    }
}

async fn look(site: &Site, pods: &mut BTreeMap<String, Pod>, proxy: &mut Proxy) -> Outcome {
    let place = format!("/api/v1/namespaces/{}", site.namespace);
    let found = items(site.api.get(&format!("{place}/pods")).await?.ok()?);
    pods.retain(|uid, _| found.iter().any(|pod| pod["metadata"]["uid"] == **uid));
    for object in &found {
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        match pods.get_mut(uid) {
            Some(pod) => pod.attend(site, object).await?,
            None if is_over(object) => {}
            None => {
                bind(site, object).await?;
                let number = u8::try_from(pods.len()).unwrap_or(u8::MAX);
                let used: Vec<&str> = pods.values().map(Pod::address).collect();
                let free =
                    (number..).map(|n| format!("198.51.100.{n}")).find(|address| !used.contains(&address.as_str()));
                let pod = Pod::start(site, object, free.unwrap_or_default()).await?;
                let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                site.logs.lock().unwrap_or_else(PoisonError::into_inner).insert(name, pod.log_file());
                pods.insert(uid.to_owned(), pod);
            }
        }
    }
    let services = items(site.api.get(&format!("{place}/services")).await?.ok()?);
    let slices = format!("/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices", site.namespace);
    let slices = items(site.api.get(&slices).await?.ok()?);
    let here = pods.values().map(|pod| (pod.address().to_owned(), pod.ports().clone())).collect();
    proxy.follow(&services, &slices, &here).await
}

/// Binds a pod to the only node, in the scheduler's place.
async fn bind(site: &Site, pod: &Value) -> Outcome {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": NAME},
    });
    let path = format!("/api/v1/namespaces/{}/pods/{name}/binding", site.namespace);
    site.api.post(&path, &binding).await?.ok_or_there()
}

/// Returns the webhook's pods.
pub(crate) async fn webhooks(api: &Api) -> Outcome<Vec<Value>> {
    let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io%2Fcomponent%3Dwebhook");
    Ok(items(api.get(&pods).await?.ok()?))
}

fn is_over(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

fn items(list: Value) -> Vec<Value> {
    let Value::Object(mut list) = list else { return Vec::new() };
    match list.remove("items") {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}
