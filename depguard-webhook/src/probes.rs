//! `GET /healthz` and `GET /readyz`.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use tower::Service;

use crate::respond::text;
use crate::rules::Rules;

/// Tells a kubelet whether the webhook lives, and whether it can decide.
#[derive(Debug, Clone)]
pub(crate) struct Probes {
    rules: Rules,
}

impl Probes {
    pub(crate) fn new(rules: Rules) -> Self {
        Self { rules }
    }

    fn answer(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        match path {
            "/healthz" | "/readyz" if method != Method::GET && method != Method::HEAD => {
                text(StatusCode::METHOD_NOT_ALLOWED, "only GET")
            }
            "/healthz" => text(StatusCode::OK, "ok"),
            "/readyz" => match self.rules.not_loaded() {
                None => text(StatusCode::OK, "ok"),
                Some(why) => text(StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}")),
            },
            _ => text(StatusCode::NOT_FOUND, "there is only /healthz and /readyz"),
        }
    }
}

impl<B> Service<Request<B>> for Probes {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        ready(Ok(self.answer(request.method(), request.uri().path())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use depguard_core::{Home, RuleSet, Workspaces};

    #[test]
    fn ready_once_the_rules_are_loaded_and_alive_before() {
        let rules = Rules::not_loaded_yet("dependencyrules: no endpoint slice was found");
        let probes = Probes::new(rules.clone());
        let status = |path| probes.answer(&Method::GET, path).status().as_u16();
        assert_eq!((status("/healthz"), status("/readyz"), status("/")), (200, 503, 404));
        rules.load(RuleSet::load(Home::Kubernetes, []), Workspaces::new());
        assert_eq!((status("/healthz"), status("/readyz"), status("/validate")), (200, 200, 404));
        rules.lose("the watch has ended");
        assert_eq!((status("/healthz"), status("/readyz")), (200, 503));
        assert_eq!(probes.answer(&Method::POST, "/healthz").status(), 405);
    }
}
