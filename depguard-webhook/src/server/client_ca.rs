//! Client authentication: the certificate authorities that have signed the API servers' certificates, kept up to date
//! with their file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use depguard_kcp::{Files, Reload, WatchedFile};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};
use rustls::{RootCertStore, ServerConfig};

use crate::server::tls::{CertificateError, Certificates, MAX_FILE};

/// TLS configuration that lets in only clients with a certificate of the file's authorities.
pub(crate) type ClientCa = WatchedFile<Arc<ServerConfig>, CertificateError>;

/// Reads the file.
pub(crate) async fn open(
    path: PathBuf,
    certificates: Arc<Certificates>,
    reload: Reload,
) -> Result<ClientCa, CertificateError> {
    let files = Files { what: "client CA", paths: [path.clone()], longest: MAX_FILE };
    WatchedFile::open(files, reload, move |[content]| {
        let roots = parse(&path, content)?;
        Ok(Arc::new(certificates.server_config(Some(roots))?))
    })
    .await
}

fn parse(path: &Path, content: &[u8]) -> Result<RootCertStore, CertificateError> {
    let not_pem = |why: String| CertificateError::NotPem { file: path.to_owned(), what: "certificate", why };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(content) {
        let certificate = certificate.map_err(|why: pem::Error| not_pem(why.to_string()))?;
        roots.add(certificate).map_err(|why| not_pem(why.to_string()))?;
    }
    if roots.is_empty() { Err(not_pem("no such PEM section".to_owned())) } else { Ok(roots) }
}
