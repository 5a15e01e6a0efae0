//! The admission service: an HTTP request in, an answered AdmissionReview out.

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::task::{Context, Poll};

use depguard_core::{self as core, Decision, FailurePolicy, Inquiry, OverridePolicy, Review, ReviewError, canary};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Body;
use prometheus_client::registry::Registry;
use tokio::time::{Instant, timeout_at};
use tower::Service;

use crate::body::{self, BodyError};
use crate::budget::{Budget, Size};
use crate::driver::Reads;
use crate::gauges::Queue;
use crate::gets::Gets;
use crate::lookups::Lookups;
use crate::metrics::{Metrics, Way};
use crate::paths::{Asked, PathKeys};
use crate::port::Port;
use crate::rules::{Rules, Snapshot};
use crate::source::Source;
use crate::taken::Taken;
use crate::tasks::Tasks;
use crate::{driver, gauges, report, respond, timeout, uid};

/// Reviews what is posted to `/validate`: a [`tower::Service`] that fits into any server, or into a provider's own.
///
/// It takes `POST /validate`, and `POST /validate/ignore` for the rules that are ignored where they fail, with an
/// `admission.k8s.io/v1` AdmissionReview as `application/json`, and answers within the caller's `?timeout=` less a
/// margin. Where the path goes on with a scope (see [`PathKeys`]), it decides only about that scope's objects. A request that is no review gets a 4xx with a plain sentence; an API server
/// then goes by the webhook's `failurePolicy`, which is `Fail`. It is always ready, and cheap to clone.
pub struct ReviewService<P: Port> {
    shared: Arc<Shared<P>>,
    keys: Option<PathKeys>,
}

/// What one service takes in. See `Default` for what is usual.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The longest review, in bytes. An API server's object has at most 1.5 MiB, and a review holds it once or twice.
    pub review: usize,
    /// What all reviews under way may take up together, in bytes; further ones wait while their time lasts.
    pub reviews: usize,
    /// The reviews that may wait for an API server at once; further ones are refused at once. Those that need none are
    /// always decided.
    pub at_once: usize,
    /// What all pages of objects under way may take up together, in bytes; further ones wait while their time lasts.
    pub pages: usize,
}

struct Shared<P: Port> {
    reads: Reads<P>,
    rules: Rules,
    overrides: OverridePolicy,
    limits: Limits,
    reviews: Queue,
    reading: [Queue; 2],
    metrics: Arc<Metrics>,
}

/// Why a request gets no AdmissionReview for an answer.
#[derive(Debug, thiserror::Error)]
enum Rejection {
    #[error("there is only POST /validate")]
    Path,
    #[error("nothing is answered at this path: it must end as the controller writes it that has the same path key")]
    Unsigned,
    #[error("only POST is answered here")]
    Method,
    #[error("the content type must be application/json")]
    ContentType,
    #[error("the review was not there in time")]
    Slow,
    #[error("too many deletions at once; retry later")]
    TooMany,
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error(transparent)]
    Review(#[from] ReviewError),
}

impl<P: Port> ReviewService<P> {
    /// Decides by `rules` and by what `port` reads.
    pub fn new(port: P, rules: Rules, overrides: OverridePolicy) -> Self {
        Self::with_limits(port, rules, overrides, Limits::default())
    }

    /// The same within other limits.
    pub fn with_limits(port: P, rules: Rules, overrides: OverridePolicy, limits: Limits) -> Self {
        Self::among(Tasks::default(), port, rules, overrides, limits)
    }

    /// The same, where what outlives a review is counted among `tasks`.
    pub(crate) fn among(tasks: Tasks, port: P, rules: Rules, overrides: OverridePolicy, limits: Limits) -> Self {
        // A review that has no room even alone would wait in vain.
        let bytes = Taken::of(limits.reviews.max(limits.review));
        let reviews = Queue { name: "reviews", places: Taken::of(limits.at_once), bytes };
        let metrics = Arc::new(Metrics::default());
        let source = Arc::new(Source::new(port, Budget::new(limits.pages), Arc::clone(&metrics)));
        let reading = [Size::Small, Size::Page].map(|size| {
            let (places, bytes) = source.budget().taken(size);
            Queue { name: size.label(), places, bytes }
        });
        let reads = Reads { gets: Gets::new(Arc::clone(&source), tasks.clone()), lookups: Lookups::new(source, tasks) };
        Self { shared: Arc::new(Shared { reads, rules, overrides, limits, reviews, reading, metrics }), keys: None }
    }

    /// Adds what this service counts to a registry of `prometheus-client` 0.25: one that is read at `/metrics`, say. All
    /// names begin with `depguard_`.
    pub fn register(&self, registry: &mut Registry) {
        let Shared { metrics, rules, reviews, reading: [small, pages], .. } = &*self.shared;
        metrics.register(registry);
        gauges::of_service(registry, rules.clone(), &[reviews.clone(), small.clone(), pages.clone()]);
    }

    /// The same, where only paths are answered that one of these keys signed.
    pub fn with_path_keys(self, keys: PathKeys) -> Self {
        Self { keys: Some(keys), ..self }
    }
}

