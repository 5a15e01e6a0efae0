//! Platform cluster, which has the Clusters and AccessRequests.

use std::collections::BTreeMap;
use std::path::Path;

use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::core::params::{GetParams, Patch, PatchParams};
use kube_client::core::{DynamicObject, Request, Resource};
use kube_client::{Api, Client, Config};
use serde_json::{Value, json};

use crate::api::{ENVIRONMENT, FINALIZER, IGNORE, Kind, MANAGED_BY, OPERATION, Object, RECONCILE};
use crate::{Error, Result};

/// Client of the platform cluster, with this provider's name and environment. Clones share the client.
#[derive(Clone)]
pub struct Platform {
    client: Client,
    provider: String,
    environment: String,
}

impl Platform {
    /// Makes a platform for this provider in this environment, on the cluster that the client reaches.
    pub fn new(client: Client, provider: impl Into<String>, environment: impl Into<String>) -> Self {
        Self { client, provider: provider.into(), environment: environment.into() }
    }

    /// Returns the client, for objects of other kinds than the contract's.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns this provider's name, as in `--provider-name`.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// Returns the environment's name.
    pub fn environment(&self) -> &str {
        &self.environment
    }

    /// Returns the labels of all objects that this provider makes.
    pub fn labels(&self) -> BTreeMap<String, String> {
        let labels = [(MANAGED_BY, &self.provider), (ENVIRONMENT, &self.environment)];
        labels.map(|(key, value)| (key.to_owned(), value.clone())).into()
    }

    /// Returns the API of all objects of a kind, in every namespace.
    pub fn all<K: Kind>(&self) -> Api<Object<K>> {
        Api::all(self.client.clone())
    }

    /// Returns the object of this name, if it exists. `namespace` is empty for a cluster-scoped object.
    pub async fn find<K: Kind>(&self, namespace: &str, name: &str) -> Result<Option<Object<K>>> {
        if name.is_empty() {
            return Ok(None);
        }
        let doing = || format!("read {} `{name}`", K::KIND);
        let request = requests::<K>(namespace).get(name, &GetParams::default());
        let request = request.map_err(|error| Error::api(doing())(kube_client::Error::BuildRequest(error)))?;
        match self.client.request(request).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if says_gone(&error, name) => Ok(None),
            Err(error) => Err(Error::api(doing())(error)),
        }
    }

    /// Patches an object by JSON merge, if it has not changed since it was read.
    pub async fn patch<K: Kind>(&self, object: &Object<K>, patch: Value) -> Result<()> {
        self.send(object, None, patch).await
    }

    /// Adds this provider's finalizer, if it is missing. Returns true if it was missing: then the object has changed
    /// since it was read.
    pub async fn hold<K: Kind>(&self, object: &Object<K>) -> Result<bool> {
        if object.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
            return Ok(false);
        }
        let finalizers: Vec<_> = object.finalizers().iter().map(String::as_str).chain([FINALIZER]).collect();
        self.patch(object, json!({"metadata": {"finalizers": finalizers}})).await?;
        Ok(true)
    }

    /// Removes this provider's finalizer, if it is there.
    pub async fn release<K: Kind>(&self, object: &Object<K>) -> Result<()> {
        if !object.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
            return Ok(());
        }
        let finalizers: Vec<_> = object.finalizers().iter().filter(|&finalizer| finalizer != FINALIZER).collect();
        self.patch(object, json!({"metadata": {"finalizers": finalizers}})).await
    }

    /// Writes a status if it differs.
    pub async fn report<K: Kind>(&self, object: &Object<K>, status: &K::Status) -> Result<()> {
        if object.status.as_ref() == Some(status) {
            return Ok(());
        }
        let mut patch = json!({"status": status});
        // Fields that the new status lacks must be removed. A merge leaves fields alone that it does not name.
        let before = serde_json::to_value(&object.status).unwrap_or_default();
        for field in before.as_object().into_iter().flat_map(serde_json::Map::keys) {
            patch["status"].as_object_mut().map(|after| after.entry(field.as_str()).or_insert(Value::Null));
        }
        self.send(object, Some("status"), patch).await
    }

    /// Returns true if the object's annotation [`OPERATION`] says to leave it alone.
    pub fn is_ignored<K: Kind>(object: &Object<K>) -> bool {
        object.annotation(OPERATION) == Some(IGNORE)
    }

    /// Returns true if the object's annotation [`OPERATION`] asks for another look.
    pub fn is_asked<K: Kind>(object: &Object<K>) -> bool {
        object.annotation(OPERATION) == Some(RECONCILE)
    }

    /// Removes the annotation that asks for another look, if it is there. Returns true if it was.
    pub async fn take_up<K: Kind>(&self, object: &Object<K>) -> Result<bool> {
        if !Self::is_asked(object) {
            return Ok(false);
        }
        self.patch(object, json!({"metadata": {"annotations": {OPERATION: null}}})).await?;
        Ok(true)
    }

    async fn send<K: Kind>(&self, object: &Object<K>, subresource: Option<&str>, mut patch: Value) -> Result<()> {
        let what = subresource.map_or(String::new(), |subresource| format!("the {subresource} of "));
        let doing = || format!("write {what}{}", object.shown());
        // A merge replaces whole lists, so entries that another client added meanwhile would be lost without this
        // version.
        patch["metadata"]["resourceVersion"] = json!(object.metadata.resource_version);
        let (requests, parameters, patch) =
            (requests::<K>(object.namespace()), PatchParams::default(), Patch::Merge(patch));
        let request = match subresource {
            Some(subresource) => requests.patch_subresource(subresource, object.name(), &parameters, &patch),
            None => requests.patch(object.name(), &parameters, &patch),
        };
        let request = request.map_err(|error| Error::api(doing())(kube_client::Error::BuildRequest(error)))?;
        self.client.request::<DynamicObject>(request).await.map_err(Error::api(doing()))?;
        Ok(())
    }
}

/// Returns true if an API server says that the object of this name does not exist. The 404 of a server that is
/// starting, or of a path that is not served, names no object and proves nothing.
pub fn says_gone(error: &kube_client::Error, name: &str) -> bool {
    let kube_client::Error::Api(status) = error else { return false };
    status.code == 404 && status.details.as_ref().is_some_and(|details| details.name == name)
}

/// Reads a kubeconfig; without a file, `KUBECONFIG`, `~/.kube/config` or the pod's own account.
pub async fn read_kubeconfig(file: Option<&Path>) -> Result<Config> {
    let Some(file) = file else {
        return Config::infer().await.map_err(|source| Error::Kubeconfig {
            which: "of KUBECONFIG, of the home folder, or of this pod".to_owned(),
            source: source.into(),
        });
    };
    let failed = |source| Error::Kubeconfig { which: format!("`{}`", file.display()), source: Box::new(source) };
    let kubeconfig = Kubeconfig::read_from(file).map_err(failed)?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.map_err(failed)
}

/// Returns a client for a configuration.
pub fn connect(config: Config) -> Result<Client> {
    let url = config.cluster_url.to_string();
    Client::try_from(config).map_err(Error::api(format!("reach `{url}`")))
}

/// Returns requests about objects of a kind, in this namespace unless it is empty.
pub(crate) fn requests<K: Kind>(namespace: &str) -> Request {
    let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
    Request::new(Object::<K>::url_path(&(), namespace))
}
