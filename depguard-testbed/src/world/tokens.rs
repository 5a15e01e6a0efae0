//! Tokens of ServiceAccounts: JSON web tokens with the claims of real ones, signed with a key that is made at the start.
//! The server keeps no token.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::{Value, json};

use crate::options::Kind;
use crate::protocol::json::random;

/// Shortest life in real servers.
pub(crate) const SHORTEST: Duration = Duration::from_secs(600);

/// Key that signs tokens, and their shortest life.
pub(crate) struct Tokens {
    key: hmac::Key,
    pub(crate) shortest: u64,
}

impl Tokens {
    pub(crate) fn new(shortest: Option<Duration>) -> Self {
        let secret: Vec<u8> = (0..4).flat_map(|_| random().to_be_bytes()).collect();
        let shortest = shortest.unwrap_or(SHORTEST).as_secs().max(1);
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, &secret), shortest }
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        let header = json!({"alg": "HS256", "typ": "JWT"});
        let signed = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
        let signature = hmac::sign(&self.key, signed.as_bytes());
        format!("{signed}.{}", encode(signature))
    }

    /// Returns the claims of a token that was signed here.
    pub(crate) fn verify(&self, token: &str) -> Option<Value> {
        let (signed, signature) = token.rsplit_once('.')?;
        hmac::verify(&self.key, signed.as_bytes(), &decode(signature)?).ok()?;
        let (_, claims) = signed.split_once('.')?;
        serde_json::from_slice(&decode(claims)?).ok()
    }
}

/// Hides the key.
impl std::fmt::Debug for Tokens {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Tokens").field("shortest", &self.shortest).finish_non_exhaustive()
    }
}

/// Returns the name of the server as issuer and audience.
pub(crate) fn audience_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Kcp => "https://kcp.default.svc",
        Kind::Kubernetes => "https://kubernetes.default.svc",
    }
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}
