//! API server that a command reads with its caller's rights.

mod lookup;

use std::sync::Arc;

use depguard_core::applicability::RuleGrants;
use depguard_core::model::{GroupResource, Namespace, Resource, Version};
use depguard_core::{ControlPlane, ExportName, Group, LogicalCluster, WorkspacePath, Workspaces, api};
use depguard_kcp::{ApiError, Connection, Endpoint};
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::Value;
use tokio::sync::OnceCell;

pub(crate) use self::lookup::{Lookup, described};
use crate::cluster::kinds::{KindInfo, Kinds};
use crate::cluster::rule_flaws;
use crate::cluster::rules::{Bound, BoundKind, ReadFailure, Rules};
use crate::cluster::selection::Selection;
use crate::io::exit::Failure;
use crate::io::terminal::Terminal;
use crate::options::Global;

/// Cluster of the kubeconfig, or a workspace of its kcp.
#[derive(Debug)]
pub(crate) struct ApiServer {
    control_plane: ControlPlane,
    connection: Connection,
    endpoint: Endpoint,
    kinds: OnceCell<Kinds>,
    bound: OnceCell<(Option<Bound>, Vec<ReadFailure>)>,
}

const BINDINGS: &str = "/apis/apis.kcp.io/v1alpha2/apibindings";
const EXPORTS: &str = "/apis/apis.kcp.io/v1alpha2/apiexports";
const ITSELF: &str = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster";
const CRD: &str = "CustomResourceDefinition";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Limit on concurrent requests.
pub(crate) const MAX_CONCURRENT_REQUESTS: usize = 8;

impl ApiServer {
    pub(crate) async fn open(global: &Global) -> Result<Self, Failure> {
        let options = global.connect_options(global.control_plane().unwrap_or(ControlPlane::Kubernetes))?;
        let connection = Connection::open(&options)
            .await
            .map_err(|why| Failure::new(why).hint("name a kubeconfig with --kubeconfig, or files with -f"))?;
        let control_plane = global.control_plane().unwrap_or(match connection.own_workspace() {
            Some(_) => ControlPlane::Kcp,
            None => ControlPlane::Kubernetes,
        });
        let endpoint = connection.own_endpoint();
        Ok(Self { control_plane, connection, endpoint, kinds: OnceCell::new(), bound: OnceCell::new() })
    }

    /// Switches to another workspace of the same kcp.
    pub(crate) fn in_workspace(self, path: &WorkspacePath) -> Result<Self, Failure> {
        if self.control_plane == ControlPlane::Kubernetes {
            return Err(Failure::new(format!("`{path}` is a workspace, but the server is not kcp"))
                .hint("name a namespace, or a kcp's kubeconfig"));
        }
        let endpoint = self.connection.workspace(path);
        Ok(Self { endpoint, kinds: OnceCell::new(), bound: OnceCell::new(), ..self })
    }

    /// Forgets the kinds and bindings that were read: the next caller reads them again.
    pub(crate) fn forget(&mut self) {
        (self.kinds, self.bound) = (OnceCell::new(), OnceCell::new());
    }

