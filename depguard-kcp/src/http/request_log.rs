//! Log of requests: a function that is told of each request when its response has begun.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use kube_client::client::Body;
use tower::{BoxError, Service, ServiceExt};

/// Request that was sent, and the beginning of its response.
#[derive(Debug)]
#[non_exhaustive]
pub struct LoggedRequest<'a> {
    /// Method of the request.
    pub method: &'a Method,
    /// Whole URL of the request.
    pub url: &'a Uri,
    /// Headers of the request, without credentials.
    pub headers: &'a HeaderMap,
    /// Status and headers of the response, or the reason why there is none.
    pub response: Result<(StatusCode, &'a HeaderMap), String>,
    /// Time until the response began.
    pub duration: Duration,
}

/// Function that is told of each request. A request that is sent again is told again.
#[derive(Clone)]
pub struct RequestLog(Arc<dyn Fn(&LoggedRequest<'_>) + Send + Sync>);

impl RequestLog {
    /// Logs with this function, which must not block for long.
    pub fn new(log: impl Fn(&LoggedRequest<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(log))
    }

    /// Sends a request, and logs it.
    pub(crate) async fn send<S>(&self, service: S, request: Request<Body>) -> Result<Response<Incoming>, BoxError>
    where
        S: Service<Request<Body>, Response = Response<Incoming>, Error = BoxError>,
    {
        let (method, url, headers) = (request.method().clone(), request.uri().clone(), request.headers().clone());
        let start = Instant::now();
        let response = service.oneshot(request).await;
        (self.0)(&LoggedRequest {
            method: &method,
            url: &url,
            headers: &headers,
            response: match &response {
                Ok(response) => Ok((response.status(), response.headers())),
                Err(why) => Err(crate::http::endpoint::with_causes(&**why)),
            },
            duration: start.elapsed(),
        });
        response
    }
}

impl fmt::Debug for RequestLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestLog")
    }
}
