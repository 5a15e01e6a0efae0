//! Right of the webhook to write Events about refusals, in plain Kubernetes.

use depguard_core::ControlPlane;
use serde_json::Value;

use crate::manifests::rbac::{WEBHOOK, allow, granted, of_account};
use crate::manifests::{File, Place, Setup, YamlError, rights_in_places};

/// Returns the right, if these Events are switched on.
pub(super) fn rights(setup: &Setup) -> Vec<(Place, Vec<Value>)> {
    if setup.control_plane != ControlPlane::Kubernetes || !setup.enable.denial_events {
        return Vec::new();
    }
    let events = allow("events.k8s.io", ["events"], &["create"]);
    vec![(Place::Cluster, granted(&format!("{WEBHOOK}-denial-events"), &of_account(WEBHOOK), &[events]))]
}

/// Returns the file with the right, if these Events are switched on.
pub(super) fn files(setup: &Setup) -> Result<Vec<File>, YamlError> {
    let apply =
        "Apply in the cluster, beside rbac.yaml. The webhook creates Events beside the objects of refused requests.";
    rights_in_places(rights(setup), |_| ("denial-events-rbac.yaml", apply.to_owned()))
}
