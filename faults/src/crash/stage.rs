//! Participants of one removal: an API server, the webhook, one controller after the other, a task that removes
//! finalizers, and the client that deletes the GlobalOwner.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use depguard_controller::{Controller, WebhookTarget, manifests};
use depguard_core::{ControlPlane, ExportName};
use depguard_kcp::{ConnectOptions, Connection, Endpoint, Features, Preconditions};
use depguard_testbed::{Death, Event, Life, Options, Testbed, Write, lasting_port};
use depguard_webhook::Webhook;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::world::{self, Comes, End, FINALIZER, GROUP, KINDS, OWNER, World};
use crate::Result;
use crate::scene::eventually;

const OURS: &str = "dependencies.opendefense.cloud";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const RULES: &str = "/apis/dependencies.opendefense.cloud/v1alpha1/dependencyrules";
pub(super) const OWNERS: &str = "/apis/globalowner.metacontroller.io/v1alpha1/globalowners";
/// User as which the controllers write: with the rights of the manifests and no others.
const CONTROLLER: &str = "system:serviceaccount:depguard-system:depguard-controller";
const LOOK: Duration = Duration::from_millis(60);
/// Number of looks for which a finalizer holds an object, and a foreign dependent its targets.
const HELD: usize = 4;

pub(super) struct Stage {
    testbed: Testbed,
    pub(super) client: Endpoint,
    life: Life,
    webhook: Option<Webhook>,
    others: Vec<JoinHandle<()>>,
    folder: TempDir,
    port: u16,
    /// UID of the ConfigMap that owns some objects.
    other: String,
    /// Objects that were created, and the number of writes after which the GlobalOwner was deleted.
    made: Mutex<Made>,
}

#[derive(Default)]
struct Made {
    things: BTreeSet<usize>,
    deleted_at: Option<usize>,
}

impl Stage {
    /// Starts all participants with the world's rules in force. There are no objects yet.
    pub(super) async fn set(world: &World) -> Result<Self> {
        let testbed = Testbed::start(Options::kubernetes().rbac()).await?;
        testbed.keep_journal();
        let folder = tempfile::tempdir()?;
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        for (name, content) in [
            ("tls.crt", made.cert.pem()),
            ("tls.key", made.signing_key.serialize_pem()),
            ("controller", testbed.kubeconfig("", CONTROLLER)),
            ("webhook", testbed.kubeconfig("", "masters")),
            ("client", testbed.kubeconfig("", "masters")),
        ] {
            std::fs::write(folder.path().join(name), content)?;
        }
        let options = ConnectOptions::new(ControlPlane::Kubernetes).kubeconfig(folder.path().join("client"));
        let client = Connection::open(&options).await?.own_endpoint();
        let kinds = (0..KINDS).map(world::definition);
        for definition in manifests::owner_crds().into_iter().chain([manifests::crd()]).chain(kinds) {
            client.post_json(CRDS, &definition).await?;
        }
        let setup = manifests::Setup {
            enable: features(),
            ..manifests::Setup::new(ControlPlane::Kubernetes, Default::default())
        };
        for object in manifests::rbac(&setup).into_iter().flat_map(|(_, objects)| objects) {
            client.post_json(&collection_of(&object)?, &object).await?;
        }
        for path in [RULES, OWNERS].map(str::to_owned).into_iter().chain((0..KINDS).map(world::collection)) {
            eventually(&path, async || client.get_json(&path).await.is_ok()).await?;
        }
        // Writes of leases, rules and webhook configurations do not count, because they are not about owners. Events
        // count, and a lost one stays lost.
        let life = testbed.faults().follow(CONTROLLER, |write: &Write| {
            !["leases", "dependencyrules", "validatingwebhookconfigurations"]
                .iter()
                .any(|part| write.path.contains(part))
        });
        let port = lasting_port(Ipv4Addr::LOCALHOST)?;
        let (others, other, made) = (Vec::new(), String::new(), Mutex::default());
        let mut stage = Self { testbed, client, life, webhook: None, others, folder, port, other, made };
        stage.start_webhook().await?;
        stage.enforce(world).await?;
        Ok(stage)
    }

