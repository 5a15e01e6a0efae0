//! Pairs of requests: the creation of a machine that refers to a VPC, and the deletion of that VPC. A gate holds some of
//! them after depguard has allowed them.

use std::sync::Arc;

use depguard_e2e::{Api, Cast, Consumer, Outcome, Reply, World, ensure, eventually};
use futures::future::try_join_all;
use tokio::task::JoinHandle;

use crate::gate::Gate;
use crate::races::{REGISTERS, create, delete, machine, register_path};

/// One of the two requests that race.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    /// Creation of a machine that refers to a VPC.
    Creation,
    /// Deletion of that VPC.
    Deletion,
}

impl Side {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Creation => Self::Deletion,
            Self::Deletion => Self::Creation,
        }
    }

    pub(crate) fn operation(self) -> &'static str {
        match self {
            Self::Creation => "CREATE",
            Self::Deletion => "DELETE",
        }
    }
}

/// Request that is under way.
pub(crate) type UnderWay = JoinHandle<Outcome<Reply>>;
/// A creation and a deletion, about one VPC each, that depguard has allowed and the gate holds.
pub(crate) type Held = [(Side, UnderWay); 2];

/// Kinds, a consumer and a gate. A machine has the name of the VPC to which it refers.
pub(crate) struct Pairs {
    pub(crate) world: Arc<World>,
    pub(crate) cast: Cast,
    pub(crate) gate: Gate,
}

impl Pairs {
    /// Installs the gate.
    pub(crate) async fn new(world: Arc<World>, cast: Cast) -> Outcome<Pairs> {
        let gate = Gate::install(&world, &cast).await?;
        Ok(Pairs { world, cast, gate })
    }

    /// Returns names of the VPCs of held requests.
    pub(crate) fn names(held: &str) -> [String; 2] {
        [format!("{held}-creation"), format!("{held}-deletion")]
    }

    /// Sends a request through this API server.
    pub(crate) fn send(&self, via: &Api, side: Side, name: &str) -> UnderWay {
        let consumer = Consumer { api: via.clone(), ..self.cast.consumer.clone() };
        let (vm, object) = (self.cast.vm.collection(&consumer.namespace), machine(&self.cast, name, name));
        let vpc = consumer.object(&self.cast.vpc, name);
        tokio::spawn(async move {
            match side {
                Side::Creation => consumer.api.post(&vm, &object).await,
                Side::Deletion => consumer.api.delete(&vpc).await,
            }
        })
    }

    /// Sends both requests through this API server, and waits until depguard has allowed them and the gate holds them.
    pub(crate) async fn hold(&self, via: &Api, names: &[String; 2]) -> Outcome<Held> {
        for name in names {
            self.cast.consumer.create_target(&self.cast.vpc, name).await?;
        }
        let [created, deleted] = names;
        let held = [(Side::Creation, created), (Side::Deletion, deleted)].map(|(side, name)| {
            self.gate.close(side.operation(), name);
            (side, self.send(via, side, name))
        });
        self.gate.until_held(2, &self.world).await?;
        eventually("both requests have marks", self.world.patience(), async || {
            let register = self.world.own_cluster().get(&register_path(&self.world, 0).await?).await?.ok()?;
            let is_marked = |name: &str, mark: &str| {
                let mut targets = register["spec"]["targets"].as_array().into_iter().flatten();
                targets.any(|target| target["target"]["name"] == name && target.get(mark).is_some())
            };
            ensure(is_marked(created, "intents") && is_marked(deleted, "flags"), || register.to_string())
        })
        .await?;
        Ok(held)
    }

    /// Tries the other side of each held request.
    pub(crate) async fn try_others(&self, held: &Held, names: &[String; 2]) -> Outcome<Vec<Reply>> {
        let mut replies = Vec::new();
        for ((side, _), name) in held.iter().zip(names) {
            replies.push(self.send(&self.cast.consumer.api, side.other(), name).await??);
        }
        Ok(replies)
    }

    /// Returns true if a machine is stored, and its VPC is not.
    pub(crate) async fn dangles(&self, name: &str) -> Outcome<bool> {
        let Cast { consumer, vm, vpc, .. } = &self.cast;
        let is_machine_gone = consumer.api.get(&consumer.object(vm, name)).await?.is_gone();
        Ok(!is_machine_gone && consumer.api.get(&consumer.object(vpc, name)).await?.is_gone())
    }

    /// Checks that a pair's answers are among the expected ones, and that nothing dangles.
    pub(crate) async fn check(&self, name: &str, replies: &[&Reply]) -> Outcome {
        for reply in replies {
            // 500: the webhook was killed, and refuses by its absence. 404: there is nothing to delete.
            ensure(matches!(reply.status, 200 | 201 | 403 | 404 | 429 | 500), || format!("{reply:?}"))?;
        }
        let dangles = self.dangles(name).await?;
        ensure(!dangles, || format!("a dangling reference: {replies:?}"))
    }

    /// Creates a machine that refers to each of these VPCs, then deletes both, as clients do that wait while they are
    /// told to come again.
    pub(crate) async fn all_pass(&self, names: &[String]) -> Outcome {
        let Self { world, cast, .. } = self;
        let [vm, vpc] = [&cast.vm, &cast.vpc].map(|kind| |name: &str| cast.consumer.object(kind, name));
        try_join_all(names.iter().map(async |name| {
            cast.consumer.api.delete(&vm(name)).await?;
            if cast.consumer.api.get(&vpc(name)).await?.is_gone() {
                cast.consumer.create_target(&cast.vpc, name).await?;
            }
            create(world, cast, name, name).await?;
            delete(world, &vm(name), cast).await?;
            delete(world, &vpc(name), cast).await
        }))
        .await
        .map(drop)
    }

    /// Waits until the webhook has taken down the mark of a machine that was just created.
    pub(crate) async fn until_followed(&self, replies: &[&Reply]) -> Outcome {
        let Some(created) = replies.iter().find(|reply| reply.status == 201) else { return Ok(()) };
        let uid = created.body["metadata"]["uid"].as_str().unwrap_or_default();
        eventually("the machine's mark is taken down", self.world.patience(), async || {
            let registers = self.world.own_cluster().get(REGISTERS).await?.ok()?;
            ensure(!registers.to_string().contains(uid), || registers.to_string())
        })
        .await
    }

    /// Removes the gate.
    pub(crate) async fn end(self) -> Outcome {
        self.gate.remove(&self.world, &self.cast).await
    }
}
