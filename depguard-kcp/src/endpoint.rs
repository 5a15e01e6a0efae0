//! One API server's address over the shared stack.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use depguard_core::{Fetched, Query};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use http::response::Parts;
use http::{Method, Request, Response, Uri, Version};
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::{Body as _, Frame, Incoming};
use kube_client::client::Body;
use tower::ServiceExt;
use tower::timeout::error::Elapsed;

use crate::address;
use crate::mirror::{Bookmarks, SmallPages};
use crate::space::{Space, UpTo, collect};
use crate::stack::{CONNECT_TIMEOUT, Stack};

/// The longest body of a response that is taken in, in bytes.
pub const MAX_BODY: usize = 64 << 20;

/// How long a watcher's request may take until the response begins: a watch's does at once.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// A base URL over the shared stack: a cluster, a workspace, a virtual workspace. Cheap to make and to clone.
#[derive(Clone)]
pub struct Endpoint {
    stack: Stack,
    url: Arc<str>,
    timeout: Option<Duration>,
}

/// Why a request has no response.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The path can't be a path under the endpoint.
    #[error("cannot ask for `{path}`: {why}")]
    Path {
        /// What was given.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// No connection, a broken one, or no credentials.
    #[error("`{request}` at {server} failed: {why}")]
    Unanswered {
        /// `GET /apis/…`
        request: String,
        /// `https://host:port`
        server: String,
        /// The cause, with its own causes.
        why: String,
    },
    /// Longer than [`MAX_BODY`], or than there is [`Space`] for.
    #[error("the answer to `{request}` is larger than {} MiB, or than there is space for", MAX_BODY >> 20)]
    TooLarge {
        /// `GET /apis/…`
        request: String,
    },
    /// Not done in the time that the caller gave.
    #[error("`{request}` at {server} had no answer within {} s", after.as_secs_f32())]
    TimedOut {
        /// `GET /apis/…`
        request: String,
        /// `https://host:port`
        server: String,
        /// The time that was given.
        after: Duration,
    },
}

impl Endpoint {
    /// `url` has been checked and has no slash at its end.
    pub(crate) fn new(stack: Stack, url: &str) -> Self {
        Self { stack, url: Arc::from(url), timeout: None }
    }

    /// The base URL, without a slash at its end.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The endpoint under this one: `/clusters/*` or `/clusters/<logical cluster>` of a virtual workspace.
    #[must_use]
    pub fn join(&self, suffix: &str) -> Self {
        let url = format!("{}/{}", self.url, suffix.trim_matches('/'));
        Self { url: Arc::from(url.trim_end_matches('/')), ..self.clone() }
    }

