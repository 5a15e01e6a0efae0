//! Objects that can be seen and written through each door: a logical cluster's own kinds, or an export's virtual
//! workspace.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::kinds::scale::SCALE;
use crate::kinds::{self, Origin, Resource};
use crate::kinds::{BINDING, EVICTION, FINALIZE, TOKEN, builtin};
use crate::options::Kind;
use crate::protocol::identity::User;
use crate::protocol::json::{array, text};
use crate::protocol::routes::{Door, Objects};
use crate::protocol::status::{ApiError, ApiResult};
use crate::store::{Key, StoredObject};
use crate::world::{ONLY, SHARD, World};

/// Door that was found.
#[derive(Clone, Debug)]
pub(crate) enum View {
    Cluster(String),
    /// Virtual workspace of an export. `target` is one logical cluster; `None` stands for all (`*`).
    Export {
        export: Export,
        target: Option<String>,
        /// Shard whose logical clusters alone are visible.
        shard: Option<usize>,
    },
}

/// APIExport, by its logical cluster and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Export {
    pub(crate) cluster: String,
    pub(crate) name: String,
}

/// Path of objects that was found.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) resource: Resource,
    pub(crate) reach: Reach,
    pub(crate) namespace: Option<String>,
    /// Export whose APIBindings alone are visible.
    pub(crate) bindings_of: Option<Export>,
    /// Shard whose logical clusters alone are visible.
    pub(crate) shard: Option<usize>,
}

/// Logical clusters that a request is about.
#[derive(Clone, Debug)]
pub(crate) enum Reach {
    One(String),
    /// Every logical cluster that lets the export see its objects.
    Every(Export),
}

/// Finds the place behind the door.
///
/// `shard` is the shard through whose own address the request came; `None` for the front-proxy.
pub(crate) fn enter(world: &World, user: &User, shard: Option<usize>, door: &Door, path: &str) -> ApiResult<View> {
    match door {
        Door::Cluster(_) if world.kind == Kind::Kubernetes => Ok(View::Cluster(ONLY.to_owned())),
        Door::Cluster(name) => match world.cluster_of(name) {
            // Only users who pass every authorizer may enter a system workspace.
            Some(cluster) if cluster == SHARD && !user.is_master() => {
                Err(ApiError::denied_path(&user.name, path, "access denied"))
            }
            Some(cluster) if !world.shards.holds(shard, &cluster) => {
                Err(ApiError::denied_path(&user.name, path, "access denied"))
            }
            Some(cluster) => Ok(View::Cluster(cluster)),
            // The front-proxy leads to a shard only what it knows.
            None if shard.is_none() && world.shards.of_front_proxy().is_some() => {
                Err(ApiError::denied_path(&user.name, path, "workspace access not permitted"))
            }
            None if name.contains(':') => Err(ApiError::not_found("tenancy.kcp.io", "workspaces", name)),
            // Users who may do everything see an unknown id as an empty workspace.
            None if user.is_master() => Ok(View::Cluster(name.clone())),
            None => Err(ApiError::denied_path(&user.name, path, "access denied")),
        },
        Door::Export { cluster, export, target } => {
            let export = Export { cluster: cluster.clone(), name: export.clone() };
            if target.contains(':') {
                let why = "Path not resolved to a valid virtual workspace";
                return Err(ApiError::denied_path(&user.name, path, why));
            }
            if stored_export(world, &export).is_none() {
                return Err(ApiError::no_such_export(path, &export.name));
            }
            let shard = shard.or(world.shards.of_front_proxy());
            Ok(View::Export { export, target: (target != "*").then(|| target.clone()), shard })
        }
    }
}

