//! Providers and a consumer that no other scenario touches, and the operations that scenarios need on them.

mod consumer;
mod lives;
pub mod locks;
pub mod owners;
mod provider;
mod resource;
pub(crate) mod rights;
pub mod rules;
mod users;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use depguard_core::interlock::Buckets;
use depguard_kcp::{Feature, Features};
use serde_json::json;

pub use consumer::Consumer;
pub use provider::Provider;
pub use resource::{Reference, Resource};
pub(crate) use rights::Right;

use crate::api::Api;
use crate::outcome::{Outcome, Stop, eventually};
use crate::ring::{Ring, Shard};

/// Part of a ring that belongs to one scenario.
///
/// On kcp, a world is a tree of workspaces below `root:<tree>` and a namespace of its own. Several scenarios may use
/// one tree, one after another, if each leaves the tree as it was. On a plain cluster, a world is a namespace and API
/// groups with the id in their names.
pub struct World {
    ring: Arc<Ring>,
    mode: Mode,
    id: String,
    tree: String,
    admin: Api,
    tenant: Api,
    providers: Mutex<Vec<Provider>>,
    /// Paths of the ClusterRoles that scenarios have added to the webhook's rights.
    readings: Mutex<Vec<String>>,
    /// Shards of workspaces, by workspace name; all others are on the root shard.
    placement: Mutex<BTreeMap<String, &'static str>>,
    terms: Terms,
}

/// Participation of depguard in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// depguard runs.
    Guarded,
    /// depguard does not run: a deletion that depguard refuses must go through.
    Control,
}

impl Mode {
    pub(crate) fn letter(self) -> char {
        match self {
            Mode::Guarded => 's',
            Mode::Control => 'c',
        }
    }
}

/// Conditions that make a world harder than others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terms {
    /// The one right that depguard lacks in this world.
    pub(crate) lacks: Option<Right>,
    /// Time to wait for a state that takes its time, if other than the ring's usual time.
    pub(crate) patience: Option<Duration>,
    /// Features enabled beside rules.
    pub(crate) enables: &'static [Feature],
    /// Number of reference registers; 0: no interlock.
    pub(crate) registers: u16,
}

/// Usual participants: a provider of networks, a provider of machines that use the networks, and a consumer of both.
#[derive(Clone)]
pub struct Cast {
    /// Offers `VPC` (namespaced, two versions) and `Region` (cluster-scoped).
    pub network: Provider,
    /// Offers `VirtualMachine` (namespaced) and `Fleet` (cluster-scoped).
    pub compute: Provider,
    /// Binds the APIs of both providers.
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
const LOGICAL_CLUSTER: &str = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster";

impl World {
    /// Creates an empty world, in which depguard has the rights of its manifests.
    pub async fn create(ring: Arc<Ring>, mode: Mode, id: &str, tree: &str) -> Outcome<World> {
        World::create_on(Terms::default(), ring, mode, id, tree).await
    }

    /// Creates an empty world, in which references are interlocked by so many reference registers.
    pub async fn interlocked(ring: Arc<Ring>, id: &str, registers: u16) -> Outcome<World> {
        World::create_on(Terms { registers, ..Terms::default() }, ring, Mode::Guarded, id, id).await
    }

    /// Creates a world in which these features are enabled beside rules.
    pub async fn enabling(ring: Arc<Ring>, id: &str, enables: &'static [Feature]) -> Outcome<World> {
        World::create_on(Terms { enables, ..Terms::default() }, ring, Mode::Guarded, id, id).await
    }

    /// Creates a world whose workspaces are right below `root`. The caller installs depguard.
    pub async fn of_root(ring: Arc<Ring>) -> Outcome<World> {
        World::empty(Terms::default(), ring, Mode::Guarded, "default", "").await
    }

    async fn empty(terms: Terms, ring: Arc<Ring>, mode: Mode, id: &str, tree: &str) -> Outcome<World> {
        let (admin, tenant) = (ring.admin().await?, ring.tenant().await?);
        let (id, tree, providers) = (id.to_owned(), tree.to_owned(), Mutex::default());
        let placement = Mutex::new([("compute".to_owned(), Shard::BETA)].into());
        let readings = Mutex::default();
        Ok(World { ring, mode, id, tree, admin, tenant, providers, readings, placement, terms })
    }

    /// Creates a world as [`World::create`] does, on harder terms.
    pub(crate) async fn create_on(terms: Terms, ring: Arc<Ring>, mode: Mode, id: &str, tree: &str) -> Outcome<World> {
        let world = World::empty(terms, ring, mode, id, tree).await?;
        if world.is_kcp() {
            create_workspace(&world, "root", &world.tree).await?;
        }
        world.set_up_depguard().await?;
        world.grant_rights().await?;
        Ok(world)
    }

