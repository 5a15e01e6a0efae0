//! Holder of a request's kubeconfig.

use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::jiff::Timestamp;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::core::params::ListParams;
use kube_client::core::{Resource, ResourceExt};
use kube_client::{Api, Client, Config};
use serde::de::DeserializeOwned;

use super::super::stage::Stage;
use crate::api::{AccessRequest, MANAGED_BY, secret};
use crate::platform::connect;
use crate::{Error, Result};

/// Holder who reads the kubeconfig anew each time, as a pod does that mounts it.
pub(super) struct Holder<'a> {
    stage: &'a Stage,
    secrets: Api<Secret>,
    name: String,
}

impl<'a> Holder<'a> {
    /// Returns the holder of a granted request's kubeconfig.
    pub(super) fn new(stage: &'a Stage, request: &AccessRequest) -> Result<Self> {
        let named = request.status.as_ref().and_then(|status| status.secret_ref.as_ref());
        let name = named.ok_or_else(|| Error::Refused(format!("{} has no secretRef", request.shown())))?.name.clone();
        Ok(Self { stage, secrets: Api::namespaced(stage.platform.client(), request.namespace()), name })
    }

    /// Returns the keys of the Secret, without its secret values.
    pub(super) async fn outline(&self) -> Result<String> {
        let data = self.secret().await?.data.unwrap_or_default();
        let keys: Vec<&str> = data.keys().map(String::as_str).collect();
        Ok(format!("Secret `{}` has {}", self.name, keys.join(", ")))
    }

    /// Returns the token of the Secret.
    pub(super) async fn token(&self) -> Result<String> {
        self.text(secret::TOKEN).await
    }

    /// Returns the time of the token's expiry.
    pub(super) async fn expires(&self) -> Result<Timestamp> {
        let text = self.text(secret::EXPIRES).await?;
        let time = text.parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
        time.ok_or_else(|| Error::Refused(format!("Secret `{}` says that it expires at `{text}`", self.name)))
    }

    /// Returns a client with the present kubeconfig, which the client keeps.
    pub(super) async fn client(&self) -> Result<Client> {
        let failed =
            |source| Error::Kubeconfig { which: format!("in Secret `{}`", self.name), source: Box::new(source) };
        let kubeconfig = Kubeconfig::from_yaml(&self.text(secret::KUBECONFIG).await?).map_err(failed)?;
        connect(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.map_err(failed)?)
    }

    /// Does something that is allowed, and shows the result.
    pub(super) async fn may(
        &self,
        what: &str,
        attempt: impl AsyncFn(Client) -> kube_client::Result<String>,
    ) -> Result<()> {
        let came = self.stage.eventually(what, async || Ok(self.attempt(what, &attempt).await?.and_then(Result::ok)));
        self.stage.show(&format!("{what}: {}", came.await?));
        Ok(())
    }

    /// Tries something that is not allowed, and shows the refusal.
    pub(super) async fn must_not(
        &self,
        what: &str,
        attempt: impl AsyncFn(Client) -> kube_client::Result<String>,
    ) -> Result<()> {
        let refused = format!("{what} is refused");
        let came = async || Ok(self.attempt(what, &attempt).await?.and_then(Result::err));
        let said = self.stage.eventually(&refused, came).await?;
        self.stage.show(&format!("{what}: refused: {said}"));
        Ok(())
    }

    /// Fails if the Secret still exists.
    pub(super) async fn is_gone(&self) -> Result<()> {
        match self.secrets.get_opt(&self.name).await.map_err(Error::api(format!("read Secret `{}`", self.name)))? {
            Some(_) => Err(Error::Refused(format!("Secret `{}` is still there", self.name))),
            None => Ok(()),
        }
    }

    /// Returns the result or the refusal; `None` if the token expired between reading and using it.
    async fn attempt(
        &self,
        what: &str,
        attempt: &impl AsyncFn(Client) -> kube_client::Result<String>,
    ) -> Result<Option<Result<String, String>>> {
        match attempt(self.client().await?).await {
            Ok(came) => Ok(Some(Ok(came))),
            Err(kube_client::Error::Api(status)) if status.code == 403 => Ok(Some(Err(status.message))),
            Err(kube_client::Error::Api(status)) if status.code == 401 => Ok(None),
            Err(error) => Err(Error::api(what)(error)),
        }
    }

    async fn text(&self, key: &str) -> Result<String> {
        let bytes = self.secret().await?.data.and_then(|mut data| data.remove(key));
        let text = bytes.and_then(|bytes| String::from_utf8(bytes.0).ok());
        text.ok_or_else(|| Error::Refused(format!("Secret `{}` has no `{key}`", self.name)))
    }

    async fn secret(&self) -> Result<Secret> {
        self.secrets.get(&self.name).await.map_err(Error::api(format!("read Secret `{}`", self.name)))
    }
}

/// Returns the names of all objects that a provider made for requests in a workspace, except namespaces.
pub(super) async fn made_in(workspace: &Client) -> Result<Vec<String>> {
    let mut made = of_kind::<ServiceAccount>(workspace).await?;
    made.extend(of_kind::<ClusterRole>(workspace).await?);
    made.extend(of_kind::<ClusterRoleBinding>(workspace).await?);
    made.extend(of_kind::<Role>(workspace).await?);
    made.extend(of_kind::<RoleBinding>(workspace).await?);
    Ok(made)
}

async fn of_kind<K>(workspace: &Client) -> Result<Vec<String>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let all: Api<K> = Api::all(workspace.clone());
    let made = all.list(&ListParams::default().labels(MANAGED_BY)).await;
    let made = made.map_err(Error::api(format!("list {}", K::plural(&()))))?;
    Ok(made.iter().map(|object| format!("{} `{}`", K::kind(&()), object.name_any())).collect())
}