    pub(crate) fn control_plane(&self) -> ControlPlane {
        self.control_plane
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Returns the endpoint of the cluster or workspace that the command reads.
    pub(crate) fn endpoint(&self) -> Endpoint {
        self.endpoint.clone()
    }

    /// Returns the namespace of the kubeconfig's context.
    pub(crate) fn context_namespace(&self) -> Result<Namespace, Failure> {
        Namespace::parse(self.connection.default_namespace()).map_err(|why| {
            Failure::new(format!("the namespace of the kubeconfig's context {why}")).hint("name one with --namespace")
        })
    }

    /// Returns all kinds that the API server serves, the preferred version of each first.
    pub(crate) async fn kinds(&self) -> Result<&Kinds, Failure> {
        self.kinds.get_or_try_init(|| self.discover()).await
    }

    /// Reads the rules that may apply here. In kcp, these are the workspace's own rules and the rules of each provider
    /// whose export is bound.
    pub(crate) async fn rules(&self) -> Result<Rules, Failure> {
        let (bound, mut unread) = self.bound().await?.clone();
        let mut places = vec![(self.endpoint(), None)];
        let mut workspaces = Workspaces::new();
        for kind in bound.iter().flat_map(|bound| &bound.kinds) {
            let name = kind.path.as_ref().map_or(kind.provider.to_string(), ToString::to_string);
            let is_own = bound.as_ref().is_some_and(|bound| bound.cluster.as_ref() == Some(&kind.provider));
            let known = places.iter().any(|(_, provider)| *provider == Some((kind.provider.clone(), name.clone())));
            if !known && !is_own {
                places.push((self.connection.cluster(&kind.provider), Some((kind.provider.clone(), name))));
            }
            if let Some(path) = &kind.path {
                workspaces.insert(path.clone(), kind.provider.clone());
            }
        }
        let path = format!("/apis/{}/{}/{}", api::GROUP, api::VERSION, api::PLURAL);
        let lists = stream::iter(places).map(|(endpoint, provider)| {
            let path = &path;
            async move { (endpoint.list_json(path).await, provider) }
        });
        let lists: Vec<_> = lists.buffered(MAX_CONCURRENT_REQUESTS).collect().await;
        let mut objects: Vec<Arc<Value>> = Vec::new();
        for (list, provider) in lists {
            let what = provider.map_or("the rules".to_owned(), |(_, name)| format!("the rules of {name}"));
            match list {
                Ok(list) => objects.extend(list.items.into_iter().map(Arc::new)),
                // A workspace without a binding to depguard has no rules.
                Err(why) if why.is_not_found() && self.control_plane == ControlPlane::Kcp => {}
                Err(why) if why.is_not_found() => {
                    return Err(Failure::new("the cluster does not serve DependencyRules")
                        .hint("install depguard first (`kubectl depguard install`), or name files with -f"));
                }
                Err(why) => unread.push(refused(what, &why)?),
            }
        }
        let needs_kinds = objects.iter().any(|rule| rule_flaws::misses_kinds(rule));
        let kinds = if needs_kinds { Some(self.kinds().await?) } else { None };
        let mut rules = Rules {
            control_plane: self.control_plane,
            flawed: objects.iter().filter_map(|rule| rule_flaws::reported(rule, kinds)).collect(),
            objects,
            workspaces,
            rule_grants: RuleGrants::default(),
            bound,
            unread,
        };
        self.read_rule_grants(&mut rules).await?;
        Ok(rules)
    }

    /// Reads the rule grants of the targets' providers: whose rules each provider accepts.
    async fn read_rule_grants(&self, rules: &mut Rules) -> Result<(), Failure> {
        let exports = stream::iter(rules.foreign_exports()).map(|(provider, name)| async move {
            let export = self.connection.cluster(&provider).get_json(&format!("{EXPORTS}/{name}")).await;
            (export, name)
        });
        let mut read = Vec::new();
        for (export, name) in exports.buffered(MAX_CONCURRENT_REQUESTS).collect::<Vec<_>>().await {
            match export {
                Ok(export) => read.push(export),
                // The bindings of the export's consumers outlive the export, and the protection does, too.
                Err(why) if why.is_not_found() => {}
                Err(why) => rules.unread.push(refused(format!("the rule grants of APIExport {name}"), &why)?),
            }
        }
        // The path in a binding is the path of its export; kcp itself has found the provider by that path.
        let kinds = rules.bound.iter().flat_map(|bound| &bound.kinds);
        let workspaces = kinds.filter_map(|kind| Some((kind.provider.clone(), kind.path.clone()?)));
        // The path may also be the workspace's id, which says nothing about the place of the workspace in the tree.
        let workspaces = workspaces.filter(|(provider, path)| provider.as_str() != path.as_str());
        rules.rule_grants = RuleGrants::from_exports(&read, workspaces);
        Ok(())
    }

    /// Passes each object of a kind that is selected to `each`, page by page.
    pub(crate) async fn objects(
        &self,
        kind: &KindInfo,
        namespace: Option<&Namespace>,
        selection: &Selection,
        terminal: &Terminal,
        mut each: impl FnMut(Value),
    ) -> Result<Option<ReadFailure>, Failure> {
        let (path, what) = collection(kind, namespace);
        let path = if selection.is_empty() { path } else { format!("{path}?{}", selection.query()) };
        let (endpoint, progress) = (self.endpoint(), terminal.progress(&format!("reading {what}")));
        let pages = endpoint.list_pages(&path, |page| {
            progress.inc(page.len() as u64);
            page.into_iter().for_each(&mut each);
        });
        match pages.await {
            Ok(()) => Ok(None),
            Err(why) => refused(what, &why).map(Some),
        }
    }

    /// Passes the metadata of each object of a kind to `each`, page by page.
    pub(crate) async fn metadata(
        &self,
        kind: &KindInfo,
        namespace: Option<&Namespace>,
        mut each: impl FnMut(Value),
    ) -> Result<Option<ReadFailure>, Failure> {
        let (path, what) = collection(kind, namespace);
        match self.endpoint().list_metadata_pages(&path, |page| page.into_iter().for_each(&mut each)).await {
            Ok(()) => Ok(None),
            Err(why) => refused(what, &why).map(Some),
        }
    }

    pub(crate) async fn object(
        &self,
        kind: &KindInfo,
        namespace: Option<&Namespace>,
        name: &str,
    ) -> Result<Option<Arc<Value>>, Failure> {
        let namespace = namespace.filter(|_| kind.namespaced != Some(false));
        match self.endpoint().get_json(&kind.path(namespace.map(Namespace::as_str), Some(name))).await {
            Ok(object) => Ok(Some(Arc::new(object))),
            Err(why) if why.is_not_found() => Ok(None),
            Err(why) => Err(failed(&format!("could not read {} {name}", kind.kind), &why)),
        }
    }

    /// Returns true if the API server says that a namespace does not exist; false if the caller may not read the
    /// namespace.
    pub(crate) async fn lacks(&self, namespace: &Namespace) -> Result<bool, Failure> {
        match self.endpoint().get_json(&format!("/api/v1/namespaces/{namespace}")).await {
            Ok(_) => Ok(false),
            Err(why) if why.is_not_found() => Ok(true),
            Err(why) if matches!(why.status(), Some(401 | 403)) => Ok(false),
            Err(why) => Err(failed(&format!("could not read namespace {namespace}"), &why)),
        }
    }

    /// Reads the CustomResourceDefinitions, and in kcp the APIResourceSchemas of the bound kinds.
    pub(crate) async fn definitions(&self) -> Result<(Vec<Arc<Value>>, Vec<ReadFailure>), Failure> {
        let (bound, mut unread) = self.bound().await?.clone();
        let mut definitions = Vec::new();
        match self.endpoint().list_json(CRDS).await {
            Ok(list) => definitions.extend(list.items.into_iter().map(|mut item| {
                // A list names the kind once for all of its items.
                if let Some(item) = item.as_object_mut() {
                    item.entry("kind").or_insert_with(|| CRD.into());
                }
                Arc::new(item)
            })),
            // Some workspaces don't serve CustomResourceDefinitions.
            Err(why) if why.is_not_found() => {}
            Err(why) => unread.push(refused("the CustomResourceDefinitions".to_owned(), &why)?),
        }
        let kinds = bound.into_iter().flat_map(|bound| bound.kinds);
        let schemas = kinds.filter_map(|kind| Some((kind.schema?, kind.provider, kind.kind)));
        let schemas = stream::iter(schemas).map(|(schema, provider, kind)| async move {
            let path = format!("/apis/apis.kcp.io/v1alpha1/apiresourceschemas/{schema}");
            (self.connection.cluster(&provider).get_json(&path).await, kind)
        });
        let schemas: Vec<_> = schemas.buffered(MAX_CONCURRENT_REQUESTS).collect().await;
        for (schema, kind) in schemas {
            match schema {
                Ok(schema) => definitions.push(Arc::new(schema)),
                Err(why) => unread.push(refused(format!("the schema of {kind}"), &why)?),
            }
        }
        Ok((definitions, unread))
    }

    /// Returns the kinds bound in the workspace, with the parts that could not be read; `None` in plain Kubernetes.
    pub(crate) async fn bound(&self) -> Result<&(Option<Bound>, Vec<ReadFailure>), Failure> {
        self.bound
            .get_or_try_init(async || {
                if self.control_plane == ControlPlane::Kubernetes {
                    return Ok((None, Vec::new()));
                }
                let endpoint = self.endpoint();
                match endpoint.list_json(BINDINGS).await {
                    Ok(list) => {
                        let itself = endpoint.get_json(ITSELF).await.ok();
                        let known = list.items.iter().chain(&itself).find_map(cluster_of);
                        Ok((
                            Some(Bound { cluster: known, kinds: list.items.iter().flat_map(bound_by).collect() }),
                            vec![],
                        ))
                    }
                    Err(why) => {
                        let unread = refused("the APIBindings of the workspace".to_owned(), &why)?;
                        Ok((Some(Bound::default()), vec![unread]))
                    }
                }
            })
            .await
    }

    async fn discover(&self) -> Result<Kinds, Failure> {
        let endpoint = self.endpoint();
        let failed = |why: ApiError| failed("could not list the kinds that the API server serves", &why);
        let groups = endpoint.get_json("/apis").await.map_err(failed)?;
        let mut versions = vec![(Group::CORE, "v1".to_owned())];
        for group in groups.get("groups").and_then(Value::as_array).into_iter().flatten() {
            let name = group.get("name").and_then(Value::as_str).and_then(|name| Group::parse(name).ok());
            let Some(name) = name else { continue };
            let text = |version: &Value| version.get("version").and_then(Value::as_str).map(str::to_owned);
            let preferred = group.get("preferredVersion").and_then(text);
            let all = group.get("versions").and_then(Value::as_array).into_iter().flatten().filter_map(text);
            let others = all.filter(|version| Some(version) != preferred.as_ref()).collect::<Vec<_>>();
            versions.extend(preferred.iter().cloned().chain(others).map(|version| (name.clone(), version)));
        }
        let lists = stream::iter(versions).map(|(group, version)| {
            let endpoint = &endpoint;
            async move {
                let path = if group.is_core() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
                match endpoint.get_json(&path).await {
                    Ok(list) => Ok((group, version, Some(list), None)),
                    // The group's version was removed after `/apis` was read.
                    Err(why) if why.is_not_found() => Ok((group, version, None, None)),
                    // An aggregated API that is down hides its own kinds only.
                    Err(why) if why.status().is_some() => Ok((group, version, None, Some(why.to_string()))),
                    Err(why) => Err(why),
                }
            }
        });
        let lists: Vec<_> = lists.buffered(MAX_CONCURRENT_REQUESTS).try_collect().await.map_err(failed)?;
        let mut kinds = Kinds::default();
        for (group, version, list, unread) in lists {
            if let (Ok(version), Some(list)) = (Version::parse(&version), list) {
                KindInfo::of_discovery(&group, &version, &list).into_iter().for_each(|kind| kinds.learn(kind));
            }
            if let Some(why) = unread {
                let place = if group.is_core() { version } else { format!("{group}/{version}") };
                kinds.miss(group, ReadFailure::new(format!("the kinds of {place}"), why));
            }
        }
        Ok(kinds)
    }
}

/// Returns the path of a kind's objects in a namespace or in all, and the name of the kind.
fn collection(kind: &KindInfo, namespace: Option<&Namespace>) -> (String, String) {
    let namespace = namespace.filter(|_| kind.namespaced != Some(false));
    (kind.path(namespace.map(Namespace::as_str), None), kind.gvr.group_resource().to_string())
}

/// Turns an API server's refusal into a part that could not be read, or into the failure that ends the command.
pub(crate) fn refused(what: String, why: &ApiError) -> Result<ReadFailure, Failure> {
    match why.status() {
        Some(403) => Ok(ReadFailure::new(what, ReadFailure::NO_RIGHT)),
        Some(404) => Ok(ReadFailure::new(what, ReadFailure::NOT_SERVED)),
        Some(405) => Ok(ReadFailure::new(what, ReadFailure::NOT_LISTED)),
        Some(410) => Err(Failure::new(format!("the list of {what} expired while it was read")).hint("run it again")),
        _ => Err(failed(&format!("could not read {what}"), why)),
    }
}

/// Builds the failure for a request that the API server did not answer or refused, with the next step for the user.
pub(crate) fn failed(what: &str, why: &ApiError) -> Failure {
    Failure::new(format!("{what}: {why}")).hint(next_step(why))
}

/// Returns the user's next step after an API server gave no answer, or an unusable one.
pub(crate) fn next_step(why: &ApiError) -> &'static str {
    match (why.status(), why) {
        (Some(401), _) => "renew the credentials of the kubeconfig",
        (Some(403), _) => "ask for the right to do that",
        (Some(_), _) | (None, ApiError::Unusable { .. }) => "run it again",
        (None, _) if why.to_string().to_lowercase().contains("certificate") => {
            "set the kubeconfig's certificate-authority to the CA of the API server's certificate"
        }
        (None, _) => "run it again once the API server answers: `kubectl get --raw /readyz`",
    }
}

