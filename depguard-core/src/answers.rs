//! What an answer is worth, and how it is said that it is worth nothing: the end of a sentence that begins with what was
//! asked for, with what to do next.

use serde::Deserialize;

use crate::query::Answer;

pub(crate) const UNANSWERED: &str = "was not answered in time; retry later";
const TOO_LARGE: &str = "was answered with too large a body; look at what answers there";
pub(crate) const SOMETHING_ELSE: &str = "was answered with something else; look at what answers there";

/// The status and the body of a response; or why there is none.
pub(crate) fn response(answer: Answer<'_>) -> Result<(u16, &[u8]), String> {
    match answer {
        Answer::Response { status, body } => Ok((status, body)),
        Answer::TooLarge => Err(TOO_LARGE.to_owned()),
        Answer::Failed(why) => Err(failed(why)),
    }
}

/// The body of a response that should bring a JSON object; or that there is no such object; or why neither can be told.
/// `right` is what the webhook's user must be able to do.
pub(crate) fn object<'a>(answer: Answer<'a>, right: &str) -> Result<Option<&'a [u8]>, String> {
    match response(answer)? {
        (200 | 201, body) => Ok(Some(body)),
        (404, _) => Ok(None),
        (status, body) => Err(failure(status, body, right)),
    }
}

/// Where there was no response.
pub(crate) fn failed(why: &str) -> String {
    format!("failed: {why}; retry later")
}

/// What an API server's refusal says: `right` is what the webhook's user must be able to do.
pub(crate) fn failure(status: u16, body: &[u8], right: &str) -> String {
    #[derive(Deserialize)]
    struct Status {
        message: Option<String>,
    }
    let message = serde_json::from_slice::<Status>(body).ok().and_then(|status| status.message);
    let message = message.map(|message| format!(" ({message})")).unwrap_or_default();
    let next = match status {
        401 => "renew the webhook's credentials".to_owned(),
        403 => format!("give the webhook's user the right to {right} there"),
        _ => "retry later".to_owned(),
    };
    format!("failed with HTTP {status}{message}; {next}")
}

/// Whether a 404 says that there is no object of that name, and not that there are none of its kind.
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
            (500, "not json", "failed with HTTP 500; retry later"),
        ] {
            assert_eq!(failure(status, body.as_bytes(), "get and list it"), expected);
        }
    }
}
