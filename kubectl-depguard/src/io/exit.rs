//! Results and exit codes of a command.

use std::fmt;
use std::process::ExitCode;

/// Outcome of a command that ran to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing to report.
    Well,
    /// The command found a problem of the kind that its caller asks about: a blocker, a dangling reference, a failed
    /// test.
    Finding,
}

/// Reason why a command could not run to its end, with advice for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    message: String,
    hint: Option<String>,
    is_cut: bool,
}

/// Exit code of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// 0: nothing to report.
    Well,
    /// 1: the command found a problem of the kind that its caller asks about.
    Finding,
    /// 2: the command line is wrong, or the command could not find out.
    Failure,
    /// 141, as a shell reports for a process that wrote to a closed pipe: nobody reads the output any more.
    Cut,
}

impl Failure {
    /// Builds a failure with the sentence that says what happened.
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), hint: None, is_cut: false }
    }

    /// Adds the next step for the user.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Joins failures about several objects to one, with the next step of the first; `None` if there are none.
    pub(crate) fn joined(failures: Vec<Self>) -> Option<Self> {
        let mut failures = failures.into_iter();
        let mut first = failures.next()?;
        for failure in failures {
            first.message = format!("{}; {}", first.message, failure.message);
        }
        Some(first)
    }

    /// Says first what the failure meant for the whole of what was asked.
    #[must_use]
    pub(crate) fn about(mut self, whole: &str) -> Self {
        self.message = format!("{whole}: {}", self.message);
        self
    }

    /// Returns true if nobody reads the output any more, as behind `| head`.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn what_to_do(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl From<Outcome> for ExitStatus {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Well => Self::Well,
            Outcome::Finding => Self::Finding,
        }
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        match status {
            ExitStatus::Well => Self::SUCCESS,
            ExitStatus::Finding => Self::from(1),
            ExitStatus::Failure => Self::from(2),
            ExitStatus::Cut => Self::from(141),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(why: std::io::Error) -> Self {
        let is_cut = why.kind() == std::io::ErrorKind::BrokenPipe;
        Self { is_cut, ..Self::new(format!("could not write the output: {why}")) }
    }
}
