//! Paths at which reviews are taken, and the scope that each gives its caller.
//!
//! The paths are `/validate` for deletions and `/reference` for creations and updates, each also with `/ignore` for rules
//! with `failurePolicy: Ignore`; `/rule` for rules that are about to be stored; and `/lock`, `/lock/compat` and `/owner` if they are switched on. Each may be followed by `/<scope>/<mac>`, and must be if there
//! is a key. Before that, the paths for rules with `failurePolicy: Fail` may have a segment with the generation of the
//! reference registers, whose key then signs the path. The scope is the logical cluster of the webhook configuration that holds the URL
//! (`control-plane.kubernetes` in a plain Kubernetes). The MAC proves that the controller wrote the URL.

use std::sync::Arc;

use arc_swap::ArcSwap;
use depguard_core::LogicalCluster;
use depguard_core::api::FailurePolicy;
use depguard_core::interlock::Generation;
use depguard_kcp::PathKey;

use crate::service::generations::{Generations, Proof};
use crate::service::rejection::Rejection;

/// Paths to which reviews are posted. A longer path comes before a path that it begins with.
const ROUTES: [(&str, Route); 8] = [
    ("/validate/ignore", Route::Rules(FailurePolicy::Ignore)),
    ("/validate", Route::Rules(FailurePolicy::Fail)),
    ("/reference/ignore", Route::References(FailurePolicy::Ignore)),
    ("/reference", Route::References(FailurePolicy::Fail)),
    ("/lock/compat", Route::CompatLocks),
    ("/lock", Route::Locks),
    ("/owner", Route::Owners),
    ("/rule", Route::SpecAdmission),
];

/// Key that must have signed the paths. Clones share the key: a replacement through one clone counts for all.
#[derive(Debug, Clone)]
pub struct PathKeys {
    current: Arc<ArcSwap<PathKey>>,
}

/// Basis on which a review is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// Rules with this failure policy, about a deletion.
    Rules(FailurePolicy),
    /// Rules with this failure policy, about the references that a creation or an update makes.
    References(FailurePolicy),
    /// Object locks.
    Locks,
    /// Locks of the older tool.
    CompatLocks,
    /// GlobalOwners and GroupOwners.
    Owners,
    /// Rules that are about to be stored.
    SpecAdmission,
}

/// Meaning of a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RoutedPath {
    pub(crate) route: Route,
    /// Generation of the reference registers by which the review is interlocked.
    pub(crate) generation: Option<Generation>,
    /// True if it is known that an API server asks.
    pub(crate) is_authenticated: bool,
    scope: Scope,
}

/// Scope of the reviews that a path allows.
#[derive(Debug, PartialEq, Eq)]
enum Scope {
    Anything,
    /// Objects of the API servers that ask by a configuration of this logical cluster, or of a plain Kubernetes.
    Of(Option<LogicalCluster>),
}

impl PathKeys {
    /// Makes a holder of the key that must have signed paths.
    pub fn new(key: PathKey) -> Self {
        Self { current: Arc::new(ArcSwap::from_pointee(key)) }
    }

    /// Replaces the key from now on.
    pub fn replace(&self, key: PathKey) {
        self.current.store(Arc::new(key));
    }
}

