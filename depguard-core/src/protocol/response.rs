//! Answer to a query: borrowed, or owned by the caller.

use std::fmt::Display;

/// The answer to a query, borrowed.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_enums, reason = "a request ends in one of these ways")]
pub enum Answer<'a> {
    /// An HTTP response, whatever its status.
    Response {
        /// The HTTP status.
        status: u16,
        /// The whole body. A caller that can't be sure that the body is complete must pass [`Answer::Failed`]
        /// instead: if a page doesn't hold the target's name, only its beginning and its end are read.
        body: &'a [u8],
    },
    /// A body that is larger than the caller accepts. A page is requested again with fewer objects.
    TooLarge,
    /// No response, for this reason.
    Failed(&'a str),
}

/// The answer to a query, with a body of any type that an HTTP client returns: an [`Answer`] that owns its bytes.
///
/// A caller that has only a status and a body, or a reason why there are none, can convert from a `Result`:
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
    /// A response that is larger than the caller accepts. A page is requested again with fewer objects.
    TooLarge,
    /// No response, for this reason: users who are refused because of it see the reason.
    Failed(String),
}

impl<B: AsRef<[u8]>> Fetched<B> {
    /// Returns the size of the body in bytes; 0 if there is no body.
    pub fn size(&self) -> usize {
        match self {
            Self::Response { body, .. } => body.as_ref().len(),
            Self::TooLarge | Self::Failed(_) => 0,
        }
    }

    /// Returns the answer, borrowed.
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
