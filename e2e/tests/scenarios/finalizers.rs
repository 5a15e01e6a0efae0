//! Two sync agents that hold one object by finalizers, as in api-syncagent#115 and api-syncagent#172, without depguard
//! and with it. docs/instead-of-finalizers.md tells the story, and has the table that these scenarios measure.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use depguard_e2e::rules::rule;
use depguard_e2e::{Consumer, Depguard, Outcome, Resource, Stop, World, ensure};
use serde_json::{Value, json};

/// Way in which the agents hold a network. A manner's name is also that of its network and its machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Manner {
    /// Both agents use one finalizer and heed no other, as the agent does today.
    Shared,
    /// Each agent has a finalizer of its own, and begins its cleanup when no other finalizer is left.
    Patient,
    /// Only the agent of the network's provider has a finalizer.
    Owner,
}

const MANNERS: [Manner; 3] = [Manner::Shared, Manner::Patient, Manner::Owner];

/// Most rounds of the agents until their state repeats.
const MAX_ROUNDS: usize = 20;

impl Manner {
    fn name(self) -> &'static str {
        match self {
            Manner::Shared => "shared",
            Manner::Patient => "patient",
            Manner::Owner => "owner",
        }
    }

    /// Returns the row of the page: what happens to a network in use that somebody deletes, without depguard and with
    /// it, and what happens if the machine is deleted first.
    fn row(self) -> &'static str {
        match self {
            Manner::Shared => {
                "| one finalizer for both, as today | deleted under the machine | refused | the machine never goes |"
            }
            Manner::Patient => {
                "| one finalizer each, and each waits for the other | hangs in deletion | refused | both go |"
            }
            Manner::Owner => "| only the network's own agent has one | deleted under the machine | refused | both go |",
        }
    }

    /// Returns the finalizers of the network's agent and of the machine's agent on the network.
    fn finalizers(self) -> (&'static str, Option<&'static str>) {
        match self {
            Manner::Shared => (CLEANUP, Some(CLEANUP)),
            Manner::Patient => ("syncagent.kcp.io/cleanup-a", Some("syncagent.kcp.io/cleanup-b")),
            Manner::Owner => (CLEANUP, None),
        }
    }
}

const CLEANUP: &str = "syncagent.kcp.io/cleanup";

/// Objects of one manner, and its two agents. The copies stand for what the agents make on their service clusters; no
/// rule names them.
struct Agents<'a> {
    stage: &'a Stage,
    manner: Manner,
    name: String,
}

struct Stage {
    consumer: Consumer,
    network: Resource,
    machine: Resource,
    network_copy: Resource,
    machine_copy: Resource,
    _depguard: Depguard,
}

/// State in which the agents stay.
struct SettledState {
    /// Each object with its finalizers, and whether it is being deleted.
    state: Vec<String>,
    /// Number of writes of the agents in the round that led to the same state again.
    writes: usize,
}

pub(crate) async fn network_in_use(world: Arc<World>) -> Outcome {
    let stage = Stage::set(&world).await?;
    for manner in MANNERS {
        let agents = Agents::create(&world, &stage, manner, manner.name()).await?;
        let before = agents.state().await?;
        let reply = stage.consumer.api.delete(&agents.network()).await?;
        if world.is_control() {
            reply.ok()?;
            agents.given_away().await?;
        } else {
            let refusal = format!("still referenced by VirtualMachine/{}", agents.name);
            ensure(reply.status == 403 && reply.message().contains(&refusal), || reply.message())?;
            // Nothing has begun: the agents find the same objects, and do nothing.
            let settled = agents.settle().await?;
            let is_untouched = settled.state == before && settled.writes == 0;
            ensure(is_untouched, || format!("{manner:?}: {before:?}, then {:?}", settled.state))?;
            stage.consumer.untouched(&stage.network, &agents.name).await?;
            agents.machine_first().await?;
        }
        agents.release().await?;
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/instead-of-finalizers.md");
        let is_told = fs::read_to_string(page)?.lines().any(|line| line == manner.row());
        ensure(is_told, || format!("docs/instead-of-finalizers.md lacks\n{}", manner.row()))?;
    }
    if world.is_control() { Err(Stop::ControlSeen) } else { Ok(()) }
}

