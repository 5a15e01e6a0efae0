//! Kinds that a logical cluster serves: the built-in ones, those of its CRDs, and those that it has bound.

pub(crate) mod builtin;
pub(crate) mod scale;

use std::sync::Arc;

use serde_json::Value;

use crate::options::Kind;
use crate::protocol::json::{array, text};
use crate::store::{Key, Store};

/// Pseudo-cluster of the schemas of bound resources, by the uid of their APIResourceSchema. The schemas outlive the
/// export and the original, as kcp's bound CRDs do. No kind table shows them.
pub(crate) const BOUND_CLUSTER: &str = "system:bound-crds";
pub(crate) const BOUND_RESOURCE: &str = "boundschemas";

/// Subresources of Pods that are not kept.
pub(crate) const EVICTION: &str = "eviction";
pub(crate) const BINDING: &str = "binding";
/// Subresource of namespaces by which a namespace's own finalizers are removed.
pub(crate) const FINALIZE: &str = "finalize";
/// Subresource of ServiceAccounts that is not kept.
pub(crate) const TOKEN: &str = "token";

/// Resource as served in one version.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    /// All served versions, to choose another one for a webhook.
    pub(crate) versions: Vec<String>,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) namespaced: bool,
    pub(crate) status: bool,
    /// Paths of `/scale`, if the resource has it.
    pub(crate) scale: Option<scale::Paths>,
    pub(crate) generation: bool,
    pub(crate) selectable: Vec<String>,
    /// Set if objects of the resource are answered at once and never kept.
    pub(crate) answered: bool,
    pub(crate) origin: Origin,
    pub(crate) schema: Option<SchemaRef>,
}

/// Origin of a resource, which decides where its webhooks are looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Compiled into Kubernetes: items of its lists carry no kind.
    BuiltIn,
    /// Served like a custom resource in every logical cluster: kinds of CRDs, and kcp's own kinds.
    Local,
    /// Bound from an export.
    Bound { cluster: String, export: String },
}

/// Schema of a version, as a part of its definition.
#[derive(Clone, Debug)]
pub(crate) struct SchemaRef {
    definition: Arc<Value>,
    version: usize,
}

impl Resource {
    pub(crate) fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    pub(crate) fn key(&self, cluster: &str, namespace: &str, name: &str) -> Key {
        Key::new(&self.group, &self.plural, cluster, namespace, name)
    }

    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    /// Returns the OpenAPI schema of this version, if the kind has one.
    pub(crate) fn schema(&self) -> Option<&Value> {
        let schema = self.schema.as_ref()?;
        let version = schema.definition.pointer(&format!("/spec/versions/{}/schema", schema.version))?;
        version.get("openAPIV3Schema").or(Some(version))
    }

    /// Returns this version's `additionalPrinterColumns`.
    pub(crate) fn columns(&self) -> &[Value] {
        let Some(schema) = self.schema.as_ref() else { return &[] };
        array(&schema.definition, &format!("/spec/versions/{}/additionalPrinterColumns", schema.version))
    }

    pub(crate) fn verbs(&self) -> Vec<&'static str> {
        if self.answered {
            return vec!["create"];
        }
        let mut verbs = vec!["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
        // Namespaces are deleted one at a time, each with its contents.
        if self.is("", "namespaces") {
            verbs.retain(|verb| *verb != "deletecollection");
        }
        verbs
    }

    /// Returns the same resource in another version.
    pub(crate) fn in_version(&self, version: &str) -> Self {
        Self { version: version.to_owned(), ..self.clone() }
    }
}

/// Returns every resource of a logical cluster, once for each served version.
pub(crate) fn all(kind: Kind, store: &Store, cluster: &str) -> Vec<Resource> {
    let mut all = builtin::resources(kind);
    for definition in store.in_cluster("apiextensions.k8s.io", "customresourcedefinitions", cluster) {
        all.extend(defined(&definition.object, &Origin::Local));
    }
    for binding in store.in_cluster("apis.kcp.io", "apibindings", cluster) {
        all.extend(bound(store, &binding.object));
    }
    all
}

/// Returns the resources that a binding serves, from the schemas that it bound.
pub(crate) fn bound(store: &Store, binding: &Value) -> Vec<Resource> {
    let Some((cluster, export)) = bound_export(binding) else {
        return Vec::new();
    };
    let origin = Origin::Bound { cluster, export };
    array(binding, "/status/boundResources")
        .iter()
        .filter_map(|resource| text(resource, "/schema/UID"))
        .filter_map(|uid| store.get(&Key::new("", BOUND_RESOURCE, BOUND_CLUSTER, "", uid)))
        .flat_map(|schema| defined(&schema.object, &origin))
        .collect()
}

