//! Cases of the corpus, read from the core's folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Case {
    #[serde(rename = "case")]
    pub(crate) name: String,
    pub(crate) rules: Value,
    #[serde(default)]
    pub(crate) objects: Vec<Value>,
    pub(crate) delete: Option<Value>,
    pub(crate) create: Option<Value>,
    pub(crate) update: Option<Update>,
    #[serde(default)]
    pub(crate) failure_policy: Option<String>,
    pub(crate) expect: Expected,
    twin: Option<Twin>,
}

/// Both states of an object that is updated.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Update {
    pub(crate) from: Value,
    pub(crate) to: Value,
}

#[derive(Debug, Clone, Deserialize)]
struct Twin {
    edit: BTreeMap<String, Value>,
    #[serde(default)]
    expect: Expected,
}

/// Decision as an API server shows it; without any field the change is allowed.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Expected {
    pub(crate) denied: Option<BTreeSet<String>>,
    pub(crate) missing: Option<BTreeSet<String>>,
    pub(crate) undecided: Option<String>,
    /// Reason why the change is allowed, unless it is the usual one.
    pub(crate) allowed: Option<String>,
    #[serde(default)]
    pub(crate) warned: BTreeSet<String>,
    pub(crate) message: Option<String>,
}

/// Kind that the cases use.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Kind {
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) namespaced: bool,
    #[serde(default = "yes")]
    pub(crate) served: bool,
}

fn yes() -> bool {
    true
}

/// Returns the kinds by their names.
pub(crate) fn kinds() -> BTreeMap<String, Kind> {
    #[derive(Deserialize)]
    struct Kinds {
        kinds: BTreeMap<String, Kind>,
    }
    let kinds: Kinds = serde_saphyr::from_str(&read("kinds.yaml")).unwrap();
    kinds.kinds
}

/// Returns every case, and every twin as a case of its own.
pub(crate) fn all() -> Vec<Case> {
    let mut files: Vec<_> = std::fs::read_dir(folder()).unwrap().map(|file| file.unwrap().file_name()).collect();
    files.sort();
    let mut all = Vec::new();
    for file in files.iter().map(|file| file.to_string_lossy()) {
        let Some(name) = file.strip_suffix(".yaml").filter(|name| *name != "kinds") else { continue };
        let cases: Vec<Case> = serde_saphyr::from_str(&read(&file)).unwrap_or_else(|why| panic!("{file}: {why}"));
        for case in cases {
            let case = Case { name: format!("{name}: {}", case.name), ..case };
            let twin = case.twin.as_ref().map(|twin| case.edited(twin));
            all.push(case);
            all.extend(twin);
        }
    }
    all
}

impl Case {
    fn edited(&self, twin: &Twin) -> Self {
        let Self { rules, objects, delete, create, update, failure_policy, .. } = self;
        let mut json = json!({
            "rules": rules, "objects": objects, "delete": delete, "create": create, "update": update,
            "failure_policy": failure_policy,
            "case": format!("{}, edited", self.name), "expect": {},
        });
        for (pointer, value) in &twin.edit {
            edit(&mut json, pointer, value);
        }
        Self { expect: twin.expect.clone(), ..Self::deserialize(json).unwrap() }
    }
}

/// Sets the value at a place, or removes it if the new value is `null`.
fn edit(json: &mut Value, pointer: &str, value: &Value) {
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    let last = last.replace("~1", "/");
    // Objects on the way may be missing.
    let mut here = json;
    for segment in parent.split('/').skip(1) {
        here = match here {
            Value::Array(list) => &mut list[segment.parse::<usize>().unwrap()],
            here => &mut here[segment.replace("~1", "/")],
        };
    }
    match here {
        Value::Array(list) if value.is_null() => drop(list.remove(last.parse().unwrap())),
        Value::Array(list) if last.parse() == Ok(list.len()) => list.push(value.clone()),
        Value::Array(list) => list[last.parse::<usize>().unwrap()] = value.clone(),
        here if value.is_null() => drop(here.as_object_mut().unwrap().remove(&last)),
        here => here[last] = value.clone(),
    }
}

fn read(file: &str) -> String {
    std::fs::read_to_string(folder().join(file)).unwrap()
}

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../depguard-core/tests/corpus"))
}
