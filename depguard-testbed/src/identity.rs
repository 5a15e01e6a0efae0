//! Who asks: a token is a user's name.

use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::Kind;

const AUTHENTICATED: &str = "system:authenticated";
const MASTERS: &str = "system:masters";
const KCP_ADMIN: &str = "system:kcp:admin";
const ACCOUNT: &str = "system:serviceaccount:";
/// The token, and outside of its workspace the name, of a ServiceAccount of one workspace:
/// `system:kcp:serviceaccount:<logical cluster>:<namespace>:<name>`.
const KCP_ACCOUNT: &str = "system:kcp:serviceaccount:";

/// A requester, as it stands in a review's `userInfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
    /// The logical cluster whose ServiceAccount this is. Without one an account counts as every workspace's own, as a
    /// client certificate with such a name does.
    home: Option<String>,
}

impl User {
    fn new(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|&group| group.to_owned()).collect();
        Self { name: name.to_owned(), groups, home: None }
    }

    fn account(name: &str, home: Option<&str>) -> Self {
        let namespace = name.split_once(':').map_or("", |(namespace, _)| namespace);
        let of_namespace = format!("system:serviceaccounts:{namespace}");
        let user = Self::new(&format!("{ACCOUNT}{name}"), &["system:serviceaccounts", &of_namespace, AUTHENTICATED]);
        Self { home: home.map(str::to_owned), ..user }
    }

    /// The user whose token the request bears, if it bears one.
    pub(crate) fn of(kind: Kind, headers: &HeaderMap) -> Option<Self> {
        let token = headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")?.trim();
        (!token.is_empty()).then(|| Self::with_token(kind, token))
    }

    fn with_token(kind: Kind, token: &str) -> Self {
        match (token, kind) {
            ("admin", Kind::Kcp) => Self::new("kcp-admin", &[KCP_ADMIN, AUTHENTICATED]),
            ("admin", Kind::Kubernetes) => Self::new("admin", &[MASTERS, AUTHENTICATED]),
            ("masters", _) => Self::new("masters", &[MASTERS, AUTHENTICATED]),
            (name, _) => Self::named(name),
        }
    }

    fn named(name: &str) -> Self {
        if let Some(account) = name.strip_prefix(ACCOUNT) {
            return Self::account(account, None);
        }
        match name.strip_prefix(KCP_ACCOUNT).and_then(|account| account.split_once(':')) {
            Some((home, account)) => Self::account(account, Some(home)),
            None => Self::new(name, &[AUTHENTICATED]),
        }
    }

    /// Whether every door is open.
    pub(crate) fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }

    /// Whether RBAC has no say in what this user does.
    pub(crate) fn is_unbound(&self) -> bool {
        self.is_master() || self.groups.iter().any(|group| group == KCP_ADMIN)
    }

    /// Whether this is a ServiceAccount of that logical cluster.
    pub(crate) fn is_account_in(&self, cluster: &str) -> bool {
        self.name.starts_with(ACCOUNT) && self.home.as_deref().is_none_or(|home| home == cluster)
    }

    /// Whether this is a ServiceAccount of another logical cluster.
    pub(crate) fn is_account_outside(&self, cluster: &str) -> bool {
        self.name.starts_with(ACCOUNT) && !self.is_account_in(cluster)
    }

    /// The token of such a user, but for `admin`, who has another name.
    pub(crate) fn token(&self) -> String {
        match self.home.as_deref() {
            Some(home) => format!("{KCP_ACCOUNT}{home}:{}", self.name.trim_start_matches(ACCOUNT)),
            None => self.name.clone(),
        }
    }

    /// As whom RBAC of a logical cluster knows this user: a ServiceAccount has a name for the outside, and nothing but
    /// that one there.
    pub(crate) fn within(&self, cluster: &str) -> Vec<Self> {
        let Some(home) = self.home.as_deref() else { return vec![self.clone()] };
        let account = self.name.trim_start_matches(ACCOUNT);
        let outside = Self::new(&format!("{KCP_ACCOUNT}{home}:{account}"), &[AUTHENTICATED]);
        let other = if home == cluster { self.clone() } else { Self::new("system:anonymous", &[AUTHENTICATED]) };
        vec![other, outside]
    }

    /// Who tears a namespace down. In kcp every controller is `system:apiserver`; a plain cluster
    /// with a credential for each controller has the namespace controller's own account.
    pub(crate) fn namespace_controller(kind: Kind) -> Self {
        match kind {
            Kind::Kcp => Self::control_plane(),
            Kind::Kubernetes => Self::new(
                "system:serviceaccount:kube-system:namespace-controller",
                &["system:serviceaccounts", "system:serviceaccounts:kube-system", AUTHENTICATED],
            ),
        }
    }

    /// Who tears workspaces and bindings down.
    pub(crate) fn control_plane() -> Self {
        Self::new("system:apiserver", &[AUTHENTICATED, MASTERS])
    }
}
