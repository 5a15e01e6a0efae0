//! Address of one API server over the shared stack.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use depguard_core::{Fetched, Query};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, TRANSFER_ENCODING};
use http::response::Parts;
use http::{Method, Request, Response, Uri, Version};
use http_body_util::Limited;
use hyper::body::{Body as _, Incoming};
use kube_client::client::Body;
use tower::ServiceExt;
use tower::timeout::error::Elapsed;

use crate::http::body_limit::{BodyBudget, UpTo, collect};
use crate::http::transport::{CONNECT_TIMEOUT, Transport};
use crate::http::url;

/// Maximum length of a response's body, in bytes.
pub const MAX_BODY: usize = 64 << 20;

/// Time limit for the beginning of a watch's response, which begins at once, and for a page of its list.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Base URL over the shared stack: a cluster, a workspace, a virtual workspace. Cheap to make and to clone.
#[derive(Clone)]
pub struct Endpoint {
    transport: Transport,
    url: Arc<str>,
    timeout: Option<Duration>,
}

/// Reason why a request has no response.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The path is not valid under the endpoint.
    #[error("cannot ask for `{path}`: {why}")]
    Path {
        /// Given path.
        path: String,
        /// Error in the path.
        why: String,
    },
    /// The connection failed or broke, or there are no credentials.
    #[error("`{request}` at {server} failed: {why}")]
    Unanswered {
        /// Method and path: `GET /apis/…`
        request: String,
        /// Server: `https://host:port`
        server: String,
        /// Cause, with its own causes.
        why: String,
    },
    /// The body is longer than [`MAX_BODY`], or there is no [`BodyBudget`] for it.
    #[error("the answer to `{request}` is larger than {} MiB, or than the memory left for answers", MAX_BODY >> 20)]
    TooLarge {
        /// Method and path: `GET /apis/…`
        request: String,
    },
    /// The response did not arrive in the time that the caller gave.
    #[error("`{request}` at {server} had no answer within {} s", after.as_secs_f32())]
    TimedOut {
        /// Method and path: `GET /apis/…`
        request: String,
        /// Server: `https://host:port`
        server: String,
        /// Time that the caller gave.
        after: Duration,
    },
}

impl Endpoint {
    /// Makes an endpoint of a URL that was checked and has no slash at its end.
    pub(crate) fn new(transport: Transport, url: &str, timeout: Option<Duration>) -> Self {
        Self { transport, url: Arc::from(url), timeout }
    }

    /// Returns the base URL, without a slash at its end.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the endpoint under this one: `/clusters/*` or `/clusters/<logical cluster>` of a virtual workspace.
    #[must_use]
    pub fn join(&self, suffix: &str) -> Self {
        let url = format!("{}/{}", self.url, suffix.trim_matches('/'));
        Self { url: Arc::from(url.trim_end_matches('/')), ..self.clone() }
    }

