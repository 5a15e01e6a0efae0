//! Scan of an API server, beside the same pages without depguard.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use depguard_core::ControlPlane;
use depguard_kcp::{ConnectOptions, Connection, Endpoint};
use depguard_testbed::{Options, Place, Testbed};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::drain::drain;
use crate::rounds::{Way, compare as rounds};
use crate::{Result, Size, depguard};

const GROUP: &str = "compute.example.com";
const MACHINES: &str = "/apis/compute.example.com/v1/machines";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const RULES: &str = "/apis/dependencies.opendefense.cloud/v1alpha1/dependencyrules";

/// Prints the ratios for an API server. Its own time is in all of them, as it runs in this process.
pub(crate) fn compare(size: Size, runtime: &Runtime) -> Result {
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    let (_testbed, endpoint) = runtime.block_on(serve(size.objects, &kubeconfig))?;
    let bare = || {
        let drained = runtime.block_on(drain(&endpoint, MACHINES))?;
        if drained.bytes > 0 && drained.pages >= (size.objects / 500) as u64 { Ok(()) } else { Err("few pages".into()) }
    };
    let kubeconfig = kubeconfig.display().to_string();
    let scan = || runtime.block_on(depguard(&["dangling", "-A", "--kubeconfig", &kubeconfig])).map(drop);
    let mut ways = vec![
        Way { name: "GET of the pages, nothing parsed", run: Box::new(bare) },
        Way { name: "dangling -A", run: Box::new(scan) },
    ];
    match kubectl() {
        Some(kubectl) => {
            let kubeconfig = &kubeconfig;
            let get = move || {
                let mut get = Command::new(&kubectl);
                get.args(["get", "machines.compute.example.com", "-A", "-o", "name", "--kubeconfig", kubeconfig]);
                let status = get.stdout(Stdio::null()).status()?;
                if status.success() { Ok(()) } else { Err(format!("kubectl get: {status}").into()) }
            };
            ways.push(Way { name: "kubectl get -A -o name", run: Box::new(get) });
        }
        None => println!("\nno kubectl on PATH: `kubectl get` is not among the ways to read an API server"),
    }
    rounds(&format!("{} objects of an API server in this process, in pages of 500", size.objects), size, ways)
}

/// Returns the path of kubectl, if it is on `PATH`.
fn kubectl() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join("kubectl")).find(|program| program.is_file())
}

/// Starts a cluster with a VPC and machines that refer to it, and writes its kubeconfig.
async fn serve(machines: usize, kubeconfig: &Path) -> Result<(Testbed, Endpoint)> {
    let testbed = Testbed::start(Options::kubernetes()).await?;
    std::fs::write(kubeconfig, testbed.kubeconfig("", "admin"))?;
    let options = ConnectOptions::new(ControlPlane::Kubernetes).kubeconfig(Some(kubeconfig.to_owned()));
    let endpoint = Connection::open(&options).await?.own_endpoint();
    define(&endpoint, "dependencies.opendefense.cloud", "v1alpha1", ("dependencyrules", "DependencyRule"), "Cluster")
        .await?;
    for names in [("vpcs", "VPC"), ("machines", "Machine")] {
        define(&endpoint, GROUP, "v1", names, "Namespaced").await?;
    }
    let rule = json!({
        "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule", "metadata": {"name": "machines"},
        "spec": {
            "dependent": {"group": GROUP, "version": "v1", "kind": "Machine", "resource": "machines"},
            "dependencies": [
                {"group": GROUP, "version": "v1", "resource": "vpcs", "fieldRef": {"path": ".spec.vpc"}},
            ],
        },
    });
    endpoint.post_json(RULES, &rule).await?;
    let object = |kind: &str, name: String, spec: Value| json!({"apiVersion": "compute.example.com/v1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    let place = |resource: &'static str| Place::new(GROUP, "v1", resource).namespace("shop");
    testbed.fill(&place("vpcs"), [object("VPC", "a".to_owned(), json!({}))])?;
    let machines = (0..machines).map(|index| object("Machine", format!("m{index}"), json!({"vpc": "a", "cpus": 4})));
    testbed.fill(&place("machines"), machines)?;
    Ok((testbed, endpoint))
}

/// Defines a kind, and waits until it is served.
async fn define(at: &Endpoint, group: &str, version: &str, names: (&str, &str), scope: &str) -> Result {
    let (plural, kind) = names;
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": scope, "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": version, "served": true, "storage": true, "schema": schema}],
        },
    });
    at.post_json(CRDS, &definition).await?;
    let path = format!("/apis/{group}/{version}/{plural}");
    for _ in 0..2000 {
        if at.get_json(&path).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(30)).await;
    }
    Err(format!("{path} was never served").into())
}
