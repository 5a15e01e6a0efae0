//! Teardown of namespaces, workspaces and bindings: the control plane deletes their contents through admission, again
//! and again until nothing is left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::controllers::workspaces::CONTENT_FINALIZER;
use crate::kinds::{self, Origin, Resource};
use crate::protocol::identity::User;
use crate::protocol::json::{finalizers, is_terminating, map_at, random, set_condition};
use crate::protocol::routes::Query;
use crate::protocol::status::ApiResult;
use crate::request::act::Act;
use crate::request::view::{Reach, Target};
use crate::store::{Key, Range, StoredObject};
use crate::world::World;
use crate::write::defaults::BINDING_FINALIZER;
use crate::write::delete::{self, DeleteOptions};

/// Kinds of the scopes.
const SCOPES: [(&str, &str); 3] =
    [("", "namespaces"), ("core.kcp.io", "logicalclusters"), ("apis.kcp.io", "apibindings")];
const FIRST_WAIT: Duration = Duration::from_millis(100);
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Follows the store and tears down the terminating scopes, each in a task of its own.
pub(crate) async fn run(world: Arc<World>, mut stopped: watch::Receiver<bool>) {
    let (mut revisions, mut seen) = (world.store.subscribe(), world.store.revision());
    let mut working: BTreeMap<Key, tokio::task::Id> = BTreeMap::new();
    let mut tasks = JoinSet::new();
    loop {
        for scope in terminating_scopes(&world) {
            working.entry(scope.clone()).or_insert_with(|| tasks.spawn(tear_down(Arc::clone(&world), scope)).id());
        }
        tokio::select! {
            _ = stopped.changed() => break,
            () = changed(&world, &mut revisions, &mut seen) => {}
            Some(ended) = tasks.join_next_with_id() => {
                let id = ended.map_or_else(|failed| failed.id(), |(id, ())| id);
                working.retain(|_, known| *known != id);
            }
        }
    }
    tasks.shutdown().await;
}

/// Waits for a change of a scope after `seen`, which then is the last change that was looked at.
async fn changed(world: &World, revisions: &mut watch::Receiver<u64>, seen: &mut u64) {
    let is_scope = |key: &Key| SCOPES.contains(&(key.group.as_str(), key.resource.as_str()));
    while revisions.changed().await.is_ok() {
        let Ok((changes, revision)) = world.store.changes_since(*seen) else {
            *seen = world.store.revision();
            return;
        };
        *seen = revision;
        if changes.iter().any(|change| is_scope(&change.key)) {
            return;
        }
    }
}

fn terminating_scopes(world: &World) -> Vec<Key> {
    SCOPES.iter().flat_map(|(group, plural)| world.store.keys(group, plural, is_terminating)).collect()
}

async fn tear_down(world: Arc<World>, scope: Key) {
    let mut wait = FIRST_WAIT;
    while let Some(stored) = world.store.get(&scope) {
        match scope.resource.as_str() {
            "namespaces" => namespace(&world, &stored).await,
            "logicalclusters" => logical_cluster(&world, &stored).await,
            _ => binding(&world, &stored).await,
        }
        if world.store.get(&scope).is_none() {
            return;
        }
        sleep(wait).await;
        wait = (wait * 2).min(MAX_WAIT);
    }
}

