//! Certificate of the server: read from a folder, and read again when it changes.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use depguard_kcp::{FileError, Files, Reload, WatchedFile, certificate_expiry};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, RootCertStore, ServerConfig};

/// Name of the file with the certificate chain, leaf first.
const CERTIFICATE: &str = "tls.crt";
/// Name of the file with the private key.
const KEY: &str = "tls.key";
/// Maximum size of a file with certificates or a key, in bytes.
pub(crate) const MAX_FILE: usize = 1 << 20;

/// Reason why a certificate can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// A file can't be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file holds something else than PEM of its kind.
    #[error("`{}` holds no {what} in PEM: {why}", file.display())]
    NotPem {
        /// Path of the file.
        file: PathBuf,
        /// Kind of content that the file should hold.
        what: &'static str,
        /// Problem with the content.
        why: String,
    },
    /// The key is of another certificate.
    #[error("`tls.key` is not the key of the first certificate in `tls.crt` (folder `{}`)", folder.display())]
    WrongKey {
        /// Folder of both files.
        folder: PathBuf,
    },
    /// A certificate or key that TLS can't work with.
    #[error("the certificate in `{}` cannot be used: {why}", folder.display())]
    Unusable {
        /// Folder of the certificate.
        folder: PathBuf,
        /// Problem with the certificate or the key.
        #[source]
        why: rustls::Error,
    },
    /// TLS can't be set up.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// Certificate for new connections.
pub(crate) struct Certificates {
    current: ArcSwap<CertifiedKey>,
}

/// Certificate and key, followed in the files of a folder.
pub(crate) type Pair = WatchedFile<Arc<CertifiedKey>, CertificateError, 2>;

/// Reads the certificate of a folder.
pub(crate) async fn open(folder: &Path, reload: Reload) -> Result<Pair, CertificateError> {
    let paths = [CERTIFICATE, KEY].map(|name| folder.join(name));
    let (files, folder) = (Files { what: "TLS certificate", paths, longest: MAX_FILE }, folder.to_owned());
    WatchedFile::open(files, reload, move |[certificate, key]| parse(&folder, certificate, key).map(Arc::new)).await
}

impl Certificates {
    /// Begins with the present pair.
    pub(crate) fn new(pair: &Pair) -> Self {
        Self { current: ArcSwap::new(Arc::clone(pair.current())) }
    }

    /// Replaces the certificate for new connections.
    pub(crate) fn replace(&self, pair: &Arc<CertifiedKey>) {
        self.current.store(Arc::clone(pair));
    }

    /// Returns the TLS configuration: versions 1.2 and later, HTTP/2 before HTTP/1.1. With `clients`, only a client
    /// with a certificate of one of these authorities is let in.
    pub(crate) fn server_config(
        self: &Arc<Self>,
        clients: Option<RootCertStore>,
    ) -> Result<ServerConfig, CertificateError> {
        let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
        let mut config = match clients {
            None => builder.with_no_client_auth().with_cert_resolver(self.clone()),
            Some(roots) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).build();
                let verifier = verifier.map_err(|why| rustls::Error::General(why.to_string()))?;
                let mut config = builder.with_client_cert_verifier(verifier).with_cert_resolver(self.clone());
                // A resumed session would not show the client's certificate again, which may have expired meanwhile.
                config.session_storage = Arc::new(NoServerSessionStorage {});
                config.send_tls13_tickets = 0;
                config
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    /// Returns the time at which the first of the certificates in force expires, in seconds since 1970.
    pub(crate) fn expiry(&self) -> Option<i64> {
        self.current.load().cert.iter().filter_map(|certificate| certificate_expiry(certificate)).min()
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").finish_non_exhaustive()
    }
}

fn parse(folder: &Path, certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, CertificateError> {
    let not_pem = |name: &str, what, why: pem::Error| {
        let why = match why {
            pem::Error::NoItemsFound => "no such PEM section".to_owned(),
            why => why.to_string(),
        };
        CertificateError::NotPem { file: folder.join(name), what, why }
    };
    let no_chain = |why| not_pem(CERTIFICATE, "certificate", why);
    let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate).collect::<Result<_, _>>().map_err(no_chain)?;
    if chain.is_empty() {
        return Err(no_chain(pem::Error::NoItemsFound));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|why| not_pem(KEY, "private key", why))?;
    CertifiedKey::from_der(chain, key, &provider()).map_err(|why| match why {
        rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            CertificateError::WrongKey { folder: folder.to_owned() }
        }
        why => CertificateError::Unusable { folder: folder.to_owned(), why },
    })
}

/// Returns the provider by name, so that nothing depends on a provider installed for the whole process.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

#[cfg(test)]
mod tests;
