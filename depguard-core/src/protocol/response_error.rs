//! Errors in answers: the end of a sentence that begins with the name of the request and ends with advice.

use std::borrow::Cow;

use serde::Deserialize;

use crate::protocol::cause::Cause;
use crate::protocol::problem::{Remedy, Unresolved};
use crate::protocol::response::Answer;

/// Returns the message for a request without an answer in time.
pub(crate) fn unanswered() -> Unresolved {
    Unresolved::new(Cause::ReadFailed, "was not answered in time; retry later")
}

/// Returns the message for a list that every kcp has.
pub(crate) fn not_a_kcp() -> Unresolved {
    let text = "failed with HTTP 404; make sure that this is a kcp, or run with --control-plane kubernetes";
    Unresolved::new(Cause::ReadUnusable, text)
}

/// Returns the message for a list that existed a moment ago.
pub(crate) fn list_not_found() -> Unresolved {
    Unresolved::new(Cause::ReadFailed, "failed with HTTP 404; retry later")
}

/// Returns the message for an answer of another kind, or about another object.
pub(crate) fn something_else() -> Unresolved {
    let text = "was answered with another object than the requested one; check which server answers there";
    Unresolved::new(Cause::ReadUnusable, text)
}

/// Returns the status and the body of a response, or the reason why there is none.
pub(crate) fn response(answer: Answer<'_>) -> Result<(u16, &[u8]), Unresolved> {
    match answer {
        Answer::Response { status, body } => Ok((status, body)),
        Answer::TooLarge => {
            let text = "was answered with too large a body; check which server answers there";
            Err(Unresolved::new(Cause::ReadUnusable, text))
        }
        Answer::Failed(why) => Err(failed(why)),
    }
}

/// Returns the body of a response that should hold a JSON object; `None` if there is no such object. An error says
/// why neither is known. `right` is the right that the webhook's user needs.
pub(crate) fn object<'a>(
    answer: Answer<'a>,
    right: impl Into<Cow<'static, str>>,
) -> Result<Option<&'a [u8]>, Unresolved> {
    match response(answer)? {
        (200 | 201, body) => Ok(Some(body)),
        (404, _) => Ok(None),
        (status, body) => Err(failure(status, body, right)),
    }
}

/// Returns the message for a request without a response.
pub(crate) fn failed(why: &str) -> Unresolved {
    Unresolved::new(Cause::ReadFailed, format!("failed: {why}; retry later"))
}

/// Returns the cause of a failure with this status.
pub(crate) fn cause_of(status: u16) -> Cause {
    match status {
        401 | 403 => Cause::ReadForbidden,
        408 | 409 | 410 | 425 | 429 | 500..=599 => Cause::ReadFailed,
        _ => Cause::ReadUnusable,
    }
}

/// Returns the message for an API server's refusal. `right` is the right that the webhook's user needs.
pub(crate) fn failure(status: u16, body: &[u8], right: impl Into<Cow<'static, str>>) -> Unresolved {
    #[derive(Deserialize)]
    struct Status {
        message: Option<String>,
    }
    let message = serde_json::from_slice::<Status>(body).ok().and_then(|status| status.message);
    let message = message.map(|message| format!(" ({message})")).unwrap_or_default();
    let failed = format!("failed with HTTP {status}{message}");
    match (cause_of(status), status) {
        (Cause::ReadForbidden, 401) => Unresolved::forbidden(failed, Remedy::RenewCredentials),
        (Cause::ReadForbidden, _) => Unresolved::forbidden(failed, Remedy::GrantRight(right.into())),
        (Cause::ReadFailed, _) => Unresolved::new(Cause::ReadFailed, format!("{failed}; retry later")),
        (cause, _) => Unresolved::new(cause, format!("{failed}; check which server answers there")),
    }
}

/// Returns true if a 404 says that there is no object of that name, and not that the whole kind is missing.
pub(crate) fn is_object_missing(body: &[u8], plural: &str, name: &str) -> bool {
    #[derive(Deserialize)]
    struct Status {
        details: Option<Details>,
    }
    #[derive(Deserialize)]
    struct Details {
        kind: Option<String>,
        name: Option<String>,
    }
    let status = serde_json::from_slice::<Status>(body).ok();
    status
        .and_then(|status| status.details)
        .is_some_and(|details| details.kind.as_deref() == Some(plural) && details.name.as_deref() == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_the_server_said_and_what_to_do() {
        for (status, body, expected) in [
            (
                403,
                r#"{"message":"vms is forbidden"}"#,
                "failed with HTTP 403 (vms is forbidden); give the webhook's user the right to get and list it there",
            ),
            (401, "{}", "failed with HTTP 401; renew the webhook's credentials"),
            (500, "not json", "failed with HTTP 500; retry later"),
        ] {
            assert_eq!(failure(status, body.as_bytes(), "get and list it").to_string(), expected);
        }
    }
}
