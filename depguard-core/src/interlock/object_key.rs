//! Identities: of an object, of one of its states, and of the register that has the marks about it.

use std::fmt;
use std::num::NonZeroU16;

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

/// Number of registers of an installation. Another number means other registers, so that two replicas with different
/// numbers would not see each other's marks: the number is fixed when depguard is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Buckets(NonZeroU16);

/// Name of a register: its place among all registers of the installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegisterName {
    bucket: u16,
    buckets: Buckets,
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
    /// Returns that number of registers; `None` for zero.
    pub fn new(number: u16) -> Option<Self> {
        NonZeroU16::new(number).map(Self)
    }

    /// Returns the number of registers.
    pub fn number(self) -> u16 {
        self.0.get()
    }

    /// Returns the register for the marks about a target.
    ///
    /// The identity is hashed, so a workspace that was made a moment ago needs no register of its own. The namespace is
    /// left out: nobody knows from a reference if its target has one, and the marks for both cases then cost one write.
    pub fn register_of(self, target: &ObjectKey) -> RegisterName {
        let ObjectKey { cluster, kind: GroupResource { group, resource }, namespace: _, name } = target;
        let mut digest = Sha256::new();
        let cluster = cluster.as_ref().map_or("", LogicalCluster::as_str);
        for part in [cluster, group.as_str(), resource.as_str(), name] {
            digest.update(part);
            // No part contains this byte, so the parts are unambiguous.
            digest.update([0]);
        }
        let first = digest.finalize().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
        let bucket = first % u64::from(self.0.get());
        RegisterName { bucket: u16::try_from(bucket).unwrap_or_default(), buckets: self }
    }

    /// Returns all registers of the installation.
    pub fn registers(self) -> impl Iterator<Item = RegisterName> {
        (0..self.0.get()).map(move |bucket| RegisterName { bucket, buckets: self })
    }
}

impl RegisterName {
    /// Reads the printed name; `None` if no register has that name.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let (bucket, buckets) = name.strip_prefix("bucket-")?.split_once("-of-")?;
        let parsed = Self { bucket: bucket.parse().ok()?, buckets: Buckets::new(buckets.parse().ok()?)? };
        (parsed.bucket < parsed.buckets.0.get() && parsed.to_string() == name).then_some(parsed)
    }

    /// Returns true if the register has the marks about this target.
    pub(super) fn is_of(self, target: &ObjectKey) -> bool {
        self.buckets.register_of(target) == self
    }
}

impl fmt::Display for RegisterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bucket-{}-of-{}", self.bucket, self.buckets.0)
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
        let all: Vec<_> = Buckets::new(12).unwrap().registers().collect();
        assert_eq!(all.len(), 12);
        for name in all {
            assert_eq!(RegisterName::parse(&name.to_string()), Some(name));
        }
        for wrong in
            ["bucket-12-of-12", "bucket-1-of-0", "bucket-01-of-12", "bucket-+1-of-12", "bucket-1", "1-of-2", ""]
        {
            assert_eq!(RegisterName::parse(wrong), None, "{wrong}");
        }
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
