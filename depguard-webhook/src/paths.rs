//! At which paths reviews are taken, and what each lets its caller ask.
//!
//! `/validate`, and `/validate/ignore` for the rules that are ignored where they fail; `/lock`, `/lock/compat` and
//! `/owner` where they are answered. Each may be followed by `/<scope>/<mac>`, and must be where there is a key. The
//! scope is the logical cluster in which the webhook configuration lies that holds the URL (`home.kubernetes` in a plain
//! Kubernetes), and the code says that the controller wrote it.

use std::sync::Arc;

use arc_swap::ArcSwap;
use depguard_core::{FailurePolicy, LogicalCluster};
use depguard_kcp::PathKey;

/// Where reviews are posted to. What begins like another comes before it.
const DOORS: [(&str, Door); 5] = [
    ("/validate/ignore", Door::Rules(FailurePolicy::Ignore)),
    ("/validate", Door::Rules(FailurePolicy::Fail)),
    ("/lock/compat", Door::CompatLocks),
    ("/lock", Door::Locks),
    ("/owner", Door::Owners),
];
/// How long a code is, in hexadecimal digits.
const MAC_LEN: usize = 64;

/// The key that the paths must be signed by. Clones share it: what replaces it through one, counts for all.
#[derive(Debug, Clone)]
pub struct PathKeys {
    current: Arc<ArcSwap<PathKey>>,
}

/// By what a review is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    /// The rules of this failure policy.
    Rules(FailurePolicy),
    /// Object locks.
    Locks,
    /// Locks of the older tool.
    CompatLocks,
    /// What global owners own.
    Owners,
}

/// What a path asks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) door: Door,
    scope: Scope,
}

/// What may be asked about.
#[derive(Debug, PartialEq, Eq)]
enum Scope {
    Anything,
    /// What the API servers ask by a configuration of this logical cluster, or of a plain Kubernetes.
    Of(Option<LogicalCluster>),
}

impl PathKeys {
    /// Paths must be signed by this.
    pub fn new(key: PathKey) -> Self {
        Self { current: Arc::new(ArcSwap::from_pointee(key)) }
    }

    /// From now on by this.
    pub fn replace(&self, key: PathKey) {
        self.current.store(Arc::new(key));
    }
}

impl Asked {
    /// What `path` asks; `None` where nothing is answered there.
    ///
    /// Without a key a signed path is answered as well, whoever signed it: so a controller can be given its key first,
    /// and no API server asks in vain.
    pub(crate) fn read(path: &str, keys: Option<&PathKeys>) -> Option<Self> {
        let (door, signed) =
            DOORS.iter().find_map(|(prefix, door)| Some((*door, after(path.strip_prefix(prefix)?)?)))?;
        let scope = match (signed, keys) {
            (None, None) => Scope::Anything,
            (None, Some(_)) => return None,
            (Some((scope, mac)), keys) => {
                let scope = (scope != PathKey::WHOLE).then(|| LogicalCluster::parse(scope)).transpose().ok()?;
                let is_right = match keys {
                    Some(keys) => keys.current.load().verifies(scope.as_ref(), mac),
                    None => mac.len() == MAC_LEN,
                };
                is_right.then_some(Scope::Of(scope))?
            }
        };
        Some(Self { door, scope })
    }

    /// What may be asked about: anything, or what is asked by a configuration in a logical cluster or a plain Kubernetes.
    pub(crate) fn scope(&self) -> Option<Option<&LogicalCluster>> {
        match &self.scope {
            Scope::Anything => None,
            Scope::Of(scope) => Some(scope.as_ref()),
        }
    }
}

impl Door {
    /// What becomes of a review that can't be decided.
    pub(crate) fn failure_policy(self) -> FailurePolicy {
        match self {
            Self::Rules(policy) => policy,
            Self::Locks | Self::CompatLocks | Self::Owners => FailurePolicy::Fail,
        }
    }
}

