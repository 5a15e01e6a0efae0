//! Tests that docs/operations.md has each text by which a deletion can be refused, and docs/status.md each cause.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use depguard_core::protocol::{Cause, Prospect};

use crate::files;

/// Sources of the webhook's answers: the core, the webhook, and the part of `depguard-kcp` that answers while no rules
/// are loaded.
const SOURCES: [&str; 3] = ["depguard-core/src", "depguard-webhook/src", "depguard-kcp/src/watch/reflector"];

/// Files without such texts, and the reason. The test reads every other file, and so each new one.
const OTHERS: &[(&str, &str)] = &[
    ("depguard-core/src/rule/", "what is wrong with a rule follows `rule … can't be evaluated`, and is in its status"),
    (
        "depguard-core/src/guards/owners/spec.rs",
        "what is wrong with an owner follows `the GlobalOwner does not work as written`, and is in its status",
    ),
    ("depguard-core/src/interlock", "nothing: the webhook does not use the module yet"),
    ("depguard-core/src/model/names.rs", "the same"),
    ("depguard-core/src/model/api.rs", "schemas: what an API server says of a rule that it does not store"),
    ("depguard-core/src/model/schema.rs", "the same"),
    ("depguard-core/src/model/api/scalar.rs", "what is wrong with a rule follows `rule … can't be evaluated`"),
    ("depguard-core/src/schema", "what the status of a rule says, and `lint`"),
    ("depguard-core/src/guards/locks/wire.rs", "the same, of a lock"),
    ("depguard-core/src/model/field_path.rs", "the same"),
    ("depguard-core/src/model/name_pattern", "the same"),
    ("depguard-core/src/model/message_template.rs", "the same"),
    ("depguard-core/src/model/label_selector.rs", "the same, and what is wrong with a dependent's selector"),
    ("depguard-core/src/scan/json", "what is wrong with a page's JSON follows `not a list`"),
    ("depguard-core/src/scan/extract/", "the same"),
    ("depguard-core/src/protocol/printed_table.rs", "names of columns"),
    ("depguard-core/src/lookup/planner.rs", "what the log says of a lookup"),
    (
        "depguard-core/src/guards/locks/parse.rs",
        "what is wrong with a lock follows `… can't be used` or `the lock can't be read`",
    ),
    ("depguard-core/src/guards/locks/review.rs", "what is wrong with a review's JSON follows `not an AdmissionReview`"),
    ("depguard-core/src/probe/loaded_rules.rs", "what the controller is told"),
    ("depguard-core/src/probe/dispatch_canary.rs", "what the controller is told"),
    ("depguard-core/src/lookup/required_read.rs", "what the controller is told"),
    ("depguard-core/src/protocol/unreviewed.rs", "what the status of a rule or a lock says"),
    ("depguard-core/src/evaluation/decision/diagnostics.rs", "warnings"),
    ("depguard-webhook/src/cli.rs", "help"),
    ("depguard-webhook/src/main.rs", "why it does not start"),
    ("depguard-webhook/src/service/routes.rs", "why it does not start"),
    ("depguard-webhook/src/metrics", "help of metrics"),
    ("depguard-webhook/src/service/decision_log.rs", "what the log says"),
    ("depguard-webhook/src/service/denial_events", "what the log says"),
    ("depguard-webhook/src/service/generations.rs", "what the log says"),
    ("depguard-webhook/src/traces", "what the log says"),
    ("depguard-webhook/src/server", "why it does not start, and what the log says"),
    ("depguard-webhook/src/coalesce/batcher/simulation.rs", "a test"),
];

/// Texts that are no refusals, in files that also hold refusals.
const NO_REFUSALS: &[&str] = &[
    "field label not supported",
    "is not a known field selector",
    "text/plain; charset=utf-8",
    "404 page not found",
    "a request was rejected",
    "a review was refused",
    "not an AdmissionReview, by line … column …",
    "the server is going away",
    "the webhook is stopping",
    "--otlp-endpoint can't be used: …",
    "cannot listen on …: …; choose another by --…",
    "cannot set up TLS: …",
    "Connections of API servers",
    "Maximum of connections: further ones wait",
    "End of the first certificate of the served chain, in seconds since 1970",
    "the watch was silent for … s: beginning again",
];

#[test]
fn each_text_of_a_refusal_is_explained() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let document = fs::read_to_string(root.join("docs/operations.md")).unwrap();
    let (_, section) = document.split_once("## What each refusal means").unwrap();
    let section = plain(section.split("\n## ").next().unwrap());
    let mut unexplained = BTreeMap::new();
    let mut seen = 0;
    for file in SOURCES.iter().flat_map(|folder| module(&root.join(folder))) {
        let name = file.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
        if OTHERS.iter().any(|(other, _)| name.starts_with(other)) || name.contains("tests") {
            continue;
        }
        for text in texts(&fs::read_to_string(&file).unwrap()) {
            seen += 1;
            let is_there =
                |part: &str| !is_sentence(part) || section.contains(part.trim_matches([' ', ';', ':', '(', ')']));
            if !NO_REFUSALS.contains(&text.as_str()) && !plain(&text).split('…').all(is_there) {
                unexplained.entry(name.clone()).or_insert_with(Vec::new).push(text);
            }
        }
    }
    assert!(seen > 50, "of {seen} texts nothing can be told");
    assert!(unexplained.is_empty(), "docs/operations.md does not explain {unexplained:#?}");
}

