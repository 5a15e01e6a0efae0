//! Objects that locks need of an API server: their kinds, and the rights to read and write them.

mod compat;
mod rights;
mod schema;

use depguard_core::ControlPlane;
use serde_json::Value;

use crate::manifests::definition::Definition;
use crate::manifests::{
    File, Place, ReadThrough, Setup, YamlError, binding, configurations_claim, export, rights_in_places,
};
use crate::model::names::LOCK_EXPORT;

pub use compat::compat_crd;

/// Returns the rights of locks and of the older tool's Locks, as far as these are switched on.
pub(super) fn rights(setup: &Setup) -> Vec<(Place, Vec<Value>)> {
    let locks = if setup.enable.locks { rights::of_locks(setup) } else { Vec::new() };
    let compat = has_compat(setup).then(|| (Place::Cluster, rights::of_compat_locks()));
    locks.into_iter().chain(compat).collect()
}

/// Returns the files of locks and of the older tool's Locks, as far as these are switched on.
pub(super) fn files(setup: &Setup) -> Result<Vec<File>, YamlError> {
    let mut files = Vec::new();
    if setup.enable.locks {
        files.extend(kinds(setup)?);
        files.extend(rights_in_places(rights::of_locks(setup), |place| match (place, setup.read_through) {
            (Place::Cluster, _) => ("locks-rbac.yaml", "Apply in the cluster, beside rbac.yaml.".to_owned()),
            (Place::DepCtrl, _) => ("locks-rbac-dep-ctrl.yaml", "Apply in depguard's own workspace.".to_owned()),
            (_, ReadThrough::FrontProxy) => ("locks-rbac-shard.yaml", on_shards("front-proxy", "rbac-shard.yaml")),
            (_, ReadThrough::Export) => ("locks-rbac-shard-export.yaml", on_shards("export", "rbac-shard-export.yaml")),
        })?);
    }
    if has_compat(setup) {
        let place = "Apply in the cluster. The kind belongs to the older tool: if that tool is installed, the kind \
                     exists already.";
        files.push(File::new("compat-lock-crd.yaml", place, &[compat_crd()])?);
        files.push(File::new(
            "compat-lock-rbac.yaml",
            "Apply in the cluster, beside rbac.yaml.",
            &rights::of_compat_locks(),
        )?);
    }
    Ok(files)
}

/// Returns the CustomResourceDefinitions of locks, for plain Kubernetes.
pub fn lock_crds() -> Vec<Value> {
    schema::all().iter().map(Definition::crd).collect()
}

/// Returns the APIResourceSchemas of locks, for kcp. Their names hold a hash of their content.
pub fn lock_schemas() -> Vec<Value> {
    schema::all().iter().map(Definition::api_resource_schema).collect()
}

/// Returns the APIExport of locks.
pub fn lock_export() -> Value {
    export(LOCK_EXPORT, &schema::all(), &[configurations_claim()])
}

/// Returns the APIBinding with which a tenant gets locks, its claim accepted.
///
/// `dep_ctrl_path` is the path of the workspace of depguard's APIExports.
pub fn tenant_binding(dep_ctrl_path: &str) -> Value {
    binding(dep_ctrl_path, LOCK_EXPORT, vec![configurations_claim()])
}

fn on_shards(way: &str, beside: &str) -> String {
    format!("For --read-through {way}. Apply in the workspace system:admin of every shard, beside {beside}.")
}

fn has_compat(setup: &Setup) -> bool {
    setup.control_plane == ControlPlane::Kubernetes && !setup.enable.compat_lock_kinds.is_empty()
}

fn kinds(setup: &Setup) -> Result<Vec<File>, YamlError> {
    Ok(match setup.control_plane {
        ControlPlane::Kubernetes => vec![File::new("locks-crd.yaml", "Apply in the cluster.", &lock_crds())?],
        ControlPlane::Kcp => vec![
            File::new("locks-apiresourceschemas.yaml", "Apply in depguard's own workspace.", &lock_schemas())?,
            File::new(
                "locks-apiexport.yaml",
                "Apply in depguard's own workspace, after the APIResourceSchemas.",
                &[lock_export()],
            )?,
            File::new(
                "locks-apibinding-tenant.yaml",
                "Apply in each workspace in which users create locks. With the claim, locks can name the workspace's\n\
                 # own kinds.",
                &[tenant_binding(&setup.dep_ctrl_path)],
            )?,
        ],
    })
}