/// Runs one round over a namespace: every namespaced kind, in no fixed order.
async fn namespace(world: &World, namespace: &StoredObject) {
    let user = User::namespace_controller(world.kind);
    let cluster = &namespace.key.cluster;
    let mut round = Round::default();
    for resource in shuffled(kinds::all(world.kind, &world.store, cluster), |resource| resource.namespaced) {
        round.sweep(world, &user, cluster, Some(&namespace.key.name), &resource).await;
    }
    if round.is_clean() {
        finish_namespace(world, &namespace.key);
        return;
    }
    let (failed, why) = match round.errors() {
        Some((count, said)) => (
            "True",
            ("ContentDeletionFailed", format!("Failed to delete all resource types, {count} remaining: {said}")),
        ),
        None => {
            let why = "All content successfully deleted, may be waiting on finalization".to_owned();
            ("False", ("ContentDeleted", why))
        }
    };
    let remaining = round.remaining_message();
    let held = round.finalizers_message("namespace");
    world.edit(&namespace.key, |object| {
        let said = "All resources successfully discovered";
        set_condition(object, "NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered", said);
        let said = "All legacy kube types successfully parsed";
        set_condition(object, "NamespaceDeletionGroupVersionParsingFailure", "False", "ParsedGroupVersions", said);
        set_condition(object, "NamespaceDeletionContentFailure", failed, why.0, &why.1);
        let there = |some: &Option<String>| if some.is_some() { "True" } else { "False" };
        let said = remaining.as_deref().unwrap_or("All content successfully removed");
        let reason = if remaining.is_some() { "SomeResourcesRemain" } else { "ContentRemoved" };
        set_condition(object, "NamespaceContentRemaining", there(&remaining), reason, said);
        let said = held.as_deref().unwrap_or("All content-preserving finalizers finished");
        let reason = if held.is_some() { "SomeFinalizersRemain" } else { "ContentHasNoFinalizers" };
        set_condition(object, "NamespaceFinalizersRemaining", there(&held), reason, said);
    });
}

/// Removes a namespace's finalizers. A namespace has two sorts of them: ours is in its spec.
fn finish_namespace(world: &World, key: &Key) {
    world.edit(key, |object| {
        map_at(object, &["spec"]).remove("finalizers");
    });
    world.finish(key, "kubernetes");
}

/// Runs one round over a workspace: every kind that is neither namespaced nor bound, in no fixed order. When all these
/// objects are gone, deletes the bindings, which take the objects of bound kinds along.
async fn logical_cluster(world: &World, logical_cluster: &StoredObject) {
    let user = User::control_plane();
    let cluster = &logical_cluster.key.cluster;
    let is_binding = |resource: &Resource| resource.is("apis.kcp.io", "apibindings");
    let all = kinds::all(world.kind, &world.store, cluster);
    let mut round = Round::default();
    let ours = |resource: &Resource| {
        let bound = matches!(resource.origin, Origin::Bound { .. });
        !resource.namespaced && !bound && !is_binding(resource) && !resource.is("core.kcp.io", "logicalclusters")
    };
    for resource in shuffled(all.clone(), ours) {
        round.sweep(world, &user, cluster, None, &resource).await;
    }
    if round.is_clean() {
        for resource in shuffled(all, is_binding) {
            round.sweep(world, &user, cluster, None, &resource).await;
        }
    }
    if round.is_clean() {
        world.finish(&logical_cluster.key, CONTENT_FINALIZER);
        return;
    }
    let rest: Vec<String> =
        [round.remaining_message(), round.finalizers_message("logical cluster")].into_iter().flatten().collect();
    let (reason, message) = match round.distinct_errors() {
        // As in kcp, the remaining objects hide the error.
        _ if !rest.is_empty() => ("SomeResourcesRemain", rest.join("; ")),
        Some(said) => ("ContentDeletionFailed", said),
        None => ("SomeResourcesRemain", String::new()),
    };
    world.edit(&logical_cluster.key, |object| {
        set_condition(object, "WorkspaceContentDeleted", "False", reason, &message);
    });
}

/// Runs one round over a binding: the objects of every kind that it binds, namespace by namespace.
async fn binding(world: &World, binding: &StoredObject) {
    let user = User::control_plane();
    let cluster = &binding.key.cluster;
    let mut round = Round::default();
    for resource in one_version_each(kinds::bound(&world.store, &binding.object)) {
        let range =
            Range { group: &resource.group, resource: &resource.plural, cluster: Some(cluster), namespace: None };
        let mut namespaces: Vec<String> =
            world.store.list(range).0.into_iter().map(|stored| stored.key.namespace).collect();
        namespaces.dedup();
        for namespace in namespaces {
            let namespace = resource.namespaced.then_some(namespace);
            round.sweep(world, &user, cluster, namespace.as_deref(), &resource).await;
        }
    }
    if round.is_clean() {
        world.finish(&binding.key, BINDING_FINALIZER);
        return;
    }
    let (reason, message) = match (round.distinct_errors(), round.finalizers_message("logical cluster")) {
        (Some(said), _) => ("ResourceDeletionFailed", said),
        (None, held) => ("SomeFinalizersRemain", held.unwrap_or_default()),
    };
    world.edit(&binding.key, |object| {
        set_condition(object, "BindingResourceDeleteSuccess", "False", reason, &message);
    });
}

