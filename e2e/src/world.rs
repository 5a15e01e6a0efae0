//! Providers and a consumer that no other scenario touches, and what a scenario asks of them.

mod consumer;
pub mod locks;
pub mod owners;
mod provider;
mod resource;
pub(crate) mod rights;
pub mod rules;
mod users;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use depguard_kcp::{Feature, Features};
use serde_json::json;

pub use consumer::Consumer;
pub use provider::Provider;
pub use resource::{Reference, Resource};
pub(crate) use rights::Right;

use crate::api::Api;
use crate::outcome::{Outcome, Stop, eventually};
use crate::ring::Ring;
use crate::runner::Mode;

/// One scenario's own part of a ring.
///
/// On kcp a tree of workspaces below `root:<tree>`, which scenarios that leave it as it was may use
/// one after another, and a namespace of its own; on a plain cluster a namespace and API groups with
/// the id in their names.
pub struct World {
    ring: Arc<Ring>,
    mode: Mode,
    id: String,
    tree: String,
    admin: Api,
    tenant: Api,
    providers: Mutex<Vec<Provider>>,
    terms: Terms,
}

/// What makes a world harder than others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terms {
    /// The one right that depguard lacks here.
    pub(crate) lacks: Option<Right>,
    /// How long to wait for what comes in its own time, if not as long as is usual on the ring.
    pub(crate) patience: Option<Duration>,
    /// What is switched on beside rules.
    pub(crate) enables: &'static [Feature],
}

/// The usual cast: who offers networks, who offers machines that use them, who consumes both.
#[derive(Clone)]
pub struct Cast {
    /// Offers `VPC` (namespaced, two versions) and `Region` (cluster-scoped).
    pub network: Provider,
    /// Offers `VirtualMachine` (namespaced) and `Fleet` (cluster-scoped).
    pub compute: Provider,
    /// Binds both.
    pub consumer: Consumer,
    /// `network`'s targets and `compute`'s dependents.
    pub vpc: Resource,
    /// See [`Cast::vpc`].
    pub region: Resource,
    /// See [`Cast::vpc`].
    pub vm: Resource,
    /// See [`Cast::vpc`].
    pub fleet: Resource,
}

const WORKSPACES: &str = "/apis/tenancy.kcp.io/v1alpha1/workspaces";

impl World {
    /// An empty world, in which depguard has the rights of its manifests.
    pub async fn create(ring: Arc<Ring>, mode: Mode, id: &str, tree: &str) -> Outcome<World> {
        World::create_on(Terms::default(), ring, mode, id, tree).await
    }

    /// The same on harder terms.
    pub(crate) async fn create_on(terms: Terms, ring: Arc<Ring>, mode: Mode, id: &str, tree: &str) -> Outcome<World> {
        let (admin, tenant) = (ring.admin().await?, ring.tenant().await?);
        let (id, tree, providers) = (id.to_owned(), tree.to_owned(), Mutex::default());
        let world = World { ring, mode, id, tree, admin, tenant, providers, terms };
        if world.is_kcp() {
            create_workspace(&world, "root", &world.tree).await?;
        }
        world.set_up_home().await?;
        world.grant_home().await?;
        Ok(world)
    }

    /// The usual providers and consumer; both providers have bound depguard.
    pub async fn cast(&self) -> Outcome<Cast> {
        let (network, compute) = tokio::try_join!(self.network("providers:network"), self.compute())?;
        tokio::try_join!(self.bind_home(&network), self.bind_home(&compute))?;
        self.consume(network, compute).await
    }

    /// A provider of networks that has not bound depguard.
    pub async fn network(&self, path: &str) -> Outcome<Provider> {
        let kinds =
            vec![Resource::namespaced("VPC").served_in(&["v1alpha1", "v1beta1"]), Resource::cluster_scoped("Region")];
        self.provider(path, "network.example.com", kinds).await
    }

    /// A provider of machines that has not bound depguard.
    pub async fn compute(&self) -> Outcome<Provider> {
        let kinds = vec![Resource::namespaced("VirtualMachine"), Resource::cluster_scoped("Fleet")];
        self.provider("providers:compute", "compute.example.com", kinds).await
    }

    /// A consumer of these two.
    pub async fn consume(&self, network: Provider, compute: Provider) -> Outcome<Cast> {
        let consumer = self.consumer("consumer", &[&network, &compute]).await?;
        Ok(Cast {
            vpc: network.kind("VPC")?,
            region: network.kind("Region")?,
            vm: compute.kind("VirtualMachine")?,
            fleet: compute.kind("Fleet")?,
            network,
            compute,
            consumer,
        })
    }

    /// Any provider.
    pub async fn provider(&self, path: &str, group: &str, kinds: Vec<Resource>) -> Outcome<Provider> {
        let provider = Provider::create(self, path, group, kinds).await?;
        self.providers.lock().unwrap_or_else(PoisonError::into_inner).push(provider.clone());
        Ok(provider)
    }

    /// A consumer workspace that binds these providers, or the cluster, with a namespace.
    pub async fn consumer(&self, name: &str, providers: &[&Provider]) -> Outcome<Consumer> {
        let mut path = String::new();
        if self.is_kcp() {
            path = self.workspace(name).await?;
            let api = self.admin(&path);
            futures::future::try_join_all(providers.iter().map(|provider| provider::bind(self, &api, provider)))
                .await?;
        }
        let consumer = Consumer::new(self.admin(&path), path, self.id.clone());
        consumer.create_namespace(self).await?;
        Ok(consumer)
    }

