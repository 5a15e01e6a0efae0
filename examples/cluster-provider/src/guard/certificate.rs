//! The certificate that the webhook shows.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::{Error, Result};

/// A certificate with its key, and whom to trust for it. All of it as PEM.
pub(super) struct Certificate {
    chain: String,
    key: String,
    /// The certificate of the authority that made it.
    pub(super) authority: String,
}

impl Certificate {
    /// `tls.crt`, `tls.key` and `ca.crt` of a folder, as cert-manager writes them; without `ca.crt` the first is its own
    /// authority. They are read once: a renewed certificate counts from the next start on.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let read = |name: &str| {
            let file = folder.join(name);
            let why = |error| format!("cannot read the webhook's certificate from `{}`: {error}", file.display());
            std::fs::read_to_string(&file).map_err(|error| Error::Refused(why(error)))
        };
        let chain = read("tls.crt")?;
        let authority = if folder.join("ca.crt").exists() { read("ca.crt")? } else { chain.clone() };
        Ok(Self { key: read("tls.key")?, chain, authority })
    }

    /// One that is its own authority, for the host of a URL.
    pub(super) fn make(url: &str) -> Result<Self> {
        let host = url.parse::<http::Uri>().ok().and_then(|url| url.host().map(str::to_owned));
        let Some(host) = host else {
            return Err(Error::Refused(format!(
                "the webhook's URL `{url}` names no host: write it as in `https://10.0.0.7:9443`"
            )));
        };
        // As in a certificate, an IPv6 address stands without the brackets that a URL has.
        let host = host.trim_matches(['[', ']']).to_owned();
        let made = rcgen::generate_simple_self_signed([host])
            .map_err(|error| Error::Refused(format!("cannot make a certificate for `{url}`: {error}")))?;
        let chain = made.cert.pem();
        Ok(Self { key: made.signing_key.serialize_pem(), authority: chain.clone(), chain })
    }

    /// What a server does TLS with.
    pub(super) fn server(&self) -> Result<Arc<ServerConfig>> {
        let unusable = |why: String| {
            Error::Refused(format!("the webhook's certificate can't be used: {why}; tls.crt and tls.key must be PEM"))
        };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(self.chain.as_bytes()).collect();
        let chain = chain.map_err(|error| unusable(error.to_string()))?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(|error| unusable(error.to_string()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|error| unusable(error.to_string()))?;
        Ok(Arc::new(config))
    }
}
