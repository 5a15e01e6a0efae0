//! Counts of references to targets that don't exist, rule by rule.

use std::collections::BTreeMap;

use depguard_core::api::DanglingReferences;
use depguard_core::rule::RuleKey;

/// Count of each rule that asks for one.
pub(crate) type ReferenceCounts = BTreeMap<RuleKey, ReferenceCount>;

/// Count of the dangling references of one rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum ReferenceCount {
    /// The objects are being listed for the first time.
    Pending,
    Known(DanglingReferences),
    /// So many at least: the references of some object can't be told, for this reason.
    AtLeast(DanglingReferences, Uncounted),
    Unknown(Uncounted),
}

impl ReferenceCount {
    /// Returns true if the API server does not serve one of the kinds.
    pub(crate) fn lacks_a_kind(&self) -> bool {
        matches!(self, Self::Unknown(why) if why.reason == KIND_NOT_FOUND)
    }
}

/// Reason why there is no count, in the form of a condition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Uncounted {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// The controller may not read a kind.
pub(crate) const RIGHT_MISSING: &str = "RightMissing";
/// The API server does not serve a kind.
pub(crate) const KIND_NOT_FOUND: &str = "KindNotFound";
/// A watch is broken.
pub(crate) const WATCH_FAILED: &str = "WatchFailed";
/// There are more objects and references than the controller keeps.
pub(crate) const TOO_MANY: &str = "TooMany";
/// A dependent's references can't be told.
pub(crate) const UNCLEAR: &str = "Unclear";
/// Nobody counts on this control plane.
pub(crate) const NOT_COUNTED: &str = "NotCounted";
