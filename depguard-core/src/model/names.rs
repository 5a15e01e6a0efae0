//! Names in rules and reviews. Parsing checks each name against its grammar, once.
//!
//! A value of one of these types can go into a URL path as it is: no grammar allows `/`, `?`, `%` or an empty name.
//! The one exception is the core group, whose name is empty; see [`Group::is_core`].

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::model::percent_encoding::percent_encode;

/// The reason for refusing a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// An empty name.
    #[error("is empty")]
    Empty,
    /// A name that is longer than the API allows.
    #[error("is {len} characters long, and at most {max} are allowed")]
    TooLong {
        /// The name's length in bytes.
        len: usize,
        /// The maximum length in bytes.
        max: usize,
    },
    /// A name that doesn't match its grammar.
    #[error("`{value}` is not {expected}")]
    Malformed {
        /// The name as it was given.
        value: String,
        /// Description of a valid name, for the end of a sentence.
        expected: &'static str,
    },
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, max $max:literal, $grammar:expr, $expected:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(String);

        impl $type {
            /// Maximum length in bytes.
            pub(crate) const MAX_LEN: usize = $max;

            /// Checks `value` against the grammar of this name.
            pub fn parse(value: &str) -> Result<Self, NameError> {
                check(value, Self::MAX_LEN, $grammar, $expected)?;
                Ok(Self(value.to_owned()))
            }

            /// Returns the name as it was written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $type {
            type Err = NameError;
            fn from_str(value: &str) -> Result<Self, NameError> {
                Self::parse(value)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
    };
}

name!(
    /// A workspace's opaque id, from the annotation `kcp.io/cluster`: `2x3fg5w1ik2mcnev`, or `root`.
    LogicalCluster, max 63, |s| dns_label(s.as_bytes()),
    "a logical cluster's name (lower-case letters, digits and `-`)"
);

name!(
    /// A workspace's readable name: `root:providers:network`. A segment may begin with a digit, as in kcp.
    WorkspacePath, max 253, |s| s.split(':').all(|segment| {
        matches!(segment.as_bytes(), [first, rest @ ..] if lower_or_digit(*first) && rest.iter().all(|c| lower_or_digit(*c) || *c == b'-'))
    }),
    "a workspace path such as `root:providers:network`"
);

name!(
    /// The name of an APIExport: `network.example.com`.
    ExportName, max 253, dotted,
    "an APIExport's name such as `network.example.com` (lower-case labels that begin with a letter, joined by dots)"
);

name!(
    /// An API version: `v1`, `v1alpha1`.
    Version, max 63, version,
    "an API version such as `v1` or `v1alpha1`"
);

name!(
    /// A kind in the spelling that objects have: `VirtualMachine`.
    Kind, max 63, |s| matches!(s.as_bytes(), [first, rest @ ..] if first.is_ascii_uppercase() && rest.iter().all(u8::is_ascii_alphanumeric)),
    "a kind such as `VirtualMachine` (letters and digits, the first an upper-case letter)"
);

name!(
    /// A resource in the spelling that URLs have, plural and lower case: `virtualmachines`. A definition may have a `-` in
    /// its plural, as Multus' `network-attachment-definitions`.
    Resource, max 63, |s| !s.contains('.') && dotted(s),
    "a resource such as `virtualmachines` (lower-case letters, digits and `-`, plural)"
);

name!(
    /// A namespace's name.
    Namespace, max 63, |s| dns_label(s.as_bytes()),
    "a namespace's name (lower-case letters, digits and `-`)"
);

name!(
    /// The name of an object, of any kind: `a`, `vpcs.network.example.com`, `system:masters`.
    ObjectName, max 253, |s| {
        let inner = |c: &u8| c.is_ascii_alphanumeric() || b"-.:_".contains(c);
        let (first, last) = (s.as_bytes().first(), s.as_bytes().last());
        s.bytes().all(|c| inner(&c)) && [first, last].into_iter().flatten().all(u8::is_ascii_alphanumeric)
    },
    "an object's name (letters, digits, `-`, `.`, `:` and `_`, a letter or digit at both ends)"
);

name!(
    /// The text between several names in one string: `,`.
    Separator, max 16, |s| s.bytes().all(|c| matches!(c, b' '..=b'~' | b'\t' | b'\n')),
    "a separator such as `,` (printable ASCII characters, spaces, tabs or newlines)"
);

/// An API group: `network.example.com`. The core group, whose name is empty, is [`Group::CORE`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group(String);

impl Group {
    /// Maximum length in bytes.
    pub(crate) const MAX_LEN: usize = 253;

