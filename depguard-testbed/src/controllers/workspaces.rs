//! Workspaces: each gets a logical cluster, which is deleted with the workspace.

use serde_json::json;

use crate::protocol::json::{array, is_terminating, map_at, now, random_name, set_annotation, set_condition, text};
use crate::store::StoredObject;
use crate::world::{PATH, ROOT, World, logical_cluster_key};
use crate::write::defaults::WORKSPACE_FINALIZER;

/// Finalizer that holds a terminating logical cluster until its contents are gone.
pub(crate) const CONTENT_FINALIZER: &str = "core.kcp.io/logicalcluster-deletion";

/// Creates the root workspace, which exists from the start.
pub(crate) fn seed_root(world: &World) {
    world.shards.place(ROOT, None);
    seed_cluster(world, ROOT, ROOT, &json!(null));
}

pub(crate) fn reconcile(world: &World) {
    for workspace in world.store.everywhere("tenancy.kcp.io", "workspaces") {
        if is_terminating(&workspace.object) {
            take_down(world, &workspace);
        } else if text(&workspace.object, "/status/phase") != Some("Ready") {
            set_up(world, &workspace);
        }
    }
}

fn set_up(world: &World, workspace: &StoredObject) {
    let Some(parent) = world.path_of(&workspace.key.cluster) else {
        return;
    };
    let path = format!("{parent}:{}", workspace.key.name);
    let cluster = match text(&workspace.object, "/spec/cluster") {
        Some(cluster) => cluster.to_owned(),
        None => random_name(16),
    };
    world.shards.place(&cluster, text(&workspace.object, "/spec/location/selector/matchLabels/name"));
    let owner = json!({
        "apiVersion": "tenancy.kcp.io/v1alpha1", "resource": "workspaces", "name": workspace.key.name,
        "cluster": workspace.key.cluster, "uid": workspace.object["metadata"]["uid"],
    });
    seed_cluster(world, &cluster, &path, &owner);
    let url = format!("{}/clusters/{path}", world.url);
    world.edit(&workspace.key, |object| {
        set_annotation(object, "internal.tenancy.kcp.io/cluster", &cluster);
        let spec = map_at(object, &["spec"]);
        spec.insert("cluster".to_owned(), json!(cluster));
        spec.insert("URL".to_owned(), json!(url));
        map_at(object, &["status"]).insert("phase".to_owned(), json!("Ready"));
        set_condition(object, "WorkspaceScheduled", "True", "", "");
    });
}

fn seed_cluster(world: &World, cluster: &str, path: &str, owner: &serde_json::Value) {
    let mut object = json!({
        "metadata": {"name": "cluster", "annotations": {PATH: path}, "finalizers": [CONTENT_FINALIZER]},
        "spec": {},
        "status": {"phase": "Ready", "URL": format!("{}/clusters/{cluster}", world.url)},
    });
    if owner.is_object() {
        object["spec"]["owner"] = owner.clone();
    }
    world.seed(cluster, "core.kcp.io", "logicalclusters", "", object);
    world.seed_namespace(cluster, "default");
}

/// Deletes the logical cluster. Once it is gone, the workspace goes, too.
fn take_down(world: &World, workspace: &StoredObject) {
    let cluster = text(&workspace.object, "/spec/cluster").map(logical_cluster_key);
    if let Some(key) = cluster
        && let Some(found) = world.store.get(&key)
    {
        if !is_terminating(&found.object) {
            world.edit(&key, |object| {
                object["metadata"]["deletionTimestamp"] = json!(now());
                object["status"]["phase"] = json!("Deleting");
            });
        }
        // The workspace shows the state of its logical cluster's contents.
        let mut conditions = array(&found.object, "/status/conditions").iter();
        let content = conditions.find(|condition| condition["type"] == "WorkspaceContentDeleted");
        world.edit(&workspace.key, |object| {
            object["status"]["phase"] = json!("Deleting");
            if let Some(condition) = content {
                let said = |field| text(condition, field).unwrap_or_default();
                set_condition(object, "WorkspaceContentDeleted", said("/status"), said("/reason"), said("/message"));
            }
        });
        return;
    }
    world.finish(&workspace.key, WORKSPACE_FINALIZER);
}
