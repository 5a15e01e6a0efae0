//! How many references are found, and how many invented, on kinds that were not looked at while the conventions were
//! written: `measured/held-out.txt`, where each field says whether it refers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use super::definition::{Definition, KindName};
use super::propose::references;
use super::reference::Confidence;
use super::targets::Kinds;

const TABLE: &str = include_str!("measured/held-out.txt");

/// The kinds of a project, and of each its true references: path, and the kinds they name.
#[derive(Default)]
struct Project {
    name: String,
    definitions: Vec<Definition>,
    truth: BTreeMap<(String, String), BTreeSet<String>>,
}

fn projects() -> Vec<Project> {
    let mut projects: Vec<Project> = Vec::new();
    let mut open: Vec<String> = Vec::new();
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix("== ") {
            projects.push(Project { name: name.to_owned(), ..Project::default() });
            continue;
        }
        let project = projects.last_mut().unwrap();
        let depth = line.len() - line.trim_start().len();
        let (fact, kinds) =
            line.trim().split_once(" -> ").map_or((line.trim(), None), |(fact, kinds)| (fact, Some(kinds)));
        let words: Vec<_> = fact.split(' ').collect();
        if depth == 0 {
            let [at, kind, resource, scope] = words[..] else { panic!("{line}") };
            let (group, version) = at.split_once('/').unwrap();
            let (group, version, kind, resource) = (group.into(), version.into(), kind.into(), resource.into());
            let name = KindName { group, version, kind, resource, namespaced: scope == "Namespaced" };
            project.definitions.push(Definition {
                name,
                export: None,
                schema: json!({"type": "object", "properties": {}}),
            });
            continue;
        }
        open.truncate(depth - 1);
        let (name, is) = (words[0], words.get(1).copied().filter(|is| !is.contains("enum") && !is.contains('=')));
        let lists = is.map_or("", |is| is.trim_end_matches(['o', 's', '-']));
        open.push(format!("{name}{lists}"));
        let definition = project.definitions.last_mut().unwrap();
        put(&mut definition.schema, &open, leaf(&words));
        if let Some(kinds) = kinds {
            let path: String =
                open.iter().map(|name| format!(".{}", name.replace("[]", "[*]").replace("{}", "[*]"))).collect();
            let kinds = kinds.split(',').map(str::to_owned).collect();
            project.truth.insert((definition.name.kind.clone(), path), kinds);
        }
    }
    projects
}

/// The schema of what a line says, without the lists and maps around it.
fn leaf(words: &[&str]) -> Value {
    let is = words.get(1).filter(|is| is.ends_with(['o', 's', '-']) && !is.contains('='));
    let mut schema = match is.and_then(|is| is.chars().last()) {
        Some('o') => json!({"type": "object", "properties": {}}),
        Some('-') => json!({"type": "integer"}),
        _ => json!({"type": "string"}),
    };
    for word in words.iter().skip(1) {
        match word.split_once('=') {
            Some(("enum", values)) => schema["enum"] = values.split(',').collect(),
            Some(("default", value)) => schema["default"] = json!(value),
            _ if *word == "enum" => schema["enum"] = json!([]),
            _ if *word == "format" => schema["format"] = json!("any"),
            _ => {}
        }
    }
    schema
}

/// Puts a schema at a place: names, each with the lists and maps that it is.
fn put(root: &mut Value, place: &[String], mut schema: Value) {
    let mut at = root;
    for (depth, step) in place.iter().enumerate() {
        let name = step.trim_end_matches(['[', ']', '{', '}']);
        let around = &step[name.len()..];
        if depth + 1 == place.len() {
            for end in (0..around.len()).step_by(2).rev() {
                schema = match &around[end..end + 2] {
                    "[]" => json!({"type": "array", "items": schema.take()}),
                    _ => json!({"type": "object", "additionalProperties": schema.take()}),
                };
            }
            at["properties"][name] = schema;
            return;
        }
        at = &mut at["properties"][name];
        for start in (0..around.len()).step_by(2) {
            at = &mut at[if &around[start..start + 2] == "[]" { "items" } else { "additionalProperties" }];
        }
    }
}

#[derive(Default)]
struct Counts {
    kinds: usize,
    truth: usize,
    found: usize,
    right: usize,
    /// Right ones whose kinds can be known, and those of which exactly these were named.
    knowable: usize,
    resolved: usize,
}

impl Counts {
    fn of(projects: &[Project], least: Confidence, verbose: bool) -> Self {
        let mut counts = Self::default();
        for project in projects {
            let kinds = Kinds::new(&project.definitions);
            counts.kinds += project.definitions.len();
            counts.truth += project.truth.len();
            let mut missed = project.truth.clone();
            for definition in &project.definitions {
                for found in references(definition, &kinds).into_iter().filter(|found| found.confidence >= least) {
                    counts.found += 1;
                    let named: BTreeSet<_> = found.targets.iter().map(|target| target.name.kind.clone()).collect();
                    let truth = missed.remove(&(definition.name.kind.clone(), found.path.clone()));
                    let knowable = truth.as_ref().is_some_and(|kinds| !kinds.contains("*"));
                    counts.right += usize::from(truth.is_some());
                    counts.knowable += usize::from(knowable);
                    counts.resolved += usize::from(knowable && truth.as_ref() == Some(&named));
                    if verbose && (truth.is_none() || knowable && truth.as_ref() != Some(&named)) {
                        println!(
                            "{} {} {} {:?} {named:?} {truth:?}",
                            project.name, definition.name.kind, found.path, found.confidence
                        );
                    }
                }
            }
            if verbose {
                missed.iter().for_each(|missed| println!("{} missed {missed:?}", project.name));
            }
        }
        counts
    }

    fn row(&self, name: &str) -> String {
        let Self { kinds, truth, found, right, knowable, resolved } = self;
        let percent =
            |part: usize, whole: usize| format!("{part} of {whole} ({} %)", (100 * part + whole / 2) / whole.max(1));
        let (recall, precision) = (percent(*right, *truth), percent(*right, *found));
        format!("| {name} | {kinds} | {recall} | {precision} | {} |", percent(*resolved, *knowable))
    }
}

#[test]
fn the_figures_in_the_documentation_are_those_of_the_table() {
    let projects = projects();
    let levels = [("high", Confidence::High), ("medium", Confidence::Medium), ("low", Confidence::Low)];
    let mut rows: Vec<_> = levels
        .iter()
        .map(|(name, least)| Counts::of(&projects, *least, *name == "low").row(&format!("`{name}`")))
        .collect();
    rows.extend(
        projects
            .iter()
            .map(|project| Counts::of(std::slice::from_ref(project), Confidence::Medium, false).row(&project.name)),
    );
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/suggest.md");
    let text = std::fs::read_to_string(document).unwrap_or_default();
    for row in &rows {
        assert!(text.contains(row), "docs/suggest.md lacks\n{}", rows.join("\n"));
    }
}
