//! A pod as a process with the flags and variables of the pod's first container.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use depguard_e2e::{Outcome, Stop};
use depguard_testbed::lasting_port;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::Site;
use super::mount::Mount;

/// Interval at which mounted Secrets are read again. (A kubelet takes up to two minutes.)
const REFRESH: Duration = Duration::from_secs(2);
/// File for standard output and standard error.
const LOG: &str = "log";
const PROBE: Duration = Duration::from_secs(1);

/// A running pod; the process ends when this is dropped.
pub(crate) struct Pod {
    folder: TempDir,
    address: String,
    /// The local port for each port of the container.
    ports: BTreeMap<u16, u16>,
    mounts: Vec<Mount>,
    refreshed: Instant,
    child: Child,
    /// Set once the process was asked to end.
    leaving: bool,
    told: Value,
}

impl Pod {
    pub(super) async fn start(site: &Site, pod: &Value, address: String) -> Outcome<Pod> {
        let folder = tempfile::tempdir()?;
        let container = &pod["spec"]["containers"][0];
        let mut mounts = Mount::all(pod, folder.path());
        for mount in &mut mounts {
            mount.refresh(site).await?;
        }
        let mut ports = BTreeMap::new();
        for port in container["ports"].as_array().into_iter().flatten() {
            let port = port["containerPort"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or_default();
            ports.insert(port, lasting_port(Ipv4Addr::LOCALHOST)?);
        }
        let kubeconfig = folder.path().join("account");
        std::fs::write(&kubeconfig, site.ring.kubeconfig_of(&token(site, pod).await?))?;
        let mut command = command(site, pod, container, &mounts, &ports);
        command.args(resolved(site, container).await?).env("KUBECONFIG", &kubeconfig);
        let log = File::create(folder.path().join(LOG))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn()?;
        let now = Instant::now();
        let told = Value::Null;
        Ok(Pod { folder, address, ports, mounts, refreshed: now, child, leaving: false, told })
    }

    /// Returns the pod's own address, which nothing routes.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn ports(&self) -> &BTreeMap<u16, u16> {
        &self.ports
    }