    /// Starts another controller.
    pub(super) async fn controller(&self) -> Result<Controller> {
        let webhook = WebhookTarget::Url(format!("https://127.0.0.1:{}/validate", self.port));
        let config = depguard_controller::Config::new(ControlPlane::Kubernetes, ExportName::parse(OURS)?, webhook)
            .kubeconfig(Some(self.file("controller")))
            .probe_addr(None)
            .metrics_addr(None)
            .ca_bundle_path(Some(self.file("tls.crt")))
            .enable(features());
        Ok(Controller::start(config).await?)
    }

    /// Creates the first objects and the GlobalOwner. From then on a task removes finalizers.
    pub(super) async fn raise(&mut self, world: &World) -> Result {
        let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}});
        let other = self.client.post_json("/api/v1/namespaces/default/configmaps", &other).await?;
        self.other = other["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        self.make(world, |comes| comes == Comes::First).await?;
        self.client.post_json(OWNERS, &world.owner()).await?;
        self.others.push(tokio::spawn(see_to_finalizers(self.client.clone())));
        Ok(())
    }

    /// Creates the objects that are due and do not exist yet.
    async fn make(&self, world: &World, comes: impl Fn(Comes) -> bool) -> Result {
        for (place, thing) in world.objects.iter().enumerate() {
            let is_due = comes(thing.comes) && self.made.lock().is_ok_and(|mut made| made.things.insert(place));
            if is_due {
                self.client.post_json(&world::collection(thing.kind), &world.object(place, &self.other)).await?;
            }
        }
        Ok(())
    }

    /// Deletes the GlobalOwner when the world wants it, and creates the objects of that moment and of later ones.
    pub(super) async fn until_gone(&self, world: &World) -> Result {
        let path = format!("{OWNERS}/{OWNER}");
        loop {
            match self.client.get_json(&path).await {
                Ok(owner) if owner["metadata"].get("deletionTimestamp").is_some() => {
                    let deleted_at = self.made.lock().ok().and_then(|made| made.deleted_at).unwrap_or_default();
                    let since = self.life.writes().len().saturating_sub(deleted_at);
                    self.make(world, |comes| matches!(comes, Comes::Later(after) if after <= since)).await?;
                }
                Ok(owner) => {
                    let ready = json!({"type": "Ready", "status": "True"});
                    let mut conditions = owner["status"]["conditions"].as_array().into_iter().flatten();
                    let is_ready =
                        conditions.any(|found| ["type", "status"].iter().all(|field| found[*field] == ready[*field]));
                    if is_ready || self.life.writes().len() >= world.delete_after {
                        self.end_owner(world).await?;
                    }
                }
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Creates the last objects and deletes the GlobalOwner right after. Does nothing that was done before.
    pub(super) async fn end_owner(&self, world: &World) -> Result {
        self.make(world, |comes| comes == Comes::AtDeletion).await?;
        if let Ok(mut made) = self.made.lock() {
            made.deleted_at.get_or_insert(self.life.writes().len());
        }
        self.delete_owner(world.end).await
    }

    pub(super) async fn delete_owner(&self, end: End) -> Result {
        let policy = if end == End::Orphan { "Orphan" } else { "Background" };
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy});
        match self.client.delete_with(&format!("{OWNERS}/{OWNER}"), &options).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Lets the controller die at a write, after `gap` other writes.
    pub(super) fn die_in(&self, gap: usize, death: Death) {
        self.life.die_at(self.life.writes().len() + gap, death);
    }

    pub(super) async fn died(&self) {
        self.life.died().await;
    }

    pub(super) fn revive(&self) {
        self.life.revive();
    }

    /// Ends everything, and returns the journal of the API server.
    pub(super) async fn end(self) -> Result<Vec<Event>> {
        self.others.iter().for_each(JoinHandle::abort);
        let journal = self.testbed.journal();
        if let Some(webhook) = self.webhook {
            webhook.kill();
        }
        self.testbed.stop().await;
        Ok(journal)
    }

    async fn start_webhook(&mut self) -> Result {
        let config = depguard_webhook::Config::default()
            .control_plane(ControlPlane::Kubernetes)
            .export_name(ExportName::parse(OURS)?)
            .kubeconfig(Some(self.file("webhook")))
            .review_addr(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)))
            .probe_addr(None)
            .metrics_addr(None)
            .tls_cert_dir(self.folder.path().to_owned())
            .enable(features())
            .shutdown_delay(Duration::ZERO);
        self.webhook = Some(Webhook::start(config).await?);
        Ok(())
    }

    /// Waits until the rules are in force, before anything else happens.
    async fn enforce(&self, world: &World) -> Result {
        let rules = world.dependency_rules();
        if rules.is_empty() {
            return Ok(());
        }
        for rule in &rules {
            self.client.post_json(RULES, rule).await?;
        }
        let controller = self.controller().await?;
        for rule in &rules {
            let path = format!("{RULES}/{}", rule["metadata"]["name"].as_str().unwrap_or_default());
            eventually("the rules are in force", async || {
                let Ok(rule) = self.client.get_json(&path).await else { return false };
                let mut conditions = rule["status"]["conditions"].as_array().into_iter().flatten();
                conditions.any(|found| found["type"] == "Enforced" && found["status"] == "True")
            })
            .await?;
        }
        controller.stop().await;
        Ok(())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Returns the path where an object of the manifests is created.
fn collection_of(object: &Value) -> Result<String> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let root = match text("/apiVersion") {
        "v1" => "/api/v1".to_owned(),
        version => format!("/apis/{version}"),
    };
    let plural = match text("/kind") {
        "" => return Err(format!("it has no kind: {object}").into()),
        kind => format!("{}s", kind.to_lowercase()),
    };
    Ok(match text("/metadata/namespace") {
        "" => format!("{root}/{plural}"),
        namespace => format!("{root}/namespaces/{namespace}/{plural}"),
    })
}

