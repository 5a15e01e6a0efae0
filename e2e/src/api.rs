//! A thin JSON client: a path in, a status and a body out, whatever the status.

use std::time::Duration;

use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config, client::Body};
use serde_json::Value;

use crate::outcome::{Outcome, Stop};

/// Time limit of one request. Longer than any webhook's time limit; a server that takes longer hangs.
const MAX_REQUEST_TIME: Duration = Duration::from_secs(60);

/// Client of one user for one cluster or workspace.
#[derive(Clone)]
pub struct Api {
    client: Client,
    prefix: String,
}

impl Api {
    /// Opens a client of the kubeconfig's user for the kubeconfig's server.
    pub async fn open(kubeconfig: &str) -> Outcome<Api> {
        let kubeconfig = Kubeconfig::from_yaml(kubeconfig)?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        // Scenarios check the first answer.
        config.default_retry = false;
        Ok(Api { client: Client::try_from(config)?, prefix: String::new() })
    }

    /// Returns a client of the same user at another path of the server.
    pub fn at(&self, prefix: impl Into<String>) -> Api {
        Api { client: self.client.clone(), prefix: prefix.into() }
    }

    /// Sends a GET.
    pub async fn get(&self, path: &str) -> Outcome<Reply> {
        self.call(Method::GET, path, None).await
    }

    /// Sends a GET of a list as `kubectl get` prints it. Returns the names of the columns and the cells of each row.
    pub async fn table(&self, path: &str) -> Outcome<(Vec<String>, Vec<Vec<Value>>)> {
        const ACCEPT: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
        let table = self.call_as(Method::GET, path, None, ACCEPT).await?.ok()?;
        let all = |field: &str| table[field].as_array().cloned().unwrap_or_default();
        let names = all("columnDefinitions");
        let names = names.iter().filter_map(|column| column["name"].as_str().map(str::to_owned)).collect();
        let rows = all("rows").iter().map(|row| row["cells"].as_array().cloned().unwrap_or_default()).collect();
        Ok((names, rows))
    }

    /// Sends a POST of a new object to its collection.
    pub async fn post(&self, path: &str, body: &Value) -> Outcome<Reply> {
        self.call(Method::POST, path, Some(("application/json", body))).await
    }

    /// Sends a PUT of a whole object.
    pub async fn put(&self, path: &str, body: &Value) -> Outcome<Reply> {
        self.call(Method::PUT, path, Some(("application/json", body))).await
    }

    /// Sends a PATCH with a JSON merge patch.
    pub async fn merge(&self, path: &str, patch: &Value) -> Outcome<Reply> {
        self.call(Method::PATCH, path, Some(("application/merge-patch+json", patch))).await
    }

    /// Sends a PATCH by server-side apply with a field manager other than depguard's.
    pub async fn apply(&self, path: &str, object: &Value) -> Outcome<Reply> {
        let path = format!("{path}?fieldManager=somebody&force=true");
        self.call(Method::PATCH, &path, Some(("application/apply-patch+yaml", object))).await
    }

    /// Sends a DELETE of an object or a collection.
    pub async fn delete(&self, path: &str) -> Outcome<Reply> {
        self.call(Method::DELETE, path, None).await
    }

    /// Sends a DELETE with this body of a `metav1.DeleteOptions`.
    pub async fn delete_with(&self, path: &str, options: &Value) -> Outcome<Reply> {
        self.call(Method::DELETE, path, Some(("application/json", options))).await
    }

    /// Sends a DELETE as a dry run: it passes admission and changes nothing.
    pub async fn dry_run_delete(&self, path: &str) -> Outcome<Reply> {
        self.delete(&format!("{path}?dryRun=All")).await
    }

    /// Opens a watch of a collection, starting at a resourceVersion.
    pub async fn watch(&self, collection: &str, version: &str) -> Outcome<Watch> {
        let url = format!("{}{collection}?watch=1&resourceVersion={version}", self.prefix);
        let request = Request::builder().uri(&url).body(Body::empty())?;
        let response = self.client.send(request).await?;
        if !response.status().is_success() {
            return Err(Stop::Failed(format!("GET {url}: {}", response.status())));
        }
        Ok(Watch { body: response.into_body(), read: Vec::new() })
    }

    async fn call(&self, method: Method, path: &str, body: Option<(&str, &Value)>) -> Outcome<Reply> {
        self.call_as(method, path, body, "application/json").await
    }