/// Finds the resource that a path names behind the door, and checks that the verb is possible.
pub(crate) fn resolve(world: &World, user: &User, view: &View, objects: &Objects, verb: &str) -> ApiResult<Target> {
    let (found, reach, bindings_of, shard) = match view {
        View::Cluster(cluster) => {
            let found = world.find(cluster, &objects.group, &objects.version, &objects.plural);
            (found, Reach::One(cluster.clone()), None, None)
        }
        View::Export { export, target, shard } => {
            let is_seen = |cluster: &str| {
                world.shards.holds(*shard, cluster)
                    && is_allowed(world, export, cluster, &objects.group, &objects.plural, Some(verb))
            };
            let reach = match target {
                None if !matches!(verb, "list" | "watch") => return Err(ApiError::not_through_wildcard()),
                None => Reach::Every(export.clone()),
                Some(cluster) if !is_seen(cluster) => {
                    return Err(ApiError::denied(world.kind, &user.name, verb, objects));
                }
                Some(cluster) => Reach::One(cluster.clone()),
            };
            let found = exported(world, export)
                .into_iter()
                .find(|resource| resource.is(&objects.group, &objects.plural) && resource.version == objects.version);
            let bindings_of = found.as_ref().and_then(|resource| only_own_bindings(world, export, resource));
            (found, reach, bindings_of, *shard)
        }
    };
    let resource = found.ok_or_else(|| no_such(objects))?;
    // A virtual workspace ignores the namespace of a cluster-scoped kind.
    let through = matches!(view, View::Export { .. });
    let objects = &Objects {
        namespace: objects.namespace.clone().filter(|_| resource.namespaced || !through),
        ..objects.clone()
    };
    check_shape(&resource, objects, verb)?;
    Ok(Target { resource, reach, namespace: objects.namespace.clone(), bindings_of, shard })
}

/// Returns all resources that an export's virtual workspace serves: its own kinds, the claimed ones, and APIBindings.
pub(crate) fn exported(world: &World, export: &Export) -> Vec<Resource> {
    let Some(stored) = stored_export(world, export) else {
        return Vec::new();
    };
    let origin = Origin::Bound { cluster: export.cluster.clone(), export: export.name.clone() };
    let mut served: Vec<Resource> = array(&stored.object, "/spec/resources")
        .iter()
        .filter_map(|resource| text(resource, "/schema"))
        .filter_map(|schema| world.store.get(&schema_key(&export.cluster, schema)))
        .flat_map(|schema| kinds::defined(&schema.object, &origin))
        .collect();
    let claims = array(&stored.object, "/spec/permissionClaims");
    served.extend(builtin::resources(world.kind).into_iter().filter(|resource| {
        resource.is("apis.kcp.io", "apibindings") || claims.iter().any(|claim| claims_resource(claim, resource))
    }));
    served
}

/// Returns true if the wildcard shows this resource of a logical cluster. The wildcard checks only if a claim was
/// accepted, not for which verbs.
pub(crate) fn sees(world: &World, export: &Export, cluster: &str, resource: &Resource) -> bool {
    is_allowed(world, export, cluster, &resource.group, &resource.plural, None)
}

/// Returns the logical clusters that a wildcard reaches; `None` if the request has no wildcard.
pub(crate) fn reached(world: &World, target: &Target) -> Option<BTreeSet<String>> {
    let Reach::Every(export) = &target.reach else { return None };
    let bindings = world.store.everywhere("apis.kcp.io", "apibindings");
    let clusters: BTreeSet<String> = bindings.into_iter().map(|binding| binding.key.cluster).collect();
    let is_seen =
        |cluster: &String| world.shards.holds(target.shard, cluster) && sees(world, export, cluster, &target.resource);
    Some(clusters.into_iter().filter(is_seen).collect())
}

/// Returns the stored export.
pub(crate) fn stored_export(world: &World, export: &Export) -> Option<StoredObject> {
    world.store.get(&Key::new("apis.kcp.io", "apiexports", &export.cluster, "", &export.name))
}

pub(crate) fn schema_key(cluster: &str, name: &str) -> Key {
    Key::new("apis.kcp.io", "apiresourceschemas", cluster, "", name)
}

