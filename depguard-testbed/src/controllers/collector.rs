//! Garbage collector of kube-controller-manager. The collector deletes objects that have lost all owners. It releases
//! objects that are deleted in the foreground, or that orphan their dependents, once the dependents are dealt with. All
//! its changes pass admission.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::kinds;
use crate::protocol::identity::User;
use crate::protocol::json::{FOREGROUND, ORPHAN, array, finalizers, is_terminating, map_at, remove_finalizer, text};
use crate::protocol::status::{ApiError, ApiResult};
use crate::request::act::Act;
use crate::store::{Key, StoredObject};
use crate::world::World;
use crate::write;
use crate::write::delete::{self, DeleteOptions, Propagation};

/// Maximum of objects that are processed at a time; kube-controller-manager has the same default.
const WORKERS: usize = 20;
const FIRST_WAIT: Duration = Duration::from_millis(50);
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Processes the objects that the store reports, each in a task of its own.
pub(crate) async fn run(world: Arc<World>, mut stopped: watch::Receiver<bool>) {
    let workers = Arc::new(Semaphore::new(WORKERS));
    // Objects in progress. The value is true if the object is due once more when its task ends.
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

/// Tries until the object is dealt with, and returns its key.
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
        wait = (wait * 2).min(MAX_WAIT);
    }
}

async fn attempt(world: &World, key: &Key) -> ApiResult<()> {
    let Some(stored) = world.store.get(key) else { return Ok(()) };
    let found = kinds::some_version(world.kind, &world.store, &key.cluster, &key.group, &key.resource);
    let Some(resource) = found.filter(|resource| !resource.is("", "events")) else { return Ok(()) };
    let user = User::garbage_collector(world.kind);
    let item = Item { act: Act::new(world, &user, &resource, &key.cluster, &key.namespace), stored: &stored };
    let done = match Propagation::from_options(&stored.object) {
        Propagation::Foreground if is_terminating(&stored.object) => item.let_go_of_the_collected().await,
        Propagation::Orphan if is_terminating(&stored.object) => item.let_go_of_orphans().await,
        // The object is being deleted already. Its dependents follow when it is gone.
        _ if is_terminating(&stored.object) => Ok(()),
        _ => item.follow_owners().await,
    };
    match done {
        Err(error) if error.is_not_found() => Ok(()),
        done => done,
    }
}

/// Object in progress.
struct Item<'a> {
    act: Act<'a>,
    stored: &'a StoredObject,
}

/// State of an object's owners, each by its UID.
#[derive(Default)]
struct Owners<'a> {
    solid: Vec<&'a str>,
    absent: Vec<&'a str>,
    /// Owners that wait for their dependents to go.
    waiting: Vec<&'a str>,
}

impl Item<'_> {
    fn uid(&self) -> &str {
        text(&self.stored.object, "/metadata/uid").unwrap_or_default()
    }

    /// Deletes an object without owners, or removes the references to owners that are gone.
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
            true => Propagation::from_options(&self.stored.object),
            false => Propagation::Foreground,
        };
        // A cycle would wait for itself.
        let circle = dependents.iter().any(|dependent| waits_in_foreground(&dependent.object));
        if propagation == Propagation::Foreground && circle {
            self.unblock().await?;
        }
        // The preconditions name the state that was read. If the references change, the object is processed again.
        let options = DeleteOptions::collecting(&self.stored.object, propagation);
        let name = &self.stored.key.name;
        delete::one(&self.act, name, name, &options).await.map(|_| ())
    }

    /// Returns the object's owners; `None` if a cluster-scoped object names a namespaced owner, whose namespace is
    /// unknown.
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

    /// Returns the dependents of this object: only those in its own namespace if it has one.
    fn dependents(&self) -> Vec<StoredObject> {
        let namespaced = self.act.resource.namespaced;
        let mut dependents = self.act.world.store.dependents(self.uid());
        dependents.retain(|dependent| {
            dependent.key.cluster == self.act.cluster && (!namespaced || dependent.key.namespace == self.act.namespace)
        });
        dependents
    }

    /// Releases an object that is deleted in the foreground, once no dependent blocks it. Deleting the dependents is
    /// left to their own turn.
    async fn let_go_of_the_collected(&self) -> ApiResult<()> {
        let blocks = |dependent: &StoredObject| {
            let references = array(&dependent.object, "/metadata/ownerReferences");
            references.iter().any(|owner| owner["uid"] == self.uid() && owner["blockOwnerDeletion"] == true)
        };
        if self.dependents().iter().any(blocks) { Ok(()) } else { self.release(FOREGROUND).await }
    }

    /// Removes the references from all dependents, and then the finalizer from the object.
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

    /// Changes this very object, and not a later one of the same name.
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
