//! The garbage collector of kube-controller-manager: who has lost all owners is deleted, and who is deleted in the
//! foreground or as an orphan's parent is let go once its dependents are dealt with. All of it through admission.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::act::Act;
use crate::delete::{self, DeleteOptions, Propagation};
use crate::identity::User;
use crate::json::{FOREGROUND, ORPHAN, array, finalizers, is_terminating, map_at, remove_finalizer, text};
use crate::kinds;
use crate::status::{ApiError, ApiResult};
use crate::store::{Key, Stored};
use crate::world::World;
use crate::write;

/// How many objects are dealt with at once, as kube-controller-manager does by default.
const WORKERS: usize = 20;
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Looks at what the store says is worth a look, each object in a task of its own.
pub(crate) async fn run(world: Arc<World>, mut stopped: watch::Receiver<bool>) {
    let workers = Arc::new(Semaphore::new(WORKERS));
    // Whether to look once more when the task has ended.
    let mut working: BTreeMap<Key, bool> = BTreeMap::new();
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            _ = stopped.changed() => break,
            due = world.store.collectible() => for key in due {
                match working.get_mut(&key) {
                    Some(again) => *again = true,
                    None => {
                        working.insert(key.clone(), false);
                        tasks.spawn(collect(Arc::clone(&world), Arc::clone(&workers), key));
                    }
                }
            },
            Some(Ok(key)) = tasks.join_next() => if working.remove(&key) == Some(true) {
                working.insert(key.clone(), false);
                tasks.spawn(collect(Arc::clone(&world), Arc::clone(&workers), key));
            },
        }
    }
    tasks.shutdown().await;
}

/// Tries until nobody refuses any more, and gives the key back.
async fn collect(world: Arc<World>, workers: Arc<Semaphore>, key: Key) -> Key {
    let mut wait = FIRST_WAIT;
    loop {
        let worker = workers.acquire().await;
        match attempt(&world, &key).await {
            Ok(()) => return key,
            Err(why) => tracing::debug!(?key, why = why.message(), "not collected yet"),
        }
        drop(worker);
        sleep(wait).await;
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}

async fn attempt(world: &World, key: &Key) -> ApiResult<()> {
    let Some(stored) = world.store.get(key) else { return Ok(()) };
    let found = kinds::some_version(world.kind, &world.store, &key.cluster, &key.group, &key.resource);
    let Some(resource) = found.filter(|resource| !resource.is("", "events")) else { return Ok(()) };
    let user = User::garbage_collector(world.kind);
    let item = Item { act: Act::new(world, &user, &resource, &key.cluster, &key.namespace), stored: &stored };
    let done = match Propagation::of(&stored.object) {
        Propagation::Foreground if is_terminating(&stored.object) => item.let_go_of_the_collected().await,
        Propagation::Orphan if is_terminating(&stored.object) => item.let_go_of_orphans().await,
        // On its way out already: its dependents come when it is gone.
        _ if is_terminating(&stored.object) => Ok(()),
        _ => item.follow_owners().await,
    };
    match done {
        Err(error) if error.is_not_found() => Ok(()),
        done => done,
    }
}

/// An object that is looked at.
struct Item<'a> {
    act: Act<'a>,
    stored: &'a Stored,
}

/// What has become of an object's owners, each by its UID.
#[derive(Default)]
struct Owners<'a> {
    solid: Vec<&'a str>,
    absent: Vec<&'a str>,
    /// Those that wait for their dependents to go.
    waiting: Vec<&'a str>,
}

