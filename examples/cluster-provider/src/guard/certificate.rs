//! Certificate of the webhook.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::{Error, Result};

/// Certificate with its key and its authority, all of them as PEM.
pub(super) struct Certificate {
    chain: String,
    key: String,
    /// Certificate of the authority that issued it.
    pub(super) authority: String,
}

impl Certificate {
    /// Reads `tls.crt`, `tls.key` and `ca.crt` of a folder, as cert-manager writes them. Without `ca.crt`, the
    /// certificate is its own authority. The files are read once: a renewed certificate is used after the next start.
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

    /// Makes a certificate for the host of a URL. The certificate is its own authority.
    pub(super) fn make(url: &str) -> Result<Self> {
        let host = url.parse::<http::Uri>().ok().and_then(|url| url.host().map(str::to_owned));
        let Some(host) = host else {
            return Err(Error::Refused(format!(
                "the webhook's URL `{url}` has no host: write a URL such as `https://10.0.0.7:9443`"
            )));
        };
        // In a certificate, an IPv6 address has no brackets, as it has in a URL.
        let host = host.trim_matches(['[', ']']).to_owned();
        let made = rcgen::generate_simple_self_signed([host])
            .map_err(|error| Error::Refused(format!("cannot make a certificate for `{url}`: {error}")))?;
        let chain = made.cert.pem();
        Ok(Self { key: made.signing_key.serialize_pem(), authority: chain.clone(), chain })
    }

    /// Returns the TLS configuration of a server.
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
