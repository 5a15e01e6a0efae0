//! docs/switching.md: the chart values in its table exist in the chart.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Environment variable that names a folder with the reference's repository.
const REFERENCE: &str = "DEPGUARD_REFERENCE";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn yaml(path: &Path) -> Value {
    serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns the cells of the table of chart values.
fn rows() -> Vec<Vec<String>> {
    let page = fs::read_to_string(root().join("docs/switching.md")).unwrap();
    let section = page.split("\n## Chart values\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'));
    let rows: Vec<Vec<_>> =
        rows.skip(2).map(|row| row.split('|').map(|cell| cell.trim().to_owned()).collect()).collect();
    assert!(rows.len() > 15 && rows.iter().all(|row| row.len() == 3), "{rows:#?}");
    rows
}

/// Returns the values that a cell names.
fn named(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn exists(values: &Value, named: &str) -> bool {
    named.split('.').try_fold(values, |values, part| values.get(part)).is_some()
}

#[test]
fn the_values_that_take_the_place_of_the_references_exist() {
    let values = yaml(&root().join("charts/depguard/values.yaml"));
    let rows = rows();
    let ours: Vec<_> = rows.iter().flat_map(|row| named(&row[2])).collect();
    assert!(ours.len() > 20, "{ours:?}");
    for named in ours {
        assert!(exists(&values, named), "charts/depguard/values.yaml has no {named}");
    }
    assert!(!exists(&values, "webhook.nodePort"));
}

/// Returns the paths of all values that have no values below them.
pub(crate) fn leaves(values: &Value, at: &str, into: &mut Vec<String>) {
    match values.as_object().filter(|fields| !fields.is_empty()) {
        Some(fields) => {
            for (name, value) in fields {
                leaves(value, &if at.is_empty() { name.clone() } else { format!("{at}.{name}") }, into);
            }
        }
        None => into.push(at.to_owned()),
    }
}

#[test]
fn each_value_of_the_reference_has_a_row() {
    let Some(folder) = std::env::var_os(REFERENCE) else {
        println!("not run: {REFERENCE} names no folder with the reference's repository (docs/testing.md)");
        return;
    };
    let values = yaml(&Path::new(&folder).join("charts/dependency-controller/values.yaml"));
    let mut theirs = Vec::new();
    leaves(&values, "", &mut theirs);
    let rows = rows();
    let listed: Vec<_> = rows.iter().flat_map(|row| [named(&row[0]), named(&row[1])].concat()).collect();
    for value in &theirs {
        let is_listed = listed.iter().any(|listed| value == listed || value.starts_with(&format!("{listed}.")));
        assert!(is_listed, "docs/switching.md has no row for the reference's value {value}");
    }
}
