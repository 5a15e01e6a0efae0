//! What can be seen and written through which door: a logical cluster's own kinds, or an
//! export's virtual workspace.

use serde_json::Value;

use crate::json::{array, text};
use crate::kinds::{self, Origin, Resource};
use crate::routes::{Door, Objects};
use crate::status::{ApiError, ApiResult};
use crate::store::{Key, Stored};
use crate::world::{ONLY, World};
use crate::{Kind, builtin};

/// A door that was found.
#[derive(Clone, Debug)]
pub(crate) enum View {
    Cluster(String),
    /// `target` = `None`: every logical cluster (`*`).
    Export {
        export: Export,
        target: Option<String>,
    },
}

/// An APIExport by the logical cluster it lies in and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Export {
    pub(crate) cluster: String,
    pub(crate) name: String,
}

/// A path of objects that was found.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) resource: Resource,
    pub(crate) reach: Reach,
    pub(crate) namespace: Option<String>,
    /// Only APIBindings to this export are seen.
    pub(crate) bindings_of: Option<Export>,
}

/// Whose objects are meant.
#[derive(Clone, Debug)]
pub(crate) enum Reach {
    One(String),
    /// Those of every logical cluster that lets the export see them.
    Every(Export),
}

/// Finds what the door leads to.
pub(crate) fn enter(world: &World, door: &Door) -> ApiResult<View> {
    match door {
        Door::Cluster(_) if world.kind == Kind::Kubernetes => Ok(View::Cluster(ONLY.to_owned())),
        Door::Cluster(name) => {
            let cluster = world.cluster_of(name);
            cluster.map(View::Cluster).ok_or_else(|| ApiError::forbidden_path("access denied"))
        }
        Door::Export { cluster, export, target } => {
            let export = Export { cluster: cluster.clone(), name: export.clone() };
            let denied = || ApiError::forbidden_path("access denied");
            stored_export(world, &export).ok_or_else(denied)?;
            let target = match target.as_str() {
                "*" => None,
                name => Some(world.cluster_of(name).ok_or_else(denied)?),
            };
            Ok(View::Export { export, target })
        }
    }
}

/// Finds the resource a path names behind the door, and checks that it may be used that way.
pub(crate) fn resolve(world: &World, view: &View, objects: &Objects, verb: &str) -> ApiResult<Target> {
    let (resource, reach, bindings_of) = match view {
        View::Cluster(cluster) => {
            let resource = world.find(cluster, &objects.group, &objects.version, &objects.plural);
            (resource.ok_or_else(ApiError::unknown_resource)?, Reach::One(cluster.clone()), None)
        }
        View::Export { export, target } => {
            let resource = exported(world, export)
                .into_iter()
                .find(|resource| resource.is(&objects.group, &objects.plural) && resource.version == objects.version)
                .ok_or_else(ApiError::unknown_resource)?;
            let bindings_of = only_own_bindings(world, export, &resource);
            let reach = match target {
                None => Reach::Every(export.clone()),
                Some(cluster) => {
                    allowed(world, export, cluster, &resource, verb)?;
                    Reach::One(cluster.clone())
                }
            };
            (resource, reach, bindings_of)
        }
    };
    check_shape(&resource, objects, verb)?;
    Ok(Target { resource, reach, namespace: objects.namespace.clone(), bindings_of })
}

/// Everything an export's virtual workspace serves: its own kinds, the claimed ones, and APIBindings.
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

/// Whether the export may see this resource in a logical cluster at all.
pub(crate) fn sees(world: &World, export: &Export, cluster: &str, resource: &Resource) -> bool {
    allowed(world, export, cluster, resource, "list").is_ok()
}

/// The export as stored.
pub(crate) fn stored_export(world: &World, export: &Export) -> Option<Stored> {
    world.store.get(&Key::new("apis.kcp.io", "apiexports", &export.cluster, "", &export.name))
}

pub(crate) fn schema_key(cluster: &str, name: &str) -> Key {
    Key::new("apis.kcp.io", "apiresourceschemas", cluster, "", name)
}

/// Whether a binding is one to this export.
pub(crate) fn binds(binding: &Value, export: &Export) -> bool {
    kinds::bound_export(binding).is_some_and(|(cluster, name)| cluster == export.cluster && name == export.name)
}

/// A virtual workspace reaches a logical cluster only through a binding there: the export's own
/// kinds by being bound, others by a claim that both sides name the verb in.
fn allowed(world: &World, export: &Export, cluster: &str, resource: &Resource, verb: &str) -> ApiResult<()> {
    let forbidden = |why: &str| Err(ApiError::forbidden(&resource.group, &resource.plural, "", why));
    let bindings = world.store.in_cluster("apis.kcp.io", "apibindings", cluster);
    let Some(binding) = bindings.iter().find(|binding| binds(&binding.object, export)) else {
        return forbidden("access denied: could not find suitable APIBinding in target logical cluster");
    };
    let is_bound = array(&binding.object, "/status/boundResources").iter().any(|bound| {
        text(bound, "/group").unwrap_or_default() == resource.group
            && text(bound, "/resource") == Some(&resource.plural)
    });
    if is_bound {
        return Ok(());
    }
    let asked = stored_export(world, export);
    let asked = asked.as_ref().map_or(&[][..], |export| array(&export.object, "/spec/permissionClaims"));
    let granted = array(&binding.object, "/spec/permissionClaims");
    let accepted = granted
        .iter()
        .filter(|claim| text(claim, "/state") == Some("Accepted") && claims_resource(claim, resource))
        .any(|claim| {
            has_verb(claim, verb) && asked.iter().any(|asked| claims_resource(asked, resource) && has_verb(asked, verb))
        });
    if accepted {
        return Ok(());
    }
    if resource.is("apis.kcp.io", "apibindings") {
        if matches!(verb, "get" | "list" | "watch") {
            return Ok(());
        }
        return forbidden("write access to APIBinding is not allowed from virtual workspace");
    }
    forbidden("access denied: failed to find suitable reason to allow access in APIBinding")
}

fn claims_resource(claim: &Value, resource: &Resource) -> bool {
    text(claim, "/group").unwrap_or_default() == resource.group && text(claim, "/resource") == Some(&resource.plural)
}

fn has_verb(claim: &Value, verb: &str) -> bool {
    array(claim, "/verbs").iter().any(|known| known == verb || known == "*")
}

/// APIBindings are always there to see, but only those to the export, unless it claims them.
fn only_own_bindings(world: &World, export: &Export, resource: &Resource) -> Option<Export> {
    let claimed = stored_export(world, export).is_some_and(|stored| {
        array(&stored.object, "/spec/permissionClaims").iter().any(|claim| claims_resource(claim, resource))
    });
    (resource.is("apis.kcp.io", "apibindings") && !claimed).then(|| export.clone())
}

/// A namespace where there is none, or none where one is needed: there is no such path.
fn check_shape(resource: &Resource, objects: &Objects, verb: &str) -> ApiResult<()> {
    let namespaced = objects.namespace.is_some();
    let across = matches!(verb, "list" | "watch");
    if namespaced && !resource.namespaced || !namespaced && resource.namespaced && !across {
        return Err(ApiError::unknown_resource());
    }
    match objects.subresource.as_deref() {
        None => {}
        Some("status") if resource.status && matches!(verb, "get" | "update" | "patch") => {}
        Some(_) => return Err(ApiError::unknown_resource()),
    }
    if !resource.verbs().contains(&verb) {
        return Err(ApiError::method_not_allowed());
    }
    Ok(())
}