fn features() -> Features {
    Features { owners: true, ..Features::default() }
}

/// Removes the finalizers of terminating objects after a while. Once the GlobalOwner is being deleted, also deletes
/// dependents that no group owns, as their authors would: until then they hold their targets.
async fn see_to_finalizers(client: Endpoint) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    loop {
        tokio::time::sleep(LOOK).await;
        let owner = client.get_json(&format!("{OWNERS}/{OWNER}")).await;
        let is_ending = !owner.is_ok_and(|owner| owner["metadata"].get("deletionTimestamp").is_none());
        for kind in 0..KINDS {
            let Ok(list) = client.list_json(&world::collection(kind)).await else { continue };
            for object in list.items {
                let metadata = &object["metadata"];
                let is_going = metadata.get("deletionTimestamp").is_some();
                let holds =
                    is_ending && !is_owned(&object) && object["spec"].as_object().is_some_and(|refs| !refs.is_empty());
                if !is_going && !holds {
                    continue;
                }
                let (name, uid) = (metadata["name"].as_str().unwrap_or_default(), metadata["uid"].to_string());
                let looks = seen.entry(uid).or_default();
                *looks += 1;
                if *looks < HELD {
                    continue;
                }
                let path = format!("{}/{name}", world::collection(kind));
                // A write that fails because of a concurrent change is repeated at the next look.
                if is_going && metadata["finalizers"].as_array().is_some_and(|all| all.contains(&json!(FINALIZER))) {
                    let mut released = object.clone();
                    if let Some(all) = released["metadata"]["finalizers"].as_array_mut() {
                        all.retain(|finalizer| finalizer != FINALIZER);
                    }
                    let _ = client.put_json(&path, &released).await;
                } else if holds {
                    // Only as it was seen: an object that a group owns by now is the controller's to delete.
                    let resource_version = metadata["resourceVersion"].as_str();
                    let _ = client.delete(&path, Preconditions { uid: None, resource_version }).await;
                }
            }
        }
    }
}

/// Returns true if a GroupOwner owns the object.
pub(super) fn is_owned(object: &Value) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten().any(|owner| owner["kind"] == "GroupOwner")
}

/// Returns true if an event is about an object of the world.
pub(super) fn is_of_world(event: &Event) -> bool {
    event.group == GROUP
}