    async fn call_as(&self, method: Method, path: &str, body: Option<(&str, &Value)>, accept: &str) -> Outcome<Reply> {
        let url = format!("{}{path}", self.prefix);
        let what = format!("{method} {url}");
        let mut request = Request::builder().method(method).uri(&url).header(http::header::ACCEPT, accept);
        let mut bytes = Vec::new();
        if let Some((content_type, body)) = body {
            request = request.header(http::header::CONTENT_TYPE, content_type);
            bytes = serde_json::to_vec(body)?;
        }
        let request = request.body(Body::from(bytes))?;
        let exchange = async {
            let response = self.client.send(request).await?;
            let status = response.status().as_u16();
            let warnings = response.headers().get_all(http::header::WARNING);
            let warnings = warnings.iter().map(|warning| String::from_utf8_lossy(warning.as_bytes()).into_owned());
            let warnings = warnings.collect();
            let retry_after = response.headers().get(http::header::RETRY_AFTER);
            let retry_after = retry_after.and_then(|seconds| seconds.to_str().ok()?.parse().ok());
            let bytes = response.into_body().collect().await?.to_bytes();
            let body = serde_json::from_slice(&bytes)
                .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
            Ok::<_, Stop>(Reply { what: what.clone(), status, retry_after, warnings, body })
        };
        match tokio::time::timeout(MAX_REQUEST_TIME, exchange).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => Err(Stop::Failed(format!("{what}: {error}"))),
            Err(_) => Err(Stop::Failed(format!("{what}: no answer within {} s", MAX_REQUEST_TIME.as_secs()))),
        }
    }
}

/// Returns the path of an object whose kind has a regular plural.
pub fn path_of(object: &Value) -> String {
    format!("{}/{}", collection_of(object), object["metadata"]["name"].as_str().unwrap_or_default())
}

/// Returns the path of the collection of an object whose kind has a regular plural.
pub(crate) fn collection_of(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]).to_lowercase());
    let plural = kind.strip_suffix('y').map_or(format!("{kind}s"), |stem| format!("{stem}ies"));
    let root = if api_version.contains('/') { "apis" } else { "api" };
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("/{root}/{api_version}/namespaces/{namespace}/{plural}"),
        None => format!("/{root}/{api_version}/{plural}"),
    }
}

/// Open watch of a collection.
pub struct Watch {
    body: Body,
    read: Vec<u8>,
}

impl Watch {
    /// Returns the next event, or `None` once either side has ended the watch.
    pub async fn next(&mut self) -> Outcome<Option<Value>> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            let Some(Ok(frame)) = self.body.frame().await else { return Ok(None) };
            if let Ok(data) = frame.into_data() {
                self.read.extend_from_slice(&data);
            }
        }
    }
}

/// Response of a server.
#[derive(Clone, Debug)]
pub struct Reply {
    what: String,
    /// The HTTP status.
    pub status: u16,
    /// Seconds of the `Retry-After` header.
    pub retry_after: Option<u64>,
    /// The `Warning` headers, which `kubectl` shows.
    pub warnings: Vec<String>,
    /// The body: an object, a list or a `metav1.Status`; a string if the body is no JSON.
    pub body: Value,
}

impl Reply {
    /// Returns the body of a success; fails on any other status.
    pub fn ok(self) -> Outcome<Value> {
        if (200..300).contains(&self.status) { Ok(self.body) } else { Err(self.unexpected("a success")) }
    }

    /// Checks the response to a creation: a success, or 409 because the object exists already.
    pub fn ok_or_there(self) -> Outcome {
        if self.status == 409 { Ok(()) } else { self.ok().map(drop) }
    }

    /// Returns true if the object does not exist.
    pub fn is_gone(&self) -> bool {
        self.status == 404
    }

    /// Returns the `message` of a `metav1.Status`, or else the whole body.
    pub fn message(&self) -> String {
        match self.body.get("message").and_then(Value::as_str) {
            Some(message) => message.to_owned(),
            None => self.body.to_string(),
        }
    }

    /// Builds a failure that says what was expected and what came.
    pub fn unexpected(&self, awaited: &str) -> Stop {
        let mut message = self.message();
        if message.len() > 600 {
            message = message.chars().take(600).chain("…".chars()).collect();
        }
        Stop::Failed(format!("{}: awaited {awaited}, got {}: {message}", self.what, self.status))
    }
}
