//! Secret of a request on the platform cluster, and the token in it.

use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use k8s_openapi::jiff::Timestamp;
use kube_client::core::ObjectMeta;
use kube_client::core::params::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube_client::{Api, Client};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::credentials::{ACCOUNT_UID, Door, Token};
use super::desired_objects::{ACCOUNTS, Identity};
use super::status::Halt;
use crate::api::{AccessRequest, GROUP, VERSION};
use crate::platform::{Platform, says_gone};
use crate::{Error, Result};

const SUFFIX: &str = ".kubeconfig";
/// Maximum length of a name.
const MAX_NAME: usize = 253;

/// Secret of one request.
pub(super) struct Slot<'a> {
    secrets: Api<Secret>,
    request: &'a AccessRequest,
    platform: &'a Platform,
    pub(super) name: String,
}

impl<'a> Slot<'a> {
    pub(super) fn new(request: &'a AccessRequest, platform: &'a Platform) -> Self {
        let secrets = Api::namespaced(platform.client(), request.namespace());
        Self { secrets, request, platform, name: name_for(request.name()) }
    }

    /// Returns the Secret if it exists. Refuses a Secret that does not belong to the request.
    pub(super) async fn find(&self) -> Result<Option<Secret>, Halt> {
        let found = self.secrets.get_opt(&self.name).await.map_err(Error::api(format!("read {}", self.shown())))?;
        match found {
            Some(secret) if !self.is_ours(&secret) => Err(Halt::Waits {
                reason: "SecretExists",
                message: format!(
                    "{} exists and does not belong to this request, which needs that name: delete it if nobody needs \
                     it, or create a request with another name",
                    self.shown()
                ),
            }),
            found => Ok(found),
        }
    }

    /// Writes a token into the Secret. `found` is the Secret as it was read.
    pub(super) async fn fill(&self, found: Option<&Secret>, token: &Token, door: &Door) -> Result<()> {
        let doing = || Error::api(format!("write {}", self.shown()));
        let mut manifest = json!({
            "metadata": {
                "labels": self.platform.labels(),
                "annotations": {ACCOUNT_UID: door.account_uid},
            },
            "data": token.data(door),
        });
        if let Some(found) = found {
            manifest["metadata"]["resourceVersion"] = json!(found.metadata.resource_version);
            let patch = Patch::Merge(manifest);
            self.secrets.patch(&self.name, &PatchParams::default(), &patch).await.map_err(doing())?;
            return Ok(());
        }
        manifest["metadata"]["name"] = Value::from(self.name.as_str());
        manifest["metadata"]["ownerReferences"] = json!([self.owner()]);
        manifest["type"] = Value::from("Opaque");
        let secret =
            serde_json::from_value(manifest).map_err(|error| doing()(kube_client::Error::SerdeError(error)))?;
        self.secrets.create(&PostParams::default(), &secret).await.map_err(doing())?;
        Ok(())
    }

    /// Deletes the Secret if it exists and belongs to the request.
    pub(super) async fn empty(&self) -> Result<()> {
        let secret = match self.secrets.get(&self.name).await {
            Ok(secret) if self.is_ours(&secret) => secret,
            Ok(_) => return Ok(()),
            Err(error) if says_gone(&error, &self.name) => return Ok(()),
            Err(error) => return Err(Error::api(format!("read {}", self.shown()))(error)),
        };
        let ObjectMeta { uid, resource_version, .. } = secret.metadata;
        let parameters =
            DeleteParams { preconditions: Some(Preconditions { uid, resource_version }), ..DeleteParams::default() };
        match self.secrets.delete(&self.name, &parameters).await {
            Err(error) if !says_gone(&error, &self.name) => Err(Error::api(format!("delete {}", self.shown()))(error)),
            _ => Ok(()),
        }
    }

    fn is_ours(&self, secret: &Secret) -> bool {
        let owners = secret.metadata.owner_references.iter().flatten();
        owners.into_iter().any(|owner| owner.uid == self.request.uid())
    }

    fn owner(&self) -> OwnerReference {
        OwnerReference {
            api_version: format!("{GROUP}/{VERSION}"),
            kind: "AccessRequest".to_owned(),
            name: self.request.name().to_owned(),
            uid: self.request.uid().to_owned(),
            controller: Some(true),
            block_owner_deletion: None,
        }
    }

    fn shown(&self) -> String {
        format!("Secret `{}/{}`", self.request.namespace(), self.name)
    }
}

/// Requests a token of the request's ServiceAccount from the cluster. The server may grant another lifetime than the
/// requested one.
pub(super) async fn new_token(client: Client, identity: &Identity, lifetime: Duration) -> Result<Token> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client, ACCOUNTS);
    let seconds = i64::try_from(lifetime.as_secs()).unwrap_or(i64::MAX);
    let spec = TokenRequestSpec { expiration_seconds: Some(seconds), ..TokenRequestSpec::default() };
    let asked = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    // The same clock decides about the renewal. It may differ from the server's.
    let created = Timestamp::now();
    let doing = format!("get a token of ServiceAccount `{ACCOUNTS}/{}` in the cluster", identity.as_str());
    let given = accounts.create_token_request(identity.as_str(), &PostParams::default(), &asked).await;
    let given = given.map_err(Error::api(doing.as_str()))?;
    let answer = given.status.and_then(|status| Some((status.token?, status.expiration_timestamp?.0)));
    let (token, expires) = answer.ok_or_else(|| Error::Refused(format!("cannot {doing}: the answer has none")))?;
    Ok(Token { token, created, expires })
}

/// Returns the Secret's name. A name that would be too long is cut, and gets a hash.
fn name_for(request: &str) -> String {
    if request.len() + SUFFIX.len() <= MAX_NAME {
        return format!("{request}{SUFFIX}");
    }
    let digest: String = Sha256::digest(request).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let shown: String = request.chars().take(MAX_NAME - SUFFIX.len() - digest.len() - 1).collect();
    format!("{shown}-{digest}{SUFFIX}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secrets_name_fits_and_is_the_requests_own() {
        let long = |last: &str| name_for(&format!("{}{last}", "a".repeat(250)));
        assert_eq!(name_for("reader"), "reader.kubeconfig");
        assert_eq!(name_for(&"a".repeat(242)).len(), MAX_NAME);
        assert!(long("b").len() <= MAX_NAME);
        assert_ne!(long("b"), long("c"));
    }
}
