//! The call to a webhook: TLS verified with the configuration's `caBundle`, and a time limit.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::json::{array, text};
use crate::tls;
use crate::world::World;

/// The most that is read of a webhook's answer.
const ANSWER_LIMIT: usize = 3 * 1024 * 1024;

/// What the webhook answered.
pub(crate) struct Verdict {
    pub(crate) allowed: bool,
    pub(crate) warnings: Vec<String>,
    pub(crate) status: Option<Value>,
}

/// Calls the webhook with a review. Why it could not be asked is told in words.
pub(crate) async fn call(world: &World, webhook: &Value, uid: &str, review: &Value) -> Result<Verdict, String> {
    let seconds = webhook["timeoutSeconds"].as_u64().unwrap_or(10);
    let place = Place::of(webhook)?;
    let url = place.with_timeout(seconds);
    let post = |why: String| format!("Post \"{url}\": {why}");
    let address = place.address(world).map_err(post)?;
    let answer = match timeout(Duration::from_secs(seconds), post_review(&place, &address, &url, webhook, review)).await
    {
        Ok(answer) => answer.map_err(post)?,
        Err(_) => return Err(post("context deadline exceeded".to_owned())),
    };
    read(&answer, uid)
}

/// Where a webhook is, as its configuration says it.
struct Place {
    /// `namespace/name` of a service that is to be looked up.
    service: Option<String>,
    server_name: String,
    authority: String,
    path: String,
}

impl Place {
    fn of(webhook: &Value) -> Result<Self, String> {
        let config = &webhook["clientConfig"];
        if let Some(url) = text(config, "/url") {
            let uri: Uri = url.parse().map_err(|why| format!("the url `{url}` can't be read: {why}"))?;
            let host = uri.host().ok_or_else(|| format!("the url `{url}` names no host"))?;
            if uri.scheme_str() != Some("https") {
                return Err(format!("the url `{url}` is not https"));
            }
            return Ok(Self {
                service: None,
                server_name: host.trim_matches(['[', ']']).to_owned(),
                authority: uri.authority().map(ToString::to_string).unwrap_or_default(),
                path: uri.path().to_owned(),
            });
        }
        let (Some(namespace), Some(name)) = (text(config, "/service/namespace"), text(config, "/service/name")) else {
            return Err("the clientConfig names neither a url nor a service".to_owned());
        };
        let port = config["service"]["port"].as_u64().unwrap_or(443);
        Ok(Self {
            service: Some(format!("{namespace}/{name}")),
            server_name: format!("{name}.{namespace}.svc"),
            authority: format!("{name}.{namespace}.svc:{port}"),
            path: text(config, "/service/path").unwrap_or("/").to_owned(),
        })
    }

    /// What to connect to.
    fn address(&self, world: &World) -> Result<String, String> {
        let Some(service) = &self.service else {
            let has_port = self.authority.rsplit(':').next().is_some_and(|port| port.parse::<u16>().is_ok());
            return Ok(if has_port { self.authority.clone() } else { format!("{}:443", self.authority) });
        };
        let known = world.services.get(service).map(SocketAddr::to_string);
        known.ok_or_else(|| format!("service \"{}\" not found", service.rsplit('/').next().unwrap_or_default()))
    }

    fn with_timeout(&self, seconds: u64) -> String {
        format!("https://{}{}?timeout={seconds}s", self.authority, self.path)
    }
}

async fn post_review(
    place: &Place,
    address: &str,
    url: &str,
    webhook: &Value,
    review: &Value,
) -> Result<Bytes, String> {
    let bundle = text(webhook, "/clientConfig/caBundle").ok_or("x509: certificate signed by unknown authority")?;
    let bundle = STANDARD.decode(bundle).map_err(|why| format!("unable to load root certificates: {why}"))?;
    let config = tls::client_trusting(&bundle)?;
    let name = ServerName::try_from(place.server_name.clone()).map_err(|why| why.to_string())?;

    let stream = TcpStream::connect(address).await.map_err(|why| format!("dial tcp {address}: {}", dialled(&why)))?;
    stream.set_nodelay(true).ok();
    let stream =
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|why| format!("tls: {why}"))?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|why| format!("handshake: {why}"))?;
    let uri: Uri = url.parse().map_err(|_| "the url can't be read".to_owned())?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::post(path)
        .header(HOST, &place.authority)
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, */*")
        .header(USER_AGENT, "kube-apiserver-admission")
        .body(Full::new(Bytes::from(review.to_string())))
        .map_err(|why| why.to_string())?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(|why| why.to_string())?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_LIMIT).collect().await;
        let body = body.map_err(|why| why.to_string())?.to_bytes();
        if status.is_success() {
            return Ok(body);
        }
        let said = String::from_utf8_lossy(&body).trim().to_owned();
        Err(if said.is_empty() { format!("the server returned {status}") } else { said })
    };
    // The connection is driven here, not in a task of its own: it ends with the call.
    tokio::pin!(exchange);
    tokio::select! {
        answer = &mut exchange => answer,
        ended = connection => match ended {
            // The server closes once it has answered: what it said may still be on its way to us.
            Ok(()) => exchange.await,
            Err(why) => Err(why.to_string()),
        },
    }
}

/// As the API server words it.
fn dialled(why: &std::io::Error) -> String {
    match why.kind() {
        std::io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        _ => why.to_string(),
    }
}

fn read(answer: &[u8], uid: &str) -> Result<Verdict, String> {
    let invalid = |why: &str| format!("received invalid webhook response: {why}");
    let answer: Value = serde_json::from_slice(answer).map_err(|why| invalid(&why.to_string()))?;
    let is_review = answer["kind"] == "AdmissionReview" && answer["apiVersion"] == "admission.k8s.io/v1";
    if !is_review {
        return Err(invalid("expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview"));
    }
    let Some(response) = answer.get("response").filter(|response| response.is_object()) else {
        return Err("webhook response was absent".to_owned());
    };
    if response["uid"] != uid {
        return Err(invalid(&format!("expected response.uid=\"{uid}\", got {}", response["uid"])));
    }
    Ok(Verdict {
        allowed: response["allowed"].as_bool().unwrap_or(false),
        warnings: array(response, "/warnings").iter().filter_map(|text| text.as_str().map(str::to_owned)).collect(),
        status: response.get("status").cloned(),
    })
}
