//! Close of a connection as a peer sees it: of an HTTP/2 connection frame by frame, of an HTTP/1.1 connection by its bytes.

use tokio::io::DuplexStream;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Types of frames.
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
/// Flag of a frame that answers another one.
const ACK: u8 = 1;
/// Stream identifier in the first GOAWAY of two, with which no stream is refused yet.
const ANY_STREAM: [u8; 4] = [0x7f, 0xff, 0xff, 0xff];

/// Client that reads and writes frames.
struct Peer(DuplexStream);

impl Peer {
    /// Returns a client whose connection is served, and the server's side of the connection.
    async fn connect(bench: &Bench, tls: &watch::Sender<Arc<ServerConfig>>) -> (Self, JoinHandle<()>) {
        let (near, far) = tokio::io::duplex(1 << 16);
        let service = tower::service_fn(async |_| Ok(Response::new(Full::default())));
        let served = tokio::spawn(requests(far, true, tls.subscribe(), service, bench.tasks.clone()));
        let mut peer = Self(near);
        peer.0.write_all(PREFACE).await.unwrap();
        peer.send(SETTINGS, 0, 0, &[]).await;
        // From now on the connection is served.
        assert!(matches!(peer.receive().await, (SETTINGS, 0, _)));
        peer.send(SETTINGS, ACK, 0, &[]).await;
        (peer, served)
    }

    async fn send(&mut self, kind: u8, flags: u8, stream: u8, payload: &[u8]) {
        let length = u8::try_from(payload.len()).unwrap();
        self.0.write_all(&[0, 0, length, kind, flags, 0, 0, 0, stream]).await.unwrap();
        self.0.write_all(payload).await.unwrap();
    }

    async fn receive(&mut self) -> (u8, u8, Vec<u8>) {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).await.unwrap();
        let [_, high, low, kind, flags, ..] = head;
        let mut payload = vec![0; usize::from(u16::from_be_bytes([high, low]))];
        self.0.read_exact(&mut payload).await.unwrap();
        (kind, flags, payload)
    }

    /// Answers the server's frames until the server has said which stream was its last.
    async fn last_stream(&mut self) -> [u8; 4] {
        loop {
            match self.receive().await {
                (PING, 0, payload) => self.send(PING, ACK, 0, &payload).await,
                (GOAWAY, _, payload) if !payload.starts_with(&ANY_STREAM) => return payload[..4].try_into().unwrap(),
                _ => {}
            }
        }
    }
}

async fn bench() -> (Bench, watch::Sender<Arc<ServerConfig>>) {
    Bench::from_parts(10, async |certificates| Arc::new(certificates.server_config(None).unwrap())).await
}

#[tokio::test(start_paused = true)]
async fn a_request_that_crosses_the_closing_finds_the_connection_open() {
    let (bench, tls) = bench().await;
    let (mut peer, served) = Peer::connect(&bench, &tls).await;
    tls.send_modify(|_| ());
    assert_eq!(peer.last_stream().await, [0; 4]);

    let said = Instant::now();
    // GET / with a pseudo-header each for the method, the scheme and the path, from HPACK's static table.
    peer.send(HEADERS, 5, 1, &[0x82, 0x87, 0x84]).await;
    let mut rest = Vec::new();
    peer.0.read_to_end(&mut rest).await.unwrap();
    assert_eq!((rest, said.elapsed().as_secs()), (Vec::new(), 1), "nothing is answered, and nothing fails");
    served.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_closes_is_not_waited_for() {
    let (bench, tls) = bench().await;
    let (mut peer, served) = Peer::connect(&bench, &tls).await;
    tls.send_modify(|_| ());
    peer.last_stream().await;

    let said = Instant::now();
    drop(peer);
    served.await.unwrap();
    assert_eq!(said.elapsed(), Duration::ZERO);
}

/// Serves an HTTP/1.1 connection; returns the client's side, and the task.
fn serve_h1(bench: &Bench, tls: &watch::Sender<Arc<ServerConfig>>) -> (DuplexStream, JoinHandle<()>) {
    let (near, far) = tokio::io::duplex(1 << 16);
    let service = tower::service_fn(async |_| Ok(Response::new(Full::default())));
    (near, tokio::spawn(requests(far, false, tls.subscribe(), service, bench.tasks.clone())))
}

/// Sends a request, and returns the head of the answer.
async fn ask(peer: &mut DuplexStream) -> String {
    peer.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        head.push(char::from(peer.read_u8().await.unwrap()));
    }
    head
}

#[tokio::test(start_paused = true)]
async fn the_last_answer_over_http_1_says_that_it_is_the_last() {
    let (bench, tls) = bench().await;
    let (mut changed, served) = serve_h1(&bench, &tls);
    assert!(!ask(&mut changed).await.contains("connection: close"));
    tls.send_modify(|_| ());
    assert!(ask(&mut changed).await.contains("connection: close"));
    assert_eq!(changed.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    served.await.unwrap();

    let (mut stopped, served) = serve_h1(&bench, &tls);
    assert!(!ask(&mut stopped).await.contains("connection: close"));
    let (answer, ()) = tokio::join!(ask(&mut stopped), bench.tasks.stop(Duration::from_secs(20)));
    assert!(answer.contains("connection: close"), "{answer}");
    served.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_http_1_connection_without_another_request_closes_after_a_second() {
    let (bench, tls) = bench().await;
    let (mut peer, served) = serve_h1(&bench, &tls);
    ask(&mut peer).await;
    tls.send_modify(|_| ());
    let said = Instant::now();
    assert_eq!(peer.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    assert_eq!(said.elapsed(), LAST_REQUEST);
    served.await.unwrap();
}