/// The scope and the code that follow, where some do. `None`: something else does.
fn after(rest: &str) -> Option<Option<(&str, &str)>> {
    match *rest.splitn(4, '/').collect::<Vec<_>>() {
        [""] => Some(None),
        ["", scope, mac] => Some(Some((scope, mac))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "0123456789abcdef0123456789abcdef";

    fn key() -> PathKey {
        PathKey::parse(KEY).unwrap()
    }

    fn cluster() -> LogicalCluster {
        LogicalCluster::parse("2x3fg5w1ik2mcnev").unwrap()
    }

    fn read(path: &str, keys: Option<&PathKeys>) -> Option<(Door, Scope)> {
        Asked::read(path, keys).map(|asked| (asked.door, asked.scope))
    }

    const FAIL: Door = Door::Rules(FailurePolicy::Fail);
    const IGNORE: Door = Door::Rules(FailurePolicy::Ignore);

    #[test]
    fn without_a_key_signed_and_unsigned_paths_are_answered() {
        let of_cluster = || Scope::Of(Some(cluster()));
        let code = "0".repeat(64);
        for (path, asked) in [
            ("/validate".to_owned(), Some((FAIL, Scope::Anything))),
            ("/validate/ignore".to_owned(), Some((IGNORE, Scope::Anything))),
            (format!("/validate/{}/{code}", cluster()), Some((FAIL, of_cluster()))),
            (format!("/validate/ignore/{}/{code}", cluster()), Some((IGNORE, of_cluster()))),
            (format!("/validate/home.kubernetes/{code}"), Some((FAIL, Scope::Of(None)))),
            ("/lock".to_owned(), Some((Door::Locks, Scope::Anything))),
            ("/lock/compat".to_owned(), Some((Door::CompatLocks, Scope::Anything))),
            ("/owner".to_owned(), Some((Door::Owners, Scope::Anything))),
            (format!("/lock/{}/{code}", cluster()), Some((Door::Locks, of_cluster()))),
            (format!("/lock/compat/home.kubernetes/{code}"), Some((Door::CompatLocks, Scope::Of(None)))),
            (format!("/owner/home.kubernetes/{code}"), Some((Door::Owners, Scope::Of(None)))),
            (format!("/lock/ignore/{}/{code}", cluster()), None),
            ("/lock/".to_owned(), None),
            ("/lock/compat/".to_owned(), None),
            ("/locks".to_owned(), None),
            ("/owners".to_owned(), None),
            (format!("/validate/{}/{}", cluster(), &code[1..]), None),
            (format!("/validate/{}", cluster()), None),
            (format!("/validate/UPPER/{code}"), None),
            (format!("/validate//{code}"), None),
            (format!("/validate/{}/{code}/", cluster()), None),
            ("/validate/".to_owned(), None),
            ("/validate/ignore/".to_owned(), None),
            ("/validatex".to_owned(), None),
            ("/".to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(read(&path, None), asked, "{path}");
        }
    }

    #[test]
    fn with_a_key_only_what_it_signed_is_answered() {
        let keys = PathKeys::new(key());
        let (own, whole) = (key().suffix(Some(&cluster())), key().suffix(None));
        let strange = PathKey::parse("another key, which is long enough").unwrap().suffix(Some(&cluster()));
        for (path, asked) in [
            (format!("/validate{own}"), Some((FAIL, Scope::Of(Some(cluster()))))),
            (format!("/validate/ignore{own}"), Some((IGNORE, Scope::Of(Some(cluster()))))),
            (format!("/validate{whole}"), Some((FAIL, Scope::Of(None)))),
            (format!("/lock{own}"), Some((Door::Locks, Scope::Of(Some(cluster()))))),
            (format!("/lock/compat{whole}"), Some((Door::CompatLocks, Scope::Of(None)))),
            (format!("/owner{whole}"), Some((Door::Owners, Scope::Of(None)))),
            (format!("/lock{strange}"), None),
            ("/lock".to_owned(), None),
            ("/owner".to_owned(), None),
            (format!("/validate{strange}"), None),
            (format!("/validate{}", own.replace("2x3", "3y3")), None),
            (format!("/validate{own}x"), None),
            ("/validate".to_owned(), None),
            ("/validate/ignore".to_owned(), None),
        ] {
            assert_eq!(read(&path, Some(&keys)), asked, "{path}");
        }
        keys.replace(PathKey::parse("another key, which is long enough").unwrap());
        assert!(read(&format!("/validate{own}"), Some(&keys)).is_none());
        assert!(read(&format!("/validate{strange}"), Some(&keys)).is_some());
    }
}
