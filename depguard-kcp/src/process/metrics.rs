//! Serves `/metrics` for Prometheus.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use http::StatusCode;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::process::plain_http::{Plain, PlainServer};

/// Content type of the metrics: the OpenMetrics text.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Registry, and the listener that serves it.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    server: PlainServer,
}

impl Metrics {
    /// Listens as [`listen`](crate::process::plain_http::listen) does. The registry shows from the start the
    /// `component` and its `version`.
    pub async fn bind(address: SocketAddr, component: &'static str, version: &'static str) -> io::Result<Self> {
        let server = PlainServer::bind(address).await?;
        let mut registry = Registry::default();
        registry.register(
            "depguard_build",
            "Running release",
            Info::new([("component", component), ("version", version)]),
        );
        Ok(Self { registry, server })
    }

    /// Returns the address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Returns the registry that is served.
    pub fn registry(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// Answers until the future is dropped. Its connections end with it.
    pub async fn serve(self) {
        let registry = Arc::new(self.registry);
        self.server.serve(move |path| answer(&registry, path)).await;
    }
}

fn answer(registry: &Registry, path: &str) -> Plain {
    if path != "/metrics" {
        return Plain::text(StatusCode::NOT_FOUND, "there is only /metrics\n");
    }
    let mut body = String::new();
    match encode(&mut body, registry) {
        Ok(()) => Plain { status: StatusCode::OK, content_type: CONTENT_TYPE, body },
        Err(why) => {
            tracing::error!("the metrics can't be written: {why}");
            Plain::text(StatusCode::INTERNAL_SERVER_ERROR, "the metrics can't be written: see the log\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_one_page_of_text() {
        let mut registry = Registry::default();
        registry.register("depguard_build", "Running release", Info::new([("version", "1.2.3")]));
        let page = answer(&registry, "/metrics");
        assert_eq!((page.status, page.content_type), (StatusCode::OK, CONTENT_TYPE));
        assert!(page.body.contains("depguard_build_info{version=\"1.2.3\"} 1\n"), "{}", page.body);
        assert!(page.body.ends_with("# EOF\n"));
        assert_eq!(answer(&registry, "/").status, StatusCode::NOT_FOUND);
    }
}
