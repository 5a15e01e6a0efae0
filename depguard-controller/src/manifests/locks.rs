//! What locks need of an API server: their kinds, and the rights of who reads and writes them.

mod compat;
mod rights;
mod schema;

use depguard_core::Home;
use serde_json::Value;

use super::definition::Definition;
use super::{File, Place, ReadThrough, Setup, YamlError, binding, configurations_claim, export, rights_in_places};

pub use compat::compat_crd;

/// The APIExport of locks, beside the one of rules: who holds locks need not be a provider.
pub const LOCK_EXPORT: &str = "locks.dependencies.opendefense.cloud";

/// The rights of locks, and of those of the older tool, as far as they are switched on.
pub(super) fn rights(setup: &Setup) -> Vec<(Place, Vec<Value>)> {
    let locks = if setup.enable.locks { rights::of_locks(setup) } else { Vec::new() };
    let compat = has_compat(setup).then(|| (Place::Cluster, rights::of_compat_locks()));
    locks.into_iter().chain(compat).collect()
}

/// The files of locks, and of those of the older tool, as far as they are switched on.
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
        let place = "Apply in the cluster. The kind is the older tool's: where that is installed, it is there already.";
        files.push(File::new("compat-lock-crd.yaml", place, &[compat_crd()])?);
        files.push(File::new(
            "compat-lock-rbac.yaml",
            "Apply in the cluster, beside rbac.yaml.",
            &rights::of_compat_locks(),
        )?);
    }
    Ok(files)
}

/// The CustomResourceDefinitions of home kubernetes.
pub fn lock_crds() -> Vec<Value> {
    schema::all().iter().map(Definition::crd).collect()
}

/// The APIResourceSchemas of home kcp. Their names hold a hash of their content.
pub fn lock_schemas() -> Vec<Value> {
    schema::all().iter().map(Definition::api_resource_schema).collect()
}

/// The APIExport of locks.
pub fn lock_export() -> Value {
    export(LOCK_EXPORT, &schema::all(), &[configurations_claim()])
}

/// The APIBinding with which a tenant gets locks, its claim accepted.
///
/// `dep_ctrl_path` is the path of the workspace of depguard's APIExports.
pub fn tenant_binding(dep_ctrl_path: &str) -> Value {
    binding(dep_ctrl_path, LOCK_EXPORT, vec![configurations_claim()])
}

fn on_shards(way: &str, beside: &str) -> String {
    format!("For --read-through {way}. Apply in the workspace system:admin of every shard, beside {beside}.")
}

fn has_compat(setup: &Setup) -> bool {
    setup.home == Home::Kubernetes && !setup.enable.compat_lock_kinds.is_empty()
}

fn kinds(setup: &Setup) -> Result<Vec<File>, YamlError> {
    Ok(match setup.home {
        Home::Kubernetes => vec![File::new("locks-crd.yaml", "Apply in the cluster.", &lock_crds())?],
        Home::Kcp => vec![
            File::new("locks-apiresourceschemas.yaml", "Apply in depguard's own workspace.", &lock_schemas())?,
            File::new(
                "locks-apiexport.yaml",
                "Apply in depguard's own workspace, after the APIResourceSchemas.",
                &[lock_export()],
            )?,
            File::new(
                "locks-apibinding-tenant.yaml",
                "Apply in each workspace where locks are to be made. The claim is what kinds of that workspace itself are\n\
                 # locked by.",
                &[tenant_binding(&setup.dep_ctrl_path)],
            )?,
        ],
    })
}
