//! Commands that read files, beside a parser that drops what it reads.

use std::fmt::Write;
use std::hint::black_box;
use std::path::Path;

use serde_json::Value;
use tokio::runtime::Runtime;

use crate::rounds::{Way, compare as rounds};
use crate::{Result, Size, depguard};

const RULES: &str = "\
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: subnets}
spec:
  dependent: {group: network.example.com, version: v1, kind: Subnet, resource: subnets}
  dependencies:
  - {group: network.example.com, version: v1, resource: vpcs, kind: VPC, fieldRef: {path: .spec.vpc}}
---
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: machines}
spec:
  dependent: {group: compute.example.com, version: v1, kind: Machine, resource: machines}
  dependencies:
  - {group: network.example.com, version: v1, resource: subnets, kind: Subnet, fieldRef: {path: '.spec.nics[*].subnet'}}
";

/// Kinds that take turns. A Subnet refers to the VPC before it, a Machine to the Subnet before it.
const KINDS: [(&str, &str); 5] = [
    ("network.example.com/v1", "VPC"),
    ("network.example.com/v1", "Subnet"),
    ("compute.example.com/v1", "Machine"),
    ("v1", "Service"),
    ("v1", "ConfigMap"),
];

/// References among so many objects, of which there are as many as [`KINDS`].
const REFERENCES: usize = 2;

/// Prints the ratios for files.
pub(crate) fn compare(size: Size, runtime: &Runtime) -> Result {
    let folder = tempfile::tempdir()?;
    let (mut documents, mut list) = (String::new(), "apiVersion: v1\nkind: List\nitems:\n".to_owned());
    for index in 0..size.objects {
        let object = object(index);
        write!(documents, "---\n{object}")?;
        for (number, line) in object.lines().enumerate() {
            writeln!(list, "{} {line}", if number == 0 { '-' } else { ' ' })?;
        }
    }
    let path = |name: &str| folder.path().join(name);
    let (rules, one, many) = (path("rules.yaml"), path("list.yaml"), path("documents.yaml"));
    for (path, text) in [(&rules, RULES), (&one, &list), (&many, &documents)] {
        std::fs::write(path, text)?;
    }
    let parse = || {
        let mut parsed = 0;
        for document in documents.split("---\n").filter(|document| !document.is_empty()) {
            parsed += usize::from(black_box(serde_saphyr::from_str::<Value>(document)?).is_object());
        }
        if parsed == size.objects { Ok(()) } else { Err(format!("{parsed} objects").into()) }
    };
    let dangling = |file: &Path| reads(runtime, &["dangling"], &rules, file).map(drop);
    let graph = || {
        let arrows = reads(runtime, &["graph", "--objects"], &rules, &many)?.matches(" -> ").count();
        let expected = size.objects / KINDS.len() * REFERENCES;
        if arrows == expected { Ok(()) } else { Err(format!("{arrows} arrows, not {expected}").into()) }
    };
    let title = format!("{} objects in documents of a YAML file, {} MB", size.objects, documents.len() / 1_000_000);
    rounds(
        &title,
        size,
        vec![
            Way { name: "bare parse, on one core", run: Box::new(parse) },
            Way { name: "dangling", run: Box::new(|| dangling(&many)) },
            Way { name: "graph --objects", run: Box::new(graph) },
        ],
    )?;
    rounds(
        &format!("dangling, {} objects", size.objects),
        size,
        vec![
            Way { name: "documents, on all cores", run: Box::new(|| dangling(&many)) },
            Way { name: "one List, on one core", run: Box::new(|| dangling(&one)) },
        ],
    )
}

fn reads(runtime: &Runtime, command: &[&str], rules: &Path, file: &Path) -> Result<String> {
    let (rules, file) = (rules.display().to_string(), file.display().to_string());
    runtime.block_on(depguard(&[command, &["-f", &rules, "-f", &file]].concat()))
}

/// Returns an object of some 170 bytes, a kind after the other.
fn object(index: usize) -> String {
    let (api_version, kind) = KINDS[index % KINDS.len()];
    let before = index.saturating_sub(1);
    let content = match kind {
        "VPC" => "spec:\n  cidr: 10.0.0.0/8\n  region: eu-1\n".to_owned(),
        "Subnet" => format!("spec:\n  vpc: o{before}\n  cidr: 10.1.0.0/16\n"),
        "Machine" => format!("spec:\n  cpus: 4\n  nics:\n  - subnet: o{before}\n    primary: true\n"),
        "Service" => "spec:\n  selector:\n    app: shop\n  ports:\n  - port: 80\n".to_owned(),
        _ => "data:\n  mode: fast\n  level: debug\n".to_owned(),
    };
    format!(
        "apiVersion: {api_version}\nkind: {kind}\nmetadata:\n  name: o{index}\n  namespace: shop\n  labels:\n    app: shop\n    \
         tier: back\n{content}"
    )
}
