//! Fields of Kubernetes' own kinds that may name an object, each with the rule that follows it or the reason why none does.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use depguard_controller::packs::RulePack;
use serde_json::Value;

use super::{OPENAPI, given, openapi};

/// Page in docs/packs with the table.
pub(crate) const PAGE: &str = "kubernetes-coverage.md";

/// Kinds that have a Pod's template, with its path: what a Pod's fields are is said of Pods once.
const TEMPLATES: [(&str, &str); 6] = [
    ("deployments", ".spec.template"),
    ("replicasets", ".spec.template"),
    ("statefulsets", ".spec.template"),
    ("daemonsets", ".spec.template"),
    ("jobs", ".spec.template"),
    ("cronjobs", ".spec.jobTemplate.spec.template"),
];

/// Field that the packs know: its path, which counts for all fields below, and the rule or the reason.
struct Known {
    path: String,
    said: String,
}

/// Returns the fields that the packs of Kubernetes follow or leave out, by resource.
fn known() -> BTreeMap<String, Vec<Known>> {
    let mut known: BTreeMap<String, Vec<Known>> = BTreeMap::new();
    for pack in RulePack::all().iter().filter(|pack| pack.name.starts_with("kubernetes-")) {
        for rule in pack.rules() {
            let (spec, name) = (&rule["spec"], rule["metadata"]["name"].as_str().unwrap());
            let resource = spec["dependent"]["resource"].as_str().unwrap();
            for dependency in spec["dependencies"].as_array().unwrap() {
                let paths = [&dependency["fieldRef"]["path"], &dependency["selectorRef"]["path"]];
                let Some(path) = paths.into_iter().find_map(Value::as_str).map(str::to_owned) else { continue };
                let said = format!("rule {name} of [{pack}]({pack}.md)", pack = pack.name);
                known.entry(resource.to_owned()).or_default().push(Known { path, said });
            }
        }
        for left in &pack.left_out {
            let entry = Known { path: left.path.clone(), said: format!("left out: {}", left.reason) };
            known.entry(left.resource.clone()).or_default().push(entry);
        }
    }
    known
}

/// Returns what the packs say of a field.
fn said_of<'k>(known: &'k BTreeMap<String, Vec<Known>>, resource: &str, path: &str) -> Option<&'k str> {
    let is_within = |whole: &str| {
        let below = path.strip_prefix(whole);
        below.is_some_and(|below| below.is_empty() || below.starts_with(['.', '[']))
    };
    let known = known.get(resource).into_iter().flatten().find(|known| is_within(&known.path));
    known.map(|known| known.said.as_str())
}

/// Fields of all kinds that may name an object by their own names, with what the packs say of each.
struct Coverage {
    rows: Vec<[String; 3]>,
    /// Fields of which the packs say nothing.
    missing: Vec<String>,
}

fn coverage(openapi: &Value) -> Coverage {
    let known = known();
    let mut coverage = Coverage { rows: Vec::new(), missing: Vec::new() };
    for definition in openapi::definitions(openapi) {
        let resource = definition["spec"]["names"]["plural"].as_str().unwrap();
        for path in openapi::candidates(&definition) {
            let of_template = TEMPLATES.iter().find(|(of, _)| *of == resource);
            let in_pod = of_template.and_then(|(_, template)| path.strip_prefix(template));
            let of_pods = || in_pod.filter(|path| said_of(&known, "pods", path).is_some());
            let said = match said_of(&known, resource, &path) {
                Some(said) => said.to_owned(),
                None => match of_pods() {
                    Some(path) => format!("as `{path}` of pods"),
                    None => {
                        coverage.missing.push(format!("{resource} {path}"));
                        continue;
                    }
                },
            };
            coverage.rows.push([resource.to_owned(), path, said]);
        }
    }
    coverage
}

fn read() -> Option<Value> {
    let openapi = given(OPENAPI)?;
    Some(serde_json::from_slice(&std::fs::read(openapi).unwrap()).unwrap())
}

/// Returns the page, if Kubernetes' OpenAPI is at hand.
pub(crate) fn table() -> Option<String> {
    let Coverage { rows, .. } = coverage(&read()?);
    let endings: Vec<_> = openapi::ENDINGS.iter().map(|ending| format!("`{ending}`")).collect();
    let mut page = format!(
        "<!-- Generated from the packs and Kubernetes' OpenAPI: `DEPGUARD_WRITE=1 cargo test -p kubectl-depguard --test it \
         packs` writes it anew. -->\n\n# What the packs say of Kubernetes' own fields\n\n\
         These are the strings in the stable API of Kubernetes whose fields have a name that ends with one of {},\nor with \
         its plural: {} fields. Each is in a rule, or the packs say why not; a test fails on a field that is neither.\n\n\
         The list goes by the names of fields, so a field of another name that names an object would be missing here.\n\
         `metadata`, `status` and the `name` by which elements of a list are told apart are not among them.\n\n\
         | kind | field | in the packs |\n|---|---|---|\n",
        endings.join(", "),
        rows.len(),
    );
    for [resource, path, said] in rows {
        let _ = writeln!(page, "| {resource} | `{path}` | {} |", said.replace('|', "\\|"));
    }
    Some(page)
}

#[test]
fn each_field_of_kubernetes_that_is_named_like_a_reference_is_in_a_rule_or_is_left_out_for_a_reason() {
    let Some(openapi) = read() else { return };
    let Coverage { rows, missing } = coverage(&openapi);
    assert!(missing.is_empty() && rows.len() > 500, "{} fields, missing: {missing:#?}", rows.len());
}
