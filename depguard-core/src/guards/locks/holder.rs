//! Holders of a lock: users who may act in spite of it.

use std::collections::BTreeSet;
use std::fmt;

use crate::applicability::overrides::is_control_plane;
use crate::model::control_plane::ControlPlane;
use crate::model::names::LogicalCluster;
use crate::protocol::admission_review::Requester;

/// The users, groups and service accounts who may act in spite of a lock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "requesters have names and groups")]
pub struct Holder {
    /// User names.
    pub users: BTreeSet<String>,
    /// Group names.
    pub groups: BTreeSet<String>,
    /// Service accounts, by namespace and name.
    pub service_accounts: BTreeSet<(String, String)>,
}

/// The logical cluster of a service account, which kcp names in each of the account's requests.
const ACCOUNT_CLUSTER: &str = "authentication.kcp.io/cluster-name";
/// The logical clusters in which a user has rights of their own: each value is a list, and every list must contain
/// the logical cluster.
const SCOPES: &str = "authentication.kcp.io/scopes";
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
/// The most users, groups and service accounts that a message names.
const MAX_NAMED: usize = 5;

impl Holder {
    /// Returns true if the holder names nobody.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty() && self.service_accounts.is_empty()
    }

    /// Returns true if the requester is one of the holders of a lock in that logical cluster.
    ///
    /// A user of the control plane never counts as a holder by group: a tenant can make the control plane delete an
    /// object by an ownerReference, and such users are in many groups. In kcp the same name may mean another user in
    /// another logical cluster. A service account must therefore be one of this logical cluster; an account
    /// from another one counts only by its global name. A user who is confined to other logical clusters is no
    /// holder.
    pub(super) fn is(
        &self,
        requester: &Requester<'_>,
        control_plane: ControlPlane,
        cluster: Option<&LogicalCluster>,
    ) -> bool {
        let name = requester.username();
        if name.is_empty() {
            return false;
        }
        let account = name.strip_prefix(SERVICE_ACCOUNT);
        if control_plane == ControlPlane::Kcp {
            let mut clusters = requester.extra(ACCOUNT_CLUSTER);
            let own = clusters.next().filter(|_| clusters.next().is_none());
            if let (Some(account), Some(own)) = (account, own)
                && self.users.contains(&format!("system:kcp:serviceaccount:{own}:{account}"))
            {
                return true;
            }
            let Some(cluster) = cluster.map(LogicalCluster::as_str) else { return false };
            let is_here = |scope: &str| scope.strip_prefix("cluster:") == Some(cluster);
            if (account.is_some() && own != Some(cluster))
                || !requester.extra(SCOPES).all(|scopes| scopes.split(',').any(is_here))
            {
                return false;
            }
        }
        let is_account = account
            .and_then(|account| account.split_once(':'))
            .is_some_and(|(namespace, name)| self.service_accounts.iter().any(|(ns, n)| ns == namespace && n == name));
        is_account
            || self.users.contains(name)
            || (!is_control_plane(name) && requester.groups().any(|group| self.groups.contains(group)))
    }
}

impl fmt::Display for Holder {
    /// Prints up to five names: `user alice, group ops, ServiceAccount backup/snapshotter and 3 more`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let users = self.users.iter().map(|user| format!("user {user}"));
        let groups = self.groups.iter().map(|group| format!("group {group}"));
        let accounts =
            self.service_accounts.iter().map(|(namespace, name)| format!("ServiceAccount {namespace}/{name}"));
        let all = users.chain(groups).chain(accounts);
        let named: Vec<_> = all.take(MAX_NAMED).collect();
        f.write_str(&named.join(", "))?;
        let count = self.users.len() + self.groups.len() + self.service_accounts.len();
        if count > named.len() { write!(f, " and {} more", count - named.len()) } else { Ok(()) }
    }
}