#[test]
fn each_cause_is_explained() {
    let document = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/status.md")).unwrap();
    let (_, section) = document.split_once("## Which refusals pass by themselves").unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let rows: Vec<Vec<_>> =
        rows.map(|row| row.split('|').map(|cell| cell.trim_matches([' ', '`'])).collect()).collect();
    let explained: Vec<_> = rows.iter().map(|row| (row[0], row[1], row[2])).collect();
    let causes = Cause::ALL.iter().map(|cause| match (cause, cause.prospect()) {
        (_, Prospect::Lasts) => (cause.word(), "403", "no"),
        // The sender of such a review is unknown.
        (Cause::ReviewTooSlow | Cause::ReviewBrokenOff, Prospect::Passes) => (cause.word(), "403", "yes"),
        (_, Prospect::Passes) => (cause.word(), "429", "yes"),
    });
    assert_eq!(explained, causes.collect::<Vec<_>>());
}

#[test]
fn texts_are_found_in_code() {
    let code = "fn f() {\n  // \"not this one here\"\n  let c = '\"'; let s: &'static str = \"one \\\n    text `{a}` of {{many}}\";\n  \
        tracing::info!(a, \"not in the log\");\n  #[error(\"{0} went very {} wrong\")]\n  g(\"two words\", r#\"raw \"text\" as well\"#);\n}\n\
        #[cfg(test)]\nmod tests { \"nor of a test\" }";
    assert_eq!(texts(code), ["one text `…` of {many}", "… went very … wrong", "raw \"text\" as well"]);
}

/// Returns the files of a module.
fn module(folder: &Path) -> Vec<PathBuf> {
    let own = folder.with_extension("rs");
    own.is_file().then_some(own).into_iter().chain(files(folder, "rs")).collect()
}

/// Returns a text as a reader sees it: without marks of code, on one line.
fn plain(text: &str) -> String {
    text.replace(['`', '|'], "").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns true if a text has at least three words; keys and names have fewer.
fn is_sentence(text: &str) -> bool {
    let is_word = |word: &&str| word.chars().filter(|c| c.is_alphabetic()).count() > 1;
    text.split_whitespace().filter(is_word).count() > 2
}

/// Returns the literals with sentences, each with `…` in place of inserted values.
fn texts(code: &str) -> Vec<String> {
    let code = code.split("#[cfg(test)]").next().unwrap_or_default();
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find(['"', '\'', '/']) {
        let (before, here) = rest.split_at(at);
        let read = &code[..code.len() - here.len()];
        rest = &here[1..];
        if here.starts_with("//") {
            rest = here.find('\n').map_or("", |end| &here[end..]);
        } else if here.starts_with('\'') {
            // Either a lifetime or a character literal, which may be a quotation mark.
            rest = ["'\"'", "'\\\"'", "'/'", "'\\''"].iter().find_map(|c| here.strip_prefix(*c)).unwrap_or(rest);
        } else if here.starts_with('"') {
            let hashes = before.len() - before.trim_end_matches('#').len();
            let raw = before.trim_end_matches('#').ends_with('r') && !before.ends_with("for");
            let (text, after) = if raw { raw_literal(rest, hashes) } else { literal(rest) };
            rest = after;
            if is_sentence(&text) && !is_for_the_log(read) {
                found.push(text);
            }
        }
    }
    found
}

fn raw_literal(code: &str, hashes: usize) -> (String, &str) {
    let end = format!("\"{}", "#".repeat(hashes));
    let (text, after) = code.split_once(&end).unwrap_or((code, ""));
    (text.to_owned(), after)
}

/// Returns the text up to the closing quotation mark, and the code after the mark.
fn literal(code: &str) -> (String, &str) {
    let mut text = String::new();
    let mut characters = code.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (text, &code[at + 1..]),
            '\\' => match characters.next() {
                Some((_, '\n')) => while characters.next_if(|(_, next)| next.is_whitespace()).is_some() {},
                Some((_, escaped)) => text.push(escaped),
                None => {}
            },
            '{' | '}' if characters.next_if(|(_, next)| *next == character).is_some() => text.push(character),
            '{' => {
                while characters.next().is_some_and(|(_, inside)| inside != '}') {}
                text.push('…');
            }
            _ => text.push(character),
        }
    }
    (text, "")
}

/// Returns true if the statement of this literal logs, registers a metric, or says why something cannot be.
fn is_for_the_log(read: &str) -> bool {
    let statement = read.rsplit([';', '{', '}']).next().unwrap_or_default();
    ["tracing::", ".expect(", "reason = ", "register("].iter().any(|mark| statement.contains(mark))
}
