//! Reasons why a request gets no AdmissionReview for an answer.

use depguard_core::ReviewError;
use depguard_core::protocol::Cause;
use http::header::{ALLOW, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;

use crate::service::body::BodyError;
use crate::service::response;

/// Reason why a request gets no AdmissionReview for an answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Rejection {
    #[error("there is only POST /validate")]
    Path,
    #[error("wrong path: use the URL that the controller with the same path key installs")]
    Unsigned,
    #[error(
        "the path names reference registers of another number or key than this replica has, or is not signed by their \
         key for the present hour"
    )]
    Generation,
    #[error("only POST is allowed")]
    Method,
    #[error("the content type must be application/json")]
    ContentType,
    #[error("the review did not arrive in time")]
    Slow,
    #[error("too many reviews at once; retry later")]
    TooMany,
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error(transparent)]
    Review(#[from] ReviewError),
}

impl Rejection {
    pub(crate) fn response(&self) -> Response<Full<bytes::Bytes>> {
        let mut response = response::text(self.status(), self.to_string());
        if matches!(self, Self::Method) {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        }
        response
    }

    /// Returns the problem without the content of the request, which must not get into the log.
    pub(crate) fn detail(&self) -> String {
        match self {
            Self::Review(ReviewError::Malformed(why)) => {
                format!("not an AdmissionReview, by line {} column {}", why.line(), why.column())
            }
            other => other.to_string(),
        }
    }

    /// Returns one word of a closed set, fit for a metric's label.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Unsigned => "unsigned-path",
            Self::Generation => "other-registers",
            Self::Method => "method",
            Self::ContentType => "content-type",
            Self::Slow | Self::Body(BodyError::Stalled) => "too-slow",
            Self::TooMany => "too-many",
            Self::Body(BodyError::TooLarge(_)) => "too-large",
            Self::Body(BodyError::Broken(_)) => "broken-off",
            Self::Review(_) => "no-review",
        }
    }

    /// Returns the cause if the request is answered as a review, by a refusal.
    pub(crate) fn cause(&self) -> Cause {
        match self {
            Self::Slow | Self::Body(BodyError::Stalled) => Cause::ReviewTooSlow,
            Self::TooMany => Cause::TooManyReviews,
            Self::Body(BodyError::TooLarge(_)) => Cause::ReviewTooLarge,
            Self::Body(BodyError::Broken(_)) => Cause::ReviewBrokenOff,
            Self::Path | Self::Unsigned | Self::Generation | Self::Method | Self::ContentType | Self::Review(_) => {
                Cause::ReviewInvalid
            }
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::Path | Self::Unsigned | Self::Generation => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Slow | Self::Body(BodyError::Stalled) => StatusCode::REQUEST_TIMEOUT,
            Self::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Self::Body(BodyError::TooLarge(_)) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Body(BodyError::Broken(_)) | Self::Review(_) => StatusCode::BAD_REQUEST,
        }
    }
}