impl RoutedPath {
    /// Reads `path`; an error if nothing is answered there. `registers` are those of this replica, if it interlocks.
    ///
    /// A webhook without a key answers a signed path, too, and does not check the signature. So an operator can give
    /// the controller its key first, and no review fails meanwhile.
    pub(crate) fn read(
        path: &str,
        keys: Option<&PathKeys>,
        registers: Option<&Generations>,
    ) -> Result<Self, Rejection> {
        let unknown = || unknown(keys);
        let parts = ROUTES.iter().find_map(|(prefix, route)| Some((*route, rest_of(path.strip_prefix(prefix)?)?)));
        let (route, (segment, signed)) = parts.ok_or_else(unknown)?;
        let generation = match segment.strip_prefix('/') {
            Some(generation) if route.is_interlocked() => {
                Some(Generation::from_segment(generation).ok_or_else(unknown)?)
            }
            Some(_) => return Err(unknown()),
            None => None,
        };
        let (scope, mac) = match signed {
            None => (Scope::Anything, None),
            Some((scope, mac)) => (Scope::parse(scope).ok_or_else(unknown)?, Some(mac)),
        };
        let is_signed = |key: &PathKey| match (&scope, mac) {
            (Scope::Of(scope), Some(mac)) => key.verifies_after(segment, scope.as_ref(), mac),
            _ => false,
        };
        let proof = match generation.zip(registers) {
            Some((generation, registers)) => Some(registers.proof(generation, is_signed).ok_or(Rejection::Generation)?),
            None => None,
        };
        let is_right = match keys {
            _ if proof == Some(Proof::Signature) => true,
            Some(keys) => is_signed(&keys.current.load()),
            None => mac.is_none_or(|mac| mac.len() == PathKey::MAC_LEN),
        };
        let is_authenticated = matches!(proof, Some(Proof::Signature | Proof::Certificate));
        match generation {
            _ if is_right => Ok(Self { route, generation, is_authenticated, scope }),
            // A webhook without registers knows no key of theirs.
            Some(_) => Err(Rejection::Generation),
            None => Err(unknown()),
        }
    }

    /// Returns the scope of the reviews that the path allows: `None` for anything, else the logical cluster of the
    /// asking configuration, or `None` within for a plain Kubernetes.
    pub(crate) fn scope(&self) -> Option<Option<&LogicalCluster>> {
        match &self.scope {
            Scope::Anything => None,
            Scope::Of(scope) => Some(scope.as_ref()),
        }
    }
}

impl Scope {
    fn parse(scope: &str) -> Option<Self> {
        let cluster = (scope != PathKey::WHOLE).then(|| LogicalCluster::parse(scope)).transpose();
        cluster.ok().map(Self::Of)
    }
}

impl Route {
    /// Returns the failure policy, which decides about reviews that can't be decided.
    pub(crate) fn failure_policy(self) -> FailurePolicy {
        match self {
            Self::Rules(policy) | Self::References(policy) => policy,
            Self::Locks | Self::CompatLocks | Self::Owners => FailurePolicy::Fail,
            Self::SpecAdmission => FailurePolicy::Ignore,
        }
    }

    /// Returns true if reviews may be interlocked.
    fn is_interlocked(self) -> bool {
        matches!(self, Self::Rules(FailurePolicy::Fail) | Self::References(FailurePolicy::Fail))
    }
}

/// Returns the reason why nothing is answered at an unknown path.
pub(crate) fn unknown(keys: Option<&PathKeys>) -> Rejection {
    if keys.is_some() { Rejection::Unsigned } else { Rejection::Path }
}

