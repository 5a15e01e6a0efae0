//! Who may act in spite of a lock.

use std::collections::BTreeSet;
use std::fmt;

use crate::home::Home;
use crate::names::LogicalCluster;
use crate::overrides::is_control_plane;
use crate::review::Requester;

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

/// In which logical cluster a service account lives, as kcp says with each of its requests.
const HOME_CLUSTER: &str = "authentication.kcp.io/cluster-name";
/// In which logical clusters a user is more than anybody: each value is a list, and all must agree.
const SCOPES: &str = "authentication.kcp.io/scopes";
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
/// The most of a holder that a message names.
const MOST_NAMED: usize = 5;

impl Holder {
    /// Whether nobody is named.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty() && self.service_accounts.is_empty()
    }

    /// Whether the requester is one of them, where the lock lies in that logical cluster.
    ///
    /// Nobody is by a group who acts for the control plane: a tenant has it delete for him by an ownerReference, and it
    /// is in groups of all sorts. In kcp the same name is another one elsewhere: a service account must have its home in
    /// this logical cluster (from another it is only its global name), and a user who is confined to others is nobody.
    pub(super) fn is(&self, requester: &Requester<'_>, home: Home, cluster: Option<&LogicalCluster>) -> bool {
        let name = requester.username();
        if name.is_empty() {
            return false;
        }
        let account = name.strip_prefix(SERVICE_ACCOUNT);
        if home == Home::Kcp {
            let mut homes = requester.extra(HOME_CLUSTER);
            let own = homes.next().filter(|_| homes.next().is_none());
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
    /// `user alice, group ops, ServiceAccount backup/snapshotter and 3 more`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let users = self.users.iter().map(|user| format!("user {user}"));
        let groups = self.groups.iter().map(|group| format!("group {group}"));
        let accounts =
            self.service_accounts.iter().map(|(namespace, name)| format!("ServiceAccount {namespace}/{name}"));
        let all = users.chain(groups).chain(accounts);
        let named: Vec<_> = all.take(MOST_NAMED).collect();
        f.write_str(&named.join(", "))?;
        let count = self.users.len() + self.groups.len() + self.service_accounts.len();
        if count > named.len() { write!(f, " and {} more", count - named.len()) } else { Ok(()) }
    }
}