fn cluster_of(object: &Value) -> Option<LogicalCluster> {
    LogicalCluster::parse(object.pointer("/metadata/annotations/kcp.io~1cluster")?.as_str()?).ok()
}

/// Returns the kinds that an APIBinding binds.
fn bound_by(binding: &Value) -> Vec<BoundKind> {
    let text = |pointer: &str| binding.pointer(pointer).and_then(Value::as_str);
    let provider = text("/status/apiExportClusterName").and_then(|cluster| LogicalCluster::parse(cluster).ok());
    let export = text("/spec/reference/export/name").and_then(|name| ExportName::parse(name).ok());
    let (Some(provider), Some(export)) = (provider, export) else { return Vec::new() };
    let path = text("/spec/reference/export/path").and_then(|path| WorkspacePath::parse(path).ok());
    let resources = binding.pointer("/status/boundResources").and_then(Value::as_array).into_iter().flatten();
    let kinds = resources.filter_map(|bound| {
        let group = Group::parse(bound.get("group").and_then(Value::as_str).unwrap_or_default()).ok()?;
        let resource = Resource::parse(bound.get("resource")?.as_str()?).ok()?;
        Some(BoundKind {
            kind: GroupResource { group, resource },
            provider: provider.clone(),
            export: export.clone(),
            path: path.clone(),
            schema: bound.pointer("/schema/name").and_then(Value::as_str).map(str::to_owned),
        })
    });
    kinds.collect()
}

#[cfg(test)]
mod tests {
    use depguard_kcp::{ConnectOptions, Status};

    use super::*;

    #[test]
    fn what_to_do_about_an_answer_is_said_by_what_it_was() {
        let refused = |code| {
            let status =
                Status { code, reason: String::new(), message: String::new(), name: String::new(), causes: vec![] };
            next_step(&ApiError::Refused { request: "GET /a".to_owned(), status })
        };
        assert_eq!(refused(401), "renew the credentials of the kubeconfig");
        assert_eq!(refused(403), "ask for the right to do that");
        assert_eq!(refused(500), "run it again");
    }

    #[tokio::test]
    async fn where_nobody_answers_the_next_step_is_to_wait_for_that() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kubeconfig");
        let kubeconfig = "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], \
                          clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}], users: [{name: a, user: {}}]}";
        std::fs::write(&file, kubeconfig).unwrap();
        let connection =
            Connection::open(&ConnectOptions::new(ControlPlane::Kubernetes).kubeconfig(Some(file))).await.unwrap();
        let why = connection.own_endpoint().get_json("/api").await.unwrap_err();
        assert_eq!(next_step(&why), "run it again once the API server answers: `kubectl get --raw /readyz`");
    }
}
