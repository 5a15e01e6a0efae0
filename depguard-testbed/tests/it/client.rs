//! Plain HTTP client over TLS: one connection a request.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Client of one server as one user, below one prefix.
#[derive(Clone)]
pub(crate) struct Client {
    authority: String,
    prefix: String,
    token: String,
    accept: String,
    tls: TlsConnector,
}

/// Answer: code, headers, and the body as JSON (`Null` if it is none).
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
    pub(crate) text: String,
}

impl Answer {
    /// Returns the body of a success.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert!((200..300).contains(&self.code), "{} {}", self.code, self.body);
        self.body
    }

    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    /// Returns the names of a list's items.
    #[track_caller]
    pub(crate) fn names(&self) -> Vec<&str> {
        let items = self.body["items"].as_array().unwrap_or_else(|| panic!("no list: {}", self.body));
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
    }
}

impl Client {
    pub(crate) fn new(url: &str, ca_pem: &str, token: &str) -> Self {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
            roots.add(certificate.unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self {
            authority: url.trim_start_matches("https://").to_owned(),
            prefix: String::new(),
            token: token.to_owned(),
            accept: "application/json".to_owned(),
            tls: TlsConnector::from(Arc::new(config)),
        }
    }

    /// Returns the same client below `/clusters/<id or path>`.
    pub(crate) fn cluster(&self, cluster: &str) -> Self {
        self.below(&format!("/clusters/{cluster}"))
    }

    /// Returns the same client below another prefix of the server.
    pub(crate) fn below(&self, prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), ..self.clone() }
    }

    pub(crate) fn as_user(&self, token: &str) -> Self {
        Self { token: token.to_owned(), ..self.clone() }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None, None).await
    }

    /// Requests the answer in this form.
    pub(crate) async fn get_as(&self, path: &str, accept: &str) -> Answer {
        Self { accept: accept.to_owned(), ..self.clone() }.get(path).await
    }

    pub(crate) async fn create(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, None, Some(body)).await
    }

    pub(crate) async fn replace(&self, path: &str, body: &Value) -> Answer {
        self.send("PUT", path, None, Some(body)).await
    }

    pub(crate) async fn merge(&self, path: &str, body: &Value) -> Answer {
        self.send("PATCH", path, Some("application/merge-patch+json"), Some(body)).await
    }

    /// Sends a JSON patch.
    pub(crate) async fn patch(&self, path: &str, operations: &Value) -> Answer {
        self.send("PATCH", path, Some("application/json-patch+json"), Some(operations)).await
    }

    pub(crate) async fn apply(&self, path: &str, manager: &str, body: &Value) -> Answer {
        let path = format!("{path}?fieldManager={manager}&force=true");
        self.send("PATCH", &path, Some("application/apply-patch+yaml"), Some(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, None, None).await
    }

    pub(crate) async fn delete_with(&self, path: &str, options: &Value) -> Answer {
        self.send("DELETE", path, None, Some(options)).await
    }

    pub(crate) async fn send(&self, method: &str, path: &str, content: Option<&str>, body: Option<&Value>) -> Answer {
        self.try_send(method, path, content, body).await.unwrap()
    }

    /// Sends a request. Unlike `send`, returns an error if the connection breaks.
    pub(crate) async fn try_send(
        &self,
        method: &str,
        path: &str,
        content: Option<&str>,
        body: Option<&Value>,
    ) -> Result<Answer, Box<dyn std::error::Error>> {
        let (parts, body) = self.open(method, path, content, body).await?.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        let text = String::from_utf8(bytes.into())?;
        Ok(Answer { code: parts.status.as_u16(), headers: parts.headers, body, text })
    }

    /// Opens a watch.
    pub(crate) async fn watch(&self, path: &str) -> Watch {
        let response = self.open("GET", path, None, None).await.unwrap();
        assert_eq!(response.status(), 200, "watch {path}");
        Watch { body: response.into_body(), buffer: Vec::new() }
    }

    async fn open(
        &self,
        method: &str,
        path: &str,
        content: Option<&str>,
        body: Option<&Value>,
    ) -> Result<http::Response<Incoming>, Box<dyn std::error::Error>> {
        let stream = TcpStream::connect(&self.authority).await?;
        let name = ServerName::try_from("127.0.0.1")?;
        let stream = self.tls.connect(name, stream).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.prefix))
            .header("host", &self.authority)
            .header("authorization", format!("Bearer {}", self.token))
            .header("accept", &self.accept)
            .header("content-type", content.unwrap_or("application/json"))
            .body(Full::new(Bytes::from(body.map(Value::to_string).unwrap_or_default())))?;
        Ok(sender.send_request(request).await?)
    }
}

/// Events of a watch.
pub(crate) struct Watch {
    body: Incoming,
    buffer: Vec<u8>,
}

impl Watch {
    /// Returns the next event that is no bookmark.
    pub(crate) async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            let event = self.next_any().await?;
            if event.0 != "BOOKMARK" {
                return Some(event);
            }
        }
    }

    /// Returns the next event; `None` if the watch has ended.
    pub(crate) async fn next_any(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                let event: Value = serde_json::from_slice(&line).unwrap();
                return Some((event["type"].as_str().unwrap().to_owned(), event["object"].clone()));
            }
            let frame = tokio::time::timeout(Duration::from_secs(10), self.body.frame());
            let frame = frame.await.expect("an event within 10 s")?;
            self.buffer.extend_from_slice(&frame.unwrap().into_data().unwrap_or_default());
        }
    }

    /// Reads on to the end. Returns true if the connection broke there.
    pub(crate) async fn is_cut(&mut self) -> bool {
        loop {
            let frame = tokio::time::timeout(Duration::from_secs(10), self.body.frame());
            match frame.await.expect("an end within 10 s") {
                Some(Ok(_)) => {}
                ended => return ended.is_some(),
            }
        }
    }
}
