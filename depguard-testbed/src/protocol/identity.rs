//! Identity of the requester: a token is a user's name, or it comes from a TokenRequest.

use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderValue};
use serde_json::{Value, json};

use crate::options::Kind;
use crate::protocol::json::{array, text};
use crate::protocol::status::{ApiError, ApiResult};

const AUTHENTICATED: &str = "system:authenticated";
const MASTERS: &str = "system:masters";
const KCP_ADMIN: &str = "system:kcp:admin";
const ACCOUNT: &str = "system:serviceaccount:";
/// Prefix of a ServiceAccount's token in kcp, and of its name outside its workspace:
/// `system:kcp:serviceaccount:<logical cluster>:<namespace>:<name>`.
const KCP_ACCOUNT: &str = "system:kcp:serviceaccount:";

/// Extra field with the logical cluster of a ServiceAccount in kcp.
const HOME: &str = "authentication.kcp.io/cluster-name";
/// Extra field with the logical clusters in which a user of kcp may act at all.
const SCOPES: &str = "authentication.kcp.io/scopes";
/// Extra field with the id of the token that was used.
const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

/// Requester as in a review's `userInfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
    /// Logical cluster of this ServiceAccount. An account without one counts as every workspace's own, as does a client
    /// certificate with such a name.
    home: Option<String>,
    proof: Option<Proof>,
}

/// Data of an issued token beside its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proof {
    /// UID of the ServiceAccount.
    pub(crate) uid: String,
    /// Id of the token.
    pub(crate) id: String,
}

impl User {
    fn new(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|&group| group.to_owned()).collect();
        Self { name: name.to_owned(), groups, home: None, proof: None }
    }

    fn account(name: &str, home: Option<&str>) -> Self {
        let namespace = name.split_once(':').map_or("", |(namespace, _)| namespace);
        let of_namespace = format!("system:serviceaccounts:{namespace}");
        let user = Self::new(&format!("{ACCOUNT}{name}"), &["system:serviceaccounts", &of_namespace, AUTHENTICATED]);
        Self { home: home.map(str::to_owned), ..user }
    }

    /// Returns a ServiceAccount with an issued token.
    pub(crate) fn proven(namespace: &str, name: &str, home: Option<&str>, proof: Proof) -> Self {
        Self { proof: Some(proof), ..Self::account(&format!("{namespace}:{name}"), home) }
    }

    /// Returns the user whom a token names.
    pub(crate) fn with_token(kind: Kind, token: &str) -> Self {
        match (token, kind) {
            ("admin", Kind::Kcp) => Self::new("kcp-admin", &[KCP_ADMIN, AUTHENTICATED]),
            ("admin", Kind::Kubernetes) => Self::new("admin", &[MASTERS, AUTHENTICATED]),
            ("masters", _) => Self::new("masters", &[MASTERS, AUTHENTICATED]),
            (name, _) => Self::named(name),
        }
    }

    /// Returns the user whom the `spec` of an access review describes.
    pub(crate) fn described(spec: &Value) -> Self {
        let groups: Vec<&str> = array(spec, "/groups").iter().filter_map(Value::as_str).collect();
        let user = Self::new(text(spec, "/user").unwrap_or_default(), &groups);
        let home = spec["extra"][HOME][0].as_str().filter(|_| user.name.starts_with(ACCOUNT)).map(str::to_owned);
        Self { home, ..user }
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

    /// Returns the user whom a request impersonates, or this user if it impersonates none. Only a user whom RBAC doesn't
    /// limit may impersonate.
    pub(crate) fn impersonating(self, headers: &HeaderMap) -> ApiResult<Self> {
        let text = |value: &HeaderValue| value.to_str().unwrap_or_default().to_owned();
        let Some(name) = headers.get("impersonate-user").map(text) else { return Ok(self) };
        if !self.is_unbound() {
            let why = format!("User \"{}\" cannot impersonate resource \"users\" in API group \"\"", self.name);
            return Err(ApiError::forbidden("", "users", &name, &format!("{why} at the cluster scope")));
        }
        let mut user = Self::named(&name);
        user.groups.extend(headers.get_all("impersonate-group").iter().map(text));
        Ok(user)
    }

    /// Returns the user as a review shows them.
    pub(crate) fn info(&self) -> Value {
        let mut info = json!({"username": self.name, "groups": self.groups});
        if let Some(home) = &self.home {
            info["extra"] = json!({HOME: [home], SCOPES: [format!("cluster:{home}")]});
        }
        if let Some(Proof { uid, id }) = &self.proof {
            info["uid"] = json!(uid);
            info["extra"][CREDENTIAL] = json!([format!("JTI={id}")]);
        }
        info
    }

    /// Returns true if the user may do everything.
    pub(crate) fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }

    /// Returns true if RBAC does not limit this user.
    pub(crate) fn is_unbound(&self) -> bool {
        self.is_master() || self.groups.iter().any(|group| group == KCP_ADMIN)
    }

    /// Returns true if this is a ServiceAccount of that logical cluster.
    pub(crate) fn is_account_in(&self, cluster: &str) -> bool {
        self.name.starts_with(ACCOUNT) && self.home.as_deref().is_none_or(|home| home == cluster)
    }

    /// Returns true if this is a ServiceAccount of another logical cluster.
    pub(crate) fn is_account_outside(&self, cluster: &str) -> bool {
        self.name.starts_with(ACCOUNT) && !self.is_account_in(cluster)
    }

    /// Returns the token of such a user, except for `admin`, whose name differs.
    pub(crate) fn token(&self) -> String {
        match self.home.as_deref() {
            Some(home) => format!("{KCP_ACCOUNT}{home}:{}", self.name.trim_start_matches(ACCOUNT)),
            None => self.name.clone(),
        }
    }

    /// Returns the users as which RBAC of a logical cluster knows this user. A ServiceAccount has an additional name
    /// for other workspaces, and there only this name.
    pub(crate) fn within(&self, cluster: &str) -> Vec<Self> {
        let Some(home) = self.home.as_deref() else { return vec![self.clone()] };
        let account = self.name.trim_start_matches(ACCOUNT);
        let outside = Self::new(&format!("{KCP_ACCOUNT}{home}:{account}"), &[AUTHENTICATED]);
        let other = if home == cluster { self.clone() } else { Self::new("system:anonymous", &[AUTHENTICATED]) };
        vec![other, outside]
    }

    /// Returns the user that tears a namespace down. In kcp every controller is `system:apiserver`; a plain cluster
    /// with a credential for each controller has the namespace controller's own account.
    pub(crate) fn namespace_controller(kind: Kind) -> Self {
        match kind {
            Kind::Kcp => Self::control_plane(),
            Kind::Kubernetes => Self::account("kube-system:namespace-controller", None),
        }
    }

    /// Returns the user of the garbage collector.
    pub(crate) fn garbage_collector(kind: Kind) -> Self {
        match kind {
            Kind::Kcp => Self::control_plane(),
            Kind::Kubernetes => Self::account("kube-system:generic-garbage-collector", None),
        }
    }

    /// Returns the user that tears workspaces and bindings down.
    pub(crate) fn control_plane() -> Self {
        Self::new("system:apiserver", &[AUTHENTICATED, MASTERS])
    }
}

/// Returns the token of a request, if it has one.
pub(crate) fn token(headers: &HeaderMap) -> Option<&str> {
    let token = headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")?.trim();
    Some(token).filter(|token| !token.is_empty())
}
