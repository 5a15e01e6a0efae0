//! APIBindings of a logical cluster: the kinds that it has, and the APIExport of each.

use serde::Deserialize;

use crate::model::names::{GroupResource, LogicalCluster};
use crate::rule::ExportRef;
use crate::scan::extract::{Page, PageError, present_items};
use crate::scan::text::Text;

/// Path of the list of a logical cluster's APIBindings.
pub(crate) const BINDINGS_PATH: &str = "/apis/apis.kcp.io/v1alpha2/apibindings";

/// An APIBinding, reduced to the kinds that it binds.
#[derive(Debug, Deserialize)]
pub(crate) struct Binding<'a> {
    #[serde(borrow, default)]
    metadata: Metadata<'a>,
    #[serde(borrow, default)]
    spec: Spec<'a>,
    #[serde(borrow, default)]
    status: Status<'a>,
}

/// The APIExport that an APIBinding names.
#[derive(Debug)]
pub(crate) struct Origin<S> {
    provider: Option<S>,
    export: Option<S>,
    /// The workspace path in the reference; empty if it is left out.
    path: S,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow)]
    deletion_timestamp: Option<Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
struct Spec<'a> {
    #[serde(borrow, default)]
    reference: Reference<'a>,
}

#[derive(Debug, Default, Deserialize)]
struct Reference<'a> {
    #[serde(borrow)]
    export: Option<Export<'a>>,
}

#[derive(Debug, Deserialize)]
struct Export<'a> {
    #[serde(borrow)]
    path: Option<Text<'a>>,
    #[serde(borrow)]
    name: Option<Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    #[serde(borrow)]
    api_export_cluster_name: Option<Text<'a>>,
    #[serde(borrow)]
    bound_resources: Option<Vec<BoundResource<'a>>>,
}

#[derive(Debug, Deserialize)]
struct BoundResource<'a> {
    /// Absent for the core group.
    #[serde(borrow)]
    group: Option<Text<'a>>,
    #[serde(borrow)]
    resource: Option<Text<'a>>,
}

impl Binding<'_> {
    /// Returns true if the APIBinding binds `kind` from the APIExport `export` of the logical cluster `provider`.
    pub(crate) fn binds(&self, provider: &LogicalCluster, export: &str, kind: &GroupResource) -> bool {
        self.provider() == Some(provider.as_str()) && self.export() == Some(export) && self.has(kind)
    }

    /// Returns true if the APIBinding binds `kind` from the APIExport that a rule names; see [`Origin::is`].
    pub(crate) fn binds_ref(
        &self,
        export: &ExportRef,
        provider: Option<&LogicalCluster>,
        kind: &GroupResource,
    ) -> bool {
        self.origin().is(export, provider) && self.has(kind)
    }

    /// Returns the APIExport, as far as the APIBinding tells it.
    pub(crate) fn origin(&self) -> Origin<&str> {
        Origin { provider: self.provider(), export: self.export(), path: self.path() }
    }

    /// Returns the logical cluster of the APIExport.
    pub(crate) fn provider(&self) -> Option<&str> {
        self.status.api_export_cluster_name.as_ref().map(Text::as_str)
    }

    /// Returns the name of the APIExport.
    pub(crate) fn export(&self) -> Option<&str> {
        self.spec.reference.export.as_ref()?.name.as_ref().map(Text::as_str)
    }

    /// Returns the workspace path in the reference; empty if it is left out.
    pub(crate) fn path(&self) -> &str {
        let path = self.spec.reference.export.as_ref().and_then(|export| export.path.as_ref());
        path.map_or("", Text::as_str)
    }

    /// Returns each bound kind: group and resource.
    pub(crate) fn bound(&self) -> impl Iterator<Item = (&str, &str)> {
        self.status.bound_resources.iter().flatten().filter_map(|bound| {
            Some((bound.group.as_ref().map_or("", Text::as_str), bound.resource.as_ref()?.as_str()))
        })
    }

    /// Returns true if the APIBinding is being deleted, and with it all objects of its kinds in this logical cluster.
    pub(crate) fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.as_ref().is_some_and(|timestamp| !timestamp.as_str().is_empty())
    }

    /// Returns true if the APIBinding binds `kind`.
    pub(crate) fn has(&self, kind: &GroupResource) -> bool {
        let kind = (kind.group.as_str(), kind.resource.as_str());
        self.bound().any(|bound| bound == kind)
    }
}

