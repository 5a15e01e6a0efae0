//! Rules about kcp's own kinds, within one workspace.

use depguard_core::ControlPlane;
use serde_json::Value;

use super::notation::{Dependency, Kind, SECRET, out, rule};
use super::{LeftOut, RulePack};

const APIS: &str = "apis.kcp.io";
const API_EXPORT: Kind = Kind::new(APIS, "v1alpha2", "APIExport", "apiexports");
const API_EXPORT_ENDPOINT_SLICE: Kind =
    Kind::new(APIS, "v1alpha1", "APIExportEndpointSlice", "apiexportendpointslices");
const API_RESOURCE_SCHEMA: Kind = Kind::new(APIS, "v1alpha1", "APIResourceSchema", "apiresourceschemas");

const CACHE: &str = "cache.kcp.io";
const CACHED_RESOURCE: Kind = Kind::new(CACHE, "v1alpha1", "CachedResource", "cachedresources");
const CACHED_RESOURCE_ENDPOINT_SLICE: Kind =
    Kind::new(CACHE, "v1alpha1", "CachedResourceEndpointSlice", "cachedresourceendpointslices");

const TENANCY: &str = "tenancy.kcp.io";
const WORKSPACE: Kind = Kind::new(TENANCY, "v1alpha1", "Workspace", "workspaces");
const WORKSPACE_TYPE: Kind = Kind::new(TENANCY, "v1alpha1", "WorkspaceType", "workspacetypes");
const WORKSPACE_AUTHENTICATION_CONFIGURATION: Kind =
    Kind::new(TENANCY, "v1alpha1", "WorkspaceAuthenticationConfiguration", "workspaceauthenticationconfigurations");

const PARTITION: Kind = Kind::new("topology.kcp.io", "v1alpha1", "Partition", "partitions");

pub(super) const PACK: RulePack = RulePack {
    name: "kcp",
    control_plane: ControlPlane::Kcp,
    protects: "keeps the APIResourceSchemas, Secrets, endpoint slices and Partitions that APIExports, CachedResources \
               and their endpoint slices use, and the types and authentication of workspaces",
    notes: &[
        "Apply the rules in the workspace of each provider, and the ones of tenancy.kcp.io in each workspace that has \
         its own WorkspaceTypes. Each rule protects the objects of its own workspace from references in the same \
         workspace.",
        "A reference may have the path of another workspace beside the name. The rules do not read the path, so an \
         object of the same name in the rule's workspace is kept, too.",
        "kcp makes an endpoint slice for each APIExport and CachedResource, owned by it alone; such a \
         slice does not keep its owner, unless that is deleted with --cascade=orphan. Other slices keep it.",
        "The Secret of an APIExport or CachedResource is its identity: kcp makes the Secret once, but not again.",
        "A PartitionSet cannot remove or replace a Partition while an endpoint slice names the Partition.",
        "Newer versions of kcp have renamed the kinds of cache.kcp.io; a kind that is not served has no objects, so \
         the rules about the old names then do nothing.",
    ],
    held_against: "the CustomResourceDefinitions of kcp v0.32.3, by hand; no test holds them against the definitions",
    rules,
    left_out: &[
        out(
            "apibindings",
            ".spec.reference.export.name",
            "usually in another workspace, and kcp deletes a workspace's bindings after its APIExports",
        ),
        out("apibindings", ".status.boundResources[*].schema.name", "in another workspace"),
        out("apibindings", ".status.apiExportClusterName", "name of a logical cluster"),
        claims("apibindings", ".spec.permissionClaims[*]"),
        claims("apibindings", ".status.appliedPermissionClaims[*]"),
        claims("apibindings", ".status.exportPermissionClaims[*]"),
        claims("apiexports", ".spec.permissionClaims[*]"),
        out("apiexports", ".spec.resources[*].name", "names a kind, no object"),
        out(
            "cachedresourceendpointslices",
            ".spec.export.name",
            "the APIExport itself names the slice, and neither could be deleted first",
        ),
        out("cachedresources", ".spec.resource", "names a kind, no object"),
        out(
            "logicalclusters",
            ".spec.owner.name",
            "refers back to the Workspace, whose deletion deletes the logical cluster",
        ),
        out("logicalclustermigrations", ".spec.logicalCluster", "all logical clusters have the same object name"),
        out(
            "logicalclustermigrations",
            ".spec.destinationShard",
            "a Shard that goes during a migration is the concern of kcp's operator",
        ),
        out(
            "logicalclustermigrations",
            ".status.originShard",
            "a Shard that goes during a migration is the concern of kcp's operator",
        ),
        out("workspaces", ".spec.cluster", "name of a logical cluster"),
        out("workspaces", ".spec.mount.ref.name", "names an object of any kind"),
        out(
            "workspacetypes",
            ".spec.defaultAPIBindings[*].export",
            "kcp deletes a workspace's WorkspaceTypes, which are bound, after its APIExports",
        ),
        limit(".spec.limitAllowedChildren.types[*].name"),
        limit(".spec.limitAllowedParents.types[*].name"),
        out("workspacetypes", ".spec.initializerPermissions[*]", "names rights in other workspaces"),
        out("workspacetypes", ".spec.terminatorPermissions[*]", "names rights in other workspaces"),
        published(".spec.resource"),
        published(".spec.related[*]"),
        published(".status.resourceSchemaName"),
    ],
};

