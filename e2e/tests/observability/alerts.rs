//! The alert rules, as Prometheus reads them.

use serde::Deserialize;
use std::collections::BTreeMap;

/// A file of rules.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    groups: Vec<Group>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    #[serde(rename = "name")]
    _name: String,
    rules: Vec<Alert>,
}

/// One alert.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Alert {
    pub(crate) alert: String,
    pub(crate) expr: String,
    #[serde(rename = "for")]
    pub(crate) lasts: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
}

/// Reads all alerts of a file.
pub(crate) fn read(text: &str) -> Vec<Alert> {
    let file: File = serde_saphyr::from_str(text).unwrap();
    file.groups.into_iter().flat_map(|group| group.rules).collect()
}