impl<S: AsRef<str>> Origin<S> {
    /// Returns true if this is the APIExport that a rule names by its workspace path; `provider` is the logical cluster of
    /// that path, if known.
    ///
    /// If the logical cluster is unknown, the path in the binding's reference decides. If the reference has an id instead
    /// of a path, or leaves the path out, the binding counts: one refusal too many is better than one deletion too many.
    pub(crate) fn is(&self, export: &ExportRef, provider: Option<&LogicalCluster>) -> bool {
        let Self { provider: bound, export: name, path } = self;
        let is_providers = match provider {
            Some(provider) => bound.as_ref().is_some_and(|bound| bound.as_ref() == provider.as_str()),
            None => path.as_ref() == export.path.as_str() || !path.as_ref().contains(':'),
        };
        is_providers && name.as_ref().is_some_and(|name| name.as_ref() == export.name.as_str())
    }
}

impl Origin<&str> {
    pub(crate) fn to_owned(&self) -> Origin<String> {
        let Self { provider, export, path } = self;
        Origin { provider: provider.map(str::to_owned), export: export.map(str::to_owned), path: (*path).to_owned() }
    }
}

/// Hands each APIBinding of a LIST page to `each`.
pub(crate) fn read_page<'de>(bytes: &'de [u8], each: impl FnMut(&Binding<'de>)) -> Result<Page, PageError> {
    #[derive(Deserialize)]
    struct List<'a> {
        #[serde(default)]
        metadata: Page,
        #[serde(borrow, default, deserialize_with = "present_items")]
        items: Option<Vec<Binding<'a>>>,
    }

    let list: List<'de> = serde_json::from_slice(bytes)?;
    list.items.ok_or(PageError::NoItems)?.iter().for_each(each);
    Ok(list.metadata)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::names::{ExportName, Group, Resource, WorkspacePath};

    fn list(path: &str) -> String {
        json!({"metadata": {"resourceVersion": "1"}, "items": [
            {"metadata": {"name": "unbound"}, "spec": {"reference": {"export": {"path": path, "name": "network.example.com"}}}},
            {"metadata": {"name": "network"},
             "spec": {"reference": {"export": {"path": path, "name": "network.example.com"}}},
             "status": {"apiExportClusterName": "c1", "boundResources": [{"group": "network.example.com", "resource": "vpcs"}]}},
        ]})
        .to_string()
    }

    fn kind(group: &str, resource: &str) -> GroupResource {
        GroupResource { group: Group::parse(group).unwrap(), resource: Resource::parse(resource).unwrap() }
    }

    #[test]
    fn a_kind_is_bound_by_provider_export_group_and_resource_together() {
        for (cluster, export, group, resource, bound) in [
            ("c1", "network.example.com", "network.example.com", "vpcs", true),
            ("c2", "network.example.com", "network.example.com", "vpcs", false),
            ("c1", "other.example.com", "network.example.com", "vpcs", false),
            ("c1", "network.example.com", "other.example.com", "vpcs", false),
            ("c1", "network.example.com", "network.example.com", "subnets", false),
        ] {
            let mut any = false;
            let cluster = LogicalCluster::parse(cluster).unwrap();
            read_page(list("root:a").as_bytes(), |b| any |= b.binds(&cluster, export, &kind(group, resource))).unwrap();
            assert_eq!(any, bound, "{cluster} {export} {group} {resource}");
        }
    }

    #[test]
    fn a_path_that_nobody_knows_is_judged_by_the_bindings_own_words() {
        let export = ExportRef {
            path: WorkspacePath::parse("root:a").unwrap(),
            name: ExportName::parse("network.example.com").unwrap(),
        };
        let vpcs = kind("network.example.com", "vpcs");
        for (path, provider, bound) in [
            ("root:a", None, true),
            ("root:b", None, false),
            ("2x3fg5w1ik2mcnev", None, true),
            ("", None, true),
            ("root:b", Some("c1"), true),
            ("root:a", Some("c2"), false),
        ] {
            let provider = provider.map(|cluster| LogicalCluster::parse(cluster).unwrap());
            let mut any = false;
            read_page(list(path).as_bytes(), |b| any |= b.binds_ref(&export, provider.as_ref(), &vpcs)).unwrap();
            assert_eq!(any, bound, "{path} {provider:?}");
        }
    }

    #[test]
    fn what_is_not_a_list_is_an_error_and_null_items_are_none() {
        assert!(read_page(b"{}", |_| ()).is_err());
        assert!(read_page(b"[]", |_| ()).is_err());
        assert!(read_page(br#"{"items":[1]}"#, |_| ()).is_err());
        assert_eq!(read_page(br#"{"items":null}"#, |_| ()).unwrap(), Page::default());
    }
}
