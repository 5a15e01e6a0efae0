//! depguard's admission service in a provider's own server: `cargo run --example mount-service`.
//!
//! `ReviewService` is a `tower::Service`, so it goes wherever one goes: behind a route, under a limit, beside others.

mod provider;

use std::convert::Infallible;

use bytes::Bytes;
use depguard_core::{Home, OverridePolicy, Workspaces};
use depguard_webhook::{FrontProxy, ReviewService, Rules};
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use tower::{ServiceExt, service_fn};

use crate::provider::{Provider, Result};

#[tokio::main]
async fn main() -> Result<()> {
    let provider = Provider::start().await?;
    let rules = Rules::not_loaded_yet("the provider has just started");
    rules.load(Provider::rules()?, Workspaces::new());
    let port = FrontProxy::new(Home::Kubernetes, provider.connection.clone());
    let reviews = ReviewService::new(port, rules, OverridePolicy::default());

    let server = service_fn(move |request: Request<Incoming>| {
        let reviews = reviews.clone();
        async move {
            match request.uri().path() {
                "/validate" => reviews.oneshot(request).await,
                _ => Ok::<_, Infallible>(not_found()),
            }
        }
    });
    provider.play("/validate", server).await
}

fn not_found() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from("the provider's own routes would be here"));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}
