//! Endpoint slices of depguard's own export, and the endpoints that the slices name. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

/// Identity of our export, which tells our slices from those of other exports in the same workspace.
#[derive(Debug, Clone)]
pub(crate) struct EndpointSlices {
    /// Name of depguard's APIExport.
    pub(crate) export: String,
    /// Workspace that the kubeconfig names, by path or by logical cluster.
    pub(crate) workspace: Option<String>,
}

/// Content of all our slices.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    /// UIDs of our export's slices.
    pub(crate) slices: BTreeSet<String>,
    /// URLs that the slices name, one a shard, without a slash at the end.
    pub(crate) endpoints: BTreeSet<Arc<str>>,
}

impl EndpointSlices {
    /// Returns the endpoints that all slices of our export name. An operator may have made several slices, for
    /// partitions.
    pub(crate) fn named<'a>(&self, slices: impl IntoIterator<Item = &'a Value>) -> Named {
        let mut named = Named::default();
        for slice in slices {
            if self.matches(slice) {
                named.slices.insert(text(slice, "/metadata/uid").to_owned());
                named.endpoints.extend(urls(slice).map(Arc::from));
            }
        }
        named
    }

    /// Returns true if a slice belongs to our export, whatever the slice's own name is.
    fn matches(&self, slice: &Value) -> bool {
        if text(slice, "/spec/export/name") != self.export {
            return false;
        }
        let path = text(slice, "/spec/export/path");
        let cluster = text(slice, "/metadata/annotations/kcp.io~1cluster");
        path.is_empty()
            || Some(path) == self.workspace.as_deref()
            || path == cluster
            || path == text(slice, "/metadata/annotations/kcp.io~1path")
            // The kubeconfig may name the workspace by its id and the slice by its path. Then two signs are left: kcp
            // made the slice for an export of this very workspace, or the slice's URLs carry this workspace's id.
            || owners(slice).any(|owner| text(owner, "/kind") == "APIExport" && text(owner, "/name") == self.export)
            || (!cluster.is_empty() && urls(slice).any(|url| url.ends_with(&suffix(cluster, &self.export))))
    }
}

/// Returns the URLs that a slice of any export names, without a slash at the end.
pub(crate) fn urls(slice: &Value) -> impl Iterator<Item = &str> {
    let endpoints = slice.pointer("/status/endpoints").and_then(Value::as_array);
    let urls = endpoints.into_iter().flatten().map(|endpoint| text(endpoint, "/url").trim_end_matches('/'));
    urls.filter(|url| !url.is_empty())
}

/// Returns the end of the URL of an export's virtual workspace. It identifies the export.
pub(crate) fn suffix(cluster: &str, export: &str) -> String {
    format!("/services/apiexport/{cluster}/{export}")
}

/// Returns the logical cluster of the export with this name, if the URL is the export's virtual workspace.
pub(crate) fn cluster_of<'u>(url: &'u str, export: &str) -> Option<&'u str> {
    let (_, rest) = url.rsplit_once("/services/apiexport/")?;
    rest.strip_suffix(export)?.strip_suffix('/')
}

fn owners(slice: &Value) -> impl Iterator<Item = &Value> {
    slice.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten()
}

