//! From what is mirrored to the world that a plan is made from.

use std::collections::BTreeMap;
use std::sync::Arc;

use depguard_core::{Consents, Home, LogicalCluster};
use depguard_kcp::{Derived, Features, MirrorState, Mirrored, Readiness, Watched};
use serde_json::Value;

use crate::bindings::Bindings;
use crate::clients::Clients;
use crate::configuration;
use crate::exports::Exports;
use crate::locks;
use crate::manifests::ReadThrough;
use crate::plan::World;
use crate::written_rule::WrittenRule;

pub(crate) const CONFIGURATIONS: &str = "validatingwebhookconfigurations";

/// What must be mirrored for rules. With locks in home kcp, also what is installed for them where nobody has bound their own
/// APIExport.
pub(crate) fn watched(home: Home, features: &Features) -> Vec<Watched> {
    let configurations = configuration(configuration::NAME);
    match home {
        Home::Kcp => {
            let mut watched = vec![Watched::RULES, configurations, Watched::BINDINGS, Watched::EXPORTS];
            if features.locks {
                watched.push(Watched { required: false, ..configuration(locks::CONFIGURATION) });
            }
            watched
        }
        Home::Kubernetes => vec![Watched::RULES, configurations],
    }
}

/// The webhook configurations of this name.
pub(crate) fn configuration(name: &'static str) -> Watched {
    Watched {
        group: "admissionregistration.k8s.io",
        version: "v1",
        plural: CONFIGURATIONS,
        kind: "ValidatingWebhookConfiguration",
        required: true,
        names: Some(name),
    }
}

/// The world, as `state` shows it.
pub(crate) fn world<'v>(
    home: Home,
    export_name: &'v str,
    state: &'v MirrorState,
    written: &Derived<WrittenRule>,
    further: Vec<WrittenRule>,
    clients: Clients,
) -> World<'v> {
    let rules = state.resource(Watched::RULES.plural).into_iter().flat_map(|mirrored| &mirrored.objects);
    let values = |plural| state.resource(plural).into_iter().flat_map(|mirrored| mirrored.values());
    let configurations = state.resource(CONFIGURATIONS).into_iter().flat_map(|mirrored| &mirrored.objects);
    // Consent that nobody follows any more may have been given since: then everybody's rules count, as to the webhook.
    let exports =
        values(Watched::EXPORTS.plural).filter(|_| state.is_followed(Watched::EXPORTS.plural, MirrorState::PATIENCE));
    World {
        home,
        read_through: ReadThrough::default(),
        export_name,
        rules: rules.filter_map(|(key, rule)| Some((rule.value.as_ref(), written.get(key)?.clone()))).collect(),
        further,
        bindings: bindings(export_name, state),
        configurations: configurations.map(|((cluster, _), found)| (cluster.clone(), found.value.as_ref())).collect(),
        exports: served(state.resource(Watched::EXPORTS.plural)),
        consents: Consents::read(exports, ours(export_name, state)),
        lookups: BTreeMap::new(),
        clients,
    }
}

/// The workspaces that have bound depguard.
pub(crate) fn bindings(export_name: &str, state: &MirrorState) -> Bindings {
    Bindings::read(ours(export_name, state))
}

/// Where each workspace that has bound depguard is reached: the URL of the virtual workspace that shows its binding.
pub(crate) fn origins(export_name: &str, state: &MirrorState) -> BTreeMap<LogicalCluster, Arc<str>> {
    let objects = state.resource(Watched::BINDINGS.plural).into_iter().flat_map(|mirrored| &mirrored.objects);
    let ours = objects.filter(|(_, found)| is_ours(&found.value, export_name));
    ours.filter_map(|((cluster, _), found)| Some((cluster.clone()?, found.origin.clone()))).collect()
}

/// Tells if a workspace is unbinding depguard while a configuration of ours is there: kcp ends a binding within a fifth of
/// a second, and with it goes the way to the configuration.
pub(crate) fn is_leaving(export_name: &str, state: &MirrorState) -> bool {
    let configured = state.resource(CONFIGURATIONS).into_iter().flat_map(|mirrored| mirrored.objects.keys());
    let mut configured = configured.filter_map(|(cluster, _)| cluster.as_ref()).peekable();
    if configured.peek().is_none() {
        return false;
    }
    let bindings = bindings(export_name, state);
    configured.any(|cluster| bindings.of(cluster).is_some_and(|binding| binding.terminating))
}

fn ours<'v>(export_name: &'v str, state: &'v MirrorState) -> impl Iterator<Item = &'v Value> {
    let all = state.resource(Watched::BINDINGS.plural).into_iter().flat_map(|mirrored| mirrored.values());
    all.filter(move |binding| is_ours(binding, export_name))
}

/// A workspace may let depguard see its other bindings too.
fn is_ours(binding: &Value, export_name: &str) -> bool {
    binding.pointer("/spec/reference/export/name").and_then(Value::as_str) == Some(export_name)
}

fn served(mirrored: Option<&Arc<Mirrored>>) -> Exports<'_> {
    match mirrored {
        None => Exports::Unavailable("APIExports are not watched".to_owned()),
        Some(mirrored) => match &mirrored.readiness {
            Readiness::Loaded => Exports::read(mirrored.values()),
            Readiness::NotLoaded { why } | Readiness::Unavailable { why } => Exports::Unavailable(why.clone()),
        },
    }
}
