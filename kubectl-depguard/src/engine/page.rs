//! Page about kinds, rules and objects: one HTML file that needs no network.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use serde::Serialize;

use crate::cluster::files::FileArgs;
use crate::cluster::source::Source;
use crate::engine::locks::Locks;
use crate::engine::reference_scan::{Coverage, DRAW_ONE_NAMESPACE, Follow, Scan, Scope};
use crate::io::exit::Failure;
use crate::io::terminal::Terminal;
use crate::options::Global;

mod data;

use self::data::{Data, FailureText, Origin};

const TEMPLATE: &str = include_str!("../../assets/page.html");
const STYLE: &str = include_str!("../../assets/page.css");
const SCRIPT: &str = include_str!("../../assets/page.js");

/// Limits on the objects and references of a page: a browser holds all of them.
const MAX_OBJECTS: usize = 100_000;
const MAX_REFERENCES: usize = 500_000;

/// Use of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageUse {
    /// File that nobody serves.
    File,
    /// Answer of a server that reads everything anew for each page.
    Served,
}

/// Reads all objects of kinds that rules name, in all namespaces that the caller may read, and writes a page about them.
/// Parts that could not be read stand on the page and in the coverage.
pub(crate) async fn page(
    source: &Source,
    global: &Global,
    files: &FileArgs,
    page_use: PageUse,
    terminal: &Terminal,
) -> Result<(String, Coverage), Failure> {
    let rules = source.rules().await?;
    let locks = Locks::read(source, None, terminal).await?;
    let fallback = source.namespace(global)?;
    let (labels, fallback) = (!locks.is_empty(), fallback.as_ref());
    let scope = Scope { labels, fallback, ..Scope::all(Follow::Dependents, DRAW_ONE_NAMESPACE) };
    let mut scan = Scan::read(source, &rules, scope, &[], terminal).await?;
    if let Some(nothing) = scan.coverage.nothing() {
        return Err(nothing);
    }
    if scan.objects.len() > MAX_OBJECTS || scan.references.len() > MAX_REFERENCES {
        return Err(Failure::new(format!(
            "a page can't hold {} objects with {} references; at most {MAX_OBJECTS} and {MAX_REFERENCES}",
            scan.objects.len(),
            scan.references.len(),
        ))
        .hint("draw the surroundings of one object: kubectl depguard graph --focus KIND/NAME -o svg"));
    }
    scan.coverage.miss(&locks.unread);
    let data = Data::new(&scan, &locks, Origin::new(global, files, page_use));
    Ok((html(&data)?, scan.coverage))
}

/// Writes a page that says why there is no other.
pub(crate) fn failure_page(failure: &Failure, global: &Global, files: &FileArgs) -> Result<String, Failure> {
    let text = FailureText::new(failure);
    html(&Data::from_failure(text, Origin::new(global, files, PageUse::Served)))
}

/// Returns the policy by which a browser runs the page's own script and nothing else, and loads nothing.
pub(crate) fn policy() -> String {
    let hash = |text: &str| STANDARD.encode(digest(&SHA256, text.as_bytes()));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        hash(SCRIPT),
        hash(STYLE),
    )
}

fn html(data: &impl Serialize) -> Result<String, Failure> {
    let (mut html, mut rest) = (String::new(), TEMPLATE);
    // In the order of the template, so that no marker is looked for in what was filled in.
    let parts =
        [("@POLICY@", policy()), ("@STYLE@", STYLE.into()), ("@DATA@", json(data)?), ("@SCRIPT@", SCRIPT.into())];
    for (marker, part) in parts {
        let Some((before, after)) = rest.split_once(marker) else { continue };
        html.push_str(before);
        html.push_str(&part);
        rest = after;
    }
    Ok(html + rest)
}

/// Writes JSON that can stand in a page: nothing in it can end a script, or a line of one.
fn json(data: &impl Serialize) -> Result<String, Failure> {
    let json = serde_json::to_string(data).map_err(|why| Failure::new(format!("could not write the page: {why}")))?;
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            // These occur in strings only, where an escape means the same.
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => escaped.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => escaped.push(c),
        }
    }
    Ok(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_string_ends_the_data() {
        for hostile in ["</script><img src=x onerror=alert(1)>", "<!--<script>", "\u{2028}\u{2029}&\"\\", "@SCRIPT@"] {
            let written = json(&[hostile]).unwrap();
            assert!(!written.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{written}");
            assert_eq!(serde_json::from_str::<Vec<String>>(&written).unwrap(), [hostile]);
            let page = html(&[hostile]).unwrap();
            assert_eq!(page.matches("</script>").count(), 2, "{hostile}");
            assert_eq!(page.matches("'use strict';").count(), 1, "{hostile}");
        }
    }
}
