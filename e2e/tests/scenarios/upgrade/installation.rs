//! depguard of two versions, as an operator moves an installation from one to the other.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use depguard_e2e::rules::LEASE;
use depguard_e2e::tools::run;
use depguard_e2e::{Depguard, Outcome, Stop, World, ensure, eventually, page_at, path_of};
use depguard_testbed::lasting_port;
use serde_json::Value;

use super::service::Service;
use crate::binaries::{Process, Programs};

/// A part of an installation that is upgraded by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Manifests,
    Controller,
    Webhook,
}

/// A version of depguard, and how it is started.
pub(crate) struct Version {
    pub(crate) name: &'static str,
    programs: Programs,
    /// Flags of both programs and of the manifests.
    flags: Vec<String>,
    /// Further flags of the controller.
    of_controller: Vec<String>,
    manifests: Vec<Value>,
}

impl Version {
    pub(crate) fn new(name: &'static str, programs: Programs, flags: &[String]) -> Outcome<Version> {
        let print = ["manifests", "--control-plane", "kubernetes"];
        let text = run(Command::new(&programs.controller).args(print).args(flags))?;
        let manifests = serde_saphyr::from_multiple(&text)?;
        let of_controller = vec!["--leader-elect".to_owned()];
        Ok(Version { name, programs, flags: flags.to_vec(), of_controller, manifests })
    }

    /// Has the controller keep marks for so many seconds.
    pub(crate) fn keeping_marks_for(mut self, seconds: u16) -> Version {
        self.of_controller.push(format!("--interlock-wait={seconds}"));
        self
    }

    /// Says to the controller that the time is meant to be so short. 0.1.0-rc.1 and earlier ask for no such flag.
    pub(crate) fn allowing_a_short_wait(mut self) -> Version {
        self.of_controller.push("--allow-short-interlock-wait".to_owned());
        self
    }
}

/// An installation: one controller, one webhook behind a Service, and the manifests.
pub(crate) struct Installation<'w> {
    world: &'w World,
    files: Depguard,
    service: Service,
    controller: Process,
    webhook: Webhook,
}

struct Webhook {
    process: Process,
    port: u16,
}

impl<'w> Installation<'w> {
    /// Applies the manifests, and starts the controller and the webhook.
    pub(crate) async fn start(world: &'w Arc<World>, version: &Version) -> Outcome<Installation<'w>> {
        let files = Depguard::prepare(world).await?;
        let service = Service::listen(files.port()).await?;
        apply(world, version).await?;
        let controller = start_controller(world, &files, version)?;
        let webhook = Webhook::start(world, &files, version).await?;
        service.route(&[webhook.port]);
        Ok(Installation { world, files, service, controller, webhook })
    }

    /// Changes a part from one version to another. `mixed` waits until requests went on by webhooks of both versions.
    pub(crate) async fn change(
        &mut self,
        part: Part,
        from: &Version,
        to: &Version,
        mixed: impl AsyncFnOnce() -> Outcome,
    ) -> Outcome {
        match part {
            Part::Manifests => {
                apply(self.world, to).await?;
                remove(self.world, from, to).await
            }
            Part::Controller => {
                let before = leader(self.world).await?;
                let next = start_controller(self.world, &self.files, to)?;
                std::mem::replace(&mut self.controller, next).end(self.world).await?;
                eventually("the next controller acts", self.world.patience(), async || {
                    let leader = leader(self.world).await?;
                    ensure(leader != before && leader != "", || format!("{leader} leads"))
                })
                .await
            }
            Part::Webhook => {
                let next = Webhook::start(self.world, &self.files, to).await?;
                self.service.route(&[self.webhook.port, next.port]);
                eventually("both webhooks answer", self.world.patience(), async || {
                    ensure(self.service.least_used() > 2, || "one gets no connections".to_owned())
                })
                .await?;
                mixed().await?;
                self.service.route(&[next.port]);
                std::mem::replace(&mut self.webhook, next).process.end(self.world).await
            }
        }
    }

    /// Ends the controller, and leaves all else as it is.
    pub(crate) async fn end_controller(self) -> Outcome<impl Sized + use<'w>> {
        self.controller.end(self.world).await?;
        Ok((self.service, self.webhook, self.files))
    }
}

impl Webhook {
    /// Starts a webhook, and waits until it is ready.
    async fn start(world: &World, files: &Depguard, version: &Version) -> Outcome<Webhook> {
        let [port, probes] = [lasting_port(Ipv4Addr::LOCALHOST)?, lasting_port(Ipv4Addr::LOCALHOST)?];
        let flags = [&version.flags[..], &["--shutdown-delay=1s".to_owned()]].concat();
        let process = version.programs.start_webhook(world, files, port, probes, &flags)?;
        eventually("the webhook is ready", world.patience(), async || {
            let answer = page_at((Ipv4Addr::LOCALHOST, probes).into(), "/readyz").await?;
            ensure(answer.starts_with("HTTP/1.1 200"), || answer)
        })
        .await?;
        Ok(Webhook { process, port })
    }
}

fn start_controller(world: &World, files: &Depguard, version: &Version) -> Outcome<Process> {
    let flags = [&version.flags[..], &version.of_controller].concat();
    version.programs.start_controller(world, files, &flags)
}

/// Returns the identity of the controller that acts.
async fn leader(world: &World) -> Outcome<Value> {
    Ok(world.own_cluster().get(LEASE).await?.ok()?["spec"]["holderIdentity"].clone())
}

/// Returns the objects of a version, each with its path. The API server writes the rules of an aggregated role itself; a
/// testbed knows no policies.
fn objects<'v>(world: &World, version: &'v Version) -> impl DoubleEndedIterator<Item = (String, &'v Value)> {
    let is_testbed = world.ring().kind().is_testbed();
    let own = version.manifests.iter().filter(move |object| {
        let is_policy = object["apiVersion"] == "admissionregistration.k8s.io/v1";
        object.get("aggregationRule").is_none() && !(is_policy && is_testbed)
    });
    own.map(|object| (path_of(object), object))
}

async fn apply(world: &World, version: &Version) -> Outcome {
    for (path, object) in objects(world, version) {
        world.own_cluster().apply(&path, object).await?.ok()?;
    }
    Ok(())
}

/// Deletes the objects of one version that another lacks, the last first, and waits until they are gone.
async fn remove(world: &World, from: &Version, to: &Version) -> Outcome {
    let api = world.own_cluster();
    for (path, _) in objects(world, from).rev().filter(|(path, _)| objects(world, to).all(|(kept, _)| kept != *path)) {
        api.delete(&path).await?.ok()?;
        eventually(&format!("{path} is gone"), world.patience(), async || {
            ensure(api.get(&path).await?.is_gone(), || "it is still there".to_owned())
        })
        .await?;
    }
    Ok(())
}

/// Environment variable that names a folder with the binaries of another version.
const OTHER: &str = "DEPGUARD_OTHER_BIN";

/// Finds the binaries of another version.
pub(crate) fn other_version() -> Outcome<Programs> {
    let Some(folder) = std::env::var_os(OTHER).map(PathBuf::from) else {
        return Err(Stop::Skipped(format!("{OTHER} names no folder with the binaries of another version")));
    };
    Programs::in_folder(&folder)
        .ok_or_else(|| Stop::Failed(format!("{OTHER}: not both binaries in {}", folder.display())))
}
