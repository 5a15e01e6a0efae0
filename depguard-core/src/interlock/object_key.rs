//! Identities: of an object, of one of its states, and of the register that has the marks about it.

use std::fmt;
use std::num::NonZeroU16;

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

use crate::model::names::{GroupResource, LogicalCluster, NameError, Namespace};

/// Identity of a target or a dependent, whatever its state.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "an object's identity has no more parts")]
pub struct ObjectKey {
    /// The logical cluster; `None` on plain Kubernetes.
    pub cluster: Option<LogicalCluster>,
    /// The kind, in every version.
    pub kind: GroupResource,
    /// The namespace; `None` for an object without a namespace.
    pub namespace: Option<Namespace>,
    /// The name.
    pub name: String,
}

/// State of an object: a state that an object has left never comes back.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision {
    uid: String,
    resource_version: String,
}

/// Dependent that is being created or updated.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dependent {
    key: ObjectKey,
    uid: String,
    /// The `resourceVersion` of the object that an update replaces; `None`: a creation.
    replaced: Option<String>,
}

/// Registers of an installation: their number, and the key by which targets are hashed to them. Another number or
/// another key means other registers, and replicas that differ in either don't see each other's marks. So registers
/// have a [`Generation`], which is in their names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Buckets {
    number: NonZeroU16,
    key: Option<(RegisterKey, Generation)>,
}

/// Secret of an installation, without which nobody can tell the register of a target, and so fill it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RegisterKey([u8; RegisterKey::LEN]);

/// Public name of a number of registers with a key, from which nobody can tell the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(u32);

/// Name of a register: its place among all registers of its generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegisterName {
    bucket: u16,
    number: NonZeroU16,
    generation: Option<Generation>,
}

/// The longest UID and the longest `resourceVersion`, in bytes.
pub(super) const MAX_OPAQUE: usize = 128;

impl Revision {
    /// Reads the UID and the `resourceVersion` of an object.
    pub fn parse(uid: &str, resource_version: &str) -> Result<Self, NameError> {
        Ok(Self { uid: opaque(uid)?, resource_version: opaque(resource_version)? })
    }

    /// Returns the UID.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Returns the `resourceVersion`.
    pub fn resource_version(&self) -> &str {
        &self.resource_version
    }
}

impl Dependent {
    /// Creates the dependent of a creation. `uid` is the UID that the API server has given the object of the review; it
    /// gives another one if it asks again.
    pub fn created(key: ObjectKey, uid: &str) -> Result<Self, NameError> {
        Ok(Self { key, uid: opaque(uid)?, replaced: None })
    }

    /// Creates the dependent of an update that replaces the object at `old`, the revision of the review's `oldObject`.
    pub fn updated(key: ObjectKey, old: Revision) -> Self {
        let Revision { uid, resource_version } = old;
        Self { key, uid, replaced: Some(resource_version) }
    }

    /// Returns the dependent's identity.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Returns the dependent's UID.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Returns the `resourceVersion` of the object that an update replaces; `None` for a creation.
    pub fn replaced(&self) -> Option<&str> {
        self.replaced.as_deref()
    }
}

impl Buckets {
    /// Returns that number of registers, without a key, as versions before keys have them; `None` for zero.
    pub fn new(number: u16) -> Option<Self> {
        NonZeroU16::new(number).map(|number| Self { number, key: None })
    }

    /// Returns the same number of other registers: those of this key.
    #[must_use]
    pub fn keyed(self, key: RegisterKey) -> Self {
        let code = key.code(&[b"generation", &self.number.get().to_be_bytes()]);
        let generation = Generation(code.iter().take(4).fold(0, |number, byte| number << 8 | u32::from(*byte)));
        Self { key: Some((key, generation)), ..self }
    }

    /// Returns the same number of other registers: those without a key.
    #[must_use]
    pub fn unkeyed(self) -> Self {
        Self { key: None, ..self }
    }

    /// Returns the number of registers.
    pub fn number(self) -> u16 {
        self.number.get()
    }

    /// Returns the generation; `None` without a key.
    pub fn generation(self) -> Option<Generation> {
        self.key.map(|(_, generation)| generation)
    }

