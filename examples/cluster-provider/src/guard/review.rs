//! Decides one review: the core names what it must know, the platform cluster answers, the core decides.

#[cfg(test)]
mod tests;

use std::error::Error;

use bytes::Bytes;
use depguard_core::{Context, Fetched, OverridePolicy, Query, Review, RuleSet, time_to_answer};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body;
use kube_client::Client;
use kube_client::client::Body;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::info;

/// Maximum length of a review, in bytes. An API server stores no object of half that length.
const MAX_REVIEW: usize = 4 << 20;
/// Maximum length of a page of a list, in bytes. If a page is longer, the core requests a shorter one.
const MAX_PAGE: usize = 8 << 20;
/// Maximum of reviews at a time: each holds its body and some pages.
const MAX_CONCURRENT_REVIEWS: usize = 8;

/// Judge of reviews.
pub(super) struct Judge {
    rules: RuleSet,
    overrides: OverridePolicy,
    cluster: Client,
    places: Semaphore,
}

/// Body that comes from a connection, or from a test.
pub(super) trait Posted: body::Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> {}

impl<B: body::Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>> Posted for B {}

/// Reason why a review has no decision: an HTTP status and a message. The API server then refuses.
type Failure = (StatusCode, String);

impl Judge {
    /// Makes a judge with these rules, for the objects of a cluster. These users may override the rules.
    pub(super) fn new(rules: RuleSet, overrides: Vec<String>, cluster: Client) -> Self {
        let overrides = OverridePolicy { users: overrides.into_iter().collect(), ..OverridePolicy::default() };
        Self { rules, overrides, cluster, places: Semaphore::new(MAX_CONCURRENT_REVIEWS) }
    }

    /// Answers a review that an API server posts.
    pub(super) async fn answer<B: Posted>(&self, request: Request<B>) -> Response<Full<Bytes>> {
        match self.review(request).await {
            Ok(review) => {
                let mut response = Response::new(Full::from(review));
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                response
            }
            Err((status, why)) => {
                let mut response = Response::new(Full::from(why));
                *response.status_mut() = status;
                response
            }
        }
    }

    async fn review<B: Posted>(&self, request: Request<B>) -> Result<Vec<u8>, Failure> {
        if request.method() != Method::POST {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "reviews are posted".to_owned()));
        }
        let deadline = Instant::now() + time_to_answer(request.uri().query());
        let Ok(Ok(_place)) = timeout_at(deadline, self.places.acquire()).await else {
            return Err((StatusCode::SERVICE_UNAVAILABLE, "too many reviews at once: try again".to_owned()));
        };
        let body = timeout_at(deadline, Limited::new(request.into_body(), MAX_REVIEW).collect());
        let body =
            body.await.map_err(|_| (StatusCode::REQUEST_TIMEOUT, "the review did not arrive in time".to_owned()))?;
        let body = body.map_err(|why| match why.is::<LengthLimitError>() {
            true => (StatusCode::PAYLOAD_TOO_LARGE, format!("the review is longer than {} MiB", MAX_REVIEW >> 20)),
            false => (StatusCode::BAD_REQUEST, format!("the review broke off: {why}")),
        })?;
        let body = body.to_bytes();
        let review = Review::parse(&body).map_err(|why| (StatusCode::BAD_REQUEST, why.to_string()))?;
        let context = Context::default().with_overrides(&self.overrides);
        let evaluation = self.rules.evaluate(&review, &context);
        // Facts that are unknown at the deadline lead to a refusal, which names them.
        let decision = evaluation.decide_until(sleep_until(deadline), |query| self.get(query)).await;
        let user = review.requester().username();
        if let Some(why) = decision.message() {
            info!("refused {user}: {why}");
        } else if decision.diagnostics().overridden_by.is_some() {
            info!("{user} overrode the protection of {} {}", review.resource(), review.name().unwrap_or_default());
        }
        Ok(decision.to_review(review.uid()))
    }

    async fn get(&self, query: Query) -> Fetched<Bytes> {
        let request = Request::get(query.path).header(ACCEPT, query.accept.as_str()).body(Body::empty());
        let response = match request {
            Ok(request) => self.cluster.send(request).await,
            Err(why) => return Fetched::Failed(why.to_string()),
        };
        let (parts, body) = match response {
            Ok(response) => response.into_parts(),
            Err(why) => return Fetched::Failed(why.to_string()),
        };
        match Limited::new(body, MAX_PAGE).collect().await {
            Ok(body) => Fetched::Response { status: parts.status.as_u16(), body: body.to_bytes() },
            Err(why) if why.is::<LengthLimitError>() => Fetched::TooLarge,
            Err(why) => Fetched::Failed(why.to_string()),
        }
    }
}
