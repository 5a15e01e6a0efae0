//! Discovery of the served groups, versions and resources.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::kinds::scale::SCALE;
use crate::kinds::{self, BINDING, EVICTION, FINALIZE, Resource, TOKEN, api_version};
use crate::options::Kind;
use crate::protocol::routes::Ask;
use crate::protocol::status::{ApiError, ApiResult};
use crate::request::view::{self, View};
use crate::world::World;
use crate::write::token_request;

/// Returns the answer of `/version`.
pub(crate) fn version(kind: Kind) -> Value {
    let git = match kind {
        Kind::Kcp => "v1.36.0+kcp-testbed",
        Kind::Kubernetes => "v1.36.0+testbed",
    };
    json!({"major": "1", "minor": "36", "gitVersion": git, "platform": "testbed"})
}

pub(crate) fn answer(world: &World, view: &View, ask: &Ask) -> ApiResult<Value> {
    let served = match view {
        View::Cluster(cluster) => kinds::all(world.kind, &world.store, cluster),
        View::Export { export, .. } => view::exported(world, export),
    };
    match ask {
        Ask::CoreVersions => Ok(json!({"kind": "APIVersions", "versions": ["v1"]})),
        Ask::Groups => {
            let groups: Vec<Value> =
                groups(&served).iter().map(|(group, versions)| describe_group(group, versions)).collect();
            Ok(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        Ask::Group(group) => {
            let groups = groups(&served);
            let versions = groups.get(group.as_str()).ok_or_else(ApiError::no_such_path)?;
            let mut described = describe_group(group, versions);
            described["kind"] = json!("APIGroup");
            described["apiVersion"] = json!("v1");
            Ok(described)
        }
        Ask::Resources { group, version } => {
            let resources: Vec<Value> = served
                .iter()
                .filter(|resource| resource.group == *group && resource.version == *version)
                .flat_map(describe_resource)
                .collect();
            // A plain cluster has no such path. A kcp workspace answers with an empty list.
            if resources.is_empty() && !(world.kind == Kind::Kcp && matches!(view, View::Cluster(_))) {
                return Err(ApiError::no_such_path());
            }
            Ok(json!({
                "kind": "APIResourceList", "apiVersion": "v1",
                "groupVersion": api_version(group, version), "resources": resources,
            }))
        }
        Ask::Health | Ask::Version | Ask::Objects(_) => Err(ApiError::no_such_path()),
    }
}

/// Returns the groups other than core, each with its versions in the order in which they are served.
fn groups(served: &[Resource]) -> BTreeMap<&str, Vec<&str>> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for resource in served.iter().filter(|resource| !resource.group.is_empty()) {
        let versions = groups.entry(&resource.group).or_default();
        if !versions.contains(&resource.version.as_str()) {
            versions.push(&resource.version);
        }
    }
    groups
}

fn describe_group(group: &str, versions: &[&str]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({"groupVersion": api_version(group, version), "version": version}))
        .collect();
    json!({"name": group, "preferredVersion": versions.first(), "versions": versions})
}

fn describe_resource(resource: &Resource) -> Vec<Value> {
    let mut described = json!({
        "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
        "kind": resource.kind, "verbs": resource.verbs(),
    });
    if !resource.short_names.is_empty() {
        described["shortNames"] = json!(resource.short_names);
    }
    let mut all = vec![described];
    if resource.status {
        all.push(json!({
            "name": format!("{}/status", resource.plural), "singularName": "", "namespaced": resource.namespaced,
            "kind": resource.kind, "verbs": ["get", "patch", "update"],
        }));
    }
    let mut below = |name: &str, group: &str, kind: &str, verbs: &[&str]| {
        all.push(json!({
            "name": format!("{}/{name}", resource.plural), "singularName": "", "namespaced": resource.namespaced,
            "group": group, "version": "v1", "kind": kind, "verbs": verbs,
        }));
    };
    if resource.scale.is_some() {
        below(SCALE, "autoscaling", "Scale", &["get", "patch", "update"]);
    }
    if resource.is("", "pods") {
        below(EVICTION, "policy", "Eviction", &["create"]);
        below(BINDING, "", "Binding", &["create"]);
    }
    if resource.is("", "namespaces") {
        below(FINALIZE, "", "Namespace", &["update"]);
    }
    if resource.is("", "serviceaccounts") {
        below(TOKEN, token_request::GROUP, token_request::KIND, &["create"]);
    }
    all
}
