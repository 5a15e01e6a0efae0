//! The two stock binaries, as an operator starts them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use depguard_e2e::rules::rule;
use depguard_e2e::tools::{binary, binary_in};
use depguard_e2e::{Depguard, Outcome, Stop, World, ensure, eventually};

use crate::deletion::one_reference;

/// Process that ends with its owner.
pub(crate) struct Process(Child);

impl Process {
    /// Asks the process to end, and waits until it has ended.
    pub(crate) async fn end(mut self, world: &World) -> Outcome {
        let status = Command::new("kill").arg(self.0.id().to_string()).status()?;
        ensure(status.success(), || format!("kill: {status}"))?;
        eventually("the process ends", world.patience(), async || match self.0.try_wait()? {
            Some(_) => Ok(()),
            None => Err(Stop::failed("it still runs")),
        })
        .await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The binaries of one version of depguard.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub(crate) controller: PathBuf,
    pub(crate) webhook: PathBuf,
}

impl Programs {
    /// Finds the binaries of this version.
    pub(crate) fn of_this_version() -> Outcome<Programs> {
        Ok(Programs { controller: binary("depguard-controller")?, webhook: binary("depguard-webhook")? })
    }

    /// Finds the binaries in a folder; `None` if one is not there.
    pub(crate) fn in_folder(folder: &Path) -> Option<Programs> {
        let [controller, webhook] = ["depguard-controller", "depguard-webhook"].map(|name| binary_in(folder, name));
        Some(Programs { controller: controller?, webhook: webhook? })
    }

    /// Starts the controller, with further flags.
    pub(crate) fn start_controller(&self, world: &World, files: &Depguard, flags: &[String]) -> Outcome<Process> {
        let mut controller = common(world, files, &self.controller, "controller.kubeconfig", 0);
        controller.args(["--webhook-url", &files.url(), "--webhook-ca-bundle-path"]).arg(files.file("ca.crt"));
        Ok(Process(controller.args(flags).spawn()?))
    }

    /// Starts the webhook, with further flags. `probes` is the port of its probes, 0 for any.
    pub(crate) fn start_webhook(
        &self,
        world: &World,
        files: &Depguard,
        port: u16,
        probes: u16,
        flags: &[String],
    ) -> Outcome<Process> {
        let mut webhook = common(world, files, &self.webhook, "webhook.kubeconfig", probes);
        if world.ring().kind().reads_through_exports() {
            webhook.args(["--read-through", "export"]);
        }
        if !files.shard_hosts().is_empty() {
            webhook.arg(format!("--shard-hosts={}", files.shard_hosts().join(",")));
        }
        webhook.args(["--webhook-port", &port.to_string(), "--tls-cert-dir"]).arg(files.file("."));
        Ok(Process(webhook.args(flags).spawn()?))
    }
}

fn common(world: &World, files: &Depguard, program: &Path, kubeconfig: &str, probes: u16) -> Command {
    let control_plane = if world.is_kcp() { "kcp" } else { "kubernetes" };
    let mut command = Command::new(program);
    command
        .args(["--control-plane", control_plane, "--metrics-bind-address", "0"])
        .args(["--health-probe-bind-address", &format!("127.0.0.1:{probes}")])
        .arg("--path-key-file")
        .arg(files.file("path-key"))
        .arg("--kubeconfig")
        .arg(files.file(kubeconfig))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

pub(crate) async fn deny_and_allow(world: Arc<World>) -> Outcome {
    let programs = Programs::of_this_version()?;
    let cast = world.cast().await?;
    let machines = rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")]);
    world.add_rule(&cast.compute, &machines).await?;
    // Only the files and the port are needed: nothing starts in this process.
    let files = Depguard::prepare(&world).await?;
    let mut processes = vec![];
    if !world.is_control() {
        processes.push(programs.start_controller(&world, &files, &[])?);
        processes.push(programs.start_webhook(&world, &files, files.port(), 0, &[])?);
    }
    one_reference(&world, &cast).await?;
    cast.consumer.create_target(&cast.vpc, "b").await?;

    let message = "cannot delete vpcs/a: still referenced by VirtualMachine/m1";
    cast.consumer.refused(&world, &cast.vpc, "a", &[message]).await?;
    cast.consumer.delete(&world, &cast.vpc, "b").await?;
    cast.consumer.delete(&world, &cast.vm, "m1").await?;
    cast.consumer.delete(&world, &cast.vpc, "a").await
}
