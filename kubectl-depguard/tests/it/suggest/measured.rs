//! Quality of the proposals: counts the found and the invented references on kinds that were not used to develop the
//! conventions. `held-out.txt` says for each field whether it refers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use kubectl_depguard::ExitStatus;
use serde_json::{Value, json};

use crate::suggest::suggest;

const TABLE: &str = include_str!("held-out.txt");

/// Kind with its schema.
struct Definition {
    group: String,
    version: String,
    kind: String,
    resource: String,
    scope: String,
    schema: Value,
}

/// Kinds of a project, with their true references: the path of each, and the kinds that it names.
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
            let [group, version, kind, resource, scope] = [group, version, kind, resource, scope].map(str::to_owned);
            let schema = json!({"type": "object", "properties": {}});
            project.definitions.push(Definition { group, version, kind, resource, scope, schema });
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
            project.truth.insert((definition.kind.clone(), path), kinds);
        }
    }
    projects
}

/// Builds the schema of a line, without the lists and maps around it.
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

/// Puts a schema at a place. Each name of the place ends with the lists and maps around its value.
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
    /// Correct references whose kinds can be known; `resolved` counts those with exactly these kinds.
    knowable: usize,
    resolved: usize,
}

impl Project {
    fn crds(&self) -> Vec<Value> {
        let crd = |Definition { group, version, kind, resource, scope, schema }: &Definition| {
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": format!("{resource}.{group}")},
                "spec": {"group": group, "scope": scope, "names": {"kind": kind, "plural": resource}, "versions": [
                    {"name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
        };
        self.definitions.iter().map(crd).collect()
    }

    /// Returns the name of a kind's resource: from its definition, or formed like the names in Kubernetes.
    fn resource(&self, kind: &str) -> String {
        if let Some(known) = self.definitions.iter().find(|known| known.kind == kind) {
            return format!("{}.{}", known.resource, known.group);
        }
        let lower = kind.to_lowercase();
        if lower.ends_with('s') { lower + "es" } else { lower + "s" }
    }

    fn is(&self, target: &str, kind: &str) -> bool {
        let resource = self.resource(kind);
        target == resource || !resource.contains('.') && target.split('.').next() == Some(&resource)
    }

    /// Returns the references that the command finds, by kind and path, with the targets of each.
    async fn found(&self, least: &str) -> BTreeMap<(String, String), BTreeSet<String>> {
        let args = ["-o", "json", "--min-confidence", least];
        let (status, out, err) = suggest(&self.crds(), &args).await;
        assert_eq!(status, ExitStatus::Well, "{err}");
        let printed: Value = serde_json::from_str(&out).unwrap();
        let mut found = BTreeMap::<_, BTreeSet<_>>::new();
        for proposal in printed["proposals"].as_array().unwrap() {
            let dependent = proposal["dependent"].as_str().unwrap();
            let named = |known: &&Definition| format!("{}.{}", known.resource, known.group) == dependent;
            let kind = &self.definitions.iter().find(named).unwrap().kind;
            for list in ["references", "unresolved"] {
                for reason in proposal[list].as_array().unwrap() {
                    let path = reason["path"].as_str().unwrap().to_owned();
                    let targets = found.entry((kind.clone(), path)).or_default();
                    targets.extend(reason["target"].as_str().map(str::to_owned));
                }
            }
        }
        found
    }
}

impl Counts {
    async fn measure(projects: &[Project], least: &str) -> Self {
        let mut counts = Self::default();
        for project in projects {
            counts.kinds += project.definitions.len();
            counts.truth += project.truth.len();
            for (place, targets) in project.found(least).await {
                counts.found += 1;
                let Some(truth) = project.truth.get(&place) else { continue };
                counts.right += 1;
                if !truth.contains("*") {
                    counts.knowable += 1;
                    let all = truth.iter().all(|kind| targets.iter().any(|target| project.is(target, kind)));
                    counts.resolved += usize::from(all && targets.len() == truth.len());
                }
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

#[tokio::test]
async fn the_figures_in_the_documentation_are_those_of_the_table() {
    let projects = projects();
    let mut rows = Vec::new();
    for least in ["high", "medium", "low"] {
        rows.push(Counts::measure(&projects, least).await.row(&format!("`{least}`")));
    }
    for project in &projects {
        rows.push(Counts::measure(std::slice::from_ref(project), "medium").await.row(&project.name));
    }
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/suggest.md");
    let text = std::fs::read_to_string(document).unwrap_or_default();
    for row in &rows {
        assert!(text.contains(row), "docs/suggest.md lacks\n{}", rows.join("\n"));
    }
}
