//! kcp's controllers of APIExports and APIBindings: identities, endpoint slices, and binding.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::kinds::{BOUND_CLUSTER, BOUND_RESOURCE, bound_export, storage_versions};
use crate::protocol::json::{array, is_terminating, map_at, set_condition, text};
use crate::request::view::{Export, schema_key, stored_export};
use crate::store::{Key, StoredObject};
use crate::world::faults::Fault;
use crate::world::{World, logical_cluster_key};

/// Reconciles exports, slices and bindings as kcp does.
pub(crate) fn reconcile(world: &World) {
    for export in world.store.everywhere("apis.kcp.io", "apiexports") {
        reconcile_export(world, &export);
    }
    for binding in world.store.everywhere("apis.kcp.io", "apibindings") {
        if !is_terminating(&binding.object) {
            reconcile_binding(world, &binding);
        }
    }
    let mut consumers: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for binding in world.store.everywhere("apis.kcp.io", "apibindings") {
        if let Some(export) = bound_export(&binding.object) {
            consumers.entry(export).or_default().push(binding.key.cluster);
        }
    }
    for slice in world.store.everywhere("apis.kcp.io", "apiexportendpointslices") {
        reconcile_slice(world, &slice, &consumers);
    }
}

fn reconcile_export(world: &World, export: &StoredObject) {
    let identity = identity_of(&export.object);
    world.edit(&export.key, |object| {
        let status = map_at(object, &["status"]);
        status.insert("identityHash".to_owned(), json!(identity));
        set_condition(object, "IdentityValid", "True", "", "");
    });
    let slice = Key { resource: "apiexportendpointslices".to_owned(), ..export.key.clone() };
    if world.store.get(&slice).is_none() && !is_going(world, export) {
        let path = world.path_of(&export.key.cluster);
        let object = json!({
            "metadata": {"name": export.key.name},
            "spec": {"export": {"path": path, "name": export.key.name}},
        });
        world.seed(&export.key.cluster, "apis.kcp.io", "apiexportendpointslices", "", object);
    }
}

/// Returns true if the export or its workspace is being deleted. Its slice is not made anew then.
fn is_going(world: &World, export: &StoredObject) -> bool {
    let workspace = world.store.get(&logical_cluster_key(&export.key.cluster));
    is_terminating(&export.object) || workspace.is_none_or(|workspace| is_terminating(&workspace.object))
}

/// Writes the URL of the export's virtual workspace into its slice once somebody has bound the export. `consumers` maps
/// each export to the logical clusters that bind it.
fn reconcile_slice(world: &World, slice: &StoredObject, consumers: &BTreeMap<(String, String), Vec<String>>) {
    let name = text(&slice.object, "/spec/export/name").unwrap_or_default();
    let cluster = match text(&slice.object, "/spec/export/path") {
        Some(path) => world.cluster_of(path),
        None => Some(slice.key.cluster.clone()),
    };
    let export = cluster.map(|cluster| Export { cluster, name: name.to_owned() });
    let export = export.filter(|export| stored_export(world, export).is_some());
    let mut endpoints = Vec::new();
    if let Some(export) = export.as_ref().filter(|_| !world.faults.is_on(Fault::NoEndpoints)) {
        let bound = consumers.get(&(export.cluster.clone(), export.name.clone())).cloned().unwrap_or_default();
        let hosts = match world.shards.of_front_proxy() {
            Some(_) => world.shards.listed(&slice.key, bound),
            None => bound.first().map(|_| world.url.clone()).into_iter().collect(),
        };
        let Export { cluster, name } = export;
        endpoints
            .extend(hosts.iter().map(|host| json!({"url": format!("{host}/services/apiexport/{cluster}/{name}")})));
    }
    world.edit(&slice.key, |object| {
        map_at(object, &["status"]).insert("endpoints".to_owned(), json!(endpoints));
    });
}

