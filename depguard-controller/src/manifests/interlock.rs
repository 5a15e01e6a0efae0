//! Objects that the interlock needs of an API server: the kind of reference registers, the rights to read and write
//! them, and on plain Kubernetes the policy by which nobody else writes them. All registers are in one place, the cluster or depguard's own workspace; no provider and no consumer sees them.

mod policy;

use depguard_core::interlock::{KIND, PLURAL, register_schema};
use depguard_core::{ControlPlane, api};
use depguard_kcp::RegisterKeySecret;
use serde_json::{Value, json};

use crate::manifests::definition::{Definition, column, if_wide, object_schema};
use crate::manifests::rbac::{CONTROLLER, WEBHOOK, allow, granted, in_namespace, of_account, outside, own_user};
use crate::manifests::structural::structural;
use crate::manifests::{File, NAMESPACE, Place, ReadThrough, Setup, YamlError, rights_in_places, with};

pub use policy::register_policy;

/// Verb by which the webhook sees what became of a dependent that it has allowed, although somebody deleted it at once.
pub(super) const FOLLOW: [&str; 1] = ["watch"];

/// Returns the rights of the interlock, if it is switched on.
pub(super) fn rights(setup: &Setup) -> Vec<(Place, Vec<Value>)> {
    if setup.enable.registers.is_none() {
        return Vec::new();
    }
    let (place, controller, webhook) = match setup.control_plane {
        ControlPlane::Kubernetes => (Place::Cluster, of_account(CONTROLLER), of_account(WEBHOOK)),
        ControlPlane::Kcp => (Place::DepCtrl, own_user(setup, CONTROLLER), own_user(setup, WEBHOOK)),
    };
    let reads_everything = setup.control_plane == ControlPlane::Kcp && setup.read_through == ReadThrough::FrontProxy;
    let verbs: &[&str] = if reads_everything { &["update"] } else { &["get", "update"] };
    let registers = |verbs: &[&str]| allow(api::GROUP, [PLURAL], verbs);
    let controller_rights =
        granted(&name(CONTROLLER), &controller, &[registers(&["list", "create", "update", "delete"])]);
    let mut objects = [controller_rights, granted(&name(WEBHOOK), &webhook, &[registers(verbs)])].concat();
    // The key of the registers is where only depguard and administrators read.
    let secret =
        |verbs: &[&str]| with(allow("", ["secrets"], verbs), "resourceNames", json!([RegisterKeySecret::NAME]));
    let made = [allow("", ["secrets"], &["create"]), secret(&["get", "delete"])];
    objects.extend(in_namespace(&name(CONTROLLER), NAMESPACE, &controller, &made));
    if !reads_everything {
        objects.extend(in_namespace(&name(WEBHOOK), NAMESPACE, &webhook, &[secret(&["get"])]));
    }
    let follow = |place, right| (place, granted(&name(WEBHOOK), &outside(setup, WEBHOOK), &[right]));
    let dependents = match (setup.control_plane, setup.read_through) {
        // Whoever writes a rule grants the webhook its dependents.
        (ControlPlane::Kubernetes, _) => None,
        (ControlPlane::Kcp, ReadThrough::FrontProxy) => Some(follow(Place::Shards, allow("*", ["*"], &FOLLOW))),
        (ControlPlane::Kcp, ReadThrough::Export) => {
            Some(follow(Place::Providers, allow("apis.kcp.io", ["apiexports/content"], &FOLLOW)))
        }
    };
    [(place, objects)].into_iter().chain(dependents).collect()
}

/// Returns the files of the interlock, if it is switched on.
pub(super) fn files(setup: &Setup) -> Result<Vec<File>, YamlError> {
    if setup.enable.registers.is_none() {
        return Ok(Vec::new());
    }
    let place = "Apply in the cluster; in kcp, in depguard's own workspace.";
    let mut files = vec![File::new("interlock-crd.yaml", place, &[register_crd()])?];
    files.extend(rights_in_places(rights(setup), |place| match (place, setup.read_through) {
        (Place::DepCtrl, ReadThrough::FrontProxy) => (
            "interlock-rbac-dep-ctrl.yaml",
            "For --read-through front-proxy. Apply in depguard's own workspace. The webhook reads registers and their key by\n\
             # its right on the shard."
                .to_owned(),
        ),
        (Place::DepCtrl, ReadThrough::Export) => (
            "interlock-rbac-dep-ctrl-export.yaml",
            "For --read-through export. Apply in depguard's own workspace.".to_owned(),
        ),
        (Place::Shards, _) => (
            "interlock-rbac-shard.yaml",
            "For --read-through front-proxy. Apply in the workspace system:admin of every shard, beside rbac-shard.yaml.".to_owned(),
        ),
        (Place::Providers, _) => (
            "interlock-rbac-provider-export.yaml",
            "For --read-through export. Apply in the workspace of each provider of dependents, beside\n\
             # rbac-provider-export.yaml."
                .to_owned(),
        ),
        _ => ("interlock-rbac.yaml", "Apply in the cluster, beside rbac.yaml.".to_owned()),
    })?);
    if setup.control_plane == ControlPlane::Kubernetes {
        let place = "Apply in the cluster, from Kubernetes 1.30 on: older ones do not serve this version of the kinds. There,\n\
                     # let nobody else write referenceregisters.dependencies.opendefense.cloud.";
        files.push(File::new("interlock-policy.yaml", place, &register_policy())?);
    }
    Ok(files)
}

/// Returns the CustomResourceDefinition of reference registers, for both control planes: in kcp they are in depguard's own
/// workspace and in no APIExport.
pub fn register_crd() -> Value {
    let description = "ReferenceRegister says which references to some objects, and which deletions of these objects, may \
        be under way. It is depguard's own, and written by nobody else.";
    let definition = Definition {
        group: api::GROUP,
        version: api::VERSION,
        kind: KIND,
        plural: PLURAL,
        short: Some("refreg"),
        scope: "Cluster",
        columns: vec![if_wide(column("Open for", "string", ".spec.openFor"))],
        subresources: Some(json!({})),
        schema: object_schema(KIND, description, &["spec"], &[("spec", structural(register_schema))]),
    };
    definition.crd()
}

fn name(account: &str) -> String {
    format!("{account}-interlock")
}
