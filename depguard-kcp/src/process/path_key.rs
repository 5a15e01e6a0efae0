//! Secret by which the webhook knows that the controller wrote a URL.
//!
//! Anybody who can post a review can ask for an object's referrers. With a key, the controller appends `/<scope>/<mac>`
//! to the path of each configuration that it installs, and the webhook answers no other path. The scope says where the
//! configuration lies, and so which objects an API server reviews by it: a logical cluster of a kcp, or
//! `control-plane.kubernetes` for the one cluster of a plain Kubernetes.

use std::time::{Duration, SystemTime};

use depguard_core::LogicalCluster;
use depguard_core::interlock::Buckets;
use ring::hmac;

#[cfg(feature = "metrics")]
mod file;

#[cfg(feature = "metrics")]
pub use file::PathKeyError;

/// Prefix of the signed text, before the scope: a key that is also used elsewhere proves nothing there.
const CONTEXT: &str = "depguard/v1/";
/// Minimum length of a key, in bytes.
const MIN_LENGTH: usize = 32;
/// Maximum of keys at a time: the new one, the old one, and one that an earlier change left behind.
const MAX_KEYS: usize = 3;

/// Period in which paths with a generation of reference registers are signed by one key, which is made of the
/// registers' key and the period's number. So nothing is stored or handed over when a period ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a period has no more parts")]
pub struct PathPeriod {
    /// Number of the period, since 1970.
    pub number: u64,
    /// Time until the next one.
    pub left: Duration,
}

impl PathPeriod {
    /// Length of a period.
    pub const LENGTH: Duration = Duration::from_secs(60 * 60);

    /// Returns the present period of this length.
    pub fn now(length: Duration) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
        let length = length.as_millis().max(1);
        let of = |millis: u128| u64::try_from(millis).unwrap_or(u64::MAX);
        Self { number: of(now / length), left: Duration::from_millis(of(length - now % length)) }
    }
}

/// Up to three keys: the first one signs, each one verifies.
#[derive(Clone)]
pub struct PathKey {
    signing: hmac::Key,
    others: Vec<hmac::Key>,
}

impl PathKey {
    /// Scope of a plain Kubernetes. No logical cluster has a dot in its name, and a kube-apiserver accepts only
    /// subdomains as parts of a service's path.
    pub const WHOLE: &str = "control-plane.kubernetes";

    /// Length of a MAC, in hexadecimal digits.
    pub const MAC_LEN: usize = 64;

    /// Parses one key a line. The first one signs, each one verifies.
    pub fn parse(content: &str) -> Result<Self, &'static str> {
        let mut lines = content.lines().map(str::trim).filter(|line| !line.is_empty());
        let Some(first) = lines.next() else { return Err("it is empty; make one with `openssl rand -hex 32`") };
        let others: Vec<_> = lines.collect();
        if others.len() >= MAX_KEYS {
            return Err("it has more than three lines: keep the signing key and the other keys in use");
        }
        if first.len() < MIN_LENGTH || others.iter().any(|key| key.len() < MIN_LENGTH) {
            return Err("one of its lines is shorter than 32 characters; make one with `openssl rand -hex 32`");
        }
        let key = |line: &str| hmac::Key::new(hmac::HMAC_SHA256, line.as_bytes());
        Ok(Self { signing: key(first), others: others.into_iter().map(key).collect() })
    }

    /// Makes the key of the paths with these registers' generation, in a period; `None` if the registers have no key.
    pub fn of_period(buckets: Buckets, period: u64) -> Option<Self> {
        let signing = hmac::Key::new(hmac::HMAC_SHA256, &buckets.path_secret(period)?);
        Some(Self { signing, others: Vec::new() })
    }

    /// Returns `/<scope>/<mac>`, to be appended to a webhook's path. `None` stands for the one cluster of a plain
    /// Kubernetes.
    pub fn suffix(&self, scope: Option<&LogicalCluster>) -> String {
        self.suffix_after("", scope)
    }

    /// Returns the same after a further segment of the path, which is signed too. `segment` is empty, or a segment after
    /// its slash.
    pub fn suffix_after(&self, segment: &str, scope: Option<&LogicalCluster>) -> String {
        let scope = name(scope);
        let mac = hmac::sign(&self.signing, signed(segment, scope).as_bytes());
        let mac: String = mac.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{segment}/{scope}/{mac}")
    }

    /// Returns true if one of the keys made this MAC for the scope. The time that this takes reveals nothing about the
    /// MAC.
    pub fn verifies(&self, scope: Option<&LogicalCluster>, mac: &str) -> bool {
        self.verifies_after("", scope, mac)
    }

    /// Returns true if one of the keys made this MAC for the segment and the scope.
    pub fn verifies_after(&self, segment: &str, scope: Option<&LogicalCluster>, mac: &str) -> bool {
        let (Some(mac), signed) = (bytes(mac), signed(segment, name(scope))) else { return false };
        let keys = std::iter::once(&self.signing).chain(&self.others);
        keys.fold(false, |found, key| hmac::verify(key, signed.as_bytes(), &mac).is_ok() | found)
    }
}

