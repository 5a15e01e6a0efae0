//! Who may connect: the certificate authority that has signed the API servers' certificates, kept up with its file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use depguard_kcp::Reload;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};
use rustls::{RootCertStore, ServerConfig};
use tokio::io::AsyncReadExt;
use tokio::sync::watch;

use crate::tls::{CertificateError, Certificates};

/// How often the file is read.
const POLL: Duration = Duration::from_secs(5);
/// The largest file that is read, in bytes.
const MAX_LEN: u64 = 1 << 20;

/// The file, as it was when its content was in force.
pub(crate) struct ClientCa {
    path: PathBuf,
    content: Vec<u8>,
    /// How often it is read.
    every: Duration,
}

impl ClientCa {
    /// Reads the file.
    pub(crate) async fn open(path: PathBuf) -> Result<(Self, RootCertStore), CertificateError> {
        let content = read(&path).await?;
        let roots = parse(&path, &content)?;
        Ok((Self { path, content, every: POLL }, roots))
    }

    /// The same, read more often.
    #[cfg(test)]
    pub(crate) fn every(self, every: Duration) -> Self {
        Self { every, ..self }
    }

    /// Takes up what changes in the file, for as long as it is polled. What can't be used changes nothing.
    pub(crate) async fn follow(
        self,
        certificates: Arc<Certificates>,
        connections: watch::Sender<Arc<ServerConfig>>,
        reload: Reload,
    ) {
        let Self { path, content, every } = self;
        let mut seen = Ok(content);
        loop {
            tokio::time::sleep(every).await;
            let now = read(&path).await.map_err(|why| why.to_string());
            if now == seen {
                continue;
            }
            let roots = now.as_ref().map_err(Clone::clone);
            let roots = roots.and_then(|content| parse(&path, content).map_err(|why| why.to_string()));
            match roots.and_then(|roots| certificates.server_config(Some(roots)).map_err(|why| why.to_string())) {
                Ok(config) => {
                    // Who was let in by what is gone must come again.
                    connections.send_replace(Arc::new(config));
                    reload.succeeded();
                    tracing::info!(file = %path.display(), "the client CA changed");
                }
                Err(why) => {
                    reload.failed();
                    tracing::error!("keeping the client CA from before: {why}");
                }
            }
            seen = now;
        }
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let mut content = Vec::new();
    let read = async { tokio::fs::File::open(path).await?.take(MAX_LEN).read_to_end(&mut content).await };
    read.await.map_err(|why| CertificateError::Unreadable { file: path.to_owned(), why })?;
    Ok(content)
}

fn parse(path: &Path, content: &[u8]) -> Result<RootCertStore, CertificateError> {
    let not_pem = |why: String| CertificateError::NotPem { file: path.to_owned(), what: "certificate", why };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(content) {
        let certificate = certificate.map_err(|why: pem::Error| not_pem(why.to_string()))?;
        roots.add(certificate).map_err(|why| not_pem(why.to_string()))?;
    }
    if roots.is_empty() { Err(not_pem("nothing of it was found".to_owned())) } else { Ok(roots) }
}
