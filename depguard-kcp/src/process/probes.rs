//! Serves `/healthz` and `/readyz` for kubelets.

use std::io;
use std::net::SocketAddr;

use http::StatusCode;

use crate::process::plain_http::{Plain, PlainServer};

/// Health of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "it is ready, not ready, or dead")]
pub enum Health {
    /// The service works.
    Ready,
    /// The service cannot work now, for this reason.
    NotReady(String),
    /// The service has ended and must be started anew.
    Dead,
}

/// Listener for probes.
#[derive(Debug)]
pub struct Probes(PlainServer);

impl Probes {
    /// Listens as [`listen`](crate::process::plain_http::listen) does.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        PlainServer::bind(address).await.map(Self)
    }

    /// Returns the address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }

    /// Answers until the future is dropped. Its connections end with it.
    pub async fn serve(self, health: impl Fn() -> Health + Clone + Send + Sync + 'static) {
        self.0.serve(move |path| health().answer(path)).await;
    }
}

impl Health {
    fn answer(&self, path: &str) -> Plain {
        match (path, self) {
            ("/healthz" | "/readyz", Self::Dead) => {
                Plain::text(StatusCode::INTERNAL_SERVER_ERROR, "a task of the process has ended: restart the process\n")
            }
            ("/healthz", _) | ("/readyz", Self::Ready) => Plain::text(StatusCode::OK, "ok\n"),
            ("/readyz", Self::NotReady(why)) => {
                Plain::text(StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n"))
            }
            _ => Plain::text(StatusCode::NOT_FOUND, "there is only /healthz and /readyz\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alive_before_it_is_ready_and_neither_once_it_has_ended() {
        let codes = |health: Health| ["/healthz", "/readyz", "/"].map(|path| health.answer(path).status.as_u16());
        assert_eq!(codes(Health::NotReady("no rules".to_owned())), [200, 503, 404]);
        assert_eq!(codes(Health::Ready), [200, 200, 404]);
        assert_eq!(codes(Health::Dead), [500, 500, 404]);
    }
}