fn rules() -> Vec<Value> {
    vec![
        rule("apiresourceschemas", API_EXPORT, [API_RESOURCE_SCHEMA.at(".spec.resources[*].schema")]),
        rule(
            "kcp-apiexports",
            API_EXPORT,
            [
                identity(),
                CACHED_RESOURCE_ENDPOINT_SLICE
                    .at(".spec.resources[*].storage.virtual.reference.name")
                    .kind_at(".spec.resources[*].storage.virtual.reference.kind")
                    .group_at(".spec.resources[*].storage.virtual.reference.apiGroup"),
            ],
        ),
        rule(
            "kcp-apiexportendpointslices",
            API_EXPORT_ENDPOINT_SLICE,
            [API_EXPORT.at(".spec.export.name").ignoring_owned(), PARTITION.at(".spec.partition")],
        ),
        rule("kcp-cachedresources", CACHED_RESOURCE, [identity()]),
        rule(
            "kcp-cachedresourceendpointslices",
            CACHED_RESOURCE_ENDPOINT_SLICE,
            [CACHED_RESOURCE.at(".spec.cachedResource.name").ignoring_owned(), PARTITION.at(".spec.partition")],
        ),
        rule("kcp-workspaces", WORKSPACE, [WORKSPACE_TYPE.at(".spec.type.name")]),
        rule(
            "kcp-workspacetypes",
            WORKSPACE_TYPE,
            [
                WORKSPACE_TYPE.at(".spec.extend.with[*].name"),
                WORKSPACE_TYPE.at(".spec.defaultChildWorkspaceType.name"),
                WORKSPACE_AUTHENTICATION_CONFIGURATION.at(".spec.authenticationConfigurations[*].name"),
            ],
        ),
    ]
}

/// Returns the reference to the Secret with the identity of an APIExport or a CachedResource.
fn identity() -> Dependency {
    SECRET.at(".spec.identity.secretRef.name").namespace_at(".spec.identity.secretRef.namespace")
}

const fn claims(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "claims rights to objects, and does not need them to exist")
}

const fn limit(path: &'static str) -> LeftOut {
    out("workspacetypes", path, "a limit; nothing needs to exist")
}

const fn published(path: &'static str) -> LeftOut {
    out(
        "publishedresources",
        path,
        "api-syncagent's kind in a Kubernetes cluster; names kinds, and objects of another control plane",
    )
}
