//! Webhook of a provider with depguard-core in it: `cargo run --example embed-core`.
//!
//! The core does no I/O. The provider receives the review, and sends the GETs that the evaluation asks for, with its
//! own HTTP client.

mod provider;

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use depguard_core::{Context, Review, RuleSet, time_to_answer};
use depguard_kcp::Endpoint;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use tokio::time::{Instant, sleep_until, timeout_at};
use tower::service_fn;

use crate::provider::{Provider, Result};

const MAX_BYTES: usize = 4 << 20;

#[tokio::main]
async fn main() -> Result<()> {
    let provider = Provider::start().await?;
    let (rules, cluster) = (Arc::new(Provider::rules()?), provider.connection.own_endpoint());
    let webhook = service_fn(move |request: Request<Incoming>| {
        let (rules, cluster) = (rules.clone(), cluster.clone());
        async move {
            let answer: Response<Full<Bytes>> = match review(&rules, &cluster, request).await {
                Ok(review) => Response::new(Full::from(review)),
                Err(error) => {
                    let mut response = Response::new(Full::from(error.to_string()));
                    *response.status_mut() = StatusCode::BAD_REQUEST;
                    response
                }
            };
            Ok::<_, Infallible>(answer)
        }
    });
    provider.play("/", webhook).await
}

async fn review(rules: &RuleSet, cluster: &Endpoint, request: Request<Incoming>) -> Result<Bytes> {
    let deadline = Instant::now() + time_to_answer(request.uri().query());
    let body = Limited::new(request.into_body(), MAX_BYTES).collect();
    let body = timeout_at(deadline, body).await??.to_bytes();
    let review = Review::parse(&body)?;
    let evaluation = rules.evaluate(&review, &Context::default());
    let decision = evaluation.decide_until(sleep_until(deadline), async |query| cluster.ask(&query).await).await;
    Ok(decision.to_review(review.uid()).into())
}
