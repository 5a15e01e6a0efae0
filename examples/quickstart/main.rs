//! depguard from end to end in one process: `cargo run --example quickstart`.
//!
//! The quickstart has two providers, a consumer and a rule, on an API server that plays kcp, with the controller and
//! the webhook of the stock binaries. It exits with 0 only if every step had the announced result.

mod running;
mod workspace;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use depguard_controller::manifests;
use depguard_core::ControlPlane;
use depguard_kcp::{ConnectOptions, Connection, Features};
use depguard_testbed::Testbed;
use serde_json::Value;
use tempfile::TempDir;

use crate::running::Running;
use crate::workspace::{Workspace, documents, eventually};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const DEP_CTRL: &str = "root:dep-ctrl";
const NETWORK: &str = "root:providers:network";
const COMPUTE: &str = "root:providers:compute";
const TENANT: &str = "root:tenant";

const VPC: &str = "/apis/network.example.com/v1alpha1/namespaces/default/vpcs";
const VM: &str = "/apis/compute.example.com/v1alpha1/namespaces/default/virtualmachines";
const RULE: &str = "/apis/dependencies.opendefense.cloud/v1alpha1/dependencyrules/virtualmachines";

/// A rule in one workspace stops a deletion in another.
#[derive(Debug, Parser)]
struct Options {
    /// Start neither the webhook nor the controller: the step that expects the refusal then fails.
    #[arg(long)]
    without_webhook: bool,
    /// Keep everything running at the end, to try it with kubectl.
    #[arg(long)]
    keep: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match play(&Options::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("\nfailed: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn play(options: &Options) -> Result<()> {
    let folder = TempDir::new()?;
    let testbed = Testbed::start(depguard_testbed::Options::default()).await?;
    println!("an API server that plays kcp listens on {}", testbed.url());

    println!("\n# two providers, a consumer, and a rule in {COMPUTE}");
    let admin = connect(&folder, &testbed, "root", "admin").await?;
    let at = |path| Workspace::new(&admin, path);
    for path in [DEP_CTRL, "root:providers", NETWORK, COMPUTE, TENANT] {
        at(path)?.make().await?;
    }
    for object in [manifests::api_resource_schema(), manifests::api_export()] {
        at(DEP_CTRL)?.create(&object).await?;
    }
    for (provider, exports) in [(NETWORK, include_str!("network.yaml")), (COMPUTE, include_str!("compute.yaml"))] {
        at(provider)?.create_all(&documents(exports)?).await?;
        at(provider)?.create(&manifests::provider_binding(DEP_CTRL)).await?;
    }
    at(COMPUTE)?.create_all(&documents(include_str!("rule.yaml"))?).await?;
    at(TENANT)?.create_all(&documents(include_str!("tenant.yaml"))?).await?;

    let running = match options.without_webhook {
        true => None,
        false => {
            let kubeconfig = folder.path().join("dep-ctrl.kubeconfig");
            std::fs::write(&kubeconfig, testbed.kubeconfig(DEP_CTRL, "admin"))?;
            Some(Running::start(folder.path(), ControlPlane::Kcp, &kubeconfig, Features::default()).await?)
        }
    };
    if running.is_some() {
        println!("\n# the controller installs the webhook in {NETWORK} and reports that in the rule's status");
        let status = eventually(|| conditions(at(COMPUTE))).await?;
        println!("{status}");
    }

    println!("\n# the tenant creates a VPC and a virtual machine in it");
    let tenant = Workspace::new(&connect(&folder, &testbed, TENANT, "alice").await?, TENANT)?;
    let objects = documents(include_str!("objects.yaml"))?;
    tenant.create_all(&objects).await?;

    println!("\n# the VPC can't be deleted while the virtual machine uses it");
    tenant
        .delete_refused(
            VPC,
            "a",
            "admission webhook \"dependency-controller.dependencies.opendefense.cloud\" denied the request: \
             cannot delete vpcs/a: still referenced by VirtualMachine/m1",
        )
        .await?;

    println!("\n# without the virtual machine, the tenant can delete the VPC");
    tenant.delete(VM, "m1").await?;
    tenant.delete(VPC, "a").await?;

    if options.keep {
        tenant.create_all(&objects).await?;
        let kept = Path::new("target/quickstart");
        std::fs::create_dir_all(kept)?;
        for (file, workspace, user) in [("tenant", TENANT, "alice"), ("compute", COMPUTE, "admin")] {
            std::fs::write(kept.join(format!("{file}.kubeconfig")), testbed.kubeconfig(workspace, user))?;
        }
        println!("\nrunning until Ctrl-C, with a new VPC and virtual machine. Try:");
        println!("  kubectl --kubeconfig target/quickstart/tenant.kubeconfig delete vpcs.network.example.com a");
        tokio::signal::ctrl_c().await?;
    }
    if let Some(running) = running {
        running.stop().await;
    }
    testbed.stop().await;
    println!("\nall steps succeeded");
    Ok(())
}

/// The rule's conditions, once each of them is true. The controller writes some before it has seen all that they need.
async fn conditions(provider: Result<Workspace>) -> Result<std::result::Result<String, String>> {
    let rule = provider?.read(RULE).await?;
    let conditions = rule["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let text = |c: &Value, field: &str| c[field].as_str().unwrap_or("?").to_owned();
    if let Some(c) = conditions.iter().find(|c| c["status"] != "True") {
        return Ok(Err(format!("{} is {}: {}", text(c, "type"), text(c, "status"), text(c, "message"))));
    }
    let lines: Vec<_> = conditions.iter().map(|c| format!("  {}={}", text(c, "type"), text(c, "status"))).collect();
    Ok(if lines.is_empty() { Err("the rule has no condition".to_owned()) } else { Ok(lines.join("\n")) })
}

async fn connect(folder: &TempDir, testbed: &Testbed, workspace: &str, user: &str) -> Result<Connection> {
    let kubeconfig = folder.path().join(format!("{user}.kubeconfig"));
    std::fs::write(&kubeconfig, testbed.kubeconfig(workspace, user))?;
    let options = ConnectOptions::new(ControlPlane::Kcp).kubeconfig(kubeconfig);
    Ok(Connection::open(&options).await?)
}
