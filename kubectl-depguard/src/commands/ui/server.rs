//! Server of the page: its connections, and the headers of its answers.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY, SET_COOKIE};
use http::header::{X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::PageRequest;
use super::access::{Access, Verdict};
use crate::engine::page::policy;

/// Limit on connections; further ones wait in the operating system's queue.
pub(super) const MAX_CONNECTIONS: usize = 16;
/// Limit on the length of a request's headers, in bytes.
const MAX_HEADERS: usize = 16 << 10;
/// Time limit for the headers of a request.
const HEADERS: Duration = Duration::from_secs(10);
/// Time limit of a connection: one request, the reading for it, and the answer.
const CONNECTION: Duration = Duration::from_secs(600);
/// Pause after an error of `accept`, such as too many open files.
const PAUSE: Duration = Duration::from_millis(200);

/// Takes connections for ever; they end with the future.
pub(super) async fn serve(listener: TcpListener, access: Arc<Access>, requests: mpsc::Sender<PageRequest>) {
    serve_within(listener, access, requests, Arc::new(Semaphore::new(MAX_CONNECTIONS))).await;
}

/// Takes as many connections at once as there are places.
async fn serve_within(
    listener: TcpListener,
    access: Arc<Access>,
    requests: mpsc::Sender<PageRequest>,
    places: Arc<Semaphore>,
) {
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let (access, requests) = (Arc::clone(&access), requests.clone());
                connections.spawn(async move {
                    connection(stream, &access, &requests).await;
                    drop(place);
                });
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// Answers one request of a connection.
async fn connection(stream: TcpStream, access: &Access, requests: &mpsc::Sender<PageRequest>) {
    let service = service_fn(|request: Request<Incoming>| async move {
        Ok::<_, Infallible>(respond(&request, access, requests).await)
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADERS).max_buf_size(MAX_HEADERS).keep_alive(false);
    // A connection that fails has nobody to tell.
    let _ = timeout(CONNECTION, builder.serve_connection(TokioIo::new(stream), service)).await;
}

async fn respond<B>(
    request: &Request<B>,
    access: &Access,
    requests: &mpsc::Sender<PageRequest>,
) -> Response<Full<Bytes>> {
    match access.judge(request) {
        Verdict::Refused(status, why) => response(status, "text/plain; charset=utf-8", why.into()),
        Verdict::SetCookie { cookie, path } => {
            let mut response = response(StatusCode::SEE_OTHER, "text/plain; charset=utf-8", Bytes::new());
            for (name, value) in [(LOCATION, path), (SET_COOKIE, cookie)] {
                if let Ok(value) = HeaderValue::from_str(&value) {
                    response.headers_mut().insert(name, value);
                }
            }
            response
        }
        Verdict::Page => {
            let (sender, page) = oneshot::channel();
            let sent = requests.send(sender).await.is_ok();
            match page.await {
                Ok(page) if sent => response(StatusCode::OK, "text/html; charset=utf-8", page),
                _ => {
                    response(StatusCode::SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", "the command ended\n".into())
                }
            }
        }
    }
}

/// Builds a response that no cache keeps, no other site may use, and no frame shows.
fn response(status: StatusCode, kind: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Ok(policy) = HeaderValue::from_str(&format!("{}; frame-ancestors 'none'", policy())) {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::task::yield_now;

    use super::*;

    #[tokio::test]
    async fn connections_are_bounded_and_a_place_is_used_again() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let access = Arc::new(Access::new(address.port()).unwrap());
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let (requests, _queue) = mpsc::channel(1);
        let serving = serve_within(listener, access, requests, Arc::clone(&places));
        let asking = async {
            let mut idle = Vec::new();
            for _ in 0..MAX_CONNECTIONS {
                idle.push(TcpStream::connect(address).await.unwrap());
            }
            // Each connection has a place, so that further ones find none.
            while places.available_permits() > 0 {
                yield_now().await;
            }
            let mut further = TcpStream::connect(address).await.unwrap();
            let request = format!("GET / HTTP/1.1\r\nHost: {address}\r\n\r\n");
            further.write_all(request.as_bytes()).await.unwrap();
            idle.pop();
            let mut response = String::new();
            further.read_to_string(&mut response).await.unwrap();
            assert!(response.starts_with("HTTP/1.1 401"), "{response}");
        };
        let limit = Duration::from_secs(60);
        tokio::select! {
            () = serving => panic!("the server ended"),
            done = timeout(limit, asking) => done.expect("the places are never all taken, or none is free again"),
        }
    }
}