fn name(scope: Option<&LogicalCluster>) -> &str {
    scope.map_or(PathKey::WHOLE, LogicalCluster::as_str)
}

/// Returns the text to sign. No scope contains a slash.
fn signed(segment: &str, scope: &str) -> String {
    format!("{CONTEXT}{scope}{segment}")
}

/// Parses hexadecimal digits. Only lower case is accepted, so that a URL has one spelling only.
fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let (pairs, []) = hex.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

impl std::fmt::Debug for PathKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PathKey").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "0123456789abcdef0123456789abcdef";
    const NEW: &str = "fedcba9876543210fedcba9876543210";

    fn key(content: &str) -> PathKey {
        PathKey::parse(content).unwrap()
    }

    fn cluster(id: &str) -> Option<LogicalCluster> {
        Some(LogicalCluster::parse(id).unwrap())
    }

    fn mac(key: &PathKey, scope: Option<&LogicalCluster>) -> String {
        key.suffix(scope).rsplit_once('/').unwrap().1.to_owned()
    }

    /// Compares with `printf 'depguard/v1/2x3fg5w1ik2mcnev' | openssl dgst -sha256 -hmac
    /// 0123456789abcdef0123456789abcdef`.
    #[test]
    fn the_code_is_an_hmac_that_other_tools_make_too() {
        let scope = cluster("2x3fg5w1ik2mcnev");
        assert_eq!(
            key(OLD).suffix(scope.as_ref()),
            "/2x3fg5w1ik2mcnev/de79dd48bc9451a242333b1b8e051083eb0680c340b8d34b3805cca4bc3eb60c"
        );
        assert_eq!(
            key(&format!("\n  {OLD} \r\n\n")).suffix(None),
            "/control-plane.kubernetes/c839f5b97364544ebc13bebe2ac0004d288e2cb73d3aaa977253f09242c27d5e"
        );
    }

    #[test]
    fn a_code_is_of_one_scope_and_one_key() {
        let (one, other) = (cluster("2x3fg5w1ik2mcnev"), cluster("3y3fg5w1ik2mcnev"));
        let (old, new) = (key(OLD), key(NEW));
        let made = mac(&old, one.as_ref());
        assert!(old.verifies(one.as_ref(), &made));
        for (key, scope, mac) in [
            (&old, &other, made.clone()),
            (&old, &None, made.clone()),
            (&new, &one, made.clone()),
            (&old, &one, made.to_uppercase()),
            (&old, &one, made[..62].to_owned()),
            (&old, &one, made[..63].to_owned()),
            (&old, &one, format!("{made}00")),
            (&old, &one, String::new()),
            (&old, &one, "zz".repeat(32)),
            (&old, &one, "é".repeat(16)),
        ] {
            assert!(!key.verifies(scope.as_ref(), &mac), "{mac}");
        }
    }

    #[test]
    fn of_several_keys_the_first_signs_and_each_verifies() {
        let (old, new, both) = (key(OLD), key(NEW), key(&format!("{NEW}\n{OLD}\n")));
        let scope = cluster("2x3fg5w1ik2mcnev");
        assert_eq!(both.suffix(scope.as_ref()), new.suffix(scope.as_ref()));
        for made in [mac(&old, scope.as_ref()), mac(&new, scope.as_ref())] {
            assert!(both.verifies(scope.as_ref(), &made));
        }
        assert!(!old.verifies(scope.as_ref(), &mac(&both, scope.as_ref())));
    }

    #[test]
    fn a_key_that_can_be_guessed_is_not_taken() {
        for content in ["", "\n \n", "short", &OLD[1..], &format!("{OLD}\nshort"), &format!("{OLD}\n").repeat(4)] {
            assert!(PathKey::parse(content).is_err(), "{content}");
        }
        assert!(!format!("{:?}", key(OLD)).contains(OLD));
    }
}