    /// Returns the same endpoint with a time limit: each response, including its body, must arrive within `timeout`. Of
    /// several limits the shortest counts.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Self {
        let timeout = self.timeout.map_or(timeout, |own| own.min(timeout));
        Self { timeout: Some(timeout), ..self.clone() }
    }

    /// Sends a request whose URI is a path, with or without a query, under this endpoint; reads the whole body.
    ///
    /// The request has no time limit unless [`Endpoint::within`] sets one; dropping the future cancels the request. A
    /// GET whose connection breaks before the response begins is sent once more, because an API server may close an
    /// idle connection just as it is used again.
    pub async fn send(&self, mut request: Request<Bytes>) -> Result<Response<Bytes>, RequestError> {
        let path = request.uri().path_and_query().map_or("", |path| path.as_str());
        *request.uri_mut() = self.uri(path)?;
        self.transfer(request, &mut UpTo(MAX_BODY)).await
    }

    /// GETs a path under this endpoint, whatever the status of the response.
    pub async fn get(&self, path_and_query: &str) -> Result<Response<Bytes>, RequestError> {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = self.uri(path_and_query)?;
        self.transfer(request, &mut UpTo(MAX_BODY)).await
    }

    /// Sends a GET with this `Accept` header, and reads the body as far as there is [`BodyBudget`] for it.
    pub async fn get_within(
        &self,
        path_and_query: &str,
        accept: &'static str,
        space: &mut impl BodyBudget,
    ) -> Result<Response<Bytes>, RequestError> {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = self.uri(path_and_query)?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
        self.transfer(request, space).await
    }

    /// Sends a decision's query, and reads the body up to [`MAX_BODY`].
    ///
    /// An evaluation can be decided by this endpoint's answers:
    ///
    /// ```no_run
    /// # use depguard_core::{Context, Decision, Review, RuleSet};
    /// # async fn decide(rules: &RuleSet, review: &Review<'_>, cluster: &depguard_kcp::Endpoint) -> Decision {
    /// let deadline = tokio::time::sleep(depguard_core::time_to_answer(None));
    /// let evaluation = rules.evaluate(review, &Context::default());
    /// evaluation.decide_until(deadline, async |query| cluster.ask(&query).await).await
    /// # }
    /// ```
    pub async fn ask(&self, query: &Query) -> Fetched<Bytes> {
        self.ask_within(query, &mut UpTo(MAX_BODY)).await
    }

    /// Sends a decision's query, and reads the body as far as there is [`BodyBudget`] for it.
    pub async fn ask_within(&self, query: &Query, space: &mut impl BodyBudget) -> Fetched<Bytes> {
        fetched(self.get_within(&query.path, query.accept.as_str(), space).await)
    }

    /// Sends JSON with this media type to a path under this endpoint, whatever the status of the response. Reads the
    /// body as far as there is [`BodyBudget`] for it.
    pub async fn send_within(
        &self,
        method: Method,
        path_and_query: &str,
        (form, json): (&'static str, Bytes),
        space: &mut impl BodyBudget,
    ) -> Result<Response<Bytes>, RequestError> {
        let mut request = Request::new(json);
        *request.method_mut() = method;
        *request.uri_mut() = self.uri(path_and_query)?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(form));
        self.transfer(request, space).await
    }

    /// Returns a kube client over the same connections, for programs that use kube. Needs a tokio runtime.
    ///
    /// A request fails if its response does not begin within 30 s, or if the response grows beyond [`MAX_BODY`].
    pub fn client(&self) -> kube_client::Client {
        let endpoint = self.clone();
        let service = tower::service_fn(move |mut request: Request<Body>| {
            let endpoint = endpoint.clone();
            async move {
                *request.uri_mut() = endpoint.uri(request.uri().path_and_query().map_or("", |path| path.as_str()))?;
                let response = endpoint.begin(request).await?;
                Ok::<_, RequestError>(response.map(|body| Limited::new(body, MAX_BODY)))
            }
        });
        kube_client::Client::new(service, "default")
    }

    /// Sends a GET with this `Accept` header, and returns the response as soon as it has begun.
    pub(crate) async fn open(
        &self,
        path_and_query: &str,
        accept: &'static str,
    ) -> Result<Response<Incoming>, RequestError> {
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = self.uri(path_and_query)?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
        self.begin(request).await
    }

    /// Sends a request whose URI is absolute, and waits until the response begins.
    async fn begin(&self, request: Request<Body>) -> Result<Response<Incoming>, RequestError> {
        let what = What::from_request(&request);
        match tokio::time::timeout(HEAD_TIMEOUT, self.transport.clone().oneshot(request)).await {
            Ok(response) => response.map_err(|why| what.unanswered(&*why)),
            Err(_) => Err(what.timed_out(HEAD_TIMEOUT)),
        }
    }

    /// Returns the absolute URI of a path, with or without a query, under this endpoint.
    fn uri(&self, path_and_query: &str) -> Result<Uri, RequestError> {
        let refused = |why| RequestError::Path { path: path_and_query.chars().take(200).collect(), why };
        url::join(&self.url, path_and_query).map_err(refused)
    }

    /// Sends a request whose URI is absolute, and reads the body; of a watch, only its first event.
    async fn transfer(
        &self,
        request: Request<Bytes>,
        space: &mut impl BodyBudget,
    ) -> Result<Response<Bytes>, RequestError> {
        let what = What::from_request(&request);
        let answer = async {
            let send = |request: Request<Bytes>| self.transport.clone().oneshot(request.map(Body::from));
            let again = (request.method() == Method::GET).then(|| request.clone());
            let response = match (send(request).await, again) {
                (Err(why), Some(again)) if is_broken(&*why) => send(again).await,
                (response, _) => response,
            };
            let (parts, body) = response.map_err(|why| what.unanswered(&*why))?.into_parts();
            if !tells_its_end(&parts, &body) {
                return Err(what.unanswered(&Endless));
            }
            match collect(body, what.is_watch(), space).await {
                Ok(Some(body)) => Ok(Response::from_parts(parts, body)),
                Ok(None) => Err(RequestError::TooLarge { request: what.to_string() }),
                Err(why) => Err(what.unanswered(&why)),
            }
        };
        match self.timeout {
            None => answer.await,
            Some(after) => tokio::time::timeout(after, answer).await.unwrap_or_else(|_| Err(what.timed_out(after))),
        }
    }

    /// Returns the path of the base URL: `/clusters/root`, or nothing.
    pub(crate) fn base_path(&self) -> &str {
        self.url.match_indices('/').nth(2).and_then(|(start, _)| self.url.get(start..)).unwrap_or_default()
    }
}