    /// The group of namespaces, pods and config maps, whose name is empty.
    pub const CORE: Self = Self(String::new());

    /// Checks `value` against the grammar of a group; the empty name is the core group.
    pub fn parse(value: &str) -> Result<Self, NameError> {
        if !value.is_empty() {
            let expected = "an API group such as `network.example.com` (lower-case labels that begin with a letter, joined by dots)";
            check(value, Self::MAX_LEN, dotted, expected)?;
        }
        Ok(Self(value.to_owned()))
    }

    /// Returns the name as it was written; empty for the core group.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true for the core group.
    pub fn is_core(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if a kind of the group may be one of Kubernetes' own. API servers treat such kinds by rules of their
    /// own.
    pub fn may_be_built_in(&self) -> bool {
        !self.0.contains('.') || self.0.ends_with(".k8s.io")
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Group {
    type Err = NameError;
    fn from_str(value: &str) -> Result<Self, NameError> {
        Self::parse(value)
    }
}

impl Borrow<str> for Group {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Serialize for Group {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// A resource and its group, without a version: `vpcs.network.example.com`, `configmaps`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a name has no more parts")]
pub struct GroupResource {
    /// The API group.
    pub group: Group,
    /// The resource, plural.
    pub resource: Resource,
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.resource)?;
        if self.group.is_core() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}

/// Parses the printed form: the resource ends at the first dot.
impl FromStr for GroupResource {
    type Err = NameError;
    fn from_str(value: &str) -> Result<Self, NameError> {
        match value.split_once('.') {
            None => Ok(Self { group: Group::CORE, resource: Resource::parse(value)? }),
            Some((_, "")) => Err(NameError::Malformed {
                value: value.to_owned(),
                expected: "a resource and its group, such as `deployments.apps`, or `pods` in the core group",
            }),
            Some((resource, group)) => Ok(Self { group: Group::parse(group)?, resource: Resource::parse(resource)? }),
        }
    }
}

/// A resource in one version of its group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a name has no more parts")]
pub struct GroupVersionResource {
    /// The API group.
    pub group: Group,
    /// The version that is read.
    pub version: Version,
    /// The resource, plural.
    pub resource: Resource,
}

impl GroupVersionResource {
    /// Returns the resource and its group, without the version.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource { group: self.group.clone(), resource: self.resource.clone() }
    }

    pub(crate) fn is_pods(&self) -> bool {
        self.group.is_core() && self.resource.as_str() == "pods"
    }

    /// Returns the path of the group and version at an API server: `/api/v1`, `/apis/apps/v1`.
    pub fn root(&self) -> String {
        if self.group.is_core() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        }
    }

    /// Returns the path of the resource's objects at an API server: all objects, the objects of one namespace, or the
    /// one object of that name.
    ///
    /// ```
    /// use depguard_core::{Group, GroupVersionResource};
    /// use depguard_core::model::{Resource, Version};
    ///
    /// let (group, version) = (Group::parse("apps")?, Version::parse("v1")?);
    /// let deployments = GroupVersionResource { group, version, resource: Resource::parse("deployments")? };
    /// assert_eq!(deployments.path(None, None), "/apis/apps/v1/deployments");
    /// assert_eq!(deployments.path(Some("shop"), Some("till")), "/apis/apps/v1/namespaces/shop/deployments/till");
    /// # Ok::<(), depguard_core::model::NameError>(())
    /// ```
    pub fn path(&self, namespace: Option<&str>, name: Option<&str>) -> String {
        let mut path = self.root();
        if let Some(namespace) = namespace {
            path.push_str(&format!("/namespaces/{}", percent_encode(namespace)));
        }
        path.push_str(&format!("/{}", self.resource));
        if let Some(name) = name {
            path.push_str(&format!("/{}", percent_encode(name)));
        }
        path
    }
}

impl fmt::Display for GroupVersionResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.resource)?;
        if !self.group.is_core() {
            write!(f, ".{}", self.group)?;
        }
        write!(f, " {}", self.version)
    }
}

fn check(value: &str, max: usize, grammar: impl FnOnce(&str) -> bool, expected: &'static str) -> Result<(), NameError> {
    if value.is_empty() {
        Err(NameError::Empty)
    } else if value.len() > max {
        Err(NameError::TooLong { len: value.len(), max })
    } else if !grammar(value) {
        Err(NameError::Malformed { value: value.to_owned(), expected })
    } else {
        Ok(())
    }
}

fn lower_or_digit(c: u8) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

