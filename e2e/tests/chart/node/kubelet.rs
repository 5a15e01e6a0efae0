//! The part of a kubelet that API servers call: the log of a pod.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use depguard_e2e::{Authority, Outcome};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// Time limit of a request.
const PATIENCE: Duration = Duration::from_secs(10);

/// The log file of each pod, by the pod's name.
pub(super) type Logs = Arc<Mutex<BTreeMap<String, PathBuf>>>;

/// Serves logs until this is dropped.
pub(super) struct Kubelet {
    pub(super) port: u16,
    task: JoinHandle<()>,
}

impl Kubelet {
    pub(super) async fn start(logs: Logs) -> Outcome<Kubelet> {
        // API servers do not verify the issuer unless they are told to.
        let folder = tempfile::tempdir()?;
        Authority::new("kubelet")?.issue(folder.path())?;
        let chain = CertificateDer::pem_file_iter(folder.path().join("tls.crt"))?.collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_file(folder.path().join("tls.key"))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let config = config.with_no_client_auth().with_single_cert(chain, key)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, logs) = (acceptor.clone(), Arc::clone(&logs));
                // An error is dropped: the caller notices the missing answer.
                tokio::spawn(async move { tokio::time::timeout(PATIENCE, answer(acceptor, stream, logs)).await });
            }
        });
        Ok(Kubelet { port, task })
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Answers `GET /containerLogs/<namespace>/<pod>/<container>?…`.
async fn answer(acceptor: TlsAcceptor, stream: TcpStream, logs: Logs) -> Outcome {
    let mut stream = acceptor.accept(stream).await?;
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(stream.read_u8().await?);
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let path = request.split([' ', '?']).nth(1).unwrap_or_default();
    let pod = path.strip_prefix("/containerLogs/").and_then(|rest| rest.split('/').nth(1)).unwrap_or_default();
    let log = logs.lock().unwrap_or_else(PoisonError::into_inner).get(pod).cloned();
    let (code, text) = match log.map(std::fs::read) {
        Some(Ok(text)) => ("200 OK", text),
        _ => ("404 Not Found", Vec::new()),
    };
    let head = format!(
        "HTTP/1.1 {code}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&text).await?;
    Ok(stream.shutdown().await?)
}
