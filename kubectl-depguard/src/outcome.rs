//! How a command ends.

use std::fmt;
use std::process::ExitCode;

/// What a command that could be carried out came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All is well.
    Well,
    /// It found what its caller asks about: a blocker, a dangling reference, a test that fails.
    Finding,
}

/// Why a command could not be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    message: String,
    hint: Option<String>,
    is_cut: bool,
}

/// What the process ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// 0: all is well.
    Well,
    /// 1: it found what its caller asks about.
    Finding,
    /// 2: the command line is wrong, or it could not be told.
    Failure,
    /// 141, as a shell has it of a process that wrote to a closed pipe: nobody reads the output any more.
    Cut,
}

impl Failure {
    /// Says what happened.
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), hint: None, is_cut: false }
    }

    /// Says what to do next.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Whether nobody reads the output any more, as behind `| head`.
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
