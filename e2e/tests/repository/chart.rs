//! The chart as registries show it: its metadata, and the table of its values.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use depguard_e2e::generated;
use serde_json::{Value, json};

use crate::chart_values::{Row, rows};
use crate::switching::leaves;

const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// The categories that Artifact Hub knows.
const CATEGORIES: [&str; 9] = [
    "ai-machine-learning",
    "database",
    "integration-delivery",
    "monitoring-logging",
    "networking",
    "security",
    "skip-prediction",
    "storage",
    "streaming-messaging",
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/depguard")
}

/// Returns true if the URL is one of a file here, such as `…/blob/main/README.md` with the branch `/blob/main/`.
pub(crate) fn is_in_the_repository(url: &str, branch: &str) -> bool {
    let path = url.strip_prefix(REPOSITORY).and_then(|path| path.strip_prefix(branch));
    path.is_some_and(|path| folder().join("../..").join(path).is_file())
}

fn metadata() -> Value {
    serde_saphyr::from_str(&fs::read_to_string(folder().join("Chart.yaml")).unwrap()).unwrap()
}

/// Returns the CustomResourceDefinitions of the chart, in the form of Artifact Hub's annotation.
fn definitions() -> BTreeSet<String> {
    let files = fs::read_dir(folder().join("files")).unwrap().map(|file| file.unwrap().path());
    let definitions = files
        .filter(|file| file.to_string_lossy().ends_with("crd.yaml"))
        .flat_map(|file| serde_saphyr::from_multiple::<Value>(&fs::read_to_string(file).unwrap()).unwrap());
    let described = definitions.map(|definition| {
        let (kind, version) = (&definition["spec"]["names"]["kind"], &definition["spec"]["versions"][0]);
        let text = version["schema"]["openAPIV3Schema"]["description"].as_str().unwrap();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let name = &definition["metadata"]["name"];
        json!({"kind": kind, "version": version["name"], "name": name, "displayName": kind, "description": text})
    });
    described.map(|definition| definition.to_string()).collect()
}

/// Returns what is wrong with the metadata in Chart.yaml.
fn faults(chart: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let mut must = |holds: bool, what: &str| {
        if !holds {
            faults.push(what.to_owned());
        }
    };
    let version = env!("CARGO_PKG_VERSION");
    must(chart["version"] == version && chart["appVersion"] == version, "version");
    must(chart["kubeVersion"].as_str().is_some_and(|range| range.starts_with(">=")), "kubeVersion");
    must(chart["home"] == REPOSITORY && chart["sources"] == json!([REPOSITORY]), "home, sources");
    must(chart["maintainers"][0]["name"].is_string(), "maintainers");
    let annotation = |name: &str| chart["annotations"][format!("artifacthub.io/{name}")].as_str().unwrap_or_default();
    let list = |name: &str| serde_saphyr::from_str::<Vec<Value>>(annotation(name)).unwrap_or_default();
    must(annotation("license") == env!("CARGO_PKG_LICENSE"), "license");
    must(annotation("prerelease") == version.contains('-').to_string(), "prerelease");
    must(CATEGORIES.contains(&annotation("category")), "category");
    let is_there = |url: &Value, branch: &str| url.as_str().is_some_and(|url| is_in_the_repository(url, branch));
    must(is_there(&chart["icon"], "/raw/main/"), "icon");
    let links = list("links");
    let is_link = |link: &Value| link["name"].is_string() && is_there(&link["url"], "/blob/main/");
    must(!links.is_empty() && links.iter().all(is_link), "links");
    let images = list("images");
    let tag = format!("/depguard:{version}");
    must(!images.is_empty() && images.iter().all(|image| image["image"].to_string().contains(&tag)), "images");
    let listed: BTreeSet<_> = list("crds").iter().map(Value::to_string).collect();
    must(listed == definitions(), "crds");
    faults
}

#[test]
fn the_chart_says_what_artifact_hub_shows() {
    let chart = metadata();
    assert_eq!(faults(&chart), [""; 0]);
    assert!(definitions().len() > 5);
    // Each of these is seen.
    let annotations = ["license", "prerelease", "category", "links", "images", "crds"];
    for name in annotations {
        let mut without = chart.clone();
        without["annotations"][format!("artifacthub.io/{name}")] = "[]".into();
        assert_eq!(faults(&without), [name]);
    }
    for (field, what) in
        [("appVersion", "version"), ("kubeVersion", "kubeVersion"), ("home", "home, sources"), ("icon", "icon")]
    {
        let mut without = chart.clone();
        without[field] = "https://example.com/docs/icon.svg".into();
        assert_eq!(faults(&without), [what]);
    }
}

/// `.ci/chart` adds an annotation to the end of the file.
#[test]
fn the_annotations_are_the_last_field_of_the_chart() {
    let text = fs::read_to_string(folder().join("Chart.yaml")).unwrap();
    let last = text.lines().rfind(|line| line.starts_with(|c: char| c.is_ascii_alphabetic()));
    assert_eq!(last, Some("annotations:"));
    assert!(text.ends_with("\"\n"), "a block that ends in an empty line would take the annotation in");
}

fn values() -> String {
    fs::read_to_string(folder().join("values.yaml")).unwrap()
}

#[test]
fn the_chart_s_page_has_each_value_with_its_default() {
    let values = values();
    let page = folder().join("README.md");
    let written = fs::read_to_string(&page).unwrap();
    let (before, _) = written.split_once("\n## Values\n").unwrap();
    let table: String = rows(&values).iter().map(Row::line).collect();
    let text = format!(
        "{before}\n## Values\n\n<!-- Generated from values.yaml: `DEPGUARD_WRITE=1 cargo test -p depguard-e2e --test repository chart` -->\n\n| value | default | meaning |\n|---|---|---|\n{table}"
    );
    generated::compare(&page, &text, "cargo test -p depguard-e2e --test repository chart").unwrap();
}

#[test]
fn each_value_has_a_row_and_each_row_a_meaning() {
    let text = values();
    let parsed: Value = serde_saphyr::from_str(&text).unwrap();
    let rows = rows(&text);
    for row in &rows {
        let value = row.path.split('.').try_fold(&parsed, |value, part| value.get(part));
        let default = row.default.as_deref().map(|default| serde_saphyr::from_str::<Value>(default).unwrap());
        assert_eq!(value, default.as_ref().or(value), "{}", row.path);
        let parent = row.path.rsplit_once('.').and_then(|(parent, _)| rows.iter().find(|row| row.path == parent));
        let is_explained = !row.meaning.is_empty() || parent.is_some_and(|parent| !parent.meaning.is_empty());
        assert!(is_explained, "values.yaml has no comment about {}", row.path);
    }
    let mut all = Vec::new();
    leaves(&parsed, "", &mut all);
    for value in &all {
        let has_row =
            |row: &Row| row.default.is_some() && (*value == row.path || value.starts_with(&format!("{}.", row.path)));
        assert!(rows.iter().any(has_row), "no row for {value}");
    }
    assert!(all.len() > 70 && rows.len() > 60, "{} values, {} rows", all.len(), rows.len());
}
