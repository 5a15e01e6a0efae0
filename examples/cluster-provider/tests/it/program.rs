//! Test of the program as openMCP deploys it: a job with `init`, then a deployment with `run`.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use cluster_provider_example::api::{
    ClusterProfiles, ProfileConfig, SupportedVersion, WorkspaceProviderConfig, WorkspaceProviderConfigSpec,
};
use cluster_provider_example::platform::{Platform, connect, read_kubeconfig};
use depguard_testbed::{Options, Testbed};
use kube_client::core::params::PostParams;

use crate::trouble::bring_contract;

const PATIENCE: Duration = Duration::from_secs(120);

/// Arguments that the operator's deployment controller writes.
const CONTRACT: [&str; 3] = ["--environment=dev", "--verbosity=INFO", "--provider-name=mine"];

#[tokio::test(flavor = "multi_thread")]
async fn init_and_run_do_what_the_deployment_contract_says() {
    let folder = tempfile::tempdir().unwrap();
    let (kube, kcp) = (folder.path().join("kube"), folder.path().join("kcp"));
    let platform = Testbed::start(Options::kubernetes().rbac()).await.unwrap();
    let workspaces = Testbed::start(Options::kcp().rbac()).await.unwrap();
    std::fs::write(&kube, platform.kubeconfig("", "admin")).unwrap();
    std::fs::write(&kcp, workspaces.kubeconfig("root", "admin")).unwrap();

    let at = Platform::new(connect(read_kubeconfig(Some(&kube)).await.unwrap()).unwrap(), "mine", "dev");
    bring_contract(&at).await;

    for _ in 0..2 {
        let init = output(program(&kube, &kcp, "init").args(CONTRACT)).await;
        assert!(init.status.success(), "{init:?}");
    }
    let leader = output(program(&kube, &kcp, "run").args(CONTRACT).arg("--leader-elect=true")).await;
    assert!(!leader.status.success());
    let said = String::from_utf8_lossy(&leader.stderr);
    assert!(said.contains("set `runReplicas` of its ClusterProvider to 1"), "{said}");

    let mut run =
        Running(program(&kube, &kcp, "run").args(CONTRACT).arg("--webhook-listen=127.0.0.1:0").spawn().unwrap());
    let versions = vec![SupportedVersion { version: "1.36.2".to_owned(), deprecated: false }];
    let profiles = vec![ProfileConfig { name: "one".to_owned(), versions }];
    let spec = WorkspaceProviderConfigSpec { provider: "mine".to_owned(), profiles };
    let config = WorkspaceProviderConfig::new("mine", spec);
    at.all().create(&PostParams::default(), &config).await.unwrap();
    let begun = Instant::now();
    while at.find::<ClusterProfiles>("", "dev.mine.one").await.unwrap().is_none() {
        assert!(run.0.try_wait().unwrap().is_none(), "it ended");
        assert!(begun.elapsed() < PATIENCE, "no profile came");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    let told = Command::new("kill").args(["-TERM", &run.0.id().to_string()]).status().unwrap();
    assert!(told.success());
    let ended = tokio::task::spawn_blocking(move || run.0.wait().unwrap()).await.unwrap();
    assert!(ended.success(), "{ended:?}");
}

/// Child process that ends with the test, however the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn program(kube: &Path, kcp: &Path, command: &str) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_cluster-provider-example"));
    program.env("KUBECONFIG", kube).env("KCP_KUBECONFIG", kcp).stdin(Stdio::null()).arg(command);
    program
}

async fn output(command: &mut Command) -> Output {
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    tokio::task::spawn_blocking(|| command.wait_with_output().unwrap()).await.unwrap()
}
