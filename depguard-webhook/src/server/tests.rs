use super::*;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use depguard_kcp::Reload;
use http_body_util::BodyExt;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::TokioExecutor;
use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};
use tokio::task::yield_now;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::server::tls::{self, Certificates};

mod clients;
mod closing;

/// Server under test whose answers to `/slow` wait until the test releases them.
struct Bench {
    address: SocketAddr,
    roots: RootCertStore,
    tasks: Tasks,
    begun: Arc<Notify>,
    go: Arc<Semaphore>,
    folder: tempfile::TempDir,
}

impl Bench {
    async fn start(connections: usize) -> Self {
        Self::from_parts(connections, async |certificates| Arc::new(certificates.server_config(None).unwrap())).await.0
    }

    /// Starts a server with a TLS configuration, and returns the sender that changes this configuration.
    async fn from_parts(
        connections: usize,
        tls: impl AsyncFnOnce(Arc<Certificates>) -> Arc<ServerConfig>,
    ) -> (Self, watch::Sender<Arc<ServerConfig>>) {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(folder.path().join("tls.crt"), made.cert.pem()).unwrap();
        std::fs::write(folder.path().join("tls.key"), made.signing_key.serialize_pem()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(made.cert.pem().as_bytes()).unwrap()).unwrap();

        let pair = tls::open(folder.path(), Reload::default()).await.unwrap();
        let (change, tls) = watch::channel(tls(Arc::new(Certificates::new(&pair))).await);
        let (listener, address) = depguard_kcp::listen((Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
        let (begun, go) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
        let (inside, wait) = (begun.clone(), go.clone());
        let service = tower::service_fn(move |request: Request<Incoming>| {
            let (begun, go) = (inside.clone(), wait.clone());
            async move {
                if request.uri().path() == "/slow" {
                    begun.notify_one();
                    go.acquire().await.unwrap().forget();
                }
                Ok(Response::new(Full::new(Bytes::from("done"))))
            }
        });
        let tasks = Tasks::default();
        let server = Server { connections: GaugedSemaphore::new(connections), ..Server::new(listener, tls, service) };
        tasks.spawn(server.run(tasks.clone()));
        (Self { address, roots, tasks, begun, go, folder }, change)
    }

    async fn tcp(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn tls(&self, protocols: &[&[u8]], versions: &[&'static SupportedProtocolVersion]) -> TlsStream<TcpStream> {
        let mut config = self.client(versions).with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, self.tcp().await).await.unwrap()
    }

    /// Returns a client that trusts the server's certificate.
    fn client(&self, versions: &[&'static SupportedProtocolVersion]) -> ConfigBuilder<ClientConfig, WantsClientCert> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(self.roots.clone())
    }

    /// Returns the certificate that a new connection is shown.
    async fn leaf(&self) -> CertificateDer<'static> {
        let stream = self.tls(&[], rustls::DEFAULT_VERSIONS).await;
        stream.get_ref().1.peer_certificates().unwrap()[0].clone()
    }

    async fn h1(&self) -> http1::SendRequest<Full<Bytes>> {
        let stream = self.tls(&[], rustls::DEFAULT_VERSIONS).await;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    async fn h2(&self) -> http2::SendRequest<Full<Bytes>> {
        let stream = self.tls(&[b"h2", b"http/1.1"], rustls::DEFAULT_VERSIONS).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    }
}

fn get(path: &str) -> Request<Full<Bytes>> {
    Request::get(format!("https://localhost{path}")).body(Full::default()).unwrap()
}

async fn body(response: Response<Incoming>) -> Bytes {
    response.into_body().collect().await.unwrap().to_bytes()
}

/// Waits until only so many tasks are alive: tasks of clients end when their connection is closed.
async fn only_alive(tasks: usize) {
    let settled = async {
        while Handle::current().metrics().num_alive_tasks() > tasks {
            sleep(Duration::from_millis(5)).await;
        }
    };
    let left = || Handle::current().metrics().num_alive_tasks();
    timeout(Duration::from_secs(5), settled).await.unwrap_or_else(|_| panic!("{} tasks are left", left()));
}

#[tokio::test]
async fn both_protocols_are_spoken_over_both_versions_of_tls() {
    let bench = Bench::start(10).await;
    let response = bench.h1().await.send_request(get("/")).await.unwrap();
    assert_eq!((response.version(), body(response).await), (http::Version::HTTP_11, Bytes::from("done")));
    let response = bench.h2().await.send_request(get("/")).await.unwrap();
    assert_eq!((response.version(), body(response).await), (http::Version::HTTP_2, Bytes::from("done")));
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let stream = bench.tls(&[b"http/1.1"], &[version]).await;
        assert_eq!(stream.get_ref().1.protocol_version(), Some(version.version));
    }
}

#[tokio::test]
async fn a_connection_serves_one_request_after_another() {
    let bench = Bench::start(10).await;
    let mut sender = bench.h1().await;
    for _ in 0..3 {
        sender.ready().await.unwrap();
        assert_eq!(body(sender.send_request(get("/")).await.unwrap()).await, "done");
    }
}

#[tokio::test]
async fn who_does_not_speak_tls_disturbs_nobody() {
    let bench = Bench::start(10).await;
    for rubbish in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 1000], b"\x16\x03\x01\xff\xff"] {
        let mut stream = bench.tcp().await;
        stream.write_all(rubbish).await.unwrap();
    }
    assert_eq!(body(bench.h2().await.send_request(get("/")).await.unwrap()).await, "done");
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_never_comes_is_given_up() {
    let bench = Bench::start(10).await;
    let mut stream = bench.tcp().await;
    let begun = tokio::time::Instant::now();
    assert_eq!(stream.read(&mut [0; 10]).await.unwrap(), 0);
    assert_eq!(begun.elapsed().as_secs(), HANDSHAKE.as_secs());
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_request_is_closed() {
    let bench = Bench::start(10).await;
    // The second client begins a request that it never ends; the third agrees on h2 and never speaks it.
    for (protocol, said) in [(&b"http/1.1"[..], ""), (b"http/1.1", "POST /validate HTTP/1.1\r\nHost: "), (b"h2", "")] {
        let mut stream = bench.tls(&[protocol], rustls::DEFAULT_VERSIONS).await;
        stream.write_all(said.as_bytes()).await.unwrap();
        let begun = tokio::time::Instant::now();
        let mut read = Vec::new();
        // The connection may end with or without a goodbye.
        let _ = stream.read_to_end(&mut read).await;
        assert!((30..=36).contains(&begun.elapsed().as_secs()), "{said:?}: {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn connections_beyond_the_cap_wait_for_their_turn() {
    let bench = Bench::start(1).await;
    let mut first = bench.h1().await;
    assert_eq!(body(first.send_request(get("/")).await.unwrap()).await, "done");
    let second = timeout(Duration::from_millis(200), bench.h1()).await;
    assert!(second.is_err(), "a second connection was taken");
    drop(first);
    let mut second = timeout(Duration::from_secs(5), bench.h1()).await.unwrap();
    assert_eq!(body(second.send_request(get("/")).await.unwrap()).await, "done");
}

#[tokio::test]
async fn stopping_answers_what_is_under_way_and_leaves_no_task() {
    let before = Handle::current().metrics().num_alive_tasks();
    let bench = Bench::start(10).await;
    let (mut h1, mut h2) = (bench.h1().await, bench.h2().await);
    let idle = bench.h2().await;
    let pending = [tokio::spawn(h1.send_request(get("/slow"))), tokio::spawn(h2.send_request(get("/slow")))];
    for _ in &pending {
        bench.begun.notified().await;
    }

    let tasks = bench.tasks.clone();
    let stopped = tokio::spawn(async move { tasks.stop(Duration::from_secs(20)).await });
    while TcpStream::connect(bench.address).await.is_ok() {
        yield_now().await;
    }
    assert!(!stopped.is_finished());
    bench.go.add_permits(pending.len());
    for answer in pending {
        assert_eq!(body(answer.await.unwrap().unwrap()).await, "done");
    }
    timeout(Duration::from_secs(5), stopped).await.unwrap().unwrap();
    drop((h1, h2, idle));
    only_alive(before).await;
}

#[tokio::test]
async fn killing_answers_nothing_and_leaves_no_task() {
    let before = Handle::current().metrics().num_alive_tasks();
    let bench = Bench::start(10).await;
    let (mut h1, mut h2) = (bench.h1().await, bench.h2().await);
    let pending = [tokio::spawn(h1.send_request(get("/slow"))), tokio::spawn(h2.send_request(get("/slow")))];
    for _ in &pending {
        bench.begun.notified().await;
    }
    bench.tasks.kill();
    for answer in pending {
        assert!(answer.await.unwrap().is_err());
    }
    drop((h1, h2));
    only_alive(before).await;
    assert!(TcpStream::connect(bench.address).await.is_err());
}

/// Changes the certificate and its key many times, one file after the other, while clients connect and ask.
#[tokio::test]
async fn certificates_that_change_under_load_interrupt_nobody() {
    let mut served = None;
    let (mut bench, _tls) =
        Bench::from_parts(100, async |certificates| Arc::new(served.insert(certificates).server_config(None).unwrap()))
            .await;
    let (folder, served) = (bench.folder.path().to_owned(), served.unwrap());
    let made: Vec<_> = (0..20).map(|_| rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap()).collect();
    for made in &made {
        bench.roots.add(made.cert.der().clone()).unwrap();
    }
    let (bench, over) = (Arc::new(bench), Arc::new(Notify::new()));
    let pair = tls::open(&folder, Reload::default()).await.unwrap();
    let current = Arc::clone(&served);
    bench.tasks.spawn(pair.follow(Duration::from_millis(1), move |pair| current.replace(pair)));
    // A connection that stays, and connections that are new for each request.
    let mut lasting = bench.h2().await;
    let clients: Vec<_> = (0..4)
        .map(|client| {
            let (bench, mut over) = (Arc::clone(&bench), Box::pin(Arc::clone(&over).notified_owned()));
            tokio::spawn(async move {
                let mut answered = 0;
                while futures::poll!(over.as_mut()).is_pending() {
                    let sent = match client % 2 {
                        0 => bench.h1().await.send_request(get("/")).await,
                        _ => bench.h2().await.send_request(get("/")).await,
                    };
                    assert_eq!(body(sent.unwrap()).await, "done");
                    answered += 1;
                }
                answered
            })
        })
        .collect();
    // In one step, so that nobody reads half of a file.
    let write = |name: &str, content: String| {
        std::fs::write(folder.join("new"), content).unwrap();
        std::fs::rename(folder.join("new"), folder.join(name)).unwrap();
    };
    for made in &made {
        write("tls.crt", made.cert.pem());
        assert_eq!(body(lasting.send_request(get("/")).await.unwrap()).await, "done");
        write("tls.key", made.signing_key.serialize_pem());
        while bench.leaf().await != *made.cert.der() {
            yield_now().await;
        }
    }
    over.notify_waiters();
    for client in clients {
        assert!(client.await.unwrap() > 0);
    }
}
