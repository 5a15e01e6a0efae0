//! Overrides: users who may delete objects that are still referenced.

use std::collections::BTreeSet;

use crate::protocol::admission_review::Requester;

/// The users and groups whom the operator allows to delete a target that carries the annotation
/// `dependencies.opendefense.cloud/skip-protection: "true"`.
///
/// The control plane itself is never allowed: a tenant who may write the annotation, but may not override, could make
/// the namespace controller or the garbage collector delete the object. In kcp these are in `system:masters`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "requesters have names and groups")]
pub struct OverridePolicy {
    /// User names.
    pub users: BTreeSet<String>,
    /// Group names.
    pub groups: BTreeSet<String>,
}

impl OverridePolicy {
    /// The groups that may override by default.
    pub const DEFAULT_GROUPS: [&str; 2] = ["system:masters", "system:kcp:admin"];

    /// Creates a policy that allows nobody.
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

/// Returns true for users of the control plane. They act for others, so a tenant can cause their requests.
pub(crate) fn is_control_plane(username: &str) -> bool {
    matches!(username, "" | "system:apiserver" | "system:kube-controller-manager")
        || username.starts_with("system:serviceaccount:kube-system:")
}