/// The fight over one finalizer does not depend on depguard: depguard refuses no deletion of a machine.
pub(crate) async fn fight(world: Arc<World>) -> Outcome {
    let stage = Stage::set(&world).await?;
    let agents = Agents::create(&world, &stage, Manner::Shared, "fight").await?;
    stage.consumer.api.delete(&agents.machine()).await?.ok()?;
    agents.fought().await?;
    agents.release().await
}

impl Stage {
    async fn set(world: &Arc<World>) -> Outcome<Stage> {
        let offered = |kinds: [&str; 2]| kinds.map(Resource::namespaced).to_vec();
        let network =
            world.provider("providers:network", "network.example.com", offered(["Network", "NetworkCopy"])).await?;
        let compute = world
            .provider("providers:compute", "compute.example.com", offered(["VirtualMachine", "MachineCopy"]))
            .await?;
        tokio::try_join!(world.bind_depguard(&network), world.bind_depguard(&compute))?;
        let consumer = world.consumer("consumer", &[&network, &compute]).await?;
        let machines =
            rule("machines", &compute.kind("VirtualMachine")?, &[(&network.kind("Network")?, ".spec.networkRef.name")]);
        world.add_rule(&compute, &machines).await?;
        Ok(Stage {
            consumer,
            network: network.kind("Network")?,
            machine: compute.kind("VirtualMachine")?,
            network_copy: network.kind("NetworkCopy")?,
            machine_copy: compute.kind("MachineCopy")?,
            _depguard: Depguard::start(world).await?,
        })
    }
}

