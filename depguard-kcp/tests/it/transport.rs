//! Tests of the cost of requests: a server counts connections and TLS handshakes.

use std::sync::{Arc, Mutex};

use depguard_core::ControlPlane;
use depguard_kcp::{BodyBudget, ConnectOptions, Connection, MAX_BODY, RequestError, UpTo};
use futures::future::join_all;
use rustls::HandshakeKind;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// Server that answers every request with a body of a fixed size. The body comes in chunks if its length is not
/// announced.
struct Server {
    url: String,
    ca: String,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    handshakes: Vec<HandshakeKind>,
    heads: Vec<String>,
}

#[derive(Clone, Copy)]
struct Manner {
    body: usize,
    closes: bool,
    chunked: bool,
}

const SMALL: Manner = Manner { body: 10, closes: false, chunked: false };

impl Server {
    async fn start(manner: Manner) -> Self {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.into())
            .unwrap();
        let tls = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Seen::default()));
        let log = Arc::clone(&seen);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, tls.clone(), Arc::clone(&log), manner));
            }
        });
        Self { url, ca: made.cert.pem(), seen }
    }

    async fn connect(&self) -> (Connection, TempDir) {
        let dir = TempDir::new().unwrap();
        std::fs::write(dir.path().join("ca.pem"), &self.ca).unwrap();
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: '{}', certificate-authority: ca.pem}}}}]\n\
             users: [{{name: u, user: {{token: secret}}}}]\n",
            self.url
        );
        let kubeconfig = Some(dir.path().join("kubeconfig"));
        std::fs::write(dir.path().join("kubeconfig"), text).unwrap();
        let options = ConnectOptions::new(ControlPlane::Kubernetes).kubeconfig(kubeconfig);
        (Connection::open(&options).await.unwrap(), dir)
    }

    fn handshakes(&self) -> Vec<HandshakeKind> {
        self.seen.lock().unwrap().handshakes.clone()
    }
}

async fn serve(stream: TcpStream, tls: TlsAcceptor, seen: Arc<Mutex<Seen>>, manner: Manner) {
    let Ok(mut stream) = tls.accept(stream).await else { return };
    seen.lock().unwrap().handshakes.extend(stream.get_ref().1.handshake_kind());
    let body = vec![b' '; manner.body];
    let mut head = Vec::new();
    loop {
        let mut byte = [0; 512];
        let Ok(read @ 1..) = stream.read(&mut byte).await else { return };
        head.extend_from_slice(&byte[..read]);
        if !head.ends_with(b"\r\n\r\n") {
            continue;
        }
        seen.lock().unwrap().heads.push(String::from_utf8(std::mem::take(&mut head)).unwrap());
        let close = if manner.closes { "connection: close\r\n" } else { "" };
        let length = if manner.chunked {
            "transfer-encoding: chunked".to_owned()
        } else {
            format!("content-length: {}", body.len())
        };
        let mut answer = format!("HTTP/1.1 200 OK\r\n{close}{length}\r\n\r\n").into_bytes();
        if manner.chunked {
            for chunk in body.chunks(30_000) {
                answer.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                answer.extend_from_slice(chunk);
                answer.extend_from_slice(b"\r\n");
            }
            answer.extend_from_slice(b"0\r\n\r\n");
        } else {
            answer.extend_from_slice(&body);
        }
        if stream.write_all(&answer).await.is_err() || manner.closes {
            let _ = stream.shutdown().await;
            return;
        }
    }
}

#[tokio::test]
async fn one_request_after_the_other_needs_one_connection() {
    let server = Server::start(SMALL).await;
    let (connection, _dir) = server.connect().await;
    for n in 0..50 {
        // Each request uses a new endpoint, as each review does.
        connection.own_endpoint().get(&format!("/apis/{n}")).await.unwrap();
    }
    assert_eq!(server.handshakes().len(), 1);
}

#[tokio::test]
async fn a_burst_leaves_connections_that_the_next_one_uses() {
    let server = Server::start(SMALL).await;
    let (connection, _dir) = server.connect().await;
    for _ in 0..5 {
        let own = connection.own_endpoint();
        let burst = join_all((0..30).map(|_| own.get("/apis"))).await;
        assert!(burst.iter().all(Result::is_ok));
    }
    let handshakes = server.handshakes().len();
    assert!(handshakes <= 60, "{handshakes} handshakes for 150 requests, 30 at a time");
}

#[tokio::test]
async fn a_connection_that_was_closed_is_opened_again_by_the_session_it_had() {
    let server = Server::start(Manner { closes: true, ..SMALL }).await;
    let (connection, _dir) = server.connect().await;
    for _ in 0..5 {
        connection.own_endpoint().get("/apis").await.unwrap();
    }
    let handshakes = server.handshakes();
    assert_eq!(handshakes.len(), 5);
    assert_eq!(handshakes[0], HandshakeKind::Full);
    assert!(handshakes[1..].iter().all(|kind| *kind == HandshakeKind::Resumed), "{handshakes:?}");
}

#[tokio::test]
async fn the_form_is_asked_for_and_nothing_is_to_be_packed() {
    let server = Server::start(SMALL).await;
    let (connection, _dir) = server.connect().await;
    let form = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
    connection.own_endpoint().get_within("/apis", form, &mut UpTo(MAX_BODY)).await.unwrap();
    let head = server.seen.lock().unwrap().heads[0].to_lowercase();
    assert!(head.contains(&format!("accept: {}\r\n", form.to_lowercase())), "{head}");
    assert!(!head.contains("accept-encoding"), "{head}");
}

/// Space of `size` bytes, which may grow to `most`.
struct Counted {
    size: usize,
    most: usize,
}

impl BodyBudget for Counted {
    fn size(&self) -> usize {
        self.size
    }

    fn grow(&mut self, bytes: usize) -> bool {
        self.size = self.size.max(bytes.min(self.most));
        bytes <= self.most
    }
}

#[tokio::test]
async fn a_body_is_taken_in_as_far_as_there_is_space() {
    const MIB: usize = 1 << 20;
    for chunked in [false, true] {
        let server = Server::start(Manner { body: 3 * MIB, chunked, closes: false }).await;
        let (connection, _dir) = server.connect().await;
        for (size, most, fits) in
            [(0, 4 * MIB, true), (MIB, 3 * MIB, true), (4 * MIB, 4 * MIB, true), (0, 3 * MIB - 1, false), (0, 0, false)]
        {
            let mut space = Counted { size, most };
            let answer = connection.own_endpoint().get_within("/apis", "application/json", &mut space).await;
            match answer {
                Ok(response) => assert!(fits && response.body().len() == 3 * MIB),
                Err(RequestError::TooLarge { .. }) => assert!(!fits, "{chunked} {size} {most}"),
                Err(why) => panic!("{why}"),
            }
            assert!(!fits || (3 * MIB..=4 * MIB + MIB / 2).contains(&space.size), "{} of {most}", space.size);
        }
    }
}
