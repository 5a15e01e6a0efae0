//! The control plane on which depguard runs.

/// The control plane on which depguard runs. It determines which parts of a rule and of a review can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a third control plane would change what each rule means")]
pub enum ControlPlane {
    /// kcp: many logical clusters; kinds come from APIExports through APIBindings, or are local to a workspace.
    Kcp,
    /// One plain Kubernetes cluster: every kind is local, and there are no logical clusters.
    Kubernetes,
}
