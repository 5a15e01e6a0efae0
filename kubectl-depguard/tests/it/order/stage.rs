//! Machines on networks on networks. depguard itself guards them, and refuses every deletion out of order.

use std::path::PathBuf;
use std::sync::Arc;

use depguard_e2e::rules::rule;
use depguard_e2e::{Cast, Consumer, Depguard, Mode, Ring, RingKind, World};
use serde_json::json;

use crate::tool::{Ran, depguard};

pub(crate) const CONTROL_PLANES: [RingKind; 2] = [RingKind::TestbedKcp, RingKind::TestbedKubernetes];

pub(crate) struct Stage {
    pub(crate) world: Arc<World>,
    pub(crate) cast: Cast,
    pub(crate) depguard: Depguard,
    folder: tempfile::TempDir,
}

impl Stage {
    /// The machines `m1` and `m2` are on the network `a`, which is on `base`; `free` is by itself. `m1` has a finalizer.
    pub(crate) async fn set(control_plane: RingKind) -> Self {
        let ring = Arc::new(Ring::testbed(control_plane).await.unwrap());
        let world = Arc::new(World::create(ring, Mode::Guarded, "order", "order").await.unwrap());
        let cast = world.cast().await.unwrap();
        let machines = rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")]);
        world.add_rule(&cast.compute, &machines).await.unwrap();
        let networks = rule("networks", &cast.vpc, &[(&cast.vpc, ".spec.base")]);
        world.add_rule(&cast.network, &networks).await.unwrap();
        let depguard = Depguard::start(&world).await.unwrap();
        let stage = Self { world, cast, depguard, folder: tempfile::tempdir().unwrap() };
        let (consumer, cast) = (&stage.cast.consumer, &stage.cast);
        for name in ["base", "free"] {
            consumer.create_target(&cast.vpc, name).await.unwrap();
        }
        consumer.create(&cast.vpc, "a", json!({"base": "base"})).await.unwrap();
        let held = json!({"name": "m1", "finalizers": ["example.com/detach"]});
        consumer.create_with(&cast.vm, held, json!({"vpcRef": {"name": "a"}})).await.unwrap();
        consumer.create_dependent(&cast.vm, "m2", "a").await.unwrap();
        for name in ["a", "base"] {
            consumer.until_protected(&stage.world, &cast.vpc, name).await.unwrap();
        }
        stage
    }

    pub(crate) fn consumer(&self) -> &Consumer {
        &self.cast.consumer
    }

    /// Writes the administrator's kubeconfig for a workspace, or for the one cluster.
    pub(crate) fn kubeconfig(&self, workspace: &str) -> PathBuf {
        let file = self.folder.path().join(format!("{}.kubeconfig", workspace.replace(':', "-")));
        self.world.ring().write_kubeconfig(workspace, &file).unwrap();
        file
    }

    /// Returns the arguments of `order` for the namespace, with its administrator's kubeconfig.
    pub(crate) fn arguments(&self, more: &[&str]) -> Vec<String> {
        let kubeconfig = self.kubeconfig(&self.consumer().path);
        let args = ["order", &self.consumer().namespace, "--kubeconfig", kubeconfig.to_str().unwrap()];
        args.iter().chain(more).map(ToString::to_string).collect()
    }

    pub(crate) async fn order(&self, more: &[&str]) -> Ran {
        let args = self.arguments(more);
        depguard(&args.iter().map(String::as_str).collect::<Vec<_>>()).await
    }

    pub(crate) async fn until_gone(&self, machine: &str) {
        let path = self.consumer().object(&self.cast.vm, machine);
        self.consumer().gone(&self.world, &path).await.unwrap();
    }

    pub(crate) async fn until_going(&self, machine: &str) {
        let path = self.consumer().object(&self.cast.vm, machine);
        depguard_e2e::eventually("it is being deleted", self.world.patience(), async || {
            let found = self.consumer().api.get(&path).await?.ok()?;
            depguard_e2e::ensure(found["metadata"]["deletionTimestamp"].is_string(), || "not yet".to_owned())
        })
        .await
        .unwrap();
    }

    /// Checks that the networks exist, and that nothing has asked for their deletion.
    pub(crate) async fn networks_are_untouched(&self) {
        for name in ["a", "base"] {
            self.consumer().untouched(&self.cast.vpc, name).await.unwrap();
        }
    }

    pub(crate) async fn all_is_gone(&self) {
        for name in ["a", "base", "free"] {
            self.consumer().gone(&self.world, &self.consumer().object(&self.cast.vpc, name)).await.unwrap();
        }
        for name in ["m1", "m2"] {
            self.until_gone(name).await;
        }
    }
}
