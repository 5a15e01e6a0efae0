//! Locks: what is installed for them, their tables, and what is said of them.
//!
//! Beside rules, and apart from them: they have a mirror of their own, so that what is wrong with locks keeps no rule from
//! being enforced.

mod access;
mod kinds;
mod plan;
mod round;
mod runner;
mod status;
mod tables;
mod upkeep;
mod vital;
mod webhooks;
mod world;

use depguard_core::ExportName;

use crate::manifests::LOCK_EXPORT;

pub(crate) use self::runner::Locks;
pub use self::vital::{VitalKind, VitalKindError};

/// The configuration about locks themselves.
pub(crate) const KINDS_CONFIGURATION: &str = "depguard-lock-kinds";
/// The configuration about what locks lock.
pub(crate) const CONFIGURATION: &str = "depguard-locks";
/// The configuration about what the older tool's Locks lock.
pub(crate) const COMPAT_CONFIGURATION: &str = "depguard-compat-locks";

/// The APIExport of locks, in home kcp.
#[cfg_attr(not(test), expect(clippy::expect_used, reason = "a literal, and a test reads it"))]
pub(crate) fn export() -> ExportName {
    ExportName::parse(LOCK_EXPORT).expect("the constant is a name")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_export_has_a_name() {
        assert_eq!(super::export().as_str(), super::LOCK_EXPORT);
    }
}
