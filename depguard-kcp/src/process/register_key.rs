//! Secret with the key of the reference registers, in depguard's own namespace, in kcp in depguard's own workspace. The
//! controller makes the Secret once; the webhook reads it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use depguard_core::interlock::RegisterKey;
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Value, json};

use crate::http::endpoint::Endpoint;
use crate::http::objects::{ApiError, Preconditions};

/// Secret with the key of the reference registers.
#[derive(Debug, Clone)]
pub struct RegisterKeySecret {
    endpoint: Endpoint,
    namespace: String,
}

/// Key of the reference registers as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the Secret has no more parts")]
pub struct StoredRegisterKey {
    /// The key.
    pub key: RegisterKey,
    /// True if no controller ever wrote a path with the registers' generation that the key did not sign.
    pub signs_paths: bool,
}

impl RegisterKeySecret {
    /// Name of the Secret.
    pub const NAME: &str = "depguard-reference-registers";
    /// Namespace of the Secret, unless told otherwise.
    pub const NAMESPACE: &str = "depguard-system";
    /// Field of the Secret's data.
    const FIELD: &str = "key";
    /// Field of the Secrets that are made since paths are signed.
    const PATHS: &str = "paths";

    /// Names the Secret in this namespace of the cluster or workspace.
    pub fn new(endpoint: Endpoint, namespace: impl Into<String>) -> Self {
        Self { endpoint, namespace: namespace.into() }
    }

    /// Reads the key; `None` if there is no Secret. An error says what to do.
    pub async fn read(&self) -> Result<Option<StoredRegisterKey>, String> {
        match self.endpoint.get_json(&self.path()).await {
            Ok(secret) => self.key_of(&secret).map(Some),
            Err(error) if error.is_missing(Self::NAME) => Ok(None),
            Err(error) => Err(self.problem("read", &error)),
        }
    }

    /// Creates the Secret with a key, with `known` or with a random one. If somebody else has just created it, this is
    /// an error, and another read shows the key.
    pub async fn create(&self, known: Option<RegisterKey>) -> Result<RegisterKey, String> {
        let key = match known {
            Some(key) => key,
            None => {
                let mut bytes = [0; RegisterKey::LEN];
                let no_random =
                    |_| "the operating system gives no random number for the key of the registers".to_owned();
                SystemRandom::new().fill(&mut bytes).map_err(no_random)?;
                RegisterKey::new(bytes)
            }
        };
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": Self::NAME, "namespace": self.namespace},
            "immutable": true,
            "data": {Self::FIELD: STANDARD.encode(key.expose()), Self::PATHS: STANDARD.encode("signed")},
        });
        let created = self.endpoint.post_json(&self.collection(), &secret).await;
        created.map(|_| key).map_err(|error| self.problem("create", &error))
    }

    /// Deletes the Secret, if it is there.
    pub async fn delete(&self) -> Result<(), ApiError> {
        match self.endpoint.delete(&self.path(), Preconditions::default()).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    fn key_of(&self, secret: &Value) -> Result<StoredRegisterKey, String> {
        let data = |field| STANDARD.decode(secret.get("data")?.get(field)?.as_str()?).ok();
        let key = data(Self::FIELD).and_then(|bytes| bytes.try_into().ok()).map(RegisterKey::new);
        let key = key.map(|key| StoredRegisterKey { key, signs_paths: data(Self::PATHS).is_some() });
        key.ok_or_else(|| {
            let Self { namespace, .. } = self;
            format!("Secret {namespace}/{} has no key of the reference registers: delete it, and the controller makes another", Self::NAME)
        })
    }

    fn problem(&self, verb: &str, error: &ApiError) -> String {
        format!(
            "could not {verb} Secret {}/{} with the key of the reference registers: {error}",
            self.namespace,
            Self::NAME
        )
    }

    fn collection(&self) -> String {
        format!("/api/v1/namespaces/{}/secrets", self.namespace)
    }

    fn path(&self) -> String {
        format!("{}/{}", self.collection(), Self::NAME)
    }
}