/// Binds an export: copies its schemas, so that the kinds stay served whatever happens to the schemas.
fn reconcile_binding(world: &World, binding: &StoredObject) {
    let reference = binding.object.pointer("/spec/reference/export");
    let name = reference.and_then(|reference| text(reference, "/name")).unwrap_or_default();
    let cluster = match reference.and_then(|reference| text(reference, "/path")) {
        Some(path) => world.cluster_of(path),
        None => Some(binding.key.cluster.clone()),
    };
    let export = cluster.map(|cluster| Export { cluster, name: name.to_owned() });
    let found = export.and_then(|export| stored_export(world, &export).map(|stored| (export, stored)));
    let Some((export, stored)) = found else {
        // A binding stays bound until it is deleted, even if its export is gone.
        if text(&binding.object, "/status/phase") != Some("Bound") {
            world.edit(&binding.key, |object| {
                map_at(object, &["status"]).insert("phase".to_owned(), json!("Binding"));
                set_condition(
                    object,
                    "APIExportValid",
                    "False",
                    "APIExportNotFound",
                    &format!("APIExport {name} not found"),
                );
            });
        }
        return;
    };
    match bind_resources(world, &export, &stored.object) {
        Ok(resources) => {
            let claims = applied_claims(&binding.object, &stored.object);
            world.edit(&binding.key, |object| {
                let status = map_at(object, &["status"]);
                status.insert("phase".to_owned(), json!("Bound"));
                status.insert("apiExportClusterName".to_owned(), json!(export.cluster));
                status.insert("boundResources".to_owned(), json!(resources));
                status.insert("appliedPermissionClaims".to_owned(), json!(claims));
                status.insert("exportPermissionClaims".to_owned(), stored.object["spec"]["permissionClaims"].clone());
                for condition in [
                    "APIExportValid",
                    "BindingUpToDate",
                    "InitialBindingCompleted",
                    "PermissionClaimsValid",
                    "PermissionClaimsApplied",
                    "Ready",
                ] {
                    set_condition(object, condition, "True", "", "");
                }
            });
        }
        Err(missing) => {
            world.edit(&binding.key, |object| {
                let why = format!("APIResourceSchema {missing} not found");
                set_condition(object, "APIExportValid", "False", "InternalError", &why);
            });
        }
    }
}

/// Returns the export's resources as a binding's status lists them. The error is the name of a missing schema.
fn bind_resources(world: &World, export: &Export, object: &Value) -> Result<Vec<Value>, String> {
    let identity = identity_of(object);
    array(object, "/spec/resources")
        .iter()
        .map(|resource| {
            let name = text(resource, "/schema").unwrap_or_default();
            let schema = world.store.get(&schema_key(&export.cluster, name)).ok_or(name)?;
            let uid = text(&schema.object, "/metadata/uid").unwrap_or_default();
            keep_schema(world, uid, &schema.object);
            Ok(json!({
                "group": text(&schema.object, "/spec/group").unwrap_or_default(),
                "resource": text(&schema.object, "/spec/names/plural").unwrap_or_default(),
                "schema": {"name": name, "UID": uid, "identityHash": identity},
                "storageVersions": storage_versions(&schema.object),
            }))
        })
        .collect::<Result<_, &str>>()
        .map_err(str::to_owned)
}

fn keep_schema(world: &World, uid: &str, schema: &Arc<Value>) {
    let key = Key::new("", BOUND_RESOURCE, BOUND_CLUSTER, "", uid);
    if world.store.get(&key).is_none() {
        // If somebody else was faster, the schema is there already, which suffices.
        world.store.create(key, (**schema).clone()).ok();
    }
}

/// Returns the claims on which both sides agree.
fn applied_claims(binding: &Value, export: &Value) -> Vec<Value> {
    let asked = array(export, "/spec/permissionClaims");
    let same = |one: &Value, other: &Value| {
        text(one, "/group") == text(other, "/group") && text(one, "/resource") == text(other, "/resource")
    };
    array(binding, "/spec/permissionClaims")
        .iter()
        .filter(|claim| text(claim, "/state") == Some("Accepted") && asked.iter().any(|asked| same(asked, claim)))
        .map(|claim| {
            let mut claim = claim.clone();
            let fields = map_at(&mut claim, &[]);
            fields.remove("state");
            fields.entry("identityHash").or_insert(json!(""));
            claim
        })
        .collect()
}

/// Returns an identity that stays the same as long as the export lives, and that no other export has.
fn identity_of(export: &Value) -> String {
    let mut hasher = DefaultHasher::new();
    text(export, "/metadata/uid").hash(&mut hasher);
    let hash = hasher.finish();
    format!("{hash:016x}").repeat(4)
}
