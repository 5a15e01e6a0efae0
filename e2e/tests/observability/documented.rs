//! Metrics and headings in docs/operations.md.

use std::collections::{BTreeMap, BTreeSet};

/// A metric as documented in its row.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) kind: String,
    /// The labels, with their values if the row lists them.
    pub(crate) labels: BTreeMap<String, BTreeSet<String>>,
}

/// Reads the rows of all tables of metrics.
pub(crate) fn metrics(text: &str) -> BTreeMap<String, Row> {
    let rows = text.lines().filter(|line| line.starts_with("| `depguard_"));
    rows.map(|line| {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let [_, name, kind, labels, ..] = cells.as_slice() else { panic!("{line}") };
        let labels = labels.split(';').filter_map(|label| {
            let mut words = quoted(label);
            Some((words.next()?, words.collect()))
        });
        (name.trim_matches('`').to_owned(), Row { kind: (*kind).to_owned(), labels: labels.collect() })
    })
    .collect()
}

/// Returns the anchors of all headings.
pub(crate) fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-")).collect()
}

fn quoted(text: &str) -> impl Iterator<Item = String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned)
}
