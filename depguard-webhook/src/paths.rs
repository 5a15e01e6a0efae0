//! At which paths reviews are taken, and what each lets its caller ask.
//!
//! `/validate`, and `/validate/ignore` for the rules that are ignored where they fail; both may be followed by
//! `/<scope>/<mac>`, and must be where there is a key. The scope is the logical cluster in which the webhook
//! configuration lies that holds the URL (`home.kubernetes` in a plain Kubernetes), and the code says that the controller wrote it.

use std::sync::Arc;

use arc_swap::ArcSwap;
use depguard_core::{Evaluation, FailurePolicy, LogicalCluster};
use depguard_kcp::PathKey;

/// Where reviews are posted to.
const PATH: &str = "/validate";
/// The part of the path for the rules whose failure policy is `Ignore`.
const IGNORE: &str = "ignore";
/// How long a code is, in hexadecimal digits.
const MAC_LEN: usize = 64;

/// The key that the paths must be signed by. Clones share it: what replaces it through one, counts for all.
#[derive(Debug, Clone)]
pub struct PathKeys {
    current: Arc<ArcSwap<PathKey>>,
}

/// What a path asks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) failure_policy: FailurePolicy,
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
        let rest = path.strip_prefix(PATH)?;
        let (failure_policy, signed) = match *rest.splitn(5, '/').collect::<Vec<_>>() {
            [""] => (FailurePolicy::Fail, None),
            ["", IGNORE] => (FailurePolicy::Ignore, None),
            ["", scope, mac] => (FailurePolicy::Fail, Some((scope, mac))),
            ["", IGNORE, scope, mac] => (FailurePolicy::Ignore, Some((scope, mac))),
            _ => return None,
        };
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
        Some(Self { failure_policy, scope })
    }

    /// The same evaluation, only of what may be asked about.
    pub(crate) fn bound(&self, evaluation: Evaluation) -> Evaluation {
        match &self.scope {
            Scope::Anything => evaluation,
            Scope::Of(scope) => evaluation.within(scope.as_ref()),
        }
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

    fn read(path: &str, keys: Option<&PathKeys>) -> Option<(FailurePolicy, Scope)> {
        Asked::read(path, keys).map(|asked| (asked.failure_policy, asked.scope))
    }

    #[test]
    fn without_a_key_signed_and_unsigned_paths_are_answered() {
        let of_cluster = || Scope::Of(Some(cluster()));
        let code = "0".repeat(64);
        for (path, asked) in [
            ("/validate".to_owned(), Some((FailurePolicy::Fail, Scope::Anything))),
            ("/validate/ignore".to_owned(), Some((FailurePolicy::Ignore, Scope::Anything))),
            (format!("/validate/{}/{code}", cluster()), Some((FailurePolicy::Fail, of_cluster()))),
            (format!("/validate/ignore/{}/{code}", cluster()), Some((FailurePolicy::Ignore, of_cluster()))),
            (format!("/validate/home.kubernetes/{code}"), Some((FailurePolicy::Fail, Scope::Of(None)))),
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
            (format!("/validate{own}"), Some((FailurePolicy::Fail, Scope::Of(Some(cluster()))))),
            (format!("/validate/ignore{own}"), Some((FailurePolicy::Ignore, Scope::Of(Some(cluster()))))),
            (format!("/validate{whole}"), Some((FailurePolicy::Fail, Scope::Of(None)))),
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
