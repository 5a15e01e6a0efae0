//! Authorization: the chain of authorizers of Kubernetes, and that of kcp.

use serde_json::Value;

use crate::auth::rbac::{self, Wish};
use crate::options::Kind;
use crate::protocol::identity::User;
use crate::protocol::routes::{Ask, Objects, Query};
use crate::protocol::status::{ApiError, ApiResult};
use crate::request::view::{Export, View};
use crate::world::{ONLY, SHARD, World};

/// Refuses a request if the user lacks the right behind this door.
pub(crate) fn authorize(
    world: &World,
    user: &User,
    view: &View,
    ask: &Ask,
    verb: &str,
    query: &Query,
) -> ApiResult<()> {
    let path = ask.path();
    let objects = match ask {
        Ask::Objects(objects) => Some(named(objects, query)),
        _ => None,
    };
    let wish = match &objects {
        Some(objects) => Wish::Objects { verb, objects },
        None => Wish::Path { verb: "get", path: &path },
    };
    let allowed = match view {
        View::Cluster(cluster) => may(world, user, cluster, wish),
        View::Export { export, .. } => through(world, user, export, wish),
    };
    match (allowed, &objects) {
        (true, _) => Ok(()),
        (false, Some(objects)) => Err(ApiError::denied(world.kind, &user.name, verb, objects)),
        (false, None) => {
            let why = if world.kind == Kind::Kcp { "access denied" } else { "" };
            Err(ApiError::denied_path(&user.name, &path, why))
        }
    }
}

/// Returns true if the user has this right in a logical cluster.
pub(crate) fn may(world: &World, user: &User, cluster: &str, wish: Wish<'_>) -> bool {
    if !world.rbac || user.is_unbound() {
        return true;
    }
    match world.kind {
        Kind::Kcp => in_workspace(world, user, cluster, wish),
        Kind::Kubernetes => rbac::allows(world, ONLY, ONLY, std::slice::from_ref(user), wish),
    }
}

/// Returns every rule that applies to the user in a logical cluster, and in a namespace there.
pub(crate) fn rules(world: &World, user: &User, cluster: &str, namespace: &str) -> Vec<Value> {
    match world.kind {
        Kind::Kcp => {
            let users = user.within(cluster);
            [cluster, SHARD].into_iter().flat_map(|of| rbac::rules(world, of, SHARD, &users, namespace)).collect()
        }
        Kind::Kubernetes => rbac::rules(world, ONLY, ONLY, std::slice::from_ref(user), namespace),
    }
}

/// Returns true if the user has this right in a workspace of kcp. Every right needs access to the workspace; the
/// workspace's own ServiceAccounts always have access. Bindings for the whole shard apply in each workspace.
fn in_workspace(world: &World, user: &User, cluster: &str, wish: Wish<'_>) -> bool {
    let users = user.within(cluster);
    let allows = |of, wish| rbac::allows(world, of, SHARD, &users, wish);
    let anywhere = |wish| allows(cluster, wish) || allows(SHARD, wish);
    let access = Wish::Path { verb: "access", path: "/" };
    if !user.is_account_in(cluster) && !anywhere(access) {
        return false;
    }
    // The export of these kinds grants rights to its consumers' own users, and to no ServiceAccount from elsewhere.
    let foreign = user.is_account_outside(cluster);
    let of_tenancy = matches!(wish, Wish::Objects { objects, .. } if objects.group == "tenancy.kcp.io");
    !(foreign && of_tenancy) && anywhere(wish)
}

/// Returns true if the user has this right through an export's virtual workspace. The user must have the same verb on
/// the export's content in the export's own workspace.
fn through(world: &World, user: &User, export: &Export, wish: Wish<'_>) -> bool {
    let content = Objects {
        group: "apis.kcp.io".to_owned(),
        version: "v1alpha1".to_owned(),
        plural: "apiexports".to_owned(),
        name: Some(export.name.clone()),
        subresource: Some("content".to_owned()),
        ..Objects::default()
    };
    let (Wish::Objects { verb, .. } | Wish::Path { verb, .. }) = wish;
    may(world, user, &export.cluster, Wish::Objects { verb, objects: &content })
}

/// Adds the name to a list, a watch or a collection delete that selects one name.
fn named(objects: &Objects, query: &Query) -> Objects {
    let selected = query.value("fieldSelector").and_then(|selector| selector.strip_prefix("metadata.name="));
    let name = objects.name.clone().or_else(|| selected.filter(|name| !name.contains(',')).map(str::to_owned));
    Objects { name, ..objects.clone() }
}
