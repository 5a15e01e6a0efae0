//! The order of each crate's modules: a module imports only from those below it.
//!
//! Without such an order every module ends up importing every other, and nobody can read one part of a crate by itself.

use std::fs;
use std::path::Path;

use crate::files;

struct Crate {
    name: &'static str,
    /// Modules of `lib.rs`, from top to bottom.
    modules: &'static [&'static str],
}

const CRATES: &[Crate] = &[
    Crate {
        name: "depguard-core",
        modules: &[
            "guards",
            "evaluation",
            "interlock",
            "lookup",
            "freshness",
            "applicability",
            "probe",
            "schema",
            "rule",
            "protocol",
            "scan",
            "graph",
            "model",
        ],
    },
    Crate { name: "depguard-kcp", modules: &["cli", "process", "watch", "tenancy", "http", "options", "builder"] },
    Crate {
        name: "depguard-controller",
        modules: &[
            "cli",
            "controller",
            "uninstall",
            "manifests",
            "packs",
            "owners",
            "locks",
            "references",
            "rules",
            "interlock",
            "probe",
            "runtime",
            "schema",
            "leader",
            "config",
            "model",
            "testing",
        ],
    },
    Crate {
        name: "depguard-webhook",
        modules: &[
            "cli", "webhook", "service", "reads", "coalesce", "traces", "metrics", "rules", "ports", "server",
            "limits", "config",
        ],
    },
    Crate { name: "kubectl-depguard", modules: &["cli", "commands", "engine", "cluster", "options", "io"] },
    Crate {
        name: "depguard-testbed",
        modules: &[
            "testbed",
            "controllers",
            "api_server",
            "write",
            "read",
            "auth",
            "request",
            "world",
            "kinds",
            "store",
            "protocol",
            "transport",
            "options",
            "log_buffer",
        ],
    },
    Crate {
        name: "e2e",
        modules: &[
            "runner",
            "depguard",
            "world",
            "ring",
            "suite",
            "tools",
            "document",
            "generated",
            "tally",
            "selection",
            "certificate",
            "played",
            "api",
            "outcome",
        ],
    },
];

#[test]
fn modules_import_only_from_those_below() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for Crate { name, modules } in CRATES {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
        for file in files(&source, "rs") {
            let path = file.strip_prefix(&source).unwrap().with_extension("");
            let path: Vec<_> = path.iter().map(|part| part.to_str().unwrap()).collect();
            if path == ["lib"] || path == ["main"] || path == ["testing"] || path.contains(&"tests") {
                continue;
            }
            let imports = imports(&fs::read_to_string(&file).unwrap());
            seen += imports.len();
            wrong.extend(
                imports
                    .iter()
                    .filter_map(|import| against(modules, &path, import))
                    .map(|why| format!("{}: {why}", file.strip_prefix(&source).unwrap().display())),
            );
        }
    }
    assert!(seen > 300, "of {seen} imports nothing can be told");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn lib_rs_lists_the_modules_in_this_order() {
    for Crate { name, modules } in CRATES {
        let lib = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src/lib.rs");
        let lib = fs::read_to_string(lib).unwrap();
        let listed: Vec<_> = lib
            .lines()
            .filter_map(|line| line.strip_prefix("pub ").unwrap_or(line).strip_prefix("mod ")?.strip_suffix(';'))
            .collect();
        assert_eq!(listed, *modules, "{name}");
    }
}

#[test]
fn the_page_about_it_names_the_same_modules_and_files_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    for Crate { name, modules } in CRATES {
        let about = page.split(&format!("**{name}**")).nth(1).unwrap_or_else(|| panic!("nothing about {name}"));
        let end = about.find("\n**").or_else(|| about.find("\nEach `lib.rs`")).unwrap();
        let named: Vec<_> = about[..end].split('`').skip(1).step_by(2).collect();
        assert_eq!(named, *modules, "{name}");
    }
    let links: Vec<_> = page.split("](").skip(1).filter_map(|link| link.split(')').next()).collect();
    assert!(links.len() > 30, "{links:?}");
    for link in links {
        assert!(root.join(link).exists(), "{link}");
    }
}

