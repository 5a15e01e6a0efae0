//! Names of the copies of synced objects on a service cluster.
//!
//! A sync agent copies an object from a kcp workspace to the service cluster. The agent's PublishedResource defines the
//! namespace and the name of the copy. This module computes them, to show the name of a copy, and to write rules before
//! the copy exists. The agent remembers names, and the naming may have changed since a copy was made: find an existing
//! copy by its [`labels`](Agent::labels).
//!
//! ```
//! use kubectl_depguard::synced_names::{Agent, Naming, Original};
//!
//! let original = Original { cluster: "2kmlo5t0xpzp", path: None, namespace: Some("web"), name: "shop" };
//! let copy = Naming::default_of(Agent::Servlet).copy(&original)?;
//! assert_eq!(copy.namespace, "2kmlo5t0xpzp");
//! assert_eq!(copy.name, "ca84d1343b96baa8137c-5042d146667518a1a501");
//! # Ok::<(), kubectl_depguard::synced_names::NoName>(())
//! ```

mod pattern;

use std::collections::BTreeMap;

use sha1::{Digest, Sha1};
use sha3::Sha3_256;

use self::pattern::Pattern;

/// Sync agent. Each names copies in its own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum Agent {
    /// KDP's Servlet, with PublishedResources of `services.kdp.k8c.io`.
    Servlet,
    /// kcp's api-syncagent, as of its version 0.3, with PublishedResources of `syncagent.kcp.io`.
    SyncAgent,
}

/// Object in a kcp workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "depguard's other crates construct it with all fields")]
pub struct Original<'a> {
    /// Logical cluster: `2kmlo5t0xpzp`.
    pub cluster: &'a str,
    /// Path of the workspace, if it is known: `root:customers:shop`.
    pub path: Option<&'a str>,
    /// Namespace of the object; `None` if the object is cluster-scoped in kcp.
    pub namespace: Option<&'a str>,
    /// Name of the object.
    pub name: &'a str,
}

/// Namespace and name of a copy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Copied {
    /// Namespace of the copy. Ignore it if the kind is cluster-scoped on the service cluster.
    pub namespace: String,
    /// Name of the copy.
    pub name: String,
}

/// Naming of copies: a pattern each for the namespace and the name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Naming {
    namespace: Pattern,
    name: Pattern,
}

/// Error for a pattern whose result depguard can't compute.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "depguard can't compute the template action `{action}` of `{pattern}`: write only `{{{{ .ClusterName }}}}`, \
     `{{{{ .ClusterPath }}}}`, `{{{{ .Object.metadata.name }}}}` and `{{{{ .Object.metadata.namespace }}}}`, the last two \
     also with `| sha3short` or `| shortHash`"
)]
#[non_exhaustive]
pub struct NamingError {
    /// The pattern as it was written.
    pub pattern: String,
    /// The part of the pattern that depguard can't compute.
    pub action: String,
}

/// Reason why an object's copy has no name; the agent fails on it, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum NoName {
    /// The object has no namespace, but a template asks for one.
    #[error("the template needs a namespace, but the object has none: write a naming without it")]
    NoNamespace,
    /// The workspace's path is unknown, but a template asks for it.
    #[error("the template needs the workspace's path: give it as the original's `path`")]
    NoPath,
}

impl Agent {
    /// Returns the agent whose PublishedResources are of this group.
    pub fn of_group(group: &str) -> Option<Self> {
        [Self::Servlet, Self::SyncAgent].into_iter().find(|agent| agent.group() == group)
    }

    /// Returns the group of the agent's PublishedResources.
    pub fn group(self) -> &'static str {
        match self {
            Self::Servlet => "services.kdp.k8c.io",
            Self::SyncAgent => "syncagent.kcp.io",
        }
    }

    /// Returns the labels by which the agent finds an object's copy on the service cluster.
    ///
    /// A Servlet's labels hold the namespace and the name themselves. A sync agent's labels hold their SHA-1, as labels
    /// are short.
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
            // A Servlet writes an empty label.
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
        [Pattern::new(self, [value(Value::Cluster, Hash::None)]), Pattern::new(self, name)]
    }
}

impl Naming {
    /// Returns the naming of an agent whose PublishedResource defines none: a namespace for each logical cluster, and
    /// hashes of namespace and name.
    pub fn default_of(agent: Agent) -> Self {
        let [namespace, name] = agent.default_patterns();
        Self { namespace, name }
    }

    /// Parses the patterns in `spec.naming`. A pattern that is absent or empty has its default.
    ///
    /// depguard computes those templates of a sync agent that stand for the older `$placeholders` or the workspace's
    /// path. Any other template is a [`NamingError`].
    pub fn parse(agent: Agent, namespace: Option<&str>, name: Option<&str>) -> Result<Self, NamingError> {
        let default = Self::default_of(agent);
        let parse = |written: Option<&str>, default| match written.filter(|written| !written.is_empty()) {
            Some(written) => Pattern::parse(agent, written),
            None => Ok(default),
        };
        Ok(Self { namespace: parse(namespace, default.namespace)?, name: parse(name, default.name)? })
    }

    /// Returns the namespace and the name of an object's copy, if the copy is made now.
    pub fn copy(&self, original: &Original<'_>) -> Result<Copied, NoName> {
        Ok(Copied { namespace: self.namespace.fill(original)?, name: self.name.fill(original)? })
    }
}

/// Returns the first 20 hexadecimal digits of a text's SHA-1, which `$remoteNameHash` stands for.
pub fn short_sha1(text: &str) -> String {
    format!("{:.20x}", Sha1::digest(text))
}

/// Returns the first 20 hexadecimal digits of a text's SHA3-256, which a template's `sha3short` computes.
pub fn short_sha3(text: &str) -> String {
    format!("{:.20x}", Sha3_256::digest(text))
}

#[cfg(test)]
mod tests;
