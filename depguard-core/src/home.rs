//! Where depguard runs.

/// Where depguard runs, and so what a rule and a review can be trusted to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a third home would change what each rule means")]
pub enum Home {
    /// kcp: many logical clusters; kinds come from APIExports through APIBindings, or are local to a workspace.
    Kcp,
    /// One plain Kubernetes cluster: every kind is local, and there are no logical clusters.
    Kubernetes,
}