/// Returns the string at a JSON pointer; empty if there is none.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const EXPORT: &str = "dependencies.opendefense.cloud";

    fn ours(workspace: &str) -> EndpointSlices {
        EndpointSlices { export: EXPORT.to_owned(), workspace: Some(workspace.to_owned()) }
    }

    /// Returns a slice as kcp makes it, in the logical cluster `2x3`.
    fn mk_slice(export: &str, path: &str, urls: &[&str]) -> Value {
        json!({
            "metadata": {"name": "any", "uid": format!("{export}-{path}"), "annotations": {"kcp.io/cluster": "2x3"}},
            "spec": {"export": {"name": export, "path": path}},
            "status": {"endpoints": urls.iter().map(|url| json!({"url": url})).collect::<Vec<_>>()},
        })
    }

    #[test]
    fn a_slice_is_ours_by_what_it_exports_and_not_by_its_name() {
        let vw = format!("https://kcp/services/apiexport/2x3/{EXPORT}");
        let foreign = format!("https://kcp/services/apiexport/9z9/{EXPORT}");
        for (workspace, slice, expected) in [
            ("root:dep-ctrl", mk_slice(EXPORT, "root:dep-ctrl", &[]), true),
            ("root:dep-ctrl", mk_slice(EXPORT, "", &[]), true),
            ("root:dep-ctrl", mk_slice(EXPORT, "2x3", &[]), true),
            ("2x3", mk_slice(EXPORT, "2x3", &[]), true),
            ("2x3", mk_slice(EXPORT, "root:dep-ctrl", &[&vw]), true),
            ("2x3", mk_slice(EXPORT, "root:dep-ctrl", &[&format!("{vw}/")]), true),
            ("2x3", mk_slice(EXPORT, "root:dep-ctrl", &[]), false),
            ("2x3", mk_slice(EXPORT, "root:other", &[&foreign]), false),
            ("root:dep-ctrl", mk_slice(EXPORT, "root:other", &[]), false),
            ("root:dep-ctrl", mk_slice("network.example.com", "root:dep-ctrl", &[&vw]), false),
            ("root:dep-ctrl", json!({}), false),
            ("root:dep-ctrl", json!({"spec": {"export": 3}}), false),
        ] {
            assert_eq!(ours(workspace).matches(&slice), expected, "{workspace}: {slice}");
        }
    }

    #[test]
    fn a_slice_that_kcp_made_for_the_export_of_its_own_workspace_is_ours() {
        let mut slice = mk_slice(EXPORT, "root:dep-ctrl", &[]);
        slice["metadata"]["ownerReferences"] = json!([{"kind": "APIExport", "name": EXPORT}]);
        assert!(ours("2x3").matches(&slice));
        let mut named = mk_slice(EXPORT, "root:dep-ctrl", &[]);
        named["metadata"]["annotations"]["kcp.io/path"] = json!("root:dep-ctrl");
        assert!(ours("2x3").matches(&named));
    }

    #[test]
    fn a_url_tells_the_logical_cluster_of_its_export() {
        for (url, cluster) in [
            (format!("https://kcp{}", suffix("2x3", EXPORT)), Some("2x3")),
            (format!("https://kcp/services/apiexport/2x3/other.{EXPORT}"), None),
            ("https://kcp".to_owned(), None),
        ] {
            assert_eq!(cluster_of(&url, EXPORT), cluster, "{url}");
        }
    }

    #[test]
    fn several_slices_name_the_endpoints_of_all() {
        let slices = [
            mk_slice(EXPORT, "", &["https://a/", "https://b"]),
            mk_slice(EXPORT, "root:dep-ctrl", &["https://b", ""]),
            mk_slice("other", "", &["https://c"]),
        ];
        let named = ours("root:dep-ctrl").named(&slices);
        assert_eq!(named.endpoints.iter().map(AsRef::as_ref).collect::<Vec<_>>(), ["https://a", "https://b"]);
        assert_eq!(named.slices.len(), 2);
        assert_eq!(ours("root:dep-ctrl").named([]), Named::default());
    }

    proptest! {
        #[test]
        fn no_slice_makes_it_panic(name in "\\PC{0,10}", path in "\\PC{0,10}", cluster in "\\PC{0,10}", url in "\\PC{0,10}") {
            let mut slice = mk_slice(&name, &path, &[&url]);
            slice["metadata"]["annotations"]["kcp.io/cluster"] = json!(cluster);
            let named = ours(&path).named([&slice]);
            prop_assert_eq!(named.slices.is_empty(), name != EXPORT);
        }
    }
}
