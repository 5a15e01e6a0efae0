//! Calls to a server that is no API server, such as a webhook. The server is known by its certificate, and it receives
//! no credentials.

use std::error::Error;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HOST, HeaderValue};
use http::{Request, Uri};
use http_body_util::BodyExt;
use kube_client::client::Body;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tower::ServiceExt;

use crate::http::endpoint::with_causes;
use crate::http::transport::{self, Transport};

/// Client that posts to one URL, over TLS unless [the URL says otherwise](Self::of_any_scheme). A new client opens a
/// new connection: if several servers share the address, it may reach another one.
#[derive(Clone)]
pub struct Caller {
    transport: Transport,
    uri: Uri,
    /// Host of the request, if it isn't that of the URI.
    host: Option<HeaderValue>,
}

/// Reason why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The URL or the server's certificates are unusable.
    #[error("it can't be called: {0}")]
    Unusable(String),
    /// The server requires a client certificate, or another one.
    #[error("it requires another client certificate: {0}")]
    ClientCertificate(String),
    /// None of the given certificates vouches for the server's certificate.
    #[error("its certificate is refused: {0}")]
    Certificate(String),
    /// The connection failed or broke, or no answer came in time.
    #[error("{0}")]
    Unreachable(String),
    /// The server answered with another status than 200.
    #[error("it answered {status}{}", said(.text))]
    Status {
        /// HTTP status.
        status: u16,
        /// Beginning of the answer.
        text: String,
    },
    /// The answer is longer than the limit.
    #[error("its answer is longer than {0} bytes")]
    TooLong(usize),
}

impl Caller {
    /// Makes a client for `url`, which must be `https`. `roots` are PEM certificates that the server is known by;
    /// without any, the system's are used. `server_name` is the name in the server's certificate, if it differs from
    /// the URL's host. `identity` is a folder with `tls.crt` and `tls.key`, by which the server knows the caller.
    pub fn new(
        url: &str,
        roots: Option<&[u8]>,
        server_name: Option<&str>,
        identity: Option<&Path>,
    ) -> Result<Self, CallError> {
        let unusable = |why: &dyn fmt::Display| CallError::Unusable(why.to_string());
        let uri: Uri = url.parse().map_err(|why| unusable(&why))?;
        if uri.scheme_str() != Some("https") {
            return Err(unusable(&format!("`{url}` is not an https URL")));
        }
        let mut config = kube_client::Config::new(uri.clone());
        if let Some(pem) = roots {
            let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
            let certificates = certificates.map_err(|why| unusable(&why))?;
            if certificates.is_empty() {
                return Err(unusable(&"its CA bundle contains no certificate"));
            }
            config.root_cert = Some(certificates.iter().map(|certificate| certificate.to_vec()).collect());
        }
        if let Some(folder) = identity {
            let file = |name: &str| Some(folder.join(name).to_string_lossy().into_owned());
            config.auth_info.client_certificate = file("tls.crt");
            config.auth_info.client_key = file("tls.key");
        }
        config.tls_server_name = server_name.map(str::to_owned);
        let transport = transport::build(&config).map_err(|why| unusable(&with_causes(&why)))?;
        Ok(Self { transport, uri, host: None })
    }

    /// Returns the client with the host of this URL in its requests, for a server that is called by its IP address.
    pub fn for_host_of(self, url: &str) -> Result<Self, CallError> {
        let unusable = |why: &dyn fmt::Display| CallError::Unusable(why.to_string());
        let uri: Uri = url.parse().map_err(|why| unusable(&why))?;
        let host = uri.authority().map(|authority| HeaderValue::from_str(authority.as_str())).transpose();
        Ok(Self { host: host.map_err(|why| unusable(&why))?, ..self })
    }

    /// Makes a client for an `http` or `https` URL. A server behind `https` is known by the system's certificates.
    pub fn of_any_scheme(url: &str) -> Result<Self, CallError> {
        let unusable = |why: &dyn fmt::Display| CallError::Unusable(why.to_string());
        let uri: Uri = url.parse().map_err(|why| unusable(&why))?;
        let mut config = kube_client::Config::new(uri.clone());
        match uri.scheme_str() {
            Some("https") => {}
            // The system may have no certificates, and needs none.
            Some("http") => config.root_cert = Some(Vec::new()),
            _ => return Err(unusable(&format!("`{url}` is neither an http nor an https URL"))),
        }
        let transport = transport::build(&config).map_err(|why| unusable(&with_causes(&why)))?;
        Ok(Self { transport, uri, host: None })
    }

    /// Posts JSON and reads at most `most` bytes of the answer, all within `timeout`.
    pub async fn post(&self, json: Vec<u8>, most: usize, timeout: Duration) -> Result<Bytes, CallError> {
        let answer = tokio::time::timeout(timeout, self.exchange(json, most));
        let late = || CallError::Unreachable(format!("no answer within {} s", timeout.as_secs_f32()));
        answer.await.unwrap_or_else(|_| Err(late()))
    }

    async fn exchange(&self, json: Vec<u8>, most: usize) -> Result<Bytes, CallError> {
        let mut request = Request::post(self.uri.clone())
            .body(Body::from(json))
            .map_err(|why| CallError::Unusable(why.to_string()))?;
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(host) = &self.host {
            request.headers_mut().insert(HOST, host.clone());
        }
        let response = self.transport.clone().oneshot(request).await.map_err(|why| failure(&*why))?;
        let status = response.status();
        let mut body = response.into_body();
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|why| CallError::Unreachable(with_causes(&why)))?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len().saturating_add(data.len()) > most {
                return Err(CallError::TooLong(most));
            }
            bytes.extend_from_slice(&data);
        }
        if status == http::StatusCode::OK {
            return Ok(bytes.freeze());
        }
        let text = String::from_utf8_lossy(&bytes).trim().chars().take(200).collect();
        Err(CallError::Status { status: status.as_u16(), text })
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").field("uri", &self.uri).finish_non_exhaustive()
    }
}

fn failure(error: &(dyn Error + 'static)) -> CallError {
    certificate(error).unwrap_or_else(|| CallError::Unreachable(with_causes(error)))
}

/// Returns the error that TLS found in a certificate, if that is the cause.
fn certificate(error: &(dyn Error + 'static)) -> Option<CallError> {
    use rustls::AlertDescription as Alert;
    match error.downcast_ref() {
        Some(rustls::Error::InvalidCertificate(why)) => return Some(CallError::Certificate(refused(why))),
        Some(rustls::Error::AlertReceived(
            why @ (Alert::AccessDenied
            | Alert::BadCertificate
            | Alert::CertificateExpired
            | Alert::CertificateRequired
            | Alert::CertificateUnknown
            | Alert::DecryptError
            | Alert::UnknownCA),
        )) => return Some(CallError::ClientCertificate(format!("{why:?}"))),
        _ => {}
    }
    // An I/O error does not list the error that it wraps among its causes.
    let wrapped = error.downcast_ref::<std::io::Error>().and_then(|error| error.get_ref());
    match wrapped {
        Some(wrapped) => certificate(wrapped),
        None => error.source().and_then(certificate),
    }
}

/// Returns the reason why a server's certificate is refused, in plain words if the library's are too technical.
fn refused(why: &rustls::CertificateError) -> String {
    let why = why.to_string();
    if why.contains("CaUsedAsEndEntity") {
        return "it is a CA certificate (basicConstraints CA:TRUE, as `openssl req -x509` makes them), not a server \
                certificate: have a CA issue one, or make it with CA:FALSE"
            .to_owned();
    }
    why
}

fn said(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}
