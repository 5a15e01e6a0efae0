//! Way in which the webhook reads dependents, which both binaries must be told alike.

use depguard_core::ControlPlane;

/// The way in which the webhook reads dependents in kcp: the flag of this name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum ReadThrough {
    /// Read in each consumer's workspace, {base}/clusters/{logical cluster}; needs the right to list everything there
    #[default]
    FrontProxy,
    /// Read through the virtual workspace of the dependents' APIExport; needs the right to the content of that export
    Export,
}

/// There are no exports to read through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "--read-through export needs a kcp, because a plain Kubernetes cluster has no APIExports: leave it out with \
     --control-plane kubernetes"
)]
#[non_exhaustive]
pub struct NoExports;

impl ReadThrough {
    /// Checks that the control plane has this way to read dependents.
    pub fn check(self, control_plane: ControlPlane) -> Result<(), NoExports> {
        match (control_plane, self) {
            (ControlPlane::Kubernetes, Self::Export) => Err(NoExports),
            _ => Ok(()),
        }
    }
}
