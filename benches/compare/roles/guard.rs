//! depguard's webhook, as the stock binary starts it.

use std::time::Duration;

use depguard_webhook::Config;
use serde_json::json;

use super::{Parent, Webhook};
use crate::Result;

pub(super) async fn play(webhook: Webhook) -> Result {
    let config = Config {
        kubeconfig: Some(webhook.kubeconfig),
        review_addr: ([127, 0, 0, 1], webhook.port).into(),
        probe_addr: None,
        metrics_addr: None,
        tls_cert_dir: webhook.certificates,
        shutdown_delay: Duration::ZERO,
        ..Config::default()
    };
    let running = depguard_webhook::Webhook::start(config).await?;
    let mut parent = Parent::new(&json!({"address": running.review_addr()}));
    while parent.question().await?.is_some() {}
    running.stop().await;
    Ok(())
}
