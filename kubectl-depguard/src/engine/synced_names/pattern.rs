//! Patterns: a namespace or a name with placeholders.

use super::{Agent, NamingError, NoName, Original, short_sha1, short_sha3};

/// Sequence of texts and placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    parts: Vec<Part>,
    /// True for a template: a missing value is an error, and surrounding space is cut off. Otherwise a missing value is
    /// empty, and nothing is cut off.
    is_template: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Text(String),
    Value(Value, Hash),
}

/// Value of an object that a placeholder stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    Cluster,
    Path,
    Namespace,
    Name,
}

/// Hash of which the first 20 hexadecimal digits are filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hash {
    None,
    Sha1,
    Sha3,
}

/// Placeholders in matching order: if one begins with another, the longer one comes first.
const PLACEHOLDERS: [(&str, Value, Hash); 5] = [
    ("$remoteClusterName", Value::Cluster, Hash::None),
    ("$remoteNamespaceHash", Value::Namespace, Hash::Sha1),
    ("$remoteNamespace", Value::Namespace, Hash::None),
    ("$remoteNameHash", Value::Name, Hash::Sha1),
    ("$remoteName", Value::Name, Hash::None),
];

impl Pattern {
    /// Builds an agent's default pattern from its parts.
    pub(super) fn new(agent: Agent, parts: impl Into<Vec<Part>>) -> Self {
        Self { parts: parts.into(), is_template: agent == Agent::SyncAgent }
    }

    /// Parses a pattern. A sync agent reads a text with `{{` as a template; in a template, `$placeholders` are plain
    /// text.
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

/// Splits a text at its `$placeholders`. Values that are filled in are never searched for placeholders.
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
        let known = action_of(action).filter(|_| from.contains("}}"));
        let (value, hash) =
            known.ok_or_else(|| NamingError { pattern: written.to_owned(), action: action.trim().to_owned() })?;
        parts.extend([Part::Text(text.to_owned()), Part::Value(value, hash)]);
        rest = after;
    }
    parts.push(Part::Text(rest.to_owned()));
    Ok(parts)
}

/// Reads a template action: a field, and the function that it is piped into.
fn action_of(action: &str) -> Option<(Value, Hash)> {
    // `{{-` also cuts off the space before it. Such an action matches no field below, and is not computed.
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
