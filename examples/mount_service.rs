//! depguard's admission service in the axum router of a provider: `cargo run --example mount-service`.
//!
//! `ReviewService` is a `tower::Service`, so it fits wherever such a service does: behind a route, under a limit,
//! beside others.

mod provider;

use axum::Router;
use axum::routing::get;
use depguard_core::{ControlPlane, OverridePolicy, Workspaces};
use depguard_webhook::{FrontProxy, ReviewService, Rules};

use crate::provider::{Provider, Result};

#[tokio::main]
async fn main() -> Result<()> {
    let provider = Provider::start().await?;
    // Until the rules are loaded, each review is refused.
    let rules = Rules::not_loaded_yet("the provider has just started");
    let port = FrontProxy::new(ControlPlane::Kubernetes, provider.connection.clone());
    let reviews = ReviewService::new(port, rules.clone(), OverridePolicy::default());
    rules.load(Provider::rules()?, Workspaces::new());

    let router = Router::new()
        .route("/about", get(async || "the provider's own routes"))
        // Reviews for rules with `failurePolicy: Ignore` come to `/validate/ignore`.
        .route_service("/validate", reviews.clone())
        .route_service("/validate/{*more}", reviews);
    provider.play("/validate", router).await
}
