//! Outcomes of installing a webhook configuration.

/// State of the configuration of a place after an attempt to install it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    /// The configuration is as desired, or rightly absent.
    Installed,
    /// Somebody else's configuration has this name.
    Foreign,
    /// The workspace does not let the controller write the configuration.
    ClaimNotAccepted,
    /// A newer version of depguard wrote the configuration, and has some time to take care of it. `in_force` is true if
    /// the configuration has everything reviewed meanwhile.
    Newer { in_force: bool },
    /// The configuration could not be written yet, for this reason; the controller tries again at once.
    Pending(String),
    /// The configuration could not be written, for this reason; the controller tries again later.
    Failed(String),
}

impl Outcome {
    /// Returns true if the existing configuration has everything reviewed that should be.
    pub(crate) fn is_in_force(&self) -> bool {
        matches!(self, Self::Installed | Self::Newer { in_force: true })
    }
}