/// Returns true if the binding binds this export.
pub(crate) fn binds(binding: &Value, export: &Export) -> bool {
    kinds::bound_export(binding).is_some_and(|(cluster, name)| cluster == export.cluster && name == export.name)
}

/// Returns true if the export's virtual workspace may reach the resource in a logical cluster. It needs a binding
/// there. The export's own kinds are reachable by being bound, other kinds by a claim in which both sides name the
/// verb.
fn is_allowed(world: &World, export: &Export, cluster: &str, group: &str, plural: &str, verb: Option<&str>) -> bool {
    let bindings = world.store.in_cluster("apis.kcp.io", "apibindings", cluster);
    let Some(binding) = bindings.iter().find(|binding| binds(&binding.object, export)) else { return false };
    let names =
        |entry: &Value| text(entry, "/group").unwrap_or_default() == group && text(entry, "/resource") == Some(plural);
    if array(&binding.object, "/status/boundResources").iter().any(names) {
        return true;
    }
    let asked = stored_export(world, export);
    let asked = asked.as_ref().map_or(&[][..], |export| array(&export.object, "/spec/permissionClaims"));
    let granted = array(&binding.object, "/spec/permissionClaims");
    let accepted = granted
        .iter()
        .filter(|claim| text(claim, "/state") == Some("Accepted") && names(claim) && has_verb(claim, verb))
        .any(|_| asked.iter().any(|asked| names(asked) && has_verb(asked, verb)));
    // APIBindings are always readable. Writing them needs a claim.
    accepted
        || (group, plural) == ("apis.kcp.io", "apibindings") && matches!(verb, None | Some("get" | "list" | "watch"))
}

fn claims_resource(claim: &Value, resource: &Resource) -> bool {
    text(claim, "/group").unwrap_or_default() == resource.group && text(claim, "/resource") == Some(&resource.plural)
}

fn has_verb(claim: &Value, verb: Option<&str>) -> bool {
    verb.is_none_or(|verb| array(claim, "/verbs").iter().any(|known| known == verb || known == "*"))
}

/// Returns the export if only APIBindings to it are visible. All APIBindings are visible if the export claims them.
fn only_own_bindings(world: &World, export: &Export, resource: &Resource) -> Option<Export> {
    let claimed = stored_export(world, export).is_some_and(|stored| {
        array(&stored.object, "/spec/permissionClaims").iter().any(|claim| claims_resource(claim, resource))
    });
    (resource.is("apis.kcp.io", "apibindings") && !claimed).then(|| export.clone())
}

fn no_such(objects: &Objects) -> ApiError {
    let compiled_in = builtin::is_compiled_in(&objects.group, &objects.version);
    if compiled_in { ApiError::no_such_resource() } else { ApiError::no_such_path() }
}

/// Returns a 404 if a path has a namespace that its kind has not, or lacks one that its kind needs.
fn check_shape(resource: &Resource, objects: &Objects, verb: &str) -> ApiResult<()> {
    let namespaced = objects.namespace.is_some();
    let across = matches!(verb, "list" | "watch");
    if namespaced && !resource.namespaced || !namespaced && resource.namespaced && !across {
        return Err(no_such(objects));
    }
    match objects.subresource.as_deref() {
        None => {}
        Some("status") if resource.status && matches!(verb, "get" | "update" | "patch") => {}
        Some(SCALE) if resource.scale.is_some() && matches!(verb, "get" | "update" | "patch") => {}
        Some(EVICTION | BINDING) if resource.is("", "pods") && verb == "create" => {}
        Some(FINALIZE) if resource.is("", "namespaces") && verb == "update" => {}
        Some(TOKEN) if resource.is("", "serviceaccounts") && verb == "create" => {}
        Some(TOKEN) if resource.is("", "serviceaccounts") => return Err(ApiError::method_not_allowed()),
        Some(_) => return Err(no_such(objects)),
    }
    if !resource.verbs().contains(&verb) {
        return Err(ApiError::method_not_allowed());
    }
    Ok(())
}