    /// Creates the usual providers and consumer; both providers have bound depguard.
    pub async fn cast(&self) -> Outcome<Cast> {
        let (network, compute) = tokio::try_join!(self.network("providers:network"), self.compute())?;
        tokio::try_join!(self.bind_depguard(&network), self.bind_depguard(&compute))?;
        self.consume(network, compute).await
    }

    /// Creates a provider of networks that has not bound depguard.
    pub async fn network(&self, path: &str) -> Outcome<Provider> {
        let kinds =
            vec![Resource::namespaced("VPC").served_in(&["v1alpha1", "v1beta1"]), Resource::cluster_scoped("Region")];
        self.provider(path, "network.example.com", kinds).await
    }

    /// Creates a provider of machines that has not bound depguard.
    pub async fn compute(&self) -> Outcome<Provider> {
        let kinds = vec![Resource::namespaced("VirtualMachine"), Resource::cluster_scoped("Fleet")];
        self.provider("providers:compute", "compute.example.com", kinds).await
    }

    /// Creates a consumer of these two providers.
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

    /// Creates a provider of these kinds.
    pub async fn provider(&self, path: &str, group: &str, kinds: Vec<Resource>) -> Outcome<Provider> {
        let provider = Provider::create(self, path, group, kinds).await?;
        self.providers.lock().unwrap_or_else(PoisonError::into_inner).push(provider.clone());
        Ok(provider)
    }

    /// Creates a workspace for a provider of these kinds, whose export the caller creates there.
    pub async fn adopt(&self, path: &str, export: &str, kinds: Vec<Resource>) -> Outcome<Provider> {
        let provider = Provider::in_workspace(self, path, export, kinds).await?;
        self.providers.lock().unwrap_or_else(PoisonError::into_inner).push(provider.clone());
        Ok(provider)
    }

    /// Creates a consumer with a namespace: a workspace that binds these providers, or the one cluster.
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

    /// Returns true if the world has workspaces.
    pub fn is_kcp(&self) -> bool {
        self.ring.kind().is_kcp()
    }

    /// Returns true if this feature is enabled.
    pub fn has(&self, feature: Feature) -> bool {
        self.terms.enables.contains(&feature)
    }

    /// Returns the features enabled beside rules.
    pub(crate) fn features(&self) -> Features {
        let registers = Buckets::new(self.terms.registers);
        Features { registers, ..Features::new(self.terms.enables.iter().copied(), []) }
    }

    /// Returns true if this run shows what happens without depguard.
    pub fn is_control(&self) -> bool {
        self.mode == Mode::Control
    }

    /// Returns the minor version of the server's Kubernetes, such as 36 for 1.36.
    pub async fn minor_version(&self) -> Outcome<u32> {
        let version = self.own_cluster().get("/version").await?.ok()?;
        let minor = version["gitVersion"].as_str().and_then(|version| version.split('.').nth(1)?.parse().ok());
        minor.ok_or_else(|| Stop::Failed(format!("the server tells no version: {version}")))
    }

    /// Skips the scenario on a server with an older minor version of Kubernetes than this, for this reason.
    pub async fn needs_minor_version(&self, needed: u32, reason: &str) -> Outcome {
        let found = self.minor_version().await?;
        if found >= needed { Ok(()) } else { Err(Stop::Skipped(format!("Kubernetes 1.{found}: {reason}"))) }
    }

    /// Returns the time to wait for a state that takes its time.
    pub fn patience(&self) -> Duration {
        self.terms.patience.unwrap_or_else(|| self.ring.patience())
    }

    /// Returns the time to wait for the API server's own work.
    pub(crate) fn ring_patience(&self) -> Duration {
        self.ring.patience()
    }

    /// Returns the id that makes this world's names unlike any other world's.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the API groups of this world's providers.
    pub(crate) fn groups(&self) -> Vec<String> {
        let providers = self.providers.lock().unwrap_or_else(PoisonError::into_inner);
        providers.iter().map(|provider| provider.export.clone()).collect()
    }

    /// Prints a figure, after the name of the ring.
    pub fn print(&self, figure: impl Display) {
        println!("ring {}: {figure}", self.ring.kind().name());
    }

    /// Returns the server.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Returns a client of the administrator in a workspace.
    pub fn admin(&self, workspace: &str) -> Api {
        self.admin.at(self.ring.prefix(workspace))
    }

    /// Returns a client of an ordinary user in a workspace.
    pub fn tenant(&self, workspace: &str) -> Api {
        self.tenant.at(self.ring.prefix(workspace))
    }

    /// Returns a client of the administrator in depguard's own workspace, or in the one cluster.
    pub fn own_cluster(&self) -> Api {
        self.admin(&self.own_path())
    }

    /// Returns the path of depguard's own workspace; empty on a plain cluster.
    pub fn own_path(&self) -> String {
        if self.is_kcp() { self.path("dep-ctrl") } else { String::new() }
    }

