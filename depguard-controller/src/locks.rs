//! Locks: their configurations, their tables and their statuses.
//!
//! Locks have a reflector of their own, apart from that of rules, so that a problem with locks keeps no rule from being
//! enforced.

mod export_access;
mod lock_kinds;
mod namespace_retention;
mod plan;
mod reconciler;
mod runner;
mod snapshot;
mod status;
mod table_repair;
mod upkeep;
mod webhooks;

use depguard_core::ExportName;

use crate::model::names::LOCK_EXPORT;

pub(crate) use self::runner::Locks;

/// Returns the name of the APIExport of locks, in kcp.
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