/// Converts the outcome of a request to an answer to a query.
pub fn fetched(answered: Result<Response<Bytes>, RequestError>) -> Fetched<Bytes> {
    match answered {
        Ok(response) => Fetched::Response { status: response.status().as_u16(), body: response.into_body() },
        Err(RequestError::TooLarge { .. }) => Fetched::TooLarge,
        Err(why) => Fetched::Failed(why.to_string()),
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("url", &self.url).field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// Error: the body's end is not marked.
#[derive(Debug, thiserror::Error)]
#[error("the answer has no length, so depguard could not notice that a part is missing; check the proxies in between")]
struct Endless;

/// Returns true if a cut body would be noticed, because its length or the length of each chunk is known. In HTTP/1 a
/// body may also last until the connection is closed, by whichever side. No API server answers like that.
fn tells_its_end(parts: &Parts, body: &Incoming) -> bool {
    let chunked = || parts.headers.contains_key(TRANSFER_ENCODING);
    parts.version >= Version::HTTP_2 || body.size_hint().exact().is_some() || chunked()
}

/// Returns true if there was a connection and it broke.
fn is_broken(error: &(dyn Error + 'static)) -> bool {
    match error.downcast_ref::<hyper_util::client::legacy::Error>() {
        Some(error) => !error.is_connect(),
        None => error.source().is_some_and(is_broken),
    }
}

/// Returns a request to a path under an endpoint.
pub(crate) fn request(method: Method, path_and_query: &str, body: Bytes) -> Result<Request<Bytes>, RequestError> {
    let refused = |why: String| RequestError::Path { path: path_and_query.chars().take(200).collect(), why };
    // The path is checked here too, because a URI drops everything after a `#`.
    url::join("https://path.invalid", path_and_query).map_err(refused)?;
    Request::builder().method(method).uri(path_and_query).body(body).map_err(|why| refused(why.to_string()))
}

/// Method and URI of a request, kept for messages.
struct What {
    method: Method,
    uri: Uri,
}

impl What {
    fn from_request<B>(request: &Request<B>) -> Self {
        Self { method: request.method().clone(), uri: request.uri().clone() }
    }

    fn is_watch(&self) -> bool {
        self.uri.query().is_some_and(|query| query.contains("watch=true"))
    }

    fn unanswered(&self, why: &(dyn Error + 'static)) -> RequestError {
        RequestError::Unanswered { request: self.to_string(), server: self.server(), why: with_causes(why) }
    }

    fn timed_out(&self, after: Duration) -> RequestError {
        RequestError::TimedOut { request: self.to_string(), server: self.server(), after }
    }

    /// Returns the server: `https://host:port`
    fn server(&self) -> String {
        let (scheme, authority) = (self.uri.scheme_str().unwrap_or_default(), self.uri.authority());
        format!("{scheme}://{}", authority.map_or("", |authority| authority.as_str()))
    }
}

/// Writes `GET /clusters/root/apis/…`: without the server, and without the query, which may hold a continue token.
impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.uri.path())
    }
}

/// Returns an error's text with the texts of its causes, which a connection error's own text leaves out.
pub(crate) fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let part = if error.is::<Elapsed>() {
            format!("no connection within {} s", CONNECT_TIMEOUT.as_secs())
        } else {
            error.to_string()
        };
        // Some errors repeat their cause's text in their own.
        if !text.contains(&part) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&part);
        }
        next = error.source();
    }
    text
}