    /// Whether there are workspaces.
    pub fn is_kcp(&self) -> bool {
        self.ring.kind().is_kcp()
    }

    /// Whether this is switched on.
    pub(crate) fn has(&self, feature: Feature) -> bool {
        self.terms.enables.contains(&feature)
    }

    /// What is switched on beside rules.
    pub(crate) fn features(&self) -> Features {
        Features::new(self.terms.enables.iter().copied(), [])
    }

    /// Whether this run is to show what happens without depguard.
    pub fn is_control(&self) -> bool {
        self.mode == Mode::Control
    }

    /// How long to wait for what comes in its own time.
    pub fn patience(&self) -> Duration {
        self.terms.patience.unwrap_or_else(|| self.ring.patience())
    }

    /// How long the API server may take for what is its own doing.
    pub(crate) fn ring_patience(&self) -> Duration {
        self.ring.patience()
    }

    /// What makes this world's names unlike any other's.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The API groups of its providers.
    pub(crate) fn groups(&self) -> Vec<String> {
        let providers = self.providers.lock().unwrap_or_else(PoisonError::into_inner);
        providers.iter().map(|provider| provider.export.clone()).collect()
    }

    /// The server.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// The administrator, in a workspace.
    pub fn admin(&self, workspace: &str) -> Api {
        self.admin.at(self.ring.prefix(workspace))
    }

    /// An ordinary user, in a workspace.
    pub fn tenant(&self, workspace: &str) -> Api {
        self.tenant.at(self.ring.prefix(workspace))
    }

    /// The administrator where depguard's own export, or its CRD, is.
    pub fn home(&self) -> Api {
        self.admin(&self.home_path())
    }

    /// The path of depguard's own workspace; empty on a plain cluster.
    pub fn home_path(&self) -> String {
        if self.is_kcp() { self.path("dep-ctrl") } else { String::new() }
    }

    /// Makes the workspaces of a path below this world's own, and gives the full path.
    pub async fn workspace(&self, below: &str) -> Outcome<String> {
        let mut parent = self.path("");
        for name in below.split(':') {
            create_workspace(self, &parent, name).await?;
            parent = format!("{parent}:{name}");
        }
        Ok(parent)
    }

    /// Deletes a workspace below this world's own, without waiting for its end.
    pub async fn delete_workspace(&self, name: &str) -> Outcome {
        let api = self.admin(&self.path(""));
        api.delete(&format!("{WORKSPACES}/{name}")).await?.ok().map(drop)
    }

    /// The Workspace object of a workspace below this world's own, while there is one.
    pub async fn find_workspace(&self, name: &str) -> Outcome<Option<serde_json::Value>> {
        let api = self.admin(&self.path(""));
        let reply = api.get(&format!("{WORKSPACES}/{name}")).await?;
        if reply.is_gone() { Ok(None) } else { reply.ok().map(Some) }
    }

    /// Leaves all as it was found, but for what may stay. The scenario's runtime is over by now,
    /// and with it its clients.
    pub async fn clean(&self) -> Outcome {
        let admin = self.ring.admin().await?;
        let providers = std::mem::take(&mut *self.providers.lock().unwrap_or_else(PoisonError::into_inner));
        for provider in &providers {
            let place = admin.at(self.ring.prefix(&provider.path));
            // Where depguard was not bound there are no rules.
            let reply = place.delete(rules::RULES).await?;
            if !reply.is_gone() {
                reply.ok()?;
            }
            place.delete(rules::CONFIGURATION).await?;
            if !self.is_kcp() {
                provider.remove(&place).await?;
            }
        }
        if self.has(Feature::Locks) && !self.is_kcp() {
            self.clean_locks(&admin).await?;
        }
        if self.has(Feature::Owners) {
            self.clean_owners(&admin).await?;
        }
        if !self.is_kcp() {
            // Else the ordinary user may in the next world what he may in this one.
            admin.delete(&users::binding_of(&self.id)).await?;
            // An uninstall keeps all controllers of a cluster from writing for two minutes, the next world's too.
            admin.delete(&format!("{}-uninstall", rules::LEASE)).await?;
            admin.delete(rules::LEASE).await?;
        }
        Ok(())
    }

    fn path(&self, below: &str) -> String {
        if below.is_empty() { format!("root:{}", self.tree) } else { format!("root:{}:{below}", self.tree) }
    }
}

async fn create_workspace(world: &World, parent: &str, name: &str) -> Outcome {
    let api = world.admin(parent);
    let workspace = json!({
        "apiVersion": "tenancy.kcp.io/v1alpha1",
        "kind": "Workspace",
        "metadata": {"name": name},
        "spec": {"type": {"name": "universal", "path": "root"}},
    });
    eventually("the workspace is created", world.ring_patience(), async || {
        api.post(WORKSPACES, &workspace).await?.ok_or_there()
    })
    .await?;
    let path = format!("{WORKSPACES}/{name}");
    eventually("the workspace is ready", world.ring_patience(), async || {
        let workspace = api.get(&path).await?.ok()?;
        let phase = &workspace["status"]["phase"];
        if phase == "Ready" { Ok(()) } else { Err(Stop::Failed(format!("phase {phase}"))) }
    })
    .await
}