    /// Returns the secret that signs the paths of reviews in a period; `None` without a key. It tells nothing about the
    /// key, or about another period's secret.
    pub fn path_secret(self, period: u64) -> Option<[u8; 32]> {
        self.key.map(|(key, _)| key.code(&[b"path", &period.to_be_bytes()]))
    }

    /// Returns the register for the marks about a target.
    ///
    /// The identity is hashed, so a workspace that was made a moment ago needs no register of its own. The namespace is
    /// left out: nobody knows from a reference if its target has one, and the marks for both cases then cost one write.
    pub fn register_of(self, target: &ObjectKey) -> RegisterName {
        let ObjectKey { cluster, kind: GroupResource { group, resource }, namespace: _, name } = target;
        let cluster = cluster.as_ref().map_or("", LogicalCluster::as_str);
        let parts = [cluster, group.as_str(), resource.as_str(), name].map(str::as_bytes);
        let digest = match self.key {
            Some((key, _)) => key.code(&[&[b"bucket".as_slice()][..], &parts].concat()),
            None => parts
                .into_iter()
                .fold(Sha256::new(), |digest, part| digest.chain_update(part).chain_update([0]))
                .finalize()
                .into(),
        };
        let first = digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
        let bucket = first % u64::from(self.number.get());
        self.named(u16::try_from(bucket).unwrap_or_default())
    }

    /// Returns all registers of the installation.
    pub fn registers(self) -> impl Iterator<Item = RegisterName> {
        (0..self.number.get()).map(move |bucket| self.named(bucket))
    }

    fn named(self, bucket: u16) -> RegisterName {
        RegisterName { bucket, number: self.number, generation: self.generation() }
    }
}

/// Prints no key.
impl fmt::Debug for Buckets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, generation) = (self.number, self.generation());
        f.debug_struct("Buckets").field("number", &number).field("generation", &generation).finish()
    }
}

impl RegisterKey {
    /// Length in bytes.
    pub const LEN: usize = 32;

    /// Takes random bytes for a key.
    pub fn new(random: [u8; Self::LEN]) -> Self {
        Self(random)
    }

    /// Returns the bytes, to be stored where only depguard reads them.
    pub fn expose(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    /// Returns the HMAC-SHA256 of these parts. The first one says what the code is for; each but the last of a code that
    /// is for the same must not contain a zero byte.
    fn code(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut block = [0; 64];
        for (byte, key) in block.iter_mut().zip(self.0) {
            *byte = key;
        }
        // A key of one block is used as it is.
        let mut mac = Hmac::<Sha256>::new(&block.into());
        for part in parts {
            mac.update(part);
            mac.update(&[0]);
        }
        mac.finalize().into_bytes().into()
    }
}

/// Prints no key.
impl fmt::Debug for RegisterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegisterKey").finish_non_exhaustive()
    }
}

impl Generation {
    /// Segment of a webhook's path before the generation.
    const SEGMENT: &str = "registers-";

    /// Returns the segment of a webhook's path by which API servers say the generation.
    pub fn to_segment(self) -> String {
        format!("{}{self}", Self::SEGMENT)
    }

    /// Reads such a segment.
    pub fn from_segment(segment: &str) -> Option<Self> {
        Self::parse(segment.strip_prefix(Self::SEGMENT)?)
    }

    /// Reads the printed generation.
    pub fn parse(text: &str) -> Option<Self> {
        let generation = Self(u32::from_str_radix(text, 16).ok()?);
        (generation.to_string() == text).then_some(generation)
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl RegisterName {
    /// Reads the printed name; `None` if no register has that name.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let (bucket, rest) = name.strip_prefix("bucket-")?.split_once("-of-")?;
        let (number, generation) = match rest.split_once('-') {
            Some((number, generation)) => (number, Some(Generation::parse(generation)?)),
            None => (rest, None),
        };
        let parsed = Self { bucket: bucket.parse().ok()?, number: number.parse().ok()?, generation };
        (parsed.bucket < parsed.number.get() && parsed.to_string() == name).then_some(parsed)
    }
}

impl fmt::Display for RegisterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bucket-{}-of-{}", self.bucket, self.number)?;
        self.generation.map_or(Ok(()), |generation| write!(f, "-{generation}"))
    }
}