    /// The same endpoint, where each request must be done, body and all, within `timeout`.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self.clone() }
    }

    /// Sends a request whose URI is a path, and maybe a query, under this endpoint; takes in the whole body.
    ///
    /// Takes as long as it takes unless [`Endpoint::within`] says otherwise; dropping the future gives up. A GET whose
    /// connection breaks before there is a response is sent once more: an API server may close an idle connection just
    /// as it is used again.
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

    /// The same, in the form that the `Accept` header names, as far as there is [`Space`] for the body.
    pub async fn get_within(
        &self,
        path_and_query: &str,
        accept: &'static str,
        space: &mut impl Space,
    ) -> Result<Response<Bytes>, RequestError> {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = self.uri(path_and_query)?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
        self.transfer(request, space).await
    }

    /// The same with the headers of another request.
    pub(crate) async fn get_like(
        &self,
        headers: &HeaderMap,
        path_and_query: &str,
        space: &mut impl Space,
    ) -> Result<Response<Bytes>, RequestError> {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = self.uri(path_and_query)?;
        *request.headers_mut() = headers.clone();
        self.transfer(request, space).await
    }

    /// Sends a query of a decision, and takes in its body up to [`MAX_BODY`].
    ///
    /// With it an evaluation is decided by what this endpoint answers:
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

    /// The same, as far as there is [`Space`] for the body.
    pub async fn ask_within(&self, query: &Query, space: &mut impl Space) -> Fetched<Bytes> {
        fetched(self.get_within(&query.path, query.accept.as_str(), space).await)
    }

    /// Sends JSON of the form that a media type names to a path under this endpoint, whatever the status of the response,
    /// as far as there is [`Space`] for its body.
    pub async fn send_within(
        &self,
        method: Method,
        path_and_query: &str,
        (form, json): (&'static str, Bytes),
        space: &mut impl Space,
    ) -> Result<Response<Bytes>, RequestError> {
        let mut request = Request::new(json);
        *request.method_mut() = method;
        *request.uri_mut() = self.uri(path_and_query)?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(form));
        self.transfer(request, space).await
    }

    /// A client of kube's over the same connections, for its watchers. Needs a tokio runtime.
    ///
    /// A response that does not begin within 30 s fails, and so does one that grows beyond [`MAX_BODY`]: a watch is
    /// then begun anew. Lists come in small pages.
    pub fn client(&self) -> kube_client::Client {
        self.client_noting_bookmarks(|| (), SmallPages::new(None))
    }

    /// The same, where each bookmark of a watch is noted. Whatever else a body holds shows nothing before the watcher
    /// has understood it: behind a 200 there may be anything.
    pub(crate) fn client_noting_bookmarks(
        &self,
        note: impl Fn() + Clone + Send + Sync + 'static,
        pages: SmallPages,
    ) -> kube_client::Client {
        let endpoint = self.clone();
        let service = tower::service_fn(move |mut request: Request<Body>| {
            let (endpoint, note, pages) = (endpoint.clone(), note.clone(), pages.clone());
            async move {
                if SmallPages::are_asked_for(&request) {
                    let page = pages.fetch(&endpoint.within(HEAD_TIMEOUT), &request.map(drop)).await?;
                    return Ok(page.map(|body| Either::Right(Full::new(body))));
                }
                *request.uri_mut() = endpoint.uri(request.uri().path_and_query().map_or("", |path| path.as_str()))?;
                let what = What::of(&request);
                let is_watch = what.uri.query().is_some_and(|query| query.contains("watch=true"));
                match tokio::time::timeout(HEAD_TIMEOUT, endpoint.stack.clone().oneshot(request)).await {
                    Ok(Ok(response)) => {
                        let mut bookmarks = (is_watch && response.status().is_success()).then(Bookmarks::default);
                        let noted = move |frame: Frame<Bytes>| {
                            if let (Some(bookmarks), Some(piece)) = (&mut bookmarks, frame.data_ref())
                                && bookmarks.read(piece)
                            {
                                note();
                            }
                            frame
                        };
                        Ok(response.map(|body| Either::Left(Limited::new(body.map_frame(noted), MAX_BODY))))
                    }
                    Ok(Err(why)) => Err(what.unanswered(&*why)),
                    Err(_) => Err(what.timed_out(HEAD_TIMEOUT)),
                }
            }
        });
        kube_client::Client::new(service, "default")
    }

    /// What a path, and maybe a query, is under this endpoint.
    fn uri(&self, path_and_query: &str) -> Result<Uri, RequestError> {
        let refused = |why| RequestError::Path { path: path_and_query.chars().take(200).collect(), why };
        address::join(&self.url, path_and_query).map_err(refused)
    }

    /// Sends a request whose URI is absolute, and takes in the body.
    async fn transfer(&self, request: Request<Bytes>, space: &mut impl Space) -> Result<Response<Bytes>, RequestError> {
        let what = What::of(&request);
        let answer = async {
            let send = |request: Request<Bytes>| self.stack.clone().oneshot(request.map(Body::from));
            let again = (request.method() == Method::GET).then(|| request.clone());
            let response = match (send(request).await, again) {
                (Err(why), Some(again)) if is_broken(&*why) => send(again).await,
                (response, _) => response,
            };
            let (parts, body) = response.map_err(|why| what.unanswered(&*why))?.into_parts();
            if !tells_its_end(&parts, &body) {
                return Err(what.unanswered(&Endless));
            }
            match collect(body, space).await {
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

    /// What the base URL has behind the server: `/clusters/root`, or nothing.
    pub(crate) fn base_path(&self) -> &str {
        self.url.match_indices('/').nth(2).and_then(|(start, _)| self.url.get(start..)).unwrap_or_default()
    }
}

/// What came of a request, as an answer to a query.
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

/// A body of which nobody knows where it ends.
#[derive(Debug, thiserror::Error)]
#[error("the body doesn't say where it ends, so that one which was cut would look whole; look at what is between")]
struct Endless;

/// Whether a body that was cut would be seen to be: its length is known, or each of its parts is. In HTTP/1 a body may
/// also last until the connection is closed, by whoever that is. No API server answers so.
fn tells_its_end(parts: &Parts, body: &Incoming) -> bool {
    let chunked = || parts.headers.contains_key(TRANSFER_ENCODING);
    parts.version >= Version::HTTP_2 || body.size_hint().exact().is_some() || chunked()
}

/// Whether there was a connection, and it broke.
fn is_broken(error: &(dyn Error + 'static)) -> bool {
    match error.downcast_ref::<hyper_util::client::legacy::Error>() {
        Some(error) => !error.is_connect(),
        None => error.source().is_some_and(is_broken),
    }
}

/// A request to a path under an endpoint.
pub(crate) fn request(method: Method, path_and_query: &str, body: Bytes) -> Result<Request<Bytes>, RequestError> {
    let refused = |why: String| RequestError::Path { path: path_and_query.chars().take(200).collect(), why };
    // Checked here too: a URI drops what comes after a `#`.
    address::join("https://path.invalid", path_and_query).map_err(refused)?;
    Request::builder().method(method).uri(path_and_query).body(body).map_err(|why| refused(why.to_string()))
}

/// What is asked for, kept for messages.
struct What {
    method: Method,
    uri: Uri,
}

impl What {
    fn of<B>(request: &Request<B>) -> Self {
        Self { method: request.method().clone(), uri: request.uri().clone() }
    }

    fn unanswered(&self, why: &(dyn Error + 'static)) -> RequestError {
        RequestError::Unanswered { request: self.to_string(), server: self.server(), why: with_causes(why) }
    }

    fn timed_out(&self, after: Duration) -> RequestError {
        RequestError::TimedOut { request: self.to_string(), server: self.server(), after }
    }

    /// `https://host:port`
    fn server(&self) -> String {
        let (scheme, authority) = (self.uri.scheme_str().unwrap_or_default(), self.uri.authority());
        format!("{scheme}://{}", authority.map_or("", |authority| authority.as_str()))
    }
}

/// `GET /clusters/root/apis/…`: without the server, and without the query, which may hold a token to continue.
impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.uri.path())
    }
}

/// An error's text with those of its causes, which a connection error's own text leaves out.
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
