//! Exemption of edges from blocking during a teardown.

/// The reason why edges don't block during a teardown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum TeardownExemption {
    /// The edges lie on a cycle.
    Cycle(Unbinding),
    /// The deletion of the logical cluster deletes the dependents
    /// [last](crate::rule::compiled_edge::CompiledEdge::is_kept_last).
    KeptLast,
}

/// The ends of an edge that lie in a binding that is being deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Unbinding {
    pub(crate) dependent: bool,
    pub(crate) target: bool,
}

impl TeardownExemption {
    /// Returns true if a dependent in that namespace, or in none, is exempt.
    pub(crate) fn covers(self, namespace: Option<&str>) -> bool {
        match self {
            Self::Cycle(_) => true,
            Self::KeptLast => namespace.is_none(),
        }
    }
}