    /// Returns clients of an administrator in the workspace `system:admin` of each shard, whose rights count in all
    /// workspaces of the shard.
    pub async fn shard_admins(&self) -> Outcome<Vec<Api>> {
        let shards = self.ring.masters_of_shards().await?;
        Ok(shards.into_iter().map(|api| api.at("/clusters/system:admin")).collect())
    }

    /// Places new workspaces with this name on this shard, from now on. By default, workspaces named `compute`, with
    /// the rules and the dependents' kinds, lie on the second shard, and all others on the first.
    pub fn place(&self, name: &str, shard: &'static str) {
        self.placement.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), shard);
    }

    fn shard_of(&self, name: &str) -> &'static str {
        self.placement.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied().unwrap_or(Shard::ROOT)
    }

    /// Returns true if a workspace lies on a shard, as the shard itself says.
    pub async fn lies_on(&self, workspace: &str, shard: &str) -> Outcome<bool> {
        let cluster = logical_cluster(&self.admin(workspace)).await?;
        let there = self.ring.masters_of_shard(shard).await?.at(self.ring.prefix(&cluster));
        Ok(!there.get(LOGICAL_CLUSTER).await?.is_gone())
    }

    /// Creates the workspaces of a path below this world's own, and returns the full path.
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

    /// Returns the Workspace object of a workspace below this world's own; `None` if there is none.
    pub async fn find_workspace(&self, name: &str) -> Outcome<Option<serde_json::Value>> {
        let api = self.admin(&self.path(""));
        let reply = api.get(&format!("{WORKSPACES}/{name}")).await?;
        if reply.is_gone() { Ok(None) } else { reply.ok().map(Some) }
    }

    /// Removes what the scenario left and other scenarios would notice. The scenario's runtime and its clients have
    /// ended by then.
    pub async fn clean(&self) -> Outcome {
        let admin = self.ring.admin().await?;
        let providers = std::mem::take(&mut *self.providers.lock().unwrap_or_else(PoisonError::into_inner));
        for provider in &providers {
            let place = admin.at(self.ring.prefix(&provider.path));
            // A workspace that has not bound depguard has no rules.
            let reply = place.delete(rules::RULES).await?;
            if !reply.is_gone() {
                reply.ok()?;
            }
            let configurations = [rules::CONFIGURATION, rules::REFERENCES_CONFIGURATION];
            eventually("no configuration about rules is left", self.ring_patience(), async || {
                rules::remove_configurations(&place, &configurations).await
            })
            .await?;
            if !self.is_kcp() {
                provider.remove(&place).await?;
            }
        }
        let own = admin.at(self.ring.prefix(&self.own_path()));
        eventually("the configuration about rules themselves is gone", self.ring_patience(), async || {
            rules::remove_configurations(&own, &[rules::SPEC_ADMISSION_CONFIGURATION]).await
        })
        .await?;
        if self.has(Feature::Locks) && !self.is_kcp() {
            self.clean_locks(&admin).await?;
        }
        if self.has(Feature::Owners) {
            self.clean_owners(&admin).await?;
        }
        // Otherwise depguard would have these rights in the next world, too, and that world's test of a lacking right
        // would prove nothing.
        let readings = std::mem::take(&mut *self.readings.lock().unwrap_or_else(PoisonError::into_inner));
        for role in readings {
            admin.delete(&role).await?;
        }
        if !self.is_kcp() {
            // Otherwise the ordinary user would keep this world's rights in the next world.
            admin.delete(&users::binding_of(&self.id)).await?;
            // An uninstall keeps all controllers of a cluster from writing for two minutes, including those of the next
            // world.
            admin.delete(&format!("{}-uninstall", rules::LEASE)).await?;
            admin.delete(rules::LEASE).await?;
            // The next world's controller must be able to make a key.
            admin.delete(&rules::register_key()).await?;
        }
        Ok(())
    }

    fn path(&self, below: &str) -> String {
        let parts = ["root", &self.tree, below];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(":")
    }
}

/// Returns the id of the workspace that `api` points at.
async fn logical_cluster(api: &Api) -> Outcome<String> {
    let itself = api.get(LOGICAL_CLUSTER).await?.ok()?;
    Ok(itself["metadata"]["annotations"]["kcp.io/cluster"].as_str().unwrap_or_default().to_owned())
}

async fn create_workspace(world: &World, parent: &str, name: &str) -> Outcome {
    let api = world.admin(parent);
    let mut workspace = json!({
        "apiVersion": "tenancy.kcp.io/v1alpha1",
        "kind": "Workspace",
        "metadata": {"name": name},
        "spec": {"type": {"name": "universal", "path": "root"}},
    });
    if !world.ring.shards().is_empty() {
        let labels = json!({Shard::LABEL: world.shard_of(name)});
        workspace["spec"]["location"] = json!({"selector": {"matchLabels": labels}});
    }
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