impl Item<'_> {
    fn uid(&self) -> &str {
        text(&self.stored.object, "/metadata/uid").unwrap_or_default()
    }

    /// Deletes an object without owners, or takes off the references that lead nowhere.
    async fn follow_owners(&self) -> ApiResult<()> {
        let Some(owners) = self.owners()? else { return Ok(()) };
        let gone = [owners.absent, owners.waiting.clone()].concat();
        if !owners.solid.is_empty() {
            return if gone.is_empty() { Ok(()) } else { self.disown(&gone).await };
        }
        if gone.is_empty() {
            return Ok(());
        }
        let dependents = self.dependents();
        let propagation = match owners.waiting.is_empty() || dependents.is_empty() {
            true => Propagation::of(&self.stored.object),
            false => Propagation::Foreground,
        };
        // A circle would wait for itself.
        let circle = dependents.iter().any(|dependent| waits_in_foreground(&dependent.object));
        if propagation == Propagation::Foreground && circle {
            self.unblock().await?;
        }
        // Of what was looked at: after a change of its references, it is looked at again.
        let options = DeleteOptions::collecting(&self.stored.object, propagation);
        let name = &self.stored.key.name;
        delete::one(&self.act, name, name, &options).await.map(|_| ())
    }

    /// `None`: a cluster-scoped object names an owner in a namespace, which no namespace can be told of.
    fn owners(&self) -> ApiResult<Option<Owners<'_>>> {
        let mut owners = Owners::default();
        let (world, cluster) = (self.act.world, self.act.cluster);
        for reference in array(&self.stored.object, "/metadata/ownerReferences") {
            let named = |field| text(reference, field).unwrap_or_default();
            let (uid, api_version, kind) = (named("/uid"), named("/apiVersion"), named("/kind"));
            let resource = kinds::of_kind(world.kind, &world.store, cluster, api_version, kind);
            let Some(resource) = resource else {
                return Err(ApiError::internal(&format!(
                    "no matches for kind \"{kind}\" in version \"{api_version}\""
                )));
            };
            if resource.namespaced && self.act.namespace.is_empty() {
                return Ok(None);
            }
            let namespace = if resource.namespaced { self.act.namespace } else { "" };
            let owner = world.store.get(&resource.key(cluster, namespace, named("/name")));
            match owner.filter(|owner| text(&owner.object, "/metadata/uid") == Some(uid)) {
                None => owners.absent.push(uid),
                Some(owner) if waits_in_foreground(&owner.object) => owners.waiting.push(uid),
                Some(_) => owners.solid.push(uid),
            }
        }
        Ok(Some(owners))
    }

    /// Those that this object owns: in its own namespace if it has one.
    fn dependents(&self) -> Vec<Stored> {
        let namespaced = self.act.resource.namespaced;
        let mut dependents = self.act.world.store.dependents(self.uid());
        dependents.retain(|dependent| {
            dependent.key.cluster == self.act.cluster && (!namespaced || dependent.key.namespace == self.act.namespace)
        });
        dependents
    }

    /// Ends a deletion in the foreground when no dependent blocks it any more. That they are deleted is their own turn.
    async fn let_go_of_the_collected(&self) -> ApiResult<()> {
        let blocks = |dependent: &Stored| {
            let references = array(&dependent.object, "/metadata/ownerReferences");
            references.iter().any(|owner| owner["uid"] == self.uid() && owner["blockOwnerDeletion"] == true)
        };
        if self.dependents().iter().any(blocks) { Ok(()) } else { self.release(FOREGROUND).await }
    }

    /// Takes the references off all dependents, and then the finalizer off the object.
    async fn let_go_of_orphans(&self) -> ApiResult<()> {
        for dependent in self.dependents() {
            let key = &dependent.key;
            let world = self.act.world;
            let found = kinds::some_version(world.kind, &world.store, &key.cluster, &key.group, &key.resource);
            let Some(resource) = found else { continue };
            let act = Act::new(world, self.act.user, &resource, &key.cluster, &key.namespace);
            match (Item { act, stored: &dependent }).disown(&[self.uid()]).await {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            }
        }
        self.release(ORPHAN).await
    }

    async fn disown(&self, owners: &[&str]) -> ApiResult<()> {
        self.patch(|object| {
            let mut left = array(object, "/metadata/ownerReferences").to_vec();
            left.retain(|reference| !owners.iter().any(|uid| reference["uid"] == *uid));
            let metadata = map_at(object, &["metadata"]);
            if left.is_empty() {
                metadata.remove("ownerReferences");
            } else {
                metadata.insert("ownerReferences".to_owned(), json!(left));
            }
        })
        .await
    }

    async fn unblock(&self) -> ApiResult<()> {
        self.patch(|object| {
            let references = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
            for reference in references.into_iter().flatten() {
                reference["blockOwnerDeletion"] = json!(false);
            }
        })
        .await
    }

    async fn release(&self, finalizer: &str) -> ApiResult<()> {
        if !finalizers(&self.stored.object).iter().any(|known| known == finalizer) {
            return Ok(());
        }
        self.patch(|object| {
            remove_finalizer(object, finalizer);
        })
        .await
    }

    /// Changes this very object, and not one of the same name that came after it.
    async fn patch(&self, change: impl Fn(&mut Value)) -> ApiResult<()> {
        let changed = write::update(&self.act, &self.stored.key.name, None, |old| {
            let mut object = old.clone();
            change(&mut object);
            object["metadata"]["uid"] = json!(self.uid());
            Ok(object)
        });
        changed.await.map(|_| ())
    }
}

fn waits_in_foreground(object: &Value) -> bool {
    is_terminating(object) && finalizers(object).iter().any(|finalizer| finalizer == FOREGROUND)
}