#[test]
fn an_import_that_runs_up_is_seen() {
    let modules = ["upper", "lower"];
    let said = |file: &[&str], code: &str| {
        let found = imports(code);
        found.iter().filter_map(|import| against(&modules, file, import)).collect::<Vec<_>>()
    };
    for code in [
        "use crate::upper::Thing;",
        "pub(crate) use crate::{lower::A, upper::B};",
        "use crate::{\n    lower::A,\n    upper::{B, c::D},\n};",
        "fn f() { crate::upper::f() }",
    ] {
        assert_eq!(said(&["lower", "a"], code), ["imports `upper`, which stands above `lower`"], "{code}");
    }
    assert_eq!(said(&["lower", "a"], "use crate::Thing;"), ["imports `Thing`, which is no module of the crate"]);
    assert_eq!(said(&["lower", "a"], "use super::super::upper::A;"), ["leaves `lower` by `super`: begin at `crate`"]);
    assert_eq!(said(&["lower"], "use super::upper::A;"), ["leaves `lower` by `super`: begin at `crate`"]);
    for (file, code) in [
        (&["upper", "a"][..], "use crate::lower::A; use crate::{lower::{B, C}, upper::D};"),
        (&["lower", "a"], "use super::b::B; use crate::lower::C; // not crate::upper"),
        (&["lower", "a"], "#[cfg(test)]\nmod tests {\n    use super::*;\n    use crate::upper::A;\n}\n"),
    ] {
        assert_eq!(said(file, code), Vec::<String>::new(), "{code}");
    }
}

/// Returns the complaint about an import of a file, given as the file's module path.
fn against(modules: &[&str], file: &[&str], import: &Import) -> Option<String> {
    let module = file[0];
    let own = modules.iter().position(|known| *known == module);
    match import {
        Import::Up(levels) => {
            (*levels >= file.len()).then(|| format!("leaves `{module}` by `super`: begin at `crate`"))
        }
        Import::Absolute(name) => match (own, modules.iter().position(|known| known == name)) {
            (None, _) => Some(format!("`{module}` is no module of the list")),
            (_, None) => Some(format!("imports `{name}`, which is no module of the crate")),
            (Some(own), Some(other)) => {
                (other < own).then(|| format!("imports `{name}`, which stands above `{module}`"))
            }
        },
    }
}

#[derive(Debug)]
enum Import {
    /// First name after `crate::`.
    Absolute(String),
    /// Number of `super::` in a row.
    Up(usize),
}

/// Reads the imports of code outside its tests; tests may import everything.
fn imports(code: &str) -> Vec<Import> {
    let code = code.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let code: String = code.lines().map(|line| format!("{}\n", line.split("//").next().unwrap_or_default())).collect();
    let mut found = Vec::new();
    let mut rest = code.as_str();
    while let Some(at) = rest.find("crate::") {
        rest = &rest[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            Some(group) => found.extend(heads(group).into_iter().map(Import::Absolute)),
            None => found.push(Import::Absolute(word(rest).to_owned())),
        }
    }
    let mut rest = code.as_str();
    while let Some(at) = rest.find("super::") {
        let run = &rest[at..];
        let levels = run.as_bytes().chunks("super::".len()).take_while(|chunk| *chunk == b"super::").count();
        found.push(Import::Up(levels));
        rest = &run[levels * "super::".len()..];
    }
    found
}

/// Returns the first name of each member of a group of imports; `group` begins after the opening brace.
fn heads(group: &str) -> Vec<String> {
    let (mut depth, mut begins) = (0, true);
    let mut heads = Vec::new();
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => begins = true,
            _ if depth == 0 && begins && !character.is_whitespace() => {
                heads.push(word(&group[at..]).to_owned());
                begins = false;
            }
            _ => {}
        }
    }
    heads
}

fn word(text: &str) -> &str {
    text.split(|character: char| !character.is_alphanumeric() && character != '_').next().unwrap_or_default()
}