/// Splits the rest of a path into a segment, with its slash, and the scope and the MAC, if there are any. `None` if the
/// path goes on with something else.
fn rest_of(rest: &str) -> Option<(&str, Option<(&str, &str)>)> {
    match *rest.splitn(5, '/').collect::<Vec<_>>() {
        [""] | ["", _] => Some((rest, None)),
        ["", scope, mac] => Some(("", Some((scope, mac)))),
        ["", segment, scope, mac] => Some((rest.get(..=segment.len())?, Some((scope, mac)))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use depguard_core::interlock::{Buckets, RegisterKey};
    use depguard_kcp::PathPeriod;

    use super::*;

    const KEY: &str = "0123456789abcdef0123456789abcdef";

    fn key() -> PathKey {
        PathKey::parse(KEY).unwrap()
    }

    fn cluster() -> LogicalCluster {
        LogicalCluster::parse("2x3fg5w1ik2mcnev").unwrap()
    }

    fn read(path: &str, keys: Option<&PathKeys>) -> Option<(Route, Scope)> {
        RoutedPath::read(path, keys, None).ok().map(|asked| (asked.route, asked.scope))
    }

    #[test]
    fn only_interlocked_rules_have_a_generation_which_is_signed_too() {
        let keys = PathKeys::new(key());
        let (plain, signed) = (key().suffix(None), key().suffix_after("/registers-0000000a", None));
        let generation = |path: &str, keys| RoutedPath::read(path, keys, None).ok().map(|path| path.generation);
        let ten = Some(Generation::from_segment("registers-0000000a"));
        for (path, without_keys, with_keys) in [
            ("/validate/registers-0000000a".to_owned(), ten, None),
            (format!("/validate{signed}"), ten, ten),
            (format!("/reference{signed}"), ten, ten),
            (format!("/validate{plain}"), Some(None), Some(None)),
            (format!("/validate/registers-0000000a{plain}"), ten, None),
            (
                signed.replace("0000000a", "0000000b").replacen('/', "/validate/", 1),
                Some(Generation::from_segment("registers-0000000b")),
                None,
            ),
            (format!("/validate/ignore{signed}"), None, None),
            (format!("/reference/ignore{signed}"), None, None),
            (format!("/lock{signed}"), None, None),
            ("/lock/registers-0000000a".to_owned(), None, None),
            ("/validate/registers-".to_owned(), None, None),
            ("/validate/registers-0000000A".to_owned(), None, None),
            ("/validate/registers-0000000a/".to_owned(), None, None),
        ] {
            assert_eq!(generation(&path, None), without_keys, "{path}");
            assert_eq!(generation(&path, Some(&keys)), with_keys, "{path}, with a key");
        }
    }

    /// An error message of an API server shows a URL to whoever is refused.
    #[test]
    fn a_path_with_registers_is_answered_for_an_hour_or_two() {
        let buckets = Buckets::new(4).unwrap().keyed(RegisterKey::new([7; RegisterKey::LEN]));
        let now = PathPeriod::now(PathPeriod::LENGTH).number;
        let segment = format!("/{}", buckets.generation().unwrap().to_segment());
        let signed = |period| {
            let key = PathKey::of_period(buckets, period).unwrap();
            format!("/validate{}", key.suffix_after(&segment, Some(&cluster())))
        };
        let registers = Generations::new(buckets);
        let proven = |path: &str| RoutedPath::read(path, None, Some(&registers)).ok().map(|path| path.is_authenticated);
        let unsigned = format!("/validate{segment}");
        let (foreign, malformed) = (format!("{}{}", &unsigned, key().suffix(None)), format!("{unsigned}/x"));
        // A controller of an earlier version has signed nothing, or with the key of all paths.
        for path in [&unsigned, &foreign, &signed(now - 2), &signed(now + 2)] {
            assert_eq!(proven(path), Some(false), "{path}");
        }
        assert_eq!(proven(&malformed), None);
        // Once a signed path has come, no other is answered.
        for period in [now - 1, now, now + 1] {
            assert_eq!(proven(&signed(period)), Some(true));
            for path in [&unsigned, &foreign, &malformed, &signed(now - 2), &signed(now + 2)] {
                assert_eq!(proven(path), None, "{path}");
            }
            let (elsewhere, deletion) = (signed(period).replace("2x3", "3y3"), signed(period));
            assert_eq!(proven(&elsewhere), None);
            assert_eq!(proven(&deletion.replace("/validate/", "/reference/")), Some(true), "{deletion}");
        }
        // The other paths leave no marks.
        assert_eq!(proven("/validate/ignore"), Some(false));
    }

    #[test]
    fn the_newest_path_stays_good_while_the_controller_is_away() {
        let buckets = Buckets::new(4).unwrap().keyed(RegisterKey::new([7; RegisterKey::LEN]));
        let signed = |period| {
            let key = PathKey::of_period(buckets, period).unwrap();
            move |with: &PathKey| with.suffix(None) == key.suffix(None)
        };
        let length = Duration::from_millis(1);
        let registers = Generations::new(buckets).proven_by(length, false);
        let proof = |period: u64| registers.proof(buckets.generation().unwrap(), signed(period));
        let begun = PathPeriod::now(length).number;
        let after = |number| while PathPeriod::now(length).number < number {};
        // A period may end while a path is checked.
        let taken = (begun..).find(|_| proof(PathPeriod::now(length).number) == Some(Proof::Signature));
        assert!(taken.is_some());
        let newest = registers.newest();
        after(newest + 10);
        assert_eq!(proof(newest), Some(Proof::Signature));
        assert_eq!(proof(newest - 1), None);
        // The controller is back.
        let taken = (begun..).find(|_| proof(PathPeriod::now(length).number) == Some(Proof::Signature));
        assert!(taken.is_some());
        after(registers.newest() + 10);
        assert_eq!(proof(newest), None);
    }

    #[test]
    fn a_certificate_is_proof_whatever_the_path() {
        let buckets = Buckets::new(4).unwrap().keyed(RegisterKey::new([7; RegisterKey::LEN]));
        let registers = Generations::new(buckets).proven_by(PathPeriod::LENGTH, true);
        let path = format!("/validate/{}", buckets.generation().unwrap().to_segment());
        let read = |path: &str| RoutedPath::read(path, None, Some(&registers)).map(|path| path.is_authenticated);
        assert!(read(&path).unwrap());
        assert!(read("/validate/registers-00000000").is_err());
    }

    const FAIL: Route = Route::Rules(FailurePolicy::Fail);
    const IGNORE: Route = Route::Rules(FailurePolicy::Ignore);

    #[test]
    fn without_a_key_signed_and_unsigned_paths_are_answered() {
        let of_cluster = || Scope::Of(Some(cluster()));
        let mac = "0".repeat(64);
        for (path, asked) in [
            ("/validate".to_owned(), Some((FAIL, Scope::Anything))),
            ("/validate/ignore".to_owned(), Some((IGNORE, Scope::Anything))),
            (format!("/validate/{}/{mac}", cluster()), Some((FAIL, of_cluster()))),
            (format!("/validate/ignore/{}/{mac}", cluster()), Some((IGNORE, of_cluster()))),
            (format!("/validate/control-plane.kubernetes/{mac}"), Some((FAIL, Scope::Of(None)))),
            ("/reference".to_owned(), Some((Route::References(FailurePolicy::Fail), Scope::Anything))),
            ("/reference/ignore".to_owned(), Some((Route::References(FailurePolicy::Ignore), Scope::Anything))),
            (format!("/reference/{}/{mac}", cluster()), Some((Route::References(FailurePolicy::Fail), of_cluster()))),
            ("/references".to_owned(), None),
            ("/lock".to_owned(), Some((Route::Locks, Scope::Anything))),
            ("/lock/compat".to_owned(), Some((Route::CompatLocks, Scope::Anything))),
            ("/owner".to_owned(), Some((Route::Owners, Scope::Anything))),
            (format!("/lock/{}/{mac}", cluster()), Some((Route::Locks, of_cluster()))),
            (format!("/lock/compat/control-plane.kubernetes/{mac}"), Some((Route::CompatLocks, Scope::Of(None)))),
            (format!("/owner/control-plane.kubernetes/{mac}"), Some((Route::Owners, Scope::Of(None)))),
            (format!("/lock/ignore/{}/{mac}", cluster()), None),
            ("/lock/".to_owned(), None),
            ("/lock/compat/".to_owned(), None),
            ("/locks".to_owned(), None),
            ("/owners".to_owned(), None),
            (format!("/validate/{}/{}", cluster(), &mac[1..]), None),
            (format!("/validate/{}", cluster()), None),
            (format!("/validate/UPPER/{mac}"), None),
            (format!("/validate//{mac}"), None),
            (format!("/validate/{}/{mac}/", cluster()), None),
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
            (format!("/lock{own}"), Some((Route::Locks, Scope::Of(Some(cluster()))))),
            (format!("/lock/compat{whole}"), Some((Route::CompatLocks, Scope::Of(None)))),
            (format!("/owner{whole}"), Some((Route::Owners, Scope::Of(None)))),
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
