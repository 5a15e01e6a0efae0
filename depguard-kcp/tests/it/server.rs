//! Server that answers over plain HTTP with the bytes of a test's script. No well-behaved API server can be made to
//! answer so.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Request as it came in.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) target: String,
    head: String,
    pub(crate) body: String,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers(name).first().copied()
    }

    /// Returns all values of a header.
    pub(crate) fn headers(&self, name: &str) -> Vec<&str> {
        let values = self.head.lines().skip(1).filter_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        });
        values.collect()
    }
}

/// Answer of a script.
pub(crate) enum Answer {
    /// Status and body.
    Json(u16, String),
    /// Body of this many bytes.
    Big(usize),
    /// Body that breaks off.
    Half(String),
    /// Lines as they come. The body ends when there are no more.
    Lines(mpsc::UnboundedReceiver<String>),
    /// Body that ends with the connection.
    Unframed(String),
    /// Silence for ever.
    Silence,
    /// Cut of the connection.
    Cut,
}

pub(crate) struct Scripted {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    task: JoinHandle<()>,
}

impl Scripted {
    pub(crate) async fn start(script: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let script = Arc::new(script);
        let log = asked.clone();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (script, log) = (script.clone(), log.clone());
                tokio::spawn(async move { serve(stream, &*script, &log).await });
            }
        });
        Self { url, asked, task }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: TcpStream, script: &(dyn Fn(&Asked) -> Answer + Send + Sync), log: &Mutex<Vec<Asked>>) {
    while let Some(asked) = read(&mut stream).await {
        let answer = script(&asked);
        log.lock().unwrap().push(asked);
        let (status, body) = match answer {
            Answer::Json(status, body) => (status, body.into_bytes()),
            Answer::Big(size) => (200, vec![b' '; size]),
            Answer::Lines(lines) => return stream_lines(&mut stream, lines).await,
            Answer::Unframed(body) => {
                let head = "HTTP/1.1 200 x\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n";
                let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
                return;
            }
            Answer::Half(body) => {
                let head = "HTTP/1.1 200 x\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n";
                let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
                return;
            }
            Answer::Silence => std::future::pending().await,
            Answer::Cut => return,
        };
        let head =
            format!("HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        if stream.write_all(head.as_bytes()).await.is_err() || stream.write_all(&body).await.is_err() {
            return;
        }
    }
}

async fn stream_lines(stream: &mut TcpStream, mut lines: mpsc::UnboundedReceiver<String>) {
    let head = "HTTP/1.1 200 x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    if stream.write_all(head.as_bytes()).await.is_err() {
        return;
    }
    let mut rest = [0];
    loop {
        tokio::select! {
            line = lines.recv() => {
                let Some(line) = line else {
                    let _ = stream.write_all(b"0\r\n\r\n").await;
                    return;
                };
                let chunk = format!("{:x}\r\n{line}\n\r\n", line.len() + 1);
                if stream.write_all(chunk.as_bytes()).await.is_err() {
                    return;
                }
            }
            // The client hung up.
            _ = stream.read(&mut rest) => return,
        }
    }
}

async fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut words = head.lines().next()?.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut asked = Asked { method, target, head, body: String::new() };
    let length: usize = asked.header("content-length").map_or(0, |length| length.parse().unwrap());
    while bytes.len() < end + 4 + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    asked.body = String::from_utf8(bytes[end + 4..end + 4 + length].to_vec()).unwrap();
    Some(asked)
}
