//! Flood from one workspace: the stock controller stays within the memory that the chart gives it, tells the flood's
//! author, and goes on for everybody else.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use depguard_controller::manifests;
use depguard_testbed::Place;
use serde_json::{Value, json};

use crate::bed::{Bed, COMPUTE, NETWORK, URL, rule};

/// Memory limit of the chart, in MiB.
const MAX_MEMORY: u64 = 256;

/// Stock binary in a process of its own.
struct Stock(Child);

impl Drop for Stock {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Stock {
    fn start(bed: &Bed, flags: &[&str]) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_depguard-controller"))
            .args(["--health-probe-bind-address=0", "--metrics-bind-address=0", "--webhook-url", URL])
            .arg("--kubeconfig")
            .arg(bed.folder.path().join("kubeconfig"))
            .args(flags)
            .env_remove("RUST_LOG")
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    /// Returns the maximum memory that the process has taken, in MiB.
    fn peak(&self) -> u64 {
        let status = std::fs::read_to_string(Path::new("/proc").join(self.0.id().to_string()).join("status")).unwrap();
        let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim();
        kib.trim_end_matches("kB").trim().parse::<u64>().unwrap() >> 10
    }
}

fn annotated(mut object: Value, number: usize) -> Value {
    object["metadata"] =
        json!({"name": format!("flood-{number}"), "annotations": {"example.com/note": "x".repeat(250_000)}});
    object
}

#[tokio::test(flavor = "multi_thread")]
async fn one_workspace_neither_fills_the_memory_nor_stops_the_others() {
    let bed = Bed::kcp_bound().await;
    bed.rule("honest", &["vpcs"]).await;
    bed.workspace("evil").await;
    bed.bind("root:evil", &manifests::provider_binding("root:dep-ctrl")).await;
    let stock = Stock::start(&bed, &["--workspace-max-objects=20"]);
    bed.until_installed(NETWORK, &["vpcs"]).await;
    let before = stock.peak();

    let fill = |[group, version, resource]: [&str; 3], objects: Vec<Value>| {
        bed.testbed.fill(&Place::new(group, version, resource).workspace("root:evil"), objects).unwrap();
    };
    let export = json!({"path": "root:dep-ctrl", "name": "dependencies.opendefense.cloud"});
    let status = json!({"phase": "Binding", "boundResources": []});
    let binding = json!({"spec": {"reference": {"export": export}}, "status": status});
    fill(["apis.kcp.io", "v1alpha2", "apibindings"], (0..30).map(|n| annotated(binding.clone(), n)).collect());
    fill(["apis.kcp.io", "v1alpha2", "apiexports"], (0..30).map(|n| annotated(json!({"spec": {}}), n)).collect());
    let rules = (0..30).map(|number| annotated(rule("", &["subnets"]), number)).collect();
    fill(["dependencies.opendefense.cloud", "v1alpha1", "dependencyrules"], rules);

    // The targets of such rules are reviewed all the same, as are the targets of a rule that somebody else writes now.
    bed.until_installed(NETWORK, &["subnets", "vpcs"]).await;
    let said = bed.until_condition("root:evil", "flood-29", "Accepted", "False AllowanceExceeded").await;
    assert!(said.contains("at most 20 rules"), "{said}");
    bed.rule("later", &["routers"]).await;
    bed.until_installed(NETWORK, &["routers", "subnets", "vpcs"]).await;
    bed.until_condition(COMPUTE, "later", "Programmed", "True Programmed").await;
    println!("{before} MiB before, at most {} MiB", stock.peak());
    assert!(stock.peak() < MAX_MEMORY, "{} MiB", stock.peak());
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_of_one_namespace_neither_fill_the_memory_nor_stop_the_others() {
    let bed = Bed::kubernetes().await;
    bed.define_locks().await;
    for namespace in ["default", "evil"] {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let _ = bed.at("").post_json("/api/v1/namespaces", &object).await;
    }
    let secrets = json!({"spec": {"targets": [{"group": "", "resource": "secrets", "name": "a"}]}});
    let flood: Vec<_> = (0..300).map(|number| annotated(secrets.clone(), number)).collect();
    let place = Place::new("dependencies.opendefense.cloud", "v1alpha1", "objectlocks").namespace("evil");
    bed.testbed.fill(&place, flood).unwrap();
    bed.lock("", "honest", &json!([{"resource": "configmaps", "name": "a"}])).await;
    let stock = Stock::start(&bed, &["--control-plane=kubernetes", "--enable=locks", "--workspace-max-objects=100"]);
    bed.until_lock("", "honest", "Accepted", "True Accepted").await;
    println!("at most {} MiB", stock.peak());
    assert!(stock.peak() < MAX_MEMORY, "{} MiB", stock.peak());
}
