//! A provider's own webhook with depguard-core in it: `cargo run --example embed-core`.
//!
//! The core does no I/O. The provider takes the review off the wire and does the GETs that the evaluation asks for,
//! with whatever HTTP client it has.

mod provider;

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use depguard_core::{Answer, Context, FailurePolicy, OverridePolicy, Review, RuleSet, Workspaces};
use depguard_kcp::Endpoint;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use tower::service_fn;

use crate::provider::{Provider, Result};

const MOST_BYTES: usize = 4 << 20;

#[tokio::main]
async fn main() -> Result<()> {
    let provider = Provider::start().await?;
    let (rules, cluster) = (Arc::new(Provider::rules()?), provider.connection.home());
    let webhook = service_fn(move |request: Request<Incoming>| {
        let (rules, cluster) = (rules.clone(), cluster.clone());
        async move {
            let answer = match review(&rules, &cluster, request).await {
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
    let body = Limited::new(request.into_body(), MOST_BYTES).collect().await?.to_bytes();
    let review = Review::parse(&body)?;
    let context = Context {
        workspaces: &Workspaces::new(),
        overrides: &OverridePolicy::default(),
        failure_policy: FailurePolicy::Fail,
    };
    let mut evaluation = rules.evaluate(&review, &context);
    loop {
        let queries = evaluation.queries();
        if queries.is_empty() {
            return Ok(evaluation.decide().to_review(review.uid()).into());
        }
        for query in queries {
            match cluster.get(&query.path).await {
                Ok(response) => {
                    let (status, body) = (response.status().as_u16(), response.body());
                    evaluation.answer(query.id, Answer::Response { status, body });
                }
                Err(error) => evaluation.answer(query.id, Answer::Failed(&error.to_string())),
            }
        }
    }
}
