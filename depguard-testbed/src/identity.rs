//! Who asks: a token is a user's name.

use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::Kind;

const AUTHENTICATED: &str = "system:authenticated";
const MASTERS: &str = "system:masters";

/// A requester, as it stands in a review's `userInfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
}

impl User {
    fn new(name: &str, groups: &[&str]) -> Self {
        Self { name: name.to_owned(), groups: groups.iter().map(|&group| group.to_owned()).collect() }
    }

    /// The user whose token the request bears, if it bears one.
    pub(crate) fn of(kind: Kind, headers: &HeaderMap) -> Option<Self> {
        let token = headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")?.trim();
        (!token.is_empty()).then(|| Self::with_token(kind, token))
    }

    fn with_token(kind: Kind, token: &str) -> Self {
        match (token, kind) {
            ("admin", Kind::Kcp) => Self::new("kcp-admin", &["system:kcp:admin", AUTHENTICATED]),
            ("admin", Kind::Kubernetes) => Self::new("admin", &[MASTERS, AUTHENTICATED]),
            ("masters", _) => Self::new("masters", &[MASTERS, AUTHENTICATED]),
            (name, _) => Self::new(name, &[AUTHENTICATED]),
        }
    }

    /// Whether every door is open.
    pub(crate) fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
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
