//! How the webhook reads dependents: what both binaries must be told alike.

use depguard_core::Home;

/// The way in which the webhook reads dependents in home kcp: the flag of this name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates decide by each case: none shall pass them by unseen"
)]
pub enum ReadThrough {
    /// In each consumer's workspace, {base}/clusters/{logical cluster}, with the right to list everything there
    #[default]
    FrontProxy,
    /// Through the virtual workspace of the dependents' own APIExport, with the right to that export's content
    Export,
}

/// There are no exports to read through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "--read-through export needs a kcp, and a plain Kubernetes has no exports: leave it out with --home kubernetes"
)]
#[non_exhaustive]
pub struct NoExports;

impl ReadThrough {
    /// Whether there is that way where depguard runs.
    pub fn check(self, home: Home) -> Result<(), NoExports> {
        match (home, self) {
            (Home::Kubernetes, Self::Export) => Err(NoExports),
            _ => Ok(()),
        }
    }
}
