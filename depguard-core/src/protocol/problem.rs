//! Problems: facts that could not be found out, each with its remedy. Also the clipping of other programs' texts.

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter, Write};

use crate::protocol::cause::Cause;

/// The most problems in one message.
pub(crate) const MAX_PROBLEMS: usize = 3;
/// The most characters of each problem in a message.
const MAX_PROBLEM_CHARS: usize = 600;

/// A fact that could not be found out, with the cause, the reason and the remedy.
///
/// It prints as a sentence for the users of the webhook. A program that reads by its own user's rights prints the
/// [text](Self::text), and words the [remedy](Self::remedy) itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unresolved {
    // The first field decides the order: problems that last are named before those that pass.
    cause: Cause,
    text: String,
    remedy: Option<Remedy>,
}

/// Remedy that depends on the user who reads: the webhook's user, or the user of a command.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "each program that reads words every remedy for its own users")]
pub enum Remedy {
    /// The user needs new credentials.
    RenewCredentials,
    /// The user needs this right in the place of the read: `get and list it`.
    GrantRight(Cow<'static, str>),
}

impl Unresolved {
    /// Creates a problem. The text is a sentence with advice, or its end until the caller puts the subject before it.
    pub fn new(cause: Cause, text: impl Into<String>) -> Self {
        Self { cause, text: text.into(), remedy: None }
    }

    /// Creates a problem of a user whom an API server refuses.
    pub(crate) fn forbidden(text: impl Into<String>, remedy: Remedy) -> Self {
        Self { remedy: Some(remedy), ..Self::new(Cause::ReadForbidden, text) }
    }

    /// Puts the subject before the text.
    pub(crate) fn about(self, subject: impl Display) -> Self {
        Self { text: format!("{subject} {}", self.text), ..self }
    }

    /// Puts a note after the text.
    #[cfg(feature = "interlock")]
    pub(crate) fn with(self, note: &str) -> Self {
        Self { text: self.text + note, ..self }
    }

    /// Returns the cause, for programs.
    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// Returns the fact and the reason, with advice that holds for every reader.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the remedy; `None` if the text holds all advice.
    pub fn remedy(&self) -> Option<&Remedy> {
        self.remedy.as_ref()
    }
}

impl Display for Unresolved {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { cause: _, text, remedy } = self;
        match remedy {
            Some(remedy) => write!(f, "{text}; {remedy}"),
            None => f.write_str(text),
        }
    }
}

impl std::error::Error for Unresolved {}

/// Prints the advice to the users of the webhook.
impl Display for Remedy {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::RenewCredentials => f.write_str("renew the webhook's credentials"),
            Self::GrantRight(right) => write!(f, "give the webhook's user the right to {right} there"),
        }
    }
}

pub(crate) fn joined(problems: &[Unresolved]) -> String {
    let shown: Vec<_> = problems.iter().take(MAX_PROBLEMS).map(|problem| clipped(&problem.to_string())).collect();
    let mut text = shown.join("; ");
    if problems.len() > MAX_PROBLEMS {
        let _ = write!(text, "; and {} more problems", problems.len() - MAX_PROBLEMS);
    }
    text
}

/// Cuts another program's text to a length that keeps a message readable.
pub(crate) fn clipped(text: &str) -> String {
    match text.char_indices().nth(MAX_PROBLEM_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