/// Matches `[a-z0-9]([-a-z0-9]*[a-z0-9])?`.
fn dns_label(label: &[u8]) -> bool {
    let inner = |c: &u8| lower_or_digit(*c) || *c == b'-';
    match label {
        [] => false,
        [only] => lower_or_digit(*only),
        [first, middle @ .., last] => lower_or_digit(*first) && lower_or_digit(*last) && middle.iter().all(inner),
    }
}

/// Matches labels of `[a-z]([-a-z0-9]*[a-z0-9])?`, joined by dots: the reference API's pattern for groups and export
/// names.
fn dotted(value: &str) -> bool {
    value.split('.').all(|label| dns_label(label.as_bytes()) && !label.starts_with(|c: char| c.is_ascii_digit()))
}

/// Matches `v[1-9][0-9]*([a-z]+[1-9][0-9]*)?`.
fn version(value: &str) -> bool {
    let Some(rest) = value.strip_prefix('v').and_then(number) else { return false };
    if rest.is_empty() {
        return true;
    }
    let stage = rest.trim_start_matches(|c: char| c.is_ascii_lowercase());
    stage.len() < rest.len() && number(stage).is_some_and(str::is_empty)
}

/// Returns the rest after a positive number without leading zeros.
fn number(value: &str) -> Option<&str> {
    if !value.starts_with(|c: char| matches!(c, '1'..='9')) {
        return None;
    }
    Some(value.trim_start_matches(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_their_grammar() {
        type Check = fn(&str) -> bool;
        let table: &[(Check, &[&str], &[&str])] = &[
            (
                |s| LogicalCluster::parse(s).is_ok(),
                &["root", "2x3fg5w1ik2mcnev", "a-b"],
                &["", "Root", "a:b", "a/b", "-a", "*", "a.b"],
            ),
            (
                |s| WorkspacePath::parse(s).is_ok(),
                &["root", "root:a-:b", "root:3d:1"],
                &["", "root:", ":root", "root::a", "root:-a", "Root", "root/a"],
            ),
            (
                |s| ExportName::parse(s).is_ok(),
                &["a", "network.example.com", "a-b.c"],
                &["", "9a", "a.", ".a", "a..b", "a-", "A", "a_b"],
            ),
            (|s| Group::parse(s).is_ok(), &["", "apps", "network.example.com"], &["9a", "a.", "a..b", "a b", "a/b"]),
            (
                |s| Version::parse(s).is_ok(),
                &["v1", "v1alpha1", "v10beta20"],
                &["", "v", "1", "v0", "v1alpha", "v1alpha0", "v1a1b", "V1", "v1.2"],
            ),
            (|s| Kind::parse(s).is_ok(), &["VPC", "VirtualMachine", "A1"], &["", "vPC", "1A", "A-B"]),
            (
                |s| Resource::parse(s).is_ok(),
                &["vpcs", "a1", "network-attachment-definitions"],
                &["", "Vpcs", "1a", "-a", "a-", "a.b", "vpcs/status"],
            ),
            (
                |s| s.parse::<GroupResource>().is_ok_and(|kind| kind.to_string() == s),
                &["pods", "deployments.apps", "vpcs.network.example.com"],
                &["", ".", "pods.", ".apps", "Pods", "pods/scale", "pods.Apps"],
            ),
            (|s| Namespace::parse(s).is_ok(), &["default", "1", "kube-system"], &["", "A", "a-", "a.b", "../x"]),
        ];
        for (row, (parses, good, bad)) in table.iter().enumerate() {
            for s in *good {
                assert!(parses(s), "row {row}: {s:?}");
            }
            for s in *bad {
                assert!(!parses(s), "row {row}: {s:?}");
            }
        }
    }

    #[test]
    fn a_name_at_its_limit_passes_and_one_more_does_not() {
        assert!(Group::parse(&"a".repeat(253)).is_ok());
        assert_eq!(Group::parse(&"a".repeat(254)), Err(NameError::TooLong { len: 254, max: 253 }));
        assert!(Resource::parse(&"a".repeat(63)).is_ok());
        assert!(Resource::parse(&"a".repeat(64)).is_err());
    }

    #[test]
    fn resources_print_as_kubectl_writes_them() {
        let gvr = |group, version, resource| GroupVersionResource {
            group: Group::parse(group).unwrap(),
            version: Version::parse(version).unwrap(),
            resource: Resource::parse(resource).unwrap(),
        };
        assert_eq!(gvr("", "v1", "pods").group_resource().to_string(), "pods");
        assert_eq!(gvr("apps", "v1", "deployments").to_string(), "deployments.apps v1");
        assert_eq!(gvr("", "v1", "pods").root(), "/api/v1");
        assert_eq!(gvr("apps", "v1", "deployments").root(), "/apis/apps/v1");
    }
}