    /// Does a kubelet's regular work: refreshes Secrets, ends a deleted pod, reports the status.
    pub(super) async fn attend(&mut self, site: &Site, pod: &Value) -> Outcome {
        if self.refreshed.elapsed() > REFRESH {
            self.refreshed = Instant::now();
            for mount in &mut self.mounts {
                // A running pod keeps the files of a Secret that is gone.
                let _ = mount.refresh(site).await;
            }
        }
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("/api/v1/namespaces/{}/pods/{name}", site.namespace);
        let ended = self.child.try_wait()?;
        if pod["metadata"]["deletionTimestamp"].is_string() {
            self.leave()?;
            if ended.is_some() {
                let now = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}});
                return site.api.delete_with(&path, &now).await?.ok().map(drop);
            }
        }
        let status = match ended {
            Some(status) => self.ended(pod, status)?,
            None => running(pod, &self.address, self.is_ready(pod).await),
        };
        if status != self.told {
            site.api.merge(&format!("{path}/status"), &json!({"status": status})).await?.ok()?;
            self.told = status;
        }
        Ok(())
    }

    fn leave(&mut self) -> Outcome {
        if !self.leaving {
            self.leaving = true;
            Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status()?;
        }
        Ok(())
    }

    /// Returns the status of a pod whose process ended. A Job's pod may end; a Deployment's must not, unless it was
    /// asked to.
    fn ended(&self, pod: &Value, status: ExitStatus) -> Outcome<Value> {
        if pod["spec"]["restartPolicy"] != "Never" && !self.leaving {
            return Err(Stop::Failed(format!("{} ended: {status}\n{}", pod["metadata"]["name"], self.log())));
        }
        if !status.success() {
            println!("chart:      {} ended: {status}\n{}", pod["metadata"]["name"], self.log());
        }
        let at = &pod["metadata"]["creationTimestamp"];
        let (phase, reason) = if status.success() { ("Succeeded", "Completed") } else { ("Failed", "Error") };
        let state = json!({"terminated": {
            "exitCode": status.code().unwrap_or(137), "reason": reason, "startedAt": at, "finishedAt": at,
        }});
        Ok(report(pod, &self.address, phase, false, &state))
    }

    async fn is_ready(&self, pod: &Value) -> bool {
        let Some(path) = pod["spec"]["containers"][0]["readinessProbe"]["httpGet"]["path"].as_str() else {
            return true;
        };
        let Some(port) = self.ports.get(&8081) else { return true };
        let asked = async {
            let mut stream = TcpStream::connect(("127.0.0.1", *port)).await?;
            let request = format!("GET {path} HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await?;
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).await?;
            Ok::<_, std::io::Error>(answer.ends_with(b" 200"))
        };
        matches!(tokio::time::timeout(PROBE, asked).await, Ok(Ok(true)))
    }

    /// Returns the log file.
    pub(super) fn log_file(&self) -> PathBuf {
        self.folder.path().join(LOG)
    }

    fn log(&self) -> String {
        let text = std::fs::read_to_string(self.log_file()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines.get(lines.len().saturating_sub(20)..).unwrap_or_default().join("\n")
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(site: &Site, pod: &Value, container: &Value, mounts: &[Mount], ports: &BTreeMap<u16, u16>) -> Command {
    let program = container["command"][0].as_str().unwrap_or_default();
    let binaries = site.images.folder(container["image"].as_str().unwrap_or_default());
    let mut command = Command::new(binaries.join(program.trim_start_matches('/')));
    // A real pod has files and a network of its own. Here, paths and ports in the flags are translated.
    for flag in container["args"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let flag = mounts.iter().fold(flag.to_owned(), |flag, mount| mount.translate(&flag));
        let is_of = |port: &u16| flag.ends_with(&format!("={port}")) || flag.ends_with(&format!("=:{port}"));
        let port = ports.iter().find(|(port, _)| is_of(port));
        command.arg(match port {
            Some((port, here)) => format!("{}{here}", flag.trim_end_matches(&port.to_string())),
            None => flag,
        });
    }
    command.env_clear();
    for variable in container["env"].as_array().into_iter().flatten() {
        let field = variable["valueFrom"]["fieldRef"]["fieldPath"].as_str();
        let value = field.map(|field| pod.pointer(&format!("/{}", field.replace('.', "/"))).unwrap_or(&Value::Null));
        let value = value.unwrap_or(&variable["value"]);
        command.env(variable["name"].as_str().unwrap_or_default(), value.as_str().unwrap_or_default());
    }
    command
}

/// Returns a flag with the address of the webhook's Service for the program that calls the Service, because no name
/// server knows Services here.
async fn resolved(site: &Site, container: &Value) -> Outcome<Option<String>> {
    let flags = container["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let Some(service) = flags.filter_map(|flag| flag.strip_prefix("--webhook-service=")).next() else {
        return Ok(None);
    };
    let (place, port) = service.rsplit_once(':').unwrap_or((service, "443"));
    let (namespace, name) = place.split_once('/').unwrap_or_default();
    let service = site.api.get(&format!("/api/v1/namespaces/{namespace}/services/{name}")).await?.ok()?;
    let address = service["spec"]["clusterIP"].as_str().unwrap_or_default();
    Ok(Some(format!("--webhook-probe-address={address}:{port}")))
}

/// Requests a token of the pod's ServiceAccount, which has the rights of the chart.
async fn token(site: &Site, pod: &Value) -> Outcome<String> {
    let account = pod["spec"]["serviceAccountName"].as_str().unwrap_or_default();
    let path = format!("/api/v1/namespaces/{}/serviceaccounts/{account}/token", site.namespace);
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let answer = site.api.post(&path, &request).await?.ok()?;
    Ok(answer["status"]["token"].as_str().unwrap_or_default().to_owned())
}

fn running(pod: &Value, address: &str, ready: bool) -> Value {
    let state = json!({"running": {"startedAt": pod["metadata"]["creationTimestamp"]}});
    report(pod, address, "Running", ready, &state)
}

fn report(pod: &Value, address: &str, phase: &str, ready: bool, state: &Value) -> Value {
    let container = &pod["spec"]["containers"][0];
    let condition = |kind: &str, holds: bool| json!({"type": kind, "status": if holds { "True" } else { "False" }});
    json!({
        "phase": phase,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [
            condition("PodScheduled", true), condition("Initialized", true),
            condition("ContainersReady", ready), condition("Ready", ready),
        ],
        "containerStatuses": [{
            "name": container["name"], "image": container["image"], "imageID": "", "ready": ready, "started": true,
            "restartCount": 0, "state": state,
        }],
    })
}