/// Results of one round over a scope.
#[derive(Default)]
struct Round {
    failed: Vec<String>,
    remaining: BTreeMap<String, usize>,
    finalizers: BTreeMap<String, usize>,
}

impl Round {
    /// Deletes a collection and counts the remaining objects. Namespaces have no collection delete and are deleted one
    /// by one.
    async fn sweep(&mut self, world: &World, user: &User, cluster: &str, namespace: Option<&str>, resource: &Resource) {
        let target = Target {
            resource: resource.clone(),
            reach: Reach::One(cluster.to_owned()),
            namespace: namespace.map(str::to_owned),
            bindings_of: None,
            shard: None,
        };
        let range = crate::read::range(&target);
        let act = Act::new(world, user, resource, cluster, namespace.unwrap_or_default());
        let swept = if resource.verbs().contains(&"deletecollection") {
            let query = Query::parse(None);
            delete::collection(&act, &target, &query, &DeleteOptions::background()).await.map(|_| ())
        } else {
            each(&act, world.store.list(range).0).await
        };
        // A failed deletion is reported by its reason, not by the number of remaining objects.
        if let Err(error) = swept {
            self.failed.push(error.message().to_owned());
            return;
        }
        let left = world.store.list(range).0;
        if left.is_empty() {
            return;
        }
        *self.remaining.entry(format!("{}.{}", resource.plural, resource.group)).or_default() += left.len();
        for finalizer in left.iter().flat_map(|stored| finalizers(&stored.object)) {
            *self.finalizers.entry(finalizer.as_str().unwrap_or_default().to_owned()).or_default() += 1;
        }
    }

    fn is_clean(&self) -> bool {
        self.failed.is_empty() && self.remaining.is_empty()
    }

    fn errors(&self) -> Option<(usize, String)> {
        let mut failed = self.failed.clone();
        failed.sort();
        (!failed.is_empty()).then(|| (failed.len(), failed.join(", ")))
    }

    /// Returns each error once, as Go aggregates them.
    fn distinct_errors(&self) -> Option<String> {
        let distinct: Vec<&str> = self.failed.iter().map(String::as_str).collect::<BTreeSet<_>>().into_iter().collect();
        match distinct.as_slice() {
            [] => None,
            [one] => Some((*one).to_owned()),
            many => Some(format!("[{}]", many.join(", "))),
        }
    }

    fn remaining_message(&self) -> Option<String> {
        let said: Vec<String> =
            self.remaining.iter().map(|(what, count)| format!("{what} has {count} resource instances")).collect();
        (!said.is_empty()).then(|| format!("Some resources are remaining: {}", said.join(", ")))
    }

    fn finalizers_message(&self, scope: &str) -> Option<String> {
        let said: Vec<String> =
            self.finalizers.iter().map(|(what, count)| format!("{what} in {count} resource instances")).collect();
        (!said.is_empty()).then(|| format!("Some content in the {scope} has finalizers remaining: {}", said.join(", ")))
    }
}

async fn each(act: &Act<'_>, objects: Vec<StoredObject>) -> ApiResult<()> {
    for stored in objects {
        match delete::one(act, &stored.key.name, &stored.key.name, &DeleteOptions::background()).await {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Returns the resources that `selects` accepts, one version each, in random order.
fn shuffled(resources: Vec<Resource>, selects: impl Fn(&Resource) -> bool) -> Vec<Resource> {
    let mut resources: Vec<Resource> = one_version_each(resources).into_iter().filter(|one| selects(one)).collect();
    resources.sort_by_cached_key(|_| random());
    resources
}

fn one_version_each(mut resources: Vec<Resource>) -> Vec<Resource> {
    let mut seen = BTreeSet::new();
    resources.retain(|resource| seen.insert((resource.group.clone(), resource.plural.clone())));
    resources
}
