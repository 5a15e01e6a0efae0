//! docs/operations.md has each text by which a deletion can be refused.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Where what the webhook answers is written, and of the adapters what it answers while it has no rules.
const SOURCES: [&str; 3] = ["depguard-core/src", "depguard-webhook/src", "depguard-kcp/src/mirror"];

/// What holds no such text. A file that is not named here, such as a new one, is looked at.
const OTHERS: &[(&str, &str)] = &[
    ("depguard-core/src/rule/", "what is wrong with a rule follows `rule … can't be evaluated`, and is in its status"),
    ("depguard-core/src/names.rs", "the same"),
    ("depguard-core/src/naming", "what `kubectl depguard import` reports of names"),
    ("depguard-core/src/path.rs", "the same"),
    ("depguard-core/src/pattern", "the same"),
    ("depguard-core/src/message.rs", "the same"),
    ("depguard-core/src/selector.rs", "the same, and what is wrong with a dependent's selector"),
    ("depguard-core/src/ruleset.rs", "the same"),
    ("depguard-core/src/json", "what is wrong with a page's JSON follows `not a list`"),
    ("depguard-core/src/extract/", "the same"),
    ("depguard-core/src/table.rs", "names of columns"),
    ("depguard-core/src/plan.rs", "what the log says of a lookup"),
    (
        "depguard-core/src/locks/parse.rs",
        "what is wrong with a lock follows `… can't be used` or `the lock can't be read`",
    ),
    ("depguard-core/src/locks/review.rs", "what is wrong with a review's JSON follows `not an AdmissionReview`"),
    ("depguard-core/src/inquiry.rs", "what the controller is told"),
    ("depguard-core/src/canary.rs", "what the controller is told"),
    ("depguard-core/src/required_read.rs", "what the controller is told"),
    ("depguard-core/src/unreviewed.rs", "what the status of a rule or a lock says"),
    ("depguard-core/src/decision/notes.rs", "warnings"),
    ("depguard-webhook/src/cli.rs", "help"),
    ("depguard-webhook/src/main.rs", "why it does not start"),
    ("depguard-webhook/src/tls", "why it does not start, and what the log says"),
    ("depguard-webhook/src/paths.rs", "the same"),
    ("depguard-webhook/src/client_ca.rs", "the same"),
    ("depguard-webhook/src/metrics", "help of metrics"),
    ("depguard-webhook/src/gauges.rs", "help of metrics"),
    ("depguard-webhook/src/report.rs", "what the log says"),
    ("depguard-webhook/src/server", "what the log says"),
    ("depguard-webhook/src/lanes/simulation.rs", "a test"),
];

/// Texts beside refusals, in files that hold both.
const NO_REFUSALS: &[&str] = &[
    "field label not supported",
    "is not a known field selector",
    "text/plain; charset=utf-8",
    "404 page not found",
    "a request was rejected",
    "a review was refused",
    "not an AdmissionReview, by line … column …",
    "the server is going away",
    "it is stopping",
    "cannot listen on …: …; choose another by --…",
    "cannot set up TLS: …",
    "Connections of API servers",
    "Connections that there may be; further ones wait",
    "When the first certificate of the served chain ends, in seconds since 1970",
    "watch said nothing for … s: beginning anew",
];

#[test]
fn each_text_of_a_refusal_is_explained() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let document = fs::read_to_string(root.join("docs/operations.md")).unwrap();
    let (_, section) = document.split_once("## What each refusal means").unwrap();
    let section = plain(section.split("\n## ").next().unwrap());
    let mut unexplained = BTreeMap::new();
    let mut seen = 0;
    for file in SOURCES.iter().flat_map(|folder| files(&root.join(folder))) {
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
fn texts_are_found_in_code() {
    let code = "fn f() {\n  // \"not this one here\"\n  let c = '\"'; let s: &'static str = \"one \\\n    text `{a}` of {{many}}\";\n  \
        tracing::info!(a, \"not in the log\");\n  #[error(\"{0} went very {} wrong\")]\n  g(\"two words\", r#\"raw \"text\" as well\"#);\n}\n\
        #[cfg(test)]\nmod tests { \"nor of a test\" }";
    assert_eq!(texts(code), ["one text `…` of {many}", "… went very … wrong", "raw \"text\" as well"]);
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.with_extension("rs")];
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "rs") {
                found.push(entry);
            }
        }
    }
    found.retain(|file| file.is_file());
    found
}

/// As a reader sees it: without marks of code, on one line.
fn plain(text: &str) -> String {
    text.replace(['`', '|'], "").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Three words, as no key and no name has.
fn is_sentence(text: &str) -> bool {
    let is_word = |word: &&str| word.chars().filter(|c| c.is_alphabetic()).count() > 1;
    text.split_whitespace().filter(is_word).count() > 2
}

/// The literals that say something, each with `…` for what is put into it.
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
            // A lifetime, or a character: that may be a quotation mark.
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

/// The text up to the closing mark, and what follows it.
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

/// Whether the statement that begins before this literal logs, or says why something can't be.
fn is_for_the_log(read: &str) -> bool {
    let statement = read.rsplit([';', '{', '}']).next().unwrap_or_default();
    ["tracing::", ".expect(", "reason = ", "register("].iter().any(|mark| statement.contains(mark))
}
