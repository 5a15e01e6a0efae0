//! Proxy from the addresses of Services to the pods that their EndpointSlices call ready.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use depguard_e2e::Outcome;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Local ports of each pod, by the pod's address and the container's port.
type Pods = BTreeMap<String, BTreeMap<u16, u16>>;

/// Listens at each Service's address. A connection stays with the pod that it was opened to.
#[derive(Default)]
pub(super) struct Proxy {
    listening: BTreeMap<(String, u16), Listener>,
}

struct Listener {
    ready: Arc<Mutex<Vec<u16>>>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Adapts the listeners to these Services, EndpointSlices and pods.
    pub(super) async fn follow(&mut self, services: &[Value], slices: &[Value], pods: &Pods) -> Outcome {
        let mut desired = BTreeMap::new();
        for service in services {
            let Some(address) = service["spec"]["clusterIP"].as_str().filter(|address| *address != "None") else {
                continue;
            };
            for port in service["spec"]["ports"].as_array().into_iter().flatten() {
                let number = port["port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or_default();
                desired.insert((address.to_owned(), number), ready(service, &port["name"], slices, pods));
            }
        }
        self.listening.retain(|at, _| desired.contains_key(at));
        for (at, ready) in desired {
            match self.listening.get(&at) {
                Some(listening) => *listening.ready.lock().unwrap_or_else(PoisonError::into_inner) = ready,
                None => {
                    let listener = TcpListener::bind((at.0.as_str(), at.1)).await?;
                    let ready = Arc::new(Mutex::new(ready));
                    let task = tokio::spawn(forward(listener, Arc::clone(&ready)));
                    self.listening.insert(at, Listener { ready, task });
                }
            }
        }
        Ok(())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns the local ports of a Service's ready pods.
fn ready(service: &Value, port: &Value, slices: &[Value], pods: &Pods) -> Vec<u16> {
    let of = |slice: &&Value| slice["metadata"]["labels"]["kubernetes.io/service-name"] == service["metadata"]["name"];
    let mut found = Vec::new();
    for slice in slices.iter().filter(of) {
        let ports = slice["ports"].as_array().into_iter().flatten();
        let number = ports.into_iter().find(|found| found["name"] == *port).and_then(|port| port["port"].as_u64());
        let Some(number) = number.and_then(|number| u16::try_from(number).ok()) else { continue };
        for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
            let address = endpoint["addresses"][0].as_str().unwrap_or_default();
            if endpoint["conditions"]["ready"] == true {
                found.extend(pods.get(address).and_then(|ports| ports.get(&number)));
            }
        }
    }
    found
}

async fn forward(listener: TcpListener, ready: Arc<Mutex<Vec<u16>>>) {
    let turn = AtomicUsize::new(0);
    while let Ok((mut caller, _)) = listener.accept().await {
        let ready = ready.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let turn = turn.fetch_add(1, Ordering::Relaxed);
        let Some(port) = ready.get(turn % ready.len().max(1)).copied() else { continue };
        tokio::spawn(async move {
            if let Ok(mut pod) = TcpStream::connect(("127.0.0.1", port)).await {
                // Either side may end the connection; then it is over for both.
                let _ = tokio::io::copy_bidirectional(&mut caller, &mut pod).await;
            }
        });
    }
}
