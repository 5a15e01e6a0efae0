//! What came back for a query, as whoever asked holds it.

use std::fmt::Display;

use crate::query::Answer;

/// What came back for a query, with a body of whatever type an HTTP client gives: an [`Answer`] that owns its bytes.
///
/// Whoever has no use for more than a status and a body, or the reason why there are none, says so by a `Result`:
///
/// ```
/// use depguard_core::Fetched;
///
/// let page = Fetched::from(Ok::<_, std::io::Error>((200, b"{}".to_vec())));
/// assert!(matches!(page, Fetched::Response { status: 200, .. }));
/// let none = Fetched::<Vec<u8>>::from(Err("connection refused"));
/// assert!(matches!(none, Fetched::Failed(why) if why == "connection refused"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a request ends in one of these ways")]
pub enum Fetched<B> {
    /// A response, whatever its status.
    Response {
        /// The HTTP status.
        status: u16,
        /// The body, whole; see [`Answer::Response`].
        body: B,
    },
    /// A response longer than is taken in. A page is asked for again with fewer objects.
    TooLarge,
    /// No response, and why: it is shown to whoever is refused because of it.
    Failed(String),
}

impl<B: AsRef<[u8]>> Fetched<B> {
    /// How many bytes the body has; none where there is no body.
    pub fn size(&self) -> usize {
        match self {
            Self::Response { body, .. } => body.as_ref().len(),
            Self::TooLarge | Self::Failed(_) => 0,
        }
    }

    /// The same, borrowed.
    pub fn as_answer(&self) -> Answer<'_> {
        match self {
            Self::Response { status, body } => Answer::Response { status: *status, body: body.as_ref() },
            Self::TooLarge => Answer::TooLarge,
            Self::Failed(why) => Answer::Failed(why),
        }
    }
}

impl<B, E: Display> From<Result<(u16, B), E>> for Fetched<B> {
    fn from(fetched: Result<(u16, B), E>) -> Self {
        match fetched {
            Ok((status, body)) => Self::Response { status, body },
            Err(why) => Self::Failed(why.to_string()),
        }
    }
}
