//! Skew: versions that differ, and the differences with which the programs work together.

use schemars::JsonSchema;
use serde::Serialize;

/// Skew between this program, the controller and the webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "state")]
pub(super) enum Skew {
    /// All have the same version.
    None,
    /// They work together.
    Supported {
        differences: Vec<String>,
    },
    Unsupported {
        differences: Vec<String>,
    },
    /// A version is unknown.
    Unknown,
}

/// Greatest difference of the minor versions of two programs that work together.
const MAX_MINOR_SKEW: u64 = 1;

impl Skew {
    pub(super) fn new(client: &str, controller: Option<&str>, webhook: Option<&str>) -> Self {
        let (Some(controller), Some(webhook)) = (controller, webhook) else { return Self::Unknown };
        let versions = [("client", client), ("controller", controller), ("webhook", webhook)];
        let pairs = [(0, 1), (0, 2), (1, 2)].map(|(one, other)| Some((versions.get(one)?, versions.get(other)?)));
        let (mut differences, mut is_supported) = (Vec::new(), true);
        for ((one, version), (other, other_version)) in pairs.into_iter().flatten() {
            if version == other_version {
                continue;
            }
            let (Some(left), Some(right)) = (minor(version), minor(other_version)) else { return Self::Unknown };
            is_supported &= left.0 == right.0 && left.1.abs_diff(right.1) <= MAX_MINOR_SKEW;
            differences.push(format!("{one} {version} and {other} {other_version}"));
        }
        match (differences.is_empty(), is_supported) {
            (true, _) => Self::None,
            (false, true) => Self::Supported { differences },
            (false, false) => Self::Unsupported { differences },
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            Self::None => "none".to_owned(),
            Self::Supported { differences } => format!("supported: {}", differences.join(", ")),
            Self::Unsupported { differences } => format!("not supported: {}", differences.join(", ")),
            Self::Unknown => "unknown".to_owned(),
        }
    }
}

/// Returns the major and the minor version of a semantic version.
fn minor(version: &str) -> Option<(u64, u64)> {
    let mut parts = version.split('.');
    let (major, minor) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    parts.next().map(|_| (major, minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_minor_version_apart_is_supported_and_an_unknown_one_is_never_equal() {
        for (client, controller, webhook, expected) in [
            ("0.2.0", Some("0.2.0"), Some("0.2.0"), "none"),
            (
                "0.2.0",
                Some("0.2.1"),
                Some("0.2.1"),
                "supported: client 0.2.0 and controller 0.2.1, client 0.2.0 and webhook 0.2.1",
            ),
            (
                "0.2.0",
                Some("0.2.0"),
                Some("0.1.9"),
                "supported: client 0.2.0 and webhook 0.1.9, controller 0.2.0 and webhook 0.1.9",
            ),
            (
                "0.2.0",
                Some("0.3.0"),
                Some("0.1.0"),
                "not supported: client 0.2.0 and controller 0.3.0, client 0.2.0 and webhook 0.1.0, controller 0.3.0 and webhook 0.1.0",
            ),
            (
                "1.2.0",
                Some("2.2.0"),
                Some("1.2.0"),
                "not supported: client 1.2.0 and controller 2.2.0, controller 2.2.0 and webhook 1.2.0",
            ),
            ("0.2.0", None, Some("0.2.0"), "unknown"),
            ("0.2.0", Some("0.2.0"), None, "unknown"),
            ("0.2.0", Some("latest"), Some("latest"), "unknown"),
        ] {
            assert_eq!(Skew::new(client, controller, webhook).text(), expected);
        }
    }
}
