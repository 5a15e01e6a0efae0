//! The names that the copies of synced objects have on a service cluster.
//!
//! A sync agent takes an object from a kcp workspace and makes a copy of it on the service cluster, whose namespace and
//! name its PublishedResource says. Here is what they come to, for showing a copy's name and for rules that are written
//! before there is one. The agent remembers names: an existing copy is found by [`labels`](Agent::labels), since the
//! naming may have been another one when it was made.
//!
//! ```
//! use depguard_core::naming::{Agent, Naming, Original};
//!
//! let original = Original { cluster: "2kmlo5t0xpzp", path: None, namespace: Some("web"), name: "shop" };
//! let copy = Naming::default_of(Agent::Servlet).copy(&original)?;
//! assert_eq!(copy.namespace, "2kmlo5t0xpzp");
//! assert_eq!(copy.name, "ca84d1343b96baa8137c-5042d146667518a1a501");
//! # Ok::<(), depguard_core::naming::NoName>(())
//! ```

mod pattern;

use std::collections::BTreeMap;

use sha1::{Digest, Sha1};
use sha3::Sha3_256;

use self::pattern::Pattern;

/// Which agent syncs: they name copies in different ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates decide by each case: none shall pass them by unseen"
)]
pub enum Agent {
    /// KDP's Servlet: PublishedResources of `services.kdp.k8c.io`.
    Servlet,
    /// kcp's api-syncagent, as of its version 0.3: PublishedResources of `syncagent.kcp.io`.
    SyncAgent,
}

/// An object in a kcp workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "made by depguard's other crates too, which say each field")]
pub struct Original<'a> {
    /// The logical cluster: `2kmlo5t0xpzp`.
    pub cluster: &'a str,
    /// The workspace's path, where it is known: `root:customers:shop`.
    pub path: Option<&'a str>,
    /// Its namespace; `None`: it is cluster-scoped there.
    pub namespace: Option<&'a str>,
    /// Its name.
    pub name: &'a str,
}

/// Where a copy is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Copied {
    /// Its namespace. It has none where the kind is cluster-scoped on the service cluster.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// How copies are named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Naming {
    namespace: Pattern,
    name: Pattern,
}

/// What a name can't be told from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{pattern}` has the template action `{action}`: what a template makes is told for `{{{{ .ClusterName }}}}`, \
     `{{{{ .ClusterPath }}}}`, `{{{{ .Object.metadata.name }}}}` and `{{{{ .Object.metadata.namespace }}}}`, the last two \
     also with `| sha3short` or `| shortHash`, and for nothing else"
)]
#[non_exhaustive]
pub struct NamingError {
    /// What was given.
    pub pattern: String,
    /// The part of it that can't be told.
    pub action: String,
}

/// Why an object's copy has no name: the agent fails on it, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates decide by each case: none shall pass them by unseen"
)]
pub enum NoName {
    /// It has no namespace, and a template asks for one.
    #[error("the template asks for the namespace of an object that has none: write a naming without it")]
    NoNamespace,
    /// The workspace's path isn't known, and a template asks for it.
    #[error("the template asks for the workspace's path, which was not given: say it as the original's `path`")]
    NoPath,
}

impl Agent {
    /// Which agent's PublishedResources are of this group.
    pub fn of_group(group: &str) -> Option<Self> {
        [Self::Servlet, Self::SyncAgent].into_iter().find(|agent| agent.group() == group)
    }

    /// The group of its PublishedResources.
    pub fn group(self) -> &'static str {
        match self {
            Self::Servlet => "services.kdp.k8c.io",
            Self::SyncAgent => "syncagent.kcp.io",
        }
    }

    /// The labels by which it finds an object's copy on the service cluster.
    ///
    /// Those of a Servlet hold the names themselves; a later agent's the SHA-1 of them, as labels are short.
    pub fn labels(self, original: &Original<'_>) -> BTreeMap<&'static str, String> {
        let (cluster, namespace, name) = match self {
            Self::Servlet => (
                "servlet.kdp.k8c.io/remote-object-cluster",
                "servlet.kdp.k8c.io/remote-object-namespace",
                "servlet.kdp.k8c.io/remote-object-name",
            ),
            Self::SyncAgent => (
                "syncagent.kcp.io/remote-object-cluster",
                "syncagent.kcp.io/remote-object-namespace-hash",
                "syncagent.kcp.io/remote-object-name-hash",
            ),
        };
        let value = |text: &str| match self {
            Self::Servlet => text.to_owned(),
            Self::SyncAgent => format!("{:x}", Sha1::digest(text)),
        };
        let mut labels = BTreeMap::from([(cluster, original.cluster.to_owned()), (name, value(original.name))]);
        match (original.namespace, self) {
            (Some(own), _) => labels.insert(namespace, value(own)),
            // A Servlet's label is there, and empty.
            (None, Self::Servlet) => labels.insert(namespace, String::new()),
            (None, Self::SyncAgent) => None,
        };
        labels
    }

    fn default_patterns(self) -> [Pattern; 2] {
        use pattern::{Hash, Part, Value};
        let value = |value, hash| Part::Value(value, hash);
        let hash = match self {
            Self::Servlet => Hash::Sha1,
            Self::SyncAgent => Hash::Sha3,
        };
        let name = [value(Value::Namespace, hash), Part::Text("-".to_owned()), value(Value::Name, hash)];
        [Pattern::of(self, [value(Value::Cluster, Hash::None)]), Pattern::of(self, name)]
    }
}

impl Naming {
    /// What an agent does where a PublishedResource says nothing: a namespace for each logical cluster, and hashes of
    /// namespace and name.
    pub fn default_of(agent: Agent) -> Self {
        let [namespace, name] = agent.default_patterns();
        Self { namespace, name }
    }

    /// What `spec.naming` says. What is left out, or empty, is as by default.
    ///
    /// Of a sync agent's templates those are told that stand for `$placeholders` of old, and the workspace's path; of
    /// any other it is said that it can't be.
    pub fn parse(agent: Agent, namespace: Option<&str>, name: Option<&str>) -> Result<Self, NamingError> {
        let default = Self::default_of(agent);
        let parse = |written: Option<&str>, default| match written.filter(|written| !written.is_empty()) {
            Some(written) => Pattern::parse(agent, written),
            None => Ok(default),
        };
        Ok(Self { namespace: parse(namespace, default.namespace)?, name: parse(name, default.name)? })
    }

    /// Where the copy of an object is, if it is made now.
    pub fn copy(&self, original: &Original<'_>) -> Result<Copied, NoName> {
        Ok(Copied { namespace: self.namespace.fill(original)?, name: self.name.fill(original)? })
    }
}

/// The first 20 digits of a text's SHA-1 in hexadecimal, as `$remoteNameHash` has it of a name.
pub fn short_sha1(text: &str) -> String {
    format!("{:.20x}", Sha1::digest(text))
}

/// The first 20 digits of a text's SHA3-256 in hexadecimal: a template's `sha3short`.
pub fn short_sha3(text: &str) -> String {
    format!("{:.20x}", Sha3_256::digest(text))
}

#[cfg(test)]
mod tests;
