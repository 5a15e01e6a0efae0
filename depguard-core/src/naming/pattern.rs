//! A namespace or a name with places to be filled.

use super::{Agent, NamingError, NoName, Original, short_sha1, short_sha3};

/// Parts one after another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    parts: Vec<Part>,
    /// What is not there is an error, and space around the whole is cut off. Else it is empty, and nothing is cut off.
    is_template: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Text(String),
    Value(Value, Hash),
}

/// What of an object is filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    Cluster,
    Path,
    Namespace,
    Name,
}

/// The first 20 hexadecimal digits of which hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hash {
    None,
    Sha1,
    Sha3,
}

/// In this order: where one begins with another, the longer one comes first.
const PLACEHOLDERS: [(&str, Value, Hash); 5] = [
    ("$remoteClusterName", Value::Cluster, Hash::None),
    ("$remoteNamespaceHash", Value::Namespace, Hash::Sha1),
    ("$remoteNamespace", Value::Namespace, Hash::None),
    ("$remoteNameHash", Value::Name, Hash::Sha1),
    ("$remoteName", Value::Name, Hash::None),
];

impl Pattern {
    /// How an agent fills in these parts by default.
    pub(super) fn of(agent: Agent, parts: impl Into<Vec<Part>>) -> Self {
        Self { parts: parts.into(), is_template: agent == Agent::SyncAgent }
    }

    /// A sync agent takes for a template what has a `{{`; its `$placeholders` stand for themselves there.
    pub(super) fn parse(agent: Agent, written: &str) -> Result<Self, NamingError> {
        if agent == Agent::SyncAgent && written.contains("{{") {
            template(written).map(|parts| Self { parts, is_template: true })
        } else {
            Ok(Self { parts: placeholders(written), is_template: false })
        }
    }

    pub(super) fn fill(&self, original: &Original<'_>) -> Result<String, NoName> {
        let mut filled = String::new();
        for part in &self.parts {
            let (value, hash) = match part {
                Part::Text(text) => {
                    filled.push_str(text);
                    continue;
                }
                Part::Value(value, hash) => (value, hash),
            };
            let value = match value {
                Value::Cluster => original.cluster,
                Value::Path => original.path.ok_or(NoName::NoPath)?,
                Value::Namespace if self.is_template => original.namespace.ok_or(NoName::NoNamespace)?,
                Value::Namespace => original.namespace.unwrap_or_default(),
                Value::Name => original.name,
            };
            match hash {
                Hash::None => filled.push_str(value),
                Hash::Sha1 => filled.push_str(&short_sha1(value)),
                Hash::Sha3 => filled.push_str(&short_sha3(value)),
            }
        }
        Ok(if self.is_template { filled.trim().to_owned() } else { filled })
    }
}

/// What is filled in is not looked at again.
fn placeholders(written: &str) -> Vec<Part> {
    let (mut parts, mut rest) = (Vec::new(), written);
    while let Some(at) = rest.find('$') {
        let (text, from) = rest.split_at(at);
        let found = PLACEHOLDERS.iter().find_map(|(name, value, hash)| Some((from.strip_prefix(name)?, *value, *hash)));
        parts.push(Part::Text(text.to_owned()));
        rest = match found {
            Some((after, value, hash)) => {
                parts.push(Part::Value(value, hash));
                after
            }
            None => {
                parts.push(Part::Text("$".to_owned()));
                from.strip_prefix('$').unwrap_or_default()
            }
        };
    }
    parts.push(Part::Text(rest.to_owned()));
    parts
}

fn template(written: &str) -> Result<Vec<Part>, NamingError> {
    let (mut parts, mut rest) = (Vec::new(), written);
    while let Some((text, from)) = rest.split_once("{{") {
        let unclosed = (from, "");
        let (action, after) = from.split_once("}}").unwrap_or(unclosed);
        let told = action_of(action).filter(|_| from.contains("}}"));
        let (value, hash) =
            told.ok_or_else(|| NamingError { pattern: written.to_owned(), action: action.trim().to_owned() })?;
        parts.extend([Part::Text(text.to_owned()), Part::Value(value, hash)]);
        rest = after;
    }
    parts.push(Part::Text(rest.to_owned()));
    Ok(parts)
}

/// A field, and by what it goes on.
fn action_of(action: &str) -> Option<(Value, Hash)> {
    // `{{-` cuts off the space before it: no part of a field begins so, and so it isn't told.
    let mut steps = action.split('|').map(str::trim);
    let value = match steps.next()? {
        ".ClusterName" => Value::Cluster,
        ".ClusterPath" => Value::Path,
        ".Object.metadata.namespace" => Value::Namespace,
        ".Object.metadata.name" => Value::Name,
        _ => return None,
    };
    let hash = match (steps.next(), value) {
        (None, _) => Hash::None,
        (Some("shortHash"), Value::Namespace | Value::Name) => Hash::Sha1,
        (Some("sha3short"), Value::Namespace | Value::Name) => Hash::Sha3,
        _ => return None,
    };
    steps.next().is_none().then_some((value, hash))
}
