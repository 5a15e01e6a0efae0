//! Compares one list over HTTP/1.1 and HTTP/2, plain and compressed.

use std::collections::HashMap;
use std::io::Read;
use std::time::{Duration, Instant};

use bytes::Bytes;
use flate2::read::GzDecoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HOST};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::Result;
use crate::client::Client;
use crate::drain::{continue_token, page_path};
use crate::objects::Kind;
use crate::rounds::median;
use crate::usage::Usage;

/// Cost of one way of reading a whole list: medians.
#[derive(Debug, Clone)]
pub(crate) struct Figures {
    pub(crate) name: String,
    pub(crate) time: Duration,
    pub(crate) cpu: Duration,
    /// Bytes of the bodies on the wire, and after decompression.
    pub(crate) wire: u64,
    pub(crate) bytes: u64,
}

const ROUNDS: usize = 5;
/// Flow-control window that is larger than a page.
const WINDOW: u32 = 16 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Protocol {
    Http1,
    /// HTTP/2 with the standard's windows of 64 KiB.
    Http2,
    Http2Windows,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// Reads the dependents in every way, with the ways taking turns.
pub(crate) async fn run(client: &Client) -> Result<Vec<Figures>> {
    let mut ways = Vec::new();
    for protocol in [Protocol::Http1, Protocol::Http2, Protocol::Http2Windows] {
        for compressed in [false, true] {
            ways.push((protocol, compressed, protocol.open(client).await?));
        }
    }
    let mut costs: HashMap<(Protocol, bool), Vec<Figures>> = HashMap::new();
    for round in 0..=ROUNDS {
        for (protocol, compressed, sender) in &mut ways {
            let figures = read(client, *protocol, *compressed, sender).await?;
            if round > 0 {
                costs.entry((*protocol, *compressed)).or_default().push(figures);
            }
        }
    }
    Ok(ways
        .iter()
        .filter_map(|(protocol, compressed, _)| {
            let all = costs.get(&(*protocol, *compressed))?;
            Some(Figures {
                time: median(all.iter().map(|figures| figures.time)),
                cpu: median(all.iter().map(|figures| figures.cpu)),
                ..all.first()?.clone()
            })
        })
        .collect())
}

async fn read(client: &Client, protocol: Protocol, compressed: bool, sender: &mut Sender) -> Result<Figures> {
    let usage = Usage::from_pid(std::process::id());
    let (cpu, begun) = (usage.cpu()?, Instant::now());
    let (mut wire, mut bytes, mut token) = (0, 0, None);
    loop {
        let path = page_path(&Kind::Machine.collection(), token.as_deref());
        let (received, body) = sender.get(client, &path, compressed).await?;
        wire += received;
        bytes += body.len() as u64;
        token = continue_token(&body);
        if token.is_none() {
            break;
        }
    }
    let encoding = if compressed { "gzip" } else { "as it is" };
    let name = format!("{}, {encoding}", protocol.name());
    Ok(Figures { name, time: begun.elapsed(), cpu: usage.cpu()?.saturating_sub(cpu), wire, bytes })
}

impl Protocol {
    fn name(self) -> &'static str {
        match self {
            Protocol::Http1 => "HTTP/1.1",
            Protocol::Http2 => "HTTP/2, windows of 64 KiB",
            Protocol::Http2Windows => "HTTP/2, windows of 16 MiB",
        }
    }

    async fn open(self, client: &Client) -> Result<Sender> {
        if self == Protocol::Http1 {
            let stream = TokioIo::new(client.connect(b"http/1.1").await?);
            let (sender, connection) = http1::handshake(stream).await?;
            tokio::spawn(connection);
            return Ok(Sender::Http1(sender));
        }
        let window = if self == Protocol::Http2Windows { WINDOW } else { u32::from(u16::MAX) };
        let stream = TokioIo::new(client.connect(b"h2").await?);
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(window).initial_connection_window_size(window);
        if self == Protocol::Http2Windows {
            builder.max_frame_size((1 << 20) - 1);
        }
        let (sender, connection) = builder.handshake(stream).await?;
        tokio::spawn(connection);
        Ok(Sender::Http2(sender))
    }
}

impl Sender {
    /// Returns the body's length on the wire, and the body.
    async fn get(&mut self, client: &Client, path: &str, compressed: bool) -> Result<(u64, Bytes)> {
        let mut request = client.get(path);
        if compressed {
            request = request.header(ACCEPT_ENCODING, "gzip");
        }
        let mut request = request.body(Full::default())?;
        let response = match self {
            Sender::Http1(sender) => {
                let host = request.uri().authority().map(ToString::to_string).unwrap_or_default();
                request.headers_mut().insert(HOST, host.parse()?);
                *request.uri_mut() = request.uri().path_and_query().ok_or("no path")?.as_str().parse()?;
                sender.ready().await?;
                sender.send_request(request).await?
            }
            Sender::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
        };
        let (parts, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        if !parts.status.is_success() {
            return Err(format!("GET {path}: {}", parts.status).into());
        }
        if parts.headers.get(CONTENT_ENCODING).is_none() {
            return Ok((body.len() as u64, body));
        }
        let mut plain = Vec::new();
        GzDecoder::new(&*body).read_to_end(&mut plain)?;
        Ok((body.len() as u64, plain.into()))
    }
}
