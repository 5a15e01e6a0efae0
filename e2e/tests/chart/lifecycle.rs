//! `kubectl depguard install`, `status` and `uninstall` on a real kube-apiserver, with the pods as processes of this
//! machine.

use std::ffi::OsString;
use std::sync::Arc;

use depguard_controller::manifests;
use depguard_e2e::rules::pack;
use depguard_e2e::{Api, Outcome, Ring, ensure, eventually};
use kubectl_depguard::{ExitStatus, Terminal};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::chart::NAMESPACE;
use crate::node::{Images, Node};

pub(crate) const RULES: &str = "/apis/dependencies.opendefense.cloud/v1alpha1/dependencyrules";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
pub(crate) const SETTINGS: &str = "/api/v1/namespaces/shop/configmaps/settings";
const INSTALL: [&str; 2] = ["install", "--image=registry.example.com/depguard:0.1.0"];

struct Cli {
    folder: TempDir,
}

/// Result of a command.
struct CommandOutput {
    status: ExitStatus,
    out: String,
    all: String,
}

impl Cli {
    async fn run(&self, arguments: &[&str]) -> CommandOutput {
        let (mut terminal, captured) = Terminal::captured("");
        let kubeconfig = self.folder.path().join("kubeconfig");
        let line = ["kubectl-depguard"].iter().chain(arguments).map(OsString::from);
        let line = line.chain([OsString::from("--kubeconfig"), kubeconfig.into_os_string()]);
        let status = kubectl_depguard::run(line, &mut terminal).await;
        let out = captured.out();
        CommandOutput { status, all: format!("{out}{}", captured.err()), out }
    }

    async fn well(&self, arguments: &[&str]) -> Outcome<String> {
        let done = self.run(arguments).await;
        ensure(done.status == ExitStatus::Well, || format!("{arguments:?}: {:?}: {}", done.status, done.all))?;
        Ok(done.out)
    }
}

pub(crate) async fn from_install_to_uninstall(ring: Arc<Ring>) -> Outcome {
    let cli = Cli { folder: tempfile::tempdir()? };
    ring.write_kubeconfig("", &cli.folder.path().join("kubeconfig"))?;
    let _node = Node::start(&ring, NAMESPACE, Images::built()?).await?;
    let api = ring.admin().await?;

    let nothing = cli.run(&["status"]).await;
    let is_told = nothing.status == ExitStatus::Finding && nothing.all.contains("depguard is not installed here");
    ensure(is_told, || format!("{:?}: {}", nothing.status, nothing.all))?;
    cli.well(&[&INSTALL[..], &["--dry-run=server"]].concat()).await?;
    let role = format!("{ROLES}/depguard-webhook");
    ensure(api.get(&role).await?.is_gone(), || "a dry run made something".to_owned())?;

    let made = cli.well(&INSTALL).await?;
    ensure(made.lines().all(|line| line.ends_with(" created")), || made.clone())?;
    // Controllers still change new objects; the test repeats this until they are done.
    eventually("another install changes nothing", ring.patience(), async || {
        let again = cli.well(&INSTALL).await?;
        ensure(again.lines().all(|line| line.ends_with(" unchanged")), || again.clone())
    })
    .await?;

    fill(&api).await?;
    eventually("every rule is enforced, and all pods are ready", ring.patience(), async || {
        let out = cli.well(&["status"]).await?;
        ensure(out.contains("depguard-controller   1/1 ") && out.contains("depguard-webhook      2/2 "), || out.clone())
    })
    .await?;
    let refused = api.delete(SETTINGS).await?;
    ensure(refused.status == 403 && refused.message().contains("still referenced by Pod/web"), || {
        format!("{} {}", refused.status, refused.message())
    })?;
    eventually("the refusal is shown", ring.patience(), async || {
        let shown: Value = serde_json::from_str(&cli.well(&["status", "-ojson"]).await?)?;
        let last = &shown["refusals"][0];
        let of =
            ["kind", "namespace", "name", "rules", "decided"].map(|field| last[field].as_str().unwrap_or_default());
        let is_it = of == ["configmaps", "shop", "settings", "kubernetes-workloads-pods", "referenced"]
            && last["blockers"] == 1;
        ensure(is_it, || shown.to_string())
    })
    .await?;

    let gone = cli.run(&["uninstall", "--yes"]).await;
    let first = "validatingwebhookconfiguration.admissionregistration.k8s.io/dependency-controller deleted\n";
    let is_right = gone.status == ExitStatus::Well
        && gone.out.starts_with(first)
        && gone.out.contains(&format!("namespace/{NAMESPACE} deleted\n"))
        && gone.all.contains("--crd deletes them");
    ensure(is_right, || gone.all.clone())?;
    api.delete(SETTINGS).await?.ok()?;
    let left = cli.run(&["status"]).await;
    ensure(left.out.starts_with("RULE ") && left.out.contains("\nkubernetes-workloads-pods "), || {
        format!("the rules are gone: {}", left.all)
    })?;
    eventually("its namespace ends", ring.patience(), async || {
        let found = api.get(&format!("/api/v1/namespaces/{NAMESPACE}")).await?;
        ensure(found.is_gone(), || "it is there".to_owned())
    })
    .await?;
    cli.well(&["uninstall", "--crd", "--yes"]).await?;
    eventually("nothing is left", ring.patience(), async || {
        let done = cli.run(&["status"]).await;
        ensure(done.all.contains("depguard is not installed here"), || done.all.clone())
    })
    .await
}

/// Creates the ready-made rules, and a pod that uses a ConfigMap.
pub(crate) async fn fill(api: &Api) -> Outcome {
    let objects = manifests::pack_objects(pack("kubernetes-workloads")?);
    for (index, object) in objects.iter().enumerate() {
        api.post(if index == 0 { ROLES } else { RULES }, object).await?.ok()?;
    }
    let object = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    let mut pod = object("Pod", "web");
    pod["spec"] = json!({
        "serviceAccountName": "web",
        "containers": [{"name": "web", "image": "registry.example.com/web"}],
        "volumes": [{"name": "settings", "configMap": {"name": "settings"}}],
    });
    api.post("/api/v1/namespaces", &object("Namespace", "shop")).await?.ok()?;
    for (plural, object) in [
        ("serviceaccounts", object("ServiceAccount", "web")),
        ("configmaps", object("ConfigMap", "settings")),
        ("pods", pod),
    ] {
        api.post(&format!("/api/v1/namespaces/shop/{plural}"), &object).await?.ok()?;
    }
    Ok(())
}
