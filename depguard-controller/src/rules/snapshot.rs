//! Input of a plan, made from a snapshot of the watched objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use depguard_core::applicability::RuleGrants;
use depguard_core::{ControlPlane, LogicalCluster};
use depguard_kcp::{Features, ReadThrough, Readiness, Snapshot, Watched, WatchedObject, WatchedResource};
use serde_json::Value;

use crate::model::api_bindings::Bindings;
use crate::model::api_exports::Exports;
use crate::model::configuration_key::{ConfigurationKey, Side};
use crate::model::names::LOCKS_CONFIGURATION;
use crate::rules::plan::PlanInput;
use crate::rules::written_rule::WrittenRules;
use crate::runtime::client_config::Clients;

pub(crate) const CONFIGURATIONS: &str = "validatingwebhookconfigurations";

/// Returns the resources to watch for rules. With locks in kcp, these include the configurations of locks in
/// workspaces that have not bound the APIExport of locks.
pub(crate) fn watched(control_plane: ControlPlane, features: &Features) -> Vec<Watched> {
    let mut watched = vec![Watched::RULES, configuration(Side::Targets.configuration()), REFERENCES];
    match control_plane {
        // In kcp nobody watches depguard's own workspace.
        ControlPlane::Kubernetes => watched.push(SPEC_ADMISSION),
        ControlPlane::Kcp => {
            watched.extend([Watched::BINDINGS, Watched::EXPORTS]);
            if features.locks {
                watched.push(Watched { required: false, ..configuration(LOCKS_CONFIGURATION) });
            }
        }
    }
    watched
}

/// Configurations about references. Rules that look for no target must work under an account that has no right to them,
/// because an older version granted its rights.
const REFERENCES: Watched = Watched { required: false, ..configuration(Side::Dependents.configuration()) };

/// Configuration about rules themselves, to which an older version granted no rights either.
const SPEC_ADMISSION: Watched = Watched { required: false, ..configuration(Side::Rules.configuration()) };

/// Returns the watch of the webhook configurations of this name.
pub(crate) const fn configuration(name: &'static str) -> Watched {
    Watched {
        group: "admissionregistration.k8s.io",
        version: "v1",
        plural: CONFIGURATIONS,
        kind: "ValidatingWebhookConfiguration",
        required: true,
        names: Some(name),
        fields: None,
    }
}

/// URL at which each workspace that has bound an export can be reached: that of the virtual workspace that shows its binding.
pub(crate) type Origins = BTreeMap<LogicalCluster, Arc<str>>;

/// Makes the input of a plan from `state`, without results of look-ups, and the URLs of the workspaces.
pub(crate) fn plan_input<'v>(
    control_plane: ControlPlane,
    read_through: ReadThrough,
    export_name: &'v str,
    state: &'v Snapshot,
    written: &WrittenRules,
    clients: Clients,
) -> (PlanInput<'v>, Origins) {
    let configurations = configurations(state).map(|(key, found)| (key, found.text.read()));
    let (origins, ours): (Vec<_>, Vec<_>) = ours(export_name, state).unzip();
    let exports: Vec<_> = values(state, Watched::EXPORTS).collect();
    // Rule grants that can't be watched any more may have changed: then everybody's rules count, as they do for the
    // webhook.
    let is_followed = state.is_followed(Watched::EXPORTS.plural, Snapshot::PATIENCE);
    let grants = RuleGrants::read(exports.iter().filter(|_| is_followed), &ours);
    let input = PlanInput {
        control_plane,
        read_through,
        export_name,
        rules: written.read(state),
        further: written.further(state),
        bindings: Bindings::read(&ours),
        configurations: configurations.collect(),
        exports: served(state.resource(Watched::EXPORTS.plural), exports),
        rule_grants: grants,
        lookups: BTreeMap::new(),
        clients,
    };
    (input, origins.into_iter().flatten().collect())
}

/// Returns the configurations for rules, of both sides.
fn configurations(state: &Snapshot) -> impl Iterator<Item = (ConfigurationKey, &WatchedObject)> {
    let of_side = |side: Side| {
        let is_of_side = move |resource: &&Arc<WatchedResource>| resource.watched.names == Some(side.configuration());
        let objects = state.resources().iter().filter(is_of_side).flat_map(|resource| &resource.objects);
        objects.map(move |((cluster, _), found)| (ConfigurationKey::new(cluster.clone(), side), found))
    };
    Side::ALL.into_iter().flat_map(of_side)
}

/// Returns the workspaces that have bound depguard.
pub(crate) fn bindings(export_name: &str, state: &Snapshot) -> Bindings {
    bound(export_name, state).0
}

/// Returns the workspaces that have bound this export, and their URLs.
pub(crate) fn bound(export_name: &str, state: &Snapshot) -> (Bindings, Origins) {
    let mut origins = Origins::new();
    let bindings = ours(export_name, state).map(|(origin, binding)| {
        origins.extend(origin);
        binding
    });
    (Bindings::read(bindings), origins)
}

/// Returns true if a workspace is unbinding depguard while a configuration of ours is there: kcp ends a binding within
/// a fifth of a second, and with it goes the access to the configuration.
pub(crate) fn is_leaving(export_name: &str, state: &Snapshot) -> bool {
    let mut configured = configurations(state).filter_map(|(key, _)| key.place).peekable();
    if configured.peek().is_none() {
        return false;
    }
    let bindings = bindings(export_name, state);
    configured.any(|cluster| bindings.of(&cluster).is_some_and(|binding| binding.terminating))
}

/// Returns the bindings of this export, each with the workspace's URL at which it was read: a workspace may let depguard see
/// its other bindings, too.
fn ours(export_name: &str, state: &Snapshot) -> impl Iterator<Item = (Option<(LogicalCluster, Arc<str>)>, Value)> {
    let all = state.resource(Watched::BINDINGS.plural).into_iter().flat_map(|resource| &resource.objects);
    all.filter_map(move |((cluster, _), found)| {
        let binding = found.text.read();
        let is_ours = binding.pointer("/spec/reference/export/name").and_then(Value::as_str) == Some(export_name);
        is_ours.then(|| (cluster.clone().map(|cluster| (cluster, Arc::clone(&found.origin))), binding))
    })
}

fn values(state: &Snapshot, watched: Watched) -> impl Iterator<Item = Value> {
    state.resource(watched.plural).into_iter().flat_map(|resource| resource.values())
}

fn served(watched: Option<&Arc<WatchedResource>>, exports: Vec<Value>) -> Exports {
    match watched {
        None => Exports::Unavailable("APIExports are not watched".to_owned()),
        Some(watched) => match &watched.readiness {
            Readiness::Loaded => Exports::read(exports),
            Readiness::NotLoaded { why } | Readiness::Unavailable { why } => Exports::Unavailable(why.clone()),
        },
    }
}