/// Returns the logical cluster and name of the export that a binding binds.
pub(crate) fn bound_export(binding: &Value) -> Option<(String, String)> {
    let cluster = text(binding, "/status/apiExportClusterName")?;
    let export = text(binding, "/spec/reference/export/name")?;
    Some((cluster.to_owned(), export.to_owned()))
}

pub(crate) fn find(
    kind: Kind,
    store: &Store,
    cluster: &str,
    group: &str,
    version: &str,
    plural: &str,
) -> Option<Resource> {
    let selects = |resource: &Resource| resource.is(group, plural) && resource.version == version;
    builtin::resources(kind).into_iter().find(selects).or_else(|| all(kind, store, cluster).into_iter().find(selects))
}

/// Returns any version of a resource.
pub(crate) fn some_version(kind: Kind, store: &Store, cluster: &str, group: &str, plural: &str) -> Option<Resource> {
    all(kind, store, cluster).into_iter().find(|resource| resource.is(group, plural))
}

/// Returns the resource of a kind, by its `apiVersion` and `kind`.
pub(crate) fn of_kind(kind: Kind, store: &Store, cluster: &str, api_version: &str, named: &str) -> Option<Resource> {
    let selects = |resource: &Resource| resource.kind == named && resource.api_version() == api_version;
    all(kind, store, cluster).into_iter().find(selects)
}

/// Returns the resources that a CRD or an APIResourceSchema defines. Both use the same fields.
pub(crate) fn defined(definition: &Arc<Value>, origin: &Origin) -> Vec<Resource> {
    let names = |field: &str| text(definition, &format!("/spec/names/{field}")).map(str::to_owned);
    let (Some(group), Some(plural), Some(kind)) = (text(definition, "/spec/group"), names("plural"), names("kind"))
    else {
        return Vec::new();
    };
    let versions = array(definition, "/spec/versions");
    let served = |version: &Value| version["served"].as_bool().unwrap_or(false);
    let all_served: Vec<String> = versions
        .iter()
        .filter(|version| served(version))
        .filter_map(|version| text(version, "/name").map(str::to_owned))
        .collect();
    versions
        .iter()
        .enumerate()
        .filter(|(_, version)| served(version))
        .filter_map(|(index, version)| {
            Some(Resource {
                group: group.to_owned(),
                version: text(version, "/name")?.to_owned(),
                versions: all_served.clone(),
                plural: plural.clone(),
                singular: names("singular").unwrap_or_else(|| kind.to_lowercase()),
                kind: kind.clone(),
                list_kind: names("listKind").unwrap_or_else(|| format!("{kind}List")),
                short_names: array(definition, "/spec/names/shortNames")
                    .iter()
                    .filter_map(|name| name.as_str().map(str::to_owned))
                    .collect(),
                namespaced: text(definition, "/spec/scope") == Some("Namespaced"),
                status: version.pointer("/subresources/status").is_some(),
                scale: version.pointer("/subresources/scale").and_then(scale::Paths::parse),
                generation: true,
                selectable: array(version, "/selectableFields")
                    .iter()
                    .filter_map(|field| text(field, "/jsonPath"))
                    .map(|path| path.trim_start_matches('.').to_owned())
                    .collect(),
                answered: false,
                origin: origin.clone(),
                schema: Some(SchemaRef { definition: Arc::clone(definition), version: index }),
            })
        })
        .collect()
}

/// Returns the versions in which a CRD or an APIResourceSchema stores its objects.
pub(crate) fn storage_versions(definition: &Value) -> Vec<&str> {
    let versions = array(definition, "/spec/versions").iter();
    versions.filter(|version| version["storage"] == true).filter_map(|version| text(version, "/name")).collect()
}

/// Returns a resource without a schema.
pub(crate) fn plain(group: &str, versions: &[&str], version: &str, plural: &str, kind: &str) -> Resource {
    Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        versions: versions.iter().map(|&version| version.to_owned()).collect(),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        short_names: Vec::new(),
        namespaced: false,
        status: false,
        scale: None,
        generation: false,
        selectable: Vec::new(),
        answered: false,
        origin: Origin::BuiltIn,
        schema: None,
    }
}

pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}
