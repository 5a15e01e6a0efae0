//! Who may delete what is still referenced.

use std::collections::BTreeSet;

use crate::review::Requester;

/// The users and groups whom the operator allows to delete a target that carries the annotation
/// `dependencies.opendefense.cloud/skip-protection: "true"`.
///
/// Never the control plane: a tenant who may write the annotation but not override it could have the namespace
/// controller or the garbage collector make the deletion for him, and in kcp they are in `system:masters`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "requesters have names and groups")]
pub struct OverridePolicy {
    /// User names.
    pub users: BTreeSet<String>,
    /// Group names.
    pub groups: BTreeSet<String>,
}

impl OverridePolicy {
    /// The groups that may override unless the operator says otherwise.
    pub const DEFAULT_GROUPS: [&str; 2] = ["system:masters", "system:kcp:admin"];

    /// Allows nobody.
    pub fn nobody() -> Self {
        Self { users: BTreeSet::new(), groups: BTreeSet::new() }
    }

    pub(crate) fn allows(&self, requester: &Requester<'_>) -> bool {
        !is_control_plane(requester.username())
            && (self.users.contains(requester.username())
                || requester.groups().any(|group| self.groups.contains(group)))
    }
}

impl Default for OverridePolicy {
    fn default() -> Self {
        Self { users: BTreeSet::new(), groups: Self::DEFAULT_GROUPS.map(str::to_owned).into() }
    }
}

/// Whoever acts for others: what a tenant has him do is not his own wish.
pub(crate) fn is_control_plane(username: &str) -> bool {
    matches!(username, "" | "system:apiserver" | "system:kube-controller-manager")
        || username.starts_with("system:serviceaccount:kube-system:")
}