/// Checks a UID or a `resourceVersion`: no grammar is promised for either, so only its size and its characters count.
fn opaque(value: &str) -> Result<String, NameError> {
    let (len, max) = (value.len(), MAX_OPAQUE);
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    match value {
        "" => Err(NameError::Empty),
        _ if len > max => Err(NameError::TooLong { len, max }),
        _ if !value.bytes().all(is_plain) => Err(NameError::Malformed {
            value: value.to_owned(),
            expected: "a UID or a resourceVersion (printable ASCII characters)",
        }),
        _ => Ok(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_register_name_is_read_as_it_is_printed_and_no_other_way() {
        let without = Buckets::new(12).unwrap();
        for buckets in [without, without.keyed(key(7))] {
            let all: Vec<_> = buckets.registers().collect();
            assert_eq!(all.len(), 12);
            for name in all {
                assert_eq!(RegisterName::parse(&name.to_string()), Some(name));
            }
        }
        for wrong in [
            "bucket-12-of-12",
            "bucket-1-of-0",
            "bucket-01-of-12",
            "bucket-+1-of-12",
            "bucket-1",
            "1-of-2",
            "",
            "bucket-1-of-12-",
            "bucket-1-of-12-0a",
            "bucket-1-of-12-0000000A",
            "bucket-1-of-12-+000000a",
            "bucket-1-of-12-0000000a-",
        ] {
            assert_eq!(RegisterName::parse(wrong), None, "{wrong}");
        }
    }

    fn key(byte: u8) -> RegisterKey {
        RegisterKey::new([byte; RegisterKey::LEN])
    }

    /// Compares with `printf 'generation\0\0\020\0' | openssl dgst -sha256 -mac HMAC -macopt hexkey:0707…`, and the same
    /// of `bucket\0\0\0vpcs\0a\0`.
    #[test]
    fn another_tool_computes_the_same_generation_and_bucket() {
        let buckets = Buckets::new(16).unwrap().keyed(key(7));
        assert_eq!(buckets.generation().unwrap().to_string(), "4fbf310d");
        assert_eq!(buckets.register_of(&target("a")).to_string(), "bucket-12-of-16-4fbf310d");
        assert_eq!(Buckets::new(16).unwrap().register_of(&target("a")).to_string(), "bucket-7-of-16");
    }

    #[test]
    fn another_key_or_number_is_another_generation() {
        let [eight, sixteen] = [8, 16].map(|number| Buckets::new(number).unwrap());
        let all = [eight.keyed(key(7)), sixteen.keyed(key(7)), sixteen.keyed(key(8))];
        let generations: std::collections::BTreeSet<_> = all.iter().map(|buckets| buckets.generation()).collect();
        assert_eq!(generations.len(), 3);
        let bucket = |buckets: Buckets, name: &str| buckets.register_of(&target(name)).bucket;
        let names: Vec<_> = (0..64).map(|number| format!("v{number}")).collect();
        let differ = names.iter().filter(|name| bucket(all[1], name) != bucket(all[2], name)).count();
        assert!(differ > 48, "the keys choose the same bucket for {} of 64 targets", 64 - differ);
    }

    #[test]
    fn no_key_is_printed() {
        let key = key(0xa7);
        let printed = format!("{key:?} {:?}", Buckets::new(1).unwrap().keyed(key));
        assert!(!printed.contains("167") && !printed.contains("a7a7"), "{printed}");
    }

    fn target(name: &str) -> ObjectKey {
        let kind =
            GroupResource { group: crate::Group::CORE, resource: crate::model::Resource::parse("vpcs").unwrap() };
        ObjectKey { cluster: None, kind, namespace: None, name: name.to_owned() }
    }

    #[test]
    fn an_empty_or_foreign_revision_is_none() {
        assert!(Revision::parse("u", "1").is_ok());
        for (uid, version) in [("", "1"), ("u", ""), ("u u", "1"), ("u", "\n"), ("\"", "1")] {
            assert!(Revision::parse(uid, version).is_err(), "{uid:?} {version:?}");
        }
        assert!(Revision::parse(&"u".repeat(128), "1").is_ok());
        assert!(Revision::parse(&"u".repeat(129), "1").is_err());
    }
}
