//! The two stock binaries, as an operator starts them.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use depguard_e2e::rules::rule;
use depguard_e2e::tools::binary;
use depguard_e2e::{Depguard, Outcome, World};

use crate::deletion::one_reference;

/// Process that ends with its owner.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) async fn deny_and_allow(world: Arc<World>) -> Outcome {
    let (controller, webhook) = (binary("depguard-controller")?, binary("depguard-webhook")?);
    let cast = world.cast().await?;
    let machines = rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")]);
    world.add_rule(&cast.compute, &machines).await?;
    // Only the files and the port are needed: nothing starts in this process.
    let files = Depguard::prepare(&world).await?;
    let _processes = if world.is_control() { vec![] } else { start(&world, &files, &controller, &webhook)? };
    one_reference(&world, &cast).await?;
    cast.consumer.create_target(&cast.vpc, "b").await?;

    let message = "cannot delete vpcs/a: still referenced by VirtualMachine/m1";
    cast.consumer.refused(&world, &cast.vpc, "a", &[message]).await?;
    cast.consumer.delete(&world, &cast.vpc, "b").await?;
    cast.consumer.delete(&world, &cast.vm, "m1").await?;
    cast.consumer.delete(&world, &cast.vpc, "a").await
}

fn start(world: &World, files: &Depguard, controller: &Path, webhook: &Path) -> Outcome<Vec<Process>> {
    let control_plane = if world.is_kcp() { "kcp" } else { "kubernetes" };
    let common = |program: &Path, kubeconfig: &str| {
        let mut command = Command::new(program);
        let addresses = ["--health-probe-bind-address", "127.0.0.1:0", "--metrics-bind-address", "0"];
        command
            .args(["--control-plane", control_plane])
            .args(addresses)
            .arg("--path-key-file")
            .arg(files.file("path-key"));
        command.arg("--kubeconfig");
        command.arg(files.file(kubeconfig)).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let mut controller = common(controller, "controller.kubeconfig");
    controller.args(["--webhook-url", &files.url(), "--webhook-ca-bundle-path"]).arg(files.file("ca.crt"));
    let mut webhook = common(webhook, "webhook.kubeconfig");
    if world.ring().kind().reads_through_exports() {
        webhook.args(["--read-through", "export"]);
    }
    if !files.shard_hosts().is_empty() {
        webhook.arg(format!("--shard-hosts={}", files.shard_hosts().join(",")));
    }
    webhook.args(["--webhook-port", &files.port().to_string(), "--tls-cert-dir"]).arg(files.file("."));
    Ok(vec![Process(controller.spawn()?), Process(webhook.spawn()?)])
}