impl<'a> Agents<'a> {
    /// Creates a network and a machine that uses it, and lets the agents copy both.
    async fn create(world: &World, stage: &'a Stage, manner: Manner, name: &str) -> Outcome<Agents<'a>> {
        let agents = Agents { stage, manner, name: name.to_owned() };
        stage.consumer.create_target(&stage.network, name).await?;
        stage.consumer.create(&stage.machine, name, json!({"networkRef": {"name": name}})).await?;
        let settled = agents.settle().await?;
        ensure(settled.writes == 0, || format!("{manner:?}: the agents don't end: {:?}", settled.state))?;
        stage.consumer.until_protected(world, &stage.network, name).await?;
        Ok(agents)
    }

    fn network(&self) -> String {
        self.stage.consumer.object(&self.stage.network, &self.name)
    }

    fn machine(&self) -> String {
        self.stage.consumer.object(&self.stage.machine, &self.name)
    }

    /// Returns the path of the network's copy on the service cluster of its own provider: the network itself.
    fn own_copy(&self) -> String {
        self.stage.consumer.object(&self.stage.network_copy, &format!("{}-of-a", self.name))
    }

    /// Returns the path of the network's copy on the service cluster of the machines' provider.
    fn related_copy(&self) -> String {
        self.stage.consumer.object(&self.stage.network_copy, &format!("{}-of-b", self.name))
    }

    fn machine_copy(&self) -> String {
        self.stage.consumer.object(&self.stage.machine_copy, &self.name)
    }

    async fn read(&self, path: &str) -> Outcome<Option<Value>> {
        let reply = self.stage.consumer.api.get(path).await?;
        if reply.is_gone() { Ok(None) } else { reply.ok().map(Some) }
    }

    async fn state(&self) -> Outcome<Vec<String>> {
        let mut state = Vec::new();
        for path in [self.network(), self.machine(), self.own_copy(), self.related_copy(), self.machine_copy()] {
            if let Some(object) = self.read(&path).await? {
                let going = if is_going(&object) { "being deleted" } else { "there" };
                state.push(format!("{path} {going}, held by {:?}", finalizers(&object)));
            }
        }
        Ok(state)
    }

    /// Has the agents make passes in turn until the state repeats. They go by the state alone, so that they go on like
    /// this for ever.
    async fn settle(&self) -> Outcome<SettledState> {
        let mut seen = vec![self.state().await?];
        for _ in 0..MAX_ROUNDS {
            let writes = [self.pass_of_network_agent().await?, self.pass_of_machine_agent().await?];
            let state = self.state().await?;
            if seen.contains(&state) {
                return Ok(SettledState { state, writes: writes.into_iter().filter(|wrote| *wrote).count() });
            }
            seen.push(state);
        }
        Err(Stop::Failed(format!("{:?}: no state repeats: {seen:?}", self.manner)))
    }

    /// One pass over the network, by the agent of its provider. Returns true if it wrote.
    async fn pass_of_network_agent(&self) -> Outcome<bool> {
        let Some(network) = self.read(&self.network()).await? else { return Ok(false) };
        let (own, _) = self.manner.finalizers();
        if is_going(&network) {
            return self.clean_up(&self.network(), &network, &self.own_copy(), own).await;
        }
        self.hold_and_copy(&self.network(), &network, &self.own_copy(), &self.stage.network_copy, Some(own)).await
    }

    /// One pass over the machine, by the agent of its provider. The network is a related resource, which the agent
    /// copies, too. When the machine is being deleted, the agent first cleans up after the related resource.
    async fn pass_of_machine_agent(&self) -> Outcome<bool> {
        let Some(machine) = self.read(&self.machine()).await? else { return Ok(false) };
        let network = self.read(&self.network()).await?;
        let (_, related) = self.manner.finalizers();
        if is_going(&machine) {
            if let Some(network) = &network
                && self.read(&self.machine_copy()).await?.is_some()
                && self.let_go(&self.network(), network, &self.related_copy(), related).await?
            {
                return Ok(true);
            }
            return self.let_go(&self.machine(), &machine, &self.machine_copy(), Some(CLEANUP)).await;
        }
        let copy = &self.stage.machine_copy;
        if self.hold_and_copy(&self.machine(), &machine, &self.machine_copy(), copy, Some(CLEANUP)).await? {
            return Ok(true);
        }
        match &network {
            None => Ok(false),
            Some(network) if is_going(network) => match related {
                Some(related) => self.clean_up(&self.network(), network, &self.related_copy(), related).await,
                None => Ok(false),
            },
            Some(network) => {
                let copy = &self.stage.network_copy;
                self.hold_and_copy(&self.network(), network, &self.related_copy(), copy, related).await
            }
        }
    }

    /// Adds the finalizer and then the copy. Returns true if something was missing.
    async fn hold_and_copy(
        &self,
        path: &str,
        object: &Value,
        copy: &str,
        kind: &Resource,
        finalizer: Option<&str>,
    ) -> Outcome<bool> {
        let mut held = finalizers(object);
        if let Some(finalizer) = finalizer.filter(|finalizer| !held.iter().any(|held| held == finalizer)) {
            held.push(finalizer.to_owned());
            self.write_finalizers(path, &held).await?;
            return Ok(true);
        }
        if self.read(copy).await?.is_some() {
            return Ok(false);
        }
        let name = copy.rsplit('/').next().unwrap_or_default();
        self.stage.consumer.create_target(kind, name).await?;
        Ok(true)
    }

    /// Cleans up after an object that is being deleted. A patient agent waits until no other finalizer is left.
    async fn clean_up(&self, path: &str, object: &Value, copy: &str, finalizer: &str) -> Outcome<bool> {
        if self.manner == Manner::Patient && finalizers(object).iter().any(|held| held != finalizer) {
            return Ok(false);
        }
        self.let_go(path, object, copy, Some(finalizer)).await
    }

    /// Deletes the copy; if it is gone already, removes the finalizer. Returns false if neither was there.
    async fn let_go(&self, path: &str, object: &Value, copy: &str, finalizer: Option<&str>) -> Outcome<bool> {
        if self.read(copy).await?.is_some() {
            self.stage.consumer.api.delete(copy).await?.ok()?;
            return Ok(true);
        }
        let held = finalizers(object);
        let left: Vec<_> = held.iter().filter(|held| Some(held.as_str()) != finalizer).cloned().collect();
        if left.len() == held.len() {
            return Ok(false);
        }
        self.write_finalizers(path, &left).await?;
        Ok(true)
    }

    async fn write_finalizers(&self, path: &str, finalizers: &[String]) -> Outcome {
        let patch = json!({"metadata": {"finalizers": finalizers}});
        self.stage.consumer.api.merge(path, &patch).await?.ok().map(drop)
    }

    /// Checks the end of a network that somebody deleted without depguard, although a machine uses it.
    async fn given_away(&self) -> Outcome {
        let settled = self.settle().await?;
        let failed = || format!("{:?}: {:?}", self.manner, settled.state);
        self.stage.consumer.untouched(&self.stage.machine, &self.name).await?;
        ensure(self.read(&self.machine_copy()).await?.is_some(), failed)?;
        if self.manner != Manner::Patient {
            // The machine runs, and its network is gone on both sides.
            ensure(self.read(&self.network()).await?.is_none(), failed)?;
            return ensure(self.read(&self.own_copy()).await?.is_none(), failed);
        }
        // Each agent waits for the other. Nobody can take the deletion back, nor hold the network by a new finalizer.
        let network = self.read(&self.network()).await?.unwrap_or_default();
        ensure(settled.writes == 0 && is_going(&network), failed)?;
        let api = &self.stage.consumer.api;
        api.merge(&self.network(), &json!({"metadata": {"deletionTimestamp": null}})).await?;
        let mut held = finalizers(&network);
        held.push("example.com/late".to_owned());
        let late = api.merge(&self.network(), &json!({"metadata": {"finalizers": held}})).await?;
        ensure(late.status == 422, || late.message())?;
        let again = self.settle().await?;
        ensure(again.state == settled.state, || format!("{:?}, then {:?}", settled.state, again.state))
    }

    /// Deletes the machine, and then the network, which depguard allows now.
    async fn machine_first(&self) -> Outcome {
        let api = &self.stage.consumer.api;
        api.delete(&self.machine()).await?.ok()?;
        if self.manner == Manner::Shared {
            return self.fought().await;
        }
        self.settle().await?;
        ensure(self.read(&self.machine()).await?.is_none(), || format!("{:?}: the machine stays", self.manner))?;
        api.delete(&self.network()).await?.ok()?;
        let settled = self.settle().await?;
        // The machines' agent has nothing more to look at; what it copied, it removed with the machine.
        ensure(settled.state.is_empty(), || format!("{:?}: {:?}", self.manner, settled.state))
    }

    /// Checks that the agents write for ever, and that the machine stays.
    async fn fought(&self) -> Outcome {
        let settled = self.settle().await?;
        let machine = self.read(&self.machine()).await?.unwrap_or_default();
        let is_fight = settled.writes == 2 && is_going(&machine);
        ensure(is_fight, || format!("{} writes a round: {:?}", settled.writes, settled.state))?;
        self.stage.consumer.untouched(&self.stage.network, &self.name).await
    }

    /// Removes the finalizers by hand, so that the world can be cleaned.
    async fn release(&self) -> Outcome {
        for path in [self.machine(), self.network()] {
            if self.read(&path).await?.is_some() {
                self.write_finalizers(&path, &[]).await?;
            }
        }
        Ok(())
    }
}

fn is_going(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

fn finalizers(object: &Value) -> Vec<String> {
    let finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.iter().filter_map(|finalizer| finalizer.as_str().map(str::to_owned)).collect()
}
