//! The binary as a process that can run out of descriptors, of memory and of time. Its API server is away, so it
//! refuses every review.

mod command_line;

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use depguard_testbed::lasting_port;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Process that ends with its owner.
struct Process {
    child: Child,
    address: SocketAddr,
    tls: TlsConnector,
    folder: tempfile::TempDir,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    /// Starts the process by a shell, after `limits`.
    async fn start(limits: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let kubeconfig = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "a",
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}],
            "users": [{"name": "a", "user": {"token": "t"}}]}"#;
        let write = |name: &str, content: &str| std::fs::write(folder.path().join(name), content).unwrap();
        write("tls.crt", &made.cert.pem());
        write("tls.key", &made.signing_key.serialize_pem());
        write("kubeconfig", kubeconfig);
        let port = lasting_port(Ipv4Addr::LOCALHOST).unwrap();
        let child = Command::new("sh")
            .args(["-c", &format!("{limits}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_depguard-webhook")])
            .args(["--control-plane=kubernetes", "--health-probe-bind-address=0", "--metrics-bind-address=0"])
            .args(["--shutdown-delay=0", "--tls-cert-dir", folder.path().to_str().unwrap()])
            .args(["--webhook-port", &port.to_string(), "--kubeconfig"])
            .arg(folder.path().join("kubeconfig"))
            .env_remove("RUST_LOG")
            .stderr(File::create(folder.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(made.cert.pem().as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = builder.unwrap().with_root_certificates(roots).with_no_client_auth();
        let address = (Ipv4Addr::LOCALHOST, port).into();
        let process = Self { child, address, tls: TlsConnector::from(Arc::new(config)), folder };
        until("it listens", async || process.connect().await.is_ok()).await;
        process
    }

    async fn connect(&self) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        self.tls.connect(ServerName::try_from("localhost").unwrap(), stream).await
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Returns a line of the kernel's status of the process, in MiB.
    fn mib(&self, line: &str) -> u64 {
        let status = std::fs::read_to_string(Path::new("/proc").join(self.child.id().to_string()).join("status"));
        let status = status.unwrap();
        let found = status.lines().find_map(|found| found.strip_prefix(line)).unwrap();
        found.split_whitespace().nth(0).unwrap().parse::<u64>().unwrap() >> 10
    }
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(60) {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("never: {what}");
}

#[tokio::test]
async fn without_descriptors_it_waits_and_goes_on() {
    let process = Process::start("ulimit -n 64").await;
    let mut held = Vec::new();
    for _ in 0..150 {
        held.push(TcpStream::connect(process.address).await.unwrap());
    }
    until("it can take no more", async || process.log().contains("cannot accept a connection")).await;
    let begun = Instant::now();
    tokio::time::sleep(Duration::from_secs(3)).await;
    // Without a pause there would be thousands of tries.
    let (tries, most) = (process.log().matches("cannot accept a connection").count(), 20 + begun.elapsed().as_secs());
    assert!((1..=most).contains(&(tries as u64)), "{tries} tries, of {most} at most");
    drop(held);
    until("it takes connections again", async || process.connect().await.is_ok()).await;
}

/// Posts rubbish many times.
#[tokio::test]
async fn nobody_fills_its_log_and_it_stops_without_an_error() {
    let mut process = Process::start("true").await;
    let mut stream = process.connect().await.unwrap();
    let request = "POST /validate HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 1\r\n\r\n{";
    for _ in 0..50 {
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 400");
        stream = process.connect().await.unwrap();
    }
    assert_eq!(process.log().matches("a request was rejected").count(), 1, "{}", process.log());

    let pid = process.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    until("it has ended", async || process.child.try_wait().unwrap().is_some()).await;
    assert!(process.child.wait().unwrap().success());
    assert!(!process.log().contains("ERROR"), "{}", process.log());
}

/// Sends twenty times as much as there is room for: most of it stays with the senders.
#[tokio::test(flavor = "multi_thread")]
async fn reviews_that_nobody_ends_take_up_a_bounded_room() {
    const MIB: usize = 1 << 20;
    /// Room for bodies in MiB, of the usual memory budget.
    const ROOM: u64 = 40;
    let process = Process::start("true").await;
    let before = process.mib("VmHWM:");
    let chunk = Arc::new(vec![b'x'; 64 << 10]);
    let mut senders = tokio::task::JoinSet::new();
    for _ in 0..256 {
        let (chunk, mut stream) = (Arc::clone(&chunk), process.connect().await.unwrap());
        senders.spawn(async move {
            let head = "POST /validate?timeout=30s HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n";
            let length = format!("content-length: {}\r\n\r\n{{\"request\":{{\"x\":\"", 10 * MIB);
            stream.write_all(format!("{head}{length}").as_bytes()).await.unwrap();
            for _ in 0..3 * MIB / chunk.len() {
                stream.write_all(&chunk).await.unwrap();
            }
            std::future::pending::<()>().await;
        });
    }
    // At least half of the room is taken, so that it is clear that the reviews fill it.
    until("much of the room is taken up", async || process.mib("VmRSS:") > before + ROOM / 2).await;
    let mut most = 0;
    until("it grows no more", async || {
        let last = most;
        most = process.mib("VmHWM:");
        tokio::time::sleep(Duration::from_secs(1)).await;
        most == last
    })
    .await;
    assert!(most < before + ROOM + 96, "{most} MiB, {before} before");
    senders.abort_all();
}

#[tokio::test]
async fn asked_to_stop_it_ends_in_time_and_without_an_error() {
    let mut process = Process::start("true").await;
    let mut stream = process.connect().await.unwrap();
    let terminated = Command::new("kill").arg(process.child.id().to_string()).status().unwrap();
    assert!(terminated.success());
    let begun = Instant::now();
    let status = process.child.wait().unwrap();
    // The process must not wait until its grace of 35 s has passed.
    assert!(status.success() && begun.elapsed() < Duration::from_secs(30), "{status}");
    assert!(!matches!(stream.read(&mut [0; 16]).await, Ok(1..)));
    assert!(process.log().contains("stopping"));
}
