//! Kubernetes' own kinds, with their names, scopes and schemas, for commands that read no API server.
//!
//! `built_in_kinds.gz` has two lines of JSON: the discovery of the kinds, and their schemas without descriptions.
//! `tests/it/built_in_kinds.rs` writes it from Kubernetes' discovery and OpenAPI documents.

use std::io::Read;
use std::sync::LazyLock;

use depguard_core::model::{GroupResource, Version};
use depguard_core::schema::KindFacts;
use depguard_core::{Group, GroupVersionResource, api};
use flate2::read::GzDecoder;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cluster::kinds::KindInfo;

static FILE: &[u8] = include_bytes!("built_in_kinds.gz");
/// Both lines of the file. A test shows that it can be read; if it could not be, no kind would be known.
static TEXT: LazyLock<String> = LazyLock::new(|| {
    let mut text = String::new();
    GzDecoder::new(FILE).read_to_string(&mut text).map(|_| text).unwrap_or_default()
});
static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
    let line = TEXT.lines().next().unwrap_or_default();
    serde_json::from_str::<CatalogWire>(line).map(Catalog::from).unwrap_or_default()
});
/// Schemas, in the form in which an API server publishes those of a group's version.
static SCHEMAS: LazyLock<Value> = LazyLock::new(|| {
    let schemas: Value = TEXT.lines().nth(1).and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    json!({"components": {"schemas": schemas}})
});

/// Kinds of one version of Kubernetes, the preferred version of each first.
#[derive(Debug, Default)]
struct Catalog {
    version: String,
    kinds: Vec<KindInfo>,
}

/// First line of the file: the version, and the discovery of each group's version.
#[derive(Deserialize)]
struct CatalogWire {
    version: String,
    lists: Vec<Value>,
}

impl From<CatalogWire> for Catalog {
    fn from(wire: CatalogWire) -> Self {
        let kinds = wire.lists.iter().filter_map(|list| {
            let group_version = list.get("groupVersion")?.as_str()?;
            let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
            Some(KindInfo::of_discovery(&Group::parse(group).ok()?, &Version::parse(version).ok()?, list))
        });
        Self { kinds: kinds.flatten().collect(), version: wire.version }
    }
}

/// Returns the minor version of Kubernetes whose kinds these are, as in `1.36`.
pub(crate) fn kubernetes_version() -> &'static str {
    CATALOG.version.rsplit_once('.').map_or(&CATALOG.version, |(minor, _)| minor)
}

/// Returns all kinds in all versions.
pub(crate) fn all() -> &'static [KindInfo] {
    &CATALOG.kinds
}

/// Returns the kind of that group and resource, in its preferred version.
pub(crate) fn get(kind: &GroupResource) -> Option<&'static KindInfo> {
    all().iter().find(|known| known.gvr.group == kind.group && known.gvr.resource == kind.resource)
}

/// Returns the kind of that group and name, in its preferred version.
pub(crate) fn of_kind(group: &str, kind: &str) -> Option<&'static KindInfo> {
    all().iter().find(|known| known.gvr.group.as_str() == group && known.kind == kind)
}

/// Returns the scope of a kind of Kubernetes or of depguard: true if it is namespaced; `None` if the scope is unknown.
pub(crate) fn scope_of(group: &str, kind: &str) -> Option<bool> {
    match (group, kind) {
        (api::GROUP, "ObjectLock") => Some(true),
        (api::GROUP, _) => Some(false),
        _ => of_kind(group, kind)?.namespaced,
    }
}

/// Returns the facts about a kind in exactly that version, with its schema.
pub(crate) fn facts(gvr: &GroupVersionResource) -> Option<KindFacts> {
    let kind = all().iter().find(|known| known.gvr == *gvr)?;
    let list = json!({"resources": [
        {"name": gvr.resource.as_str(), "kind": kind.kind, "namespaced": kind.namespaced == Some(true)},
    ]});
    Some(KindFacts::from_discovery(&list, gvr)?.with_published(&SCHEMAS, gvr))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubernetes_own_kinds_have_a_scope_and_others_below_k8s_io_have_none() {
        for (group, kind, namespaced) in [
            ("", "Secret", Some(true)),
            ("", "Node", Some(false)),
            ("apps", "Deployment", Some(true)),
            ("networking.k8s.io", "Ingress", Some(true)),
            ("networking.k8s.io", "ServiceCIDR", Some(false)),
            ("storage.k8s.io", "VolumeAttributesClass", Some(false)),
            ("resource.k8s.io", "DeviceTaintRule", Some(false)),
            ("apiextensions.k8s.io", "CustomResourceDefinition", Some(false)),
            ("apps", "KindOfALaterVersion", None),
            ("gateway.networking.k8s.io", "GatewayClass", None),
            ("snapshot.storage.k8s.io", "VolumeSnapshotClass", None),
            ("policy.networking.k8s.io", "AdminNetworkPolicy", None),
            ("network.example.com", "VPC", None),
            (api::GROUP, "ObjectLock", Some(true)),
            (api::GROUP, "ClusterObjectLock", Some(false)),
        ] {
            assert_eq!(scope_of(group, kind), namespaced, "{group} {kind}");
        }
    }

    #[test]
    fn each_kind_has_a_schema() {
        assert!(all().len() > 70 && kubernetes_version().starts_with("1."), "{}", all().len());
        for kind in all() {
            let facts = facts(&kind.gvr).unwrap();
            assert!(facts.schema.is_some(), "{:?}", kind.gvr);
            assert_eq!(facts.is_aggregated, Some(false), "{:?}", kind.gvr);
        }
    }
}