impl<P: Port> Shared<P> {
    async fn answer<B>(&self, request: Request<B>, keys: Option<&PathKeys>) -> Response<Full<bytes::Bytes>>
    where
        B: Body<Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        match self.review(request, keys).await {
            Ok(answer) => respond::review(answer),
            Err(rejection) => {
                let (cause, detail) = (rejection.label(), rejection.detail());
                match rejection {
                    // Nothing that an API server asks: whoever else reaches the port shall not fill the log.
                    Rejection::Path | Rejection::Unsigned => tracing::debug!(cause, "a request was rejected: {detail}"),
                    _ => tracing::warn!(cause, "a request was rejected: {detail}"),
                }
                self.metrics.rejected(rejection.label());
                rejection.response()
            }
        }
    }

    async fn review<B>(&self, request: Request<B>, keys: Option<&PathKeys>) -> Result<Vec<u8>, Rejection>
    where
        B: Body<Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        let begun = Instant::now();
        let (head, body) = request.into_parts();
        let asked = check(&head, keys)?;
        let failure_policy = asked.failure_policy;
        let limit = timeout::of_query(head.uri.query());
        let deadline = begun.checked_add(timeout::less_margin(limit)).unwrap_or(begun);

        let mut bytes = body::Bytes::new(self.limits.review, self.reviews.bytes.semaphore());
        let read = timeout_at(deadline, bytes.fill(body)).await;
        if let Err(rejection) = read.map_err(|_| Rejection::Slow).and_then(|read| read.map_err(Rejection::Body)) {
            return self.refuse(rejection, uid::of_beginning(bytes.read()).as_deref(), failure_policy);
        }
        let review = Review::parse(bytes.read())?;
        if let Some(inquiry) = Inquiry::of(&review, bytes.read())? {
            return Ok(self.rules.tell(&inquiry));
        }
        // Where a webhook that can't be reached refuses nothing.
        if failure_policy == FailurePolicy::Ignore && canary::is_canary(&review) {
            return Ok(respond::refusal(review.uid(), canary::MESSAGE));
        }
        match self.decide(&review, &asked, deadline).await {
            Ok((decision, way)) => {
                self.metrics.decided(review.operation(), &decision, way, begun.elapsed());
                report::decision(&review, &decision);
                Ok(decision.to_review(review.uid()))
            }
            Err(rejection) => self.refuse(rejection, Some(review.uid()), failure_policy),
        }
    }

    async fn decide(
        &self,
        review: &Review<'_>,
        asked: &Asked,
        deadline: Instant,
    ) -> Result<(Decision, Way), Rejection> {
        let evaluation = match &*self.rules.snapshot() {
            Snapshot::Loaded { rules, workspaces } => {
                let context =
                    core::Context { workspaces, overrides: &self.overrides, failure_policy: asked.failure_policy };
                asked.bound(rules.evaluate(review, &context))
            }
            Snapshot::NotLoaded { why } => {
                return Ok((Decision::not_ready(asked.failure_policy, why.clone()), Way::Memory));
            }
        };
        if evaluation.is_settled() {
            return Ok((evaluation.decide(), Way::Memory));
        }
        let places = self.reviews.places.semaphore();
        let _place = places.try_acquire().map_err(|_| Rejection::TooMany)?;
        Ok((driver::drive(&self.reads, evaluation, deadline).await, Way::Reads))
    }

    /// Tells whom it can be told to; for rules that are ignored where they fail, the API server then does so.
    fn refuse(
        &self,
        rejection: Rejection,
        uid: Option<&str>,
        failure_policy: FailurePolicy,
    ) -> Result<Vec<u8>, Rejection> {
        match uid {
            Some(uid) if failure_policy == FailurePolicy::Fail => {
                tracing::warn!(cause = rejection.label(), "a review was refused: {}", rejection.detail());
                self.metrics.refused(rejection.label());
                Ok(respond::refusal(uid, &rejection.to_string()))
            }
            _ => Err(rejection),
        }
    }
}

/// That it is a `POST` of JSON, and about which rules.
fn check(head: &Parts, keys: Option<&PathKeys>) -> Result<Asked, Rejection> {
    let unknown = || if keys.is_some() { Rejection::Unsigned } else { Rejection::Path };
    let asked = Asked::read(head.uri.path(), keys).ok_or_else(unknown)?;
    if head.method != Method::POST {
        return Err(Rejection::Method);
    }
    let content_type = head.headers.get(CONTENT_TYPE).and_then(|given| given.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") { Ok(asked) } else { Err(Rejection::ContentType) }
}

impl Rejection {
    fn response(&self) -> Response<Full<bytes::Bytes>> {
        let mut response = respond::text(self.status(), self.to_string());
        if matches!(self, Self::Method) {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        }
        response
    }

    /// What is wrong, without what was sent: that is not for the log.
    fn detail(&self) -> String {
        match self {
            Self::Review(ReviewError::Malformed(why)) => {
                format!("not an AdmissionReview, by line {} column {}", why.line(), why.column())
            }
            other => other.to_string(),
        }
    }

    /// One word of a closed set, fit for a metric's label.
    fn label(&self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Unsigned => "unsigned-path",
            Self::Method => "method",
            Self::ContentType => "content-type",
            Self::Slow => "too-slow",
            Self::TooMany => "too-many",
            Self::Body(BodyError::TooLarge(_)) => "too-large",
            Self::Body(BodyError::Broken(_)) => "broken-off",
            Self::Review(_) => "no-review",
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::Path | Self::Unsigned => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Self::Body(BodyError::TooLarge(_)) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Body(BodyError::Broken(_)) | Self::Review(_) => StatusCode::BAD_REQUEST,
        }
    }
}

impl<P, B> Service<Request<B>> for ReviewService<P>
where
    P: Port,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>> + Send> + Send + 'static,
{
    type Response = Response<Full<bytes::Bytes>>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self { shared, keys } = self.clone();
        async move { Ok(shared.answer(request, keys.as_ref()).await) }.boxed()
    }
}

impl<P: Port> Clone for ReviewService<P> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), keys: self.keys.clone() }
    }
}

impl<P: Port> std::fmt::Debug for ReviewService<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReviewService").field("limits", &self.shared.limits).finish_non_exhaustive()
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { review: (3 << 20) + (64 << 10), reviews: 256 << 20, at_once: 4096, pages: 64 << 20 }
    }
}
