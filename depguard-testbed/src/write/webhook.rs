//! Calls a webhook: TLS verified with the configuration's `caBundle`, and a time limit.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use serde_json::Value;
use tokio::time::timeout;

use crate::protocol::json::{array, text};
use crate::transport::pool::{Connection, Destination};
use crate::world::World;

/// Maximum length of a webhook's answer that is read.
const MAX_ANSWER: usize = 3 * 1024 * 1024;

/// Answer of the webhook.
pub(crate) struct Verdict {
    pub(crate) allowed: bool,
    pub(crate) warnings: Vec<String>,
    pub(crate) status: Option<Value>,
    /// Annotations for the audit log.
    pub(crate) annotations: BTreeMap<String, String>,
}

/// Calls the webhook with a review. The error says why the webhook could not be asked.
pub(crate) async fn call(world: &World, webhook: &Value, uid: &str, review: &Value) -> Result<Verdict, String> {
    let seconds = webhook["timeoutSeconds"].as_u64().unwrap_or(10);
    let place = Place::from_webhook(webhook)?;
    let url = place.with_timeout(seconds);
    let post = |why: String| format!("Post \"{url}\": {why}");
    let address = place.address(world).map_err(post)?;
    let answer =
        match timeout(Duration::from_secs(seconds), post_review(world, &place, address, &url, webhook, review)).await {
            Ok(answer) => answer.map_err(post)?,
            Err(_) => return Err(post("context deadline exceeded".to_owned())),
        };
    read(&answer, uid)
}

/// Address of a webhook, as in its configuration.
struct Place {
    /// Service to look up, as `namespace/name`.
    service: Option<String>,
    server_name: String,
    authority: String,
    path: String,
}

impl Place {
    fn from_webhook(webhook: &Value) -> Result<Self, String> {
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

    /// Returns the address to connect to.
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
    world: &World,
    place: &Place,
    address: String,
    url: &str,
    webhook: &Value,
    review: &Value,
) -> Result<Bytes, String> {
    let bundle = text(webhook, "/clientConfig/caBundle").ok_or("x509: certificate signed by unknown authority")?;
    let ca_pem = STANDARD.decode(bundle).map_err(|why| format!("unable to load root certificates: {why}"))?;
    let destination = Destination { address, server_name: place.server_name.clone(), ca_pem };
    let uri: Uri = url.parse().map_err(|_| "the url can't be read".to_owned())?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::post(path)
        .header(HOST, &place.authority)
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, */*")
        .header(USER_AGENT, "kube-apiserver-admission")
        .body(Full::new(Bytes::from(review.to_string())))
        .map_err(|why| why.to_string())?;
    // The other end may just have closed an idle connection. Then the next one is tried, and at last a new one.
    while let Some(mut connection) = world.webhooks.take(&destination) {
        let ready = connection.sender.ready().await.is_ok();
        if ready && let Ok(response) = connection.sender.send_request(request.clone()).await {
            return answer(world, &destination, connection, response).await;
        }
    }
    let mut connection = world.webhooks.connect(&destination).await?;
    let response = connection.sender.send_request(request).await.map_err(|why| why.to_string())?;
    answer(world, &destination, connection, response).await
}

/// Reads the answer, and keeps the connection.
async fn answer(
    world: &World,
    destination: &Destination,
    connection: Connection,
    response: Response<Incoming>,
) -> Result<Bytes, String> {
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
    let body = body.map_err(|why| why.to_string())?.to_bytes();
    world.webhooks.keep(destination, connection);
    if status.is_success() {
        return Ok(body);
    }
    let said = String::from_utf8_lossy(&body).trim().to_owned();
    Err(if said.is_empty() { format!("the server returned {status}") } else { said })
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
        annotations: noted(&response["auditAnnotations"]),
    })
}

fn noted(annotations: &Value) -> BTreeMap<String, String> {
    let all = annotations.as_object().into_iter().flatten();
    all.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
