//! Latest refusals, from the logs of the webhook's pods, which have one `denied` line for each.

use depguard_core::model::percent_encode;
use depguard_kcp::Endpoint;
use k8s_openapi::jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{StatusReadFailure, unread};
use crate::cluster::resource_path::text;
use crate::io::age::since;
use crate::io::table::Table;

/// Number of lines that are read from the end of each log.
pub(super) const MAX_LINES: usize = 5000;
const PODS: &str = "labelSelector=app.kubernetes.io%2Fname%3Ddepguard%2Capp.kubernetes.io%2Fcomponent%3Dwebhook";

/// Deletion that the webhook refused, with its reasons.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Refusal {
    pub(super) time: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    cluster: String,
    namespace: String,
    name: String,
    kind: String,
    requester: String,
    decided: String,
    blockers: u64,
    rules: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    why: String,
    dry_run: bool,
}

/// Reads the latest refusals, at most `most`; `None` if no log could be read.
pub(super) async fn read(
    cluster: &Endpoint,
    namespace: &str,
    most: usize,
    unread_: &mut Vec<StatusReadFailure>,
) -> Option<Vec<Refusal>> {
    let pods = match cluster.list_json(&format!("/api/v1/namespaces/{namespace}/pods?{PODS}")).await {
        Ok(list) => list.items,
        Err(why) => {
            let right = format!("list pods in namespace {namespace}");
            unread_.push(unread("the last refusals", &right, &why));
            return None;
        }
    };
    let (mut refusals, mut read) = (Vec::new(), 0_usize);
    for pod in &pods {
        let name = text(pod, "/metadata/name");
        let path = format!(
            "/api/v1/namespaces/{namespace}/pods/{}/log?container=webhook&tailLines={MAX_LINES}",
            percent_encode(name)
        );
        let why = match cluster.get(&path).await {
            Ok(answer) if answer.status().is_success() => {
                refusals.extend(String::from_utf8_lossy(answer.body()).lines().filter_map(Refusal::parse));
                read = read.saturating_add(1);
                continue;
            }
            Ok(answer) if matches!(answer.status().as_u16(), 401 | 403) => {
                format!("you need the right to get pods/log in namespace {namespace}")
            }
            Ok(answer) => {
                let answer_text: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
                format!("HTTP {} {}", answer.status().as_u16(), text(&answer_text, "/message"))
            }
            Err(why) => why.to_string(),
        };
        unread_.push(StatusReadFailure {
            what: format!("the last refusals in the log of pod {name}"),
            why,
            is_vital: false,
        });
    }
    if read == 0 {
        if pods.is_empty() {
            let why = format!("no pod of the webhook is in namespace {namespace}");
            unread_.push(StatusReadFailure { what: "the last refusals".to_owned(), why, is_vital: false });
        }
        return None;
    }
    refusals.sort();
    Some(refusals.split_off(refusals.len().saturating_sub(most)))
}

pub(super) fn table(refusals: &[Refusal], now: Timestamp) -> Table {
    let mut table = Table::new(["REFUSED", "KIND", "NAMESPACE", "NAME", "BLOCKERS", "RULES", "BY", "WHY"]);
    // The latest refusal comes first, as users usually look for it.
    for refusal in refusals.iter().rev() {
        let age = format!("{} ago", since(&refusal.time, now));
        let tried =
            if refusal.dry_run { format!("{} (dry run)", refusal.requester) } else { refusal.requester.clone() };
        let why = if refusal.why.is_empty() { refusal.decided.clone() } else { refusal.why.clone() };
        table.push([
            age,
            refusal.kind.clone(),
            refusal.namespace.clone(),
            refusal.name.clone(),
            refusal.blockers.to_string(),
            refusal.rules.clone(),
            tried,
            why,
        ]);
    }
    table
}

impl Refusal {
    /// Parses a log line in either format; `None` if the line is no refusal.
    fn parse(line: &str) -> Option<Self> {
        let (time, fields) = match serde_json::from_str::<Map<String, Value>>(line) {
            Ok(object) => {
                let time = object.get("timestamp")?.as_str()?.to_owned();
                let fields = object.get("fields").and_then(Value::as_object).cloned().unwrap_or(object);
                (time, fields)
            }
            Err(_) => {
                let (time, rest) = line.split_once(' ')?;
                let (_, answer_text) = rest.split_once(": denied ")?;
                let mut fields = pairs(answer_text);
                fields.insert("message".to_owned(), Value::from("denied"));
                (time.to_owned(), fields)
            }
        };
        time.parse::<Timestamp>().ok()?;
        if fields.get("message").and_then(Value::as_str) != Some("denied") {
            return None;
        }
        let word = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        Some(Self {
            time,
            cluster: word("cluster"),
            namespace: word("namespace"),
            name: word("name"),
            kind: word("kind"),
            requester: word("requester"),
            decided: word("decided"),
            blockers: fields.get("blockers").and_then(Value::as_u64).unwrap_or_default(),
            rules: word("rules"),
            why: word("why"),
            dry_run: fields.get("dry_run").and_then(Value::as_bool).unwrap_or_default(),
        })
    }
}

/// Parses the pairs in a log line for people: `name="a b" blockers=2`.
fn pairs(text: &str) -> Map<String, Value> {
    let (mut pairs, mut rest) = (Map::new(), text.trim());
    while let Some((name, behind)) = rest.split_once('=') {
        let (value, left) = match behind.strip_prefix('"') {
            Some(quoted) => unquoted(quoted),
            None => {
                let (word, left) = behind.split_once(' ').unwrap_or((behind, ""));
                (serde_json::from_str(word).unwrap_or_else(|_| Value::from(word)), left)
            }
        };
        pairs.insert(name.trim().to_owned(), value);
        rest = left.trim_start();
    }
    pairs
}

/// Returns the text up to the closing quote, and the rest behind the quote.
fn unquoted(text: &str) -> (Value, &str) {
    let (mut value, mut escaped) = (String::new(), false);
    for (at, c) in text.char_indices() {
        match c {
            '"' if !escaped => return (Value::from(value), text.get(at.saturating_add(1)..).unwrap_or_default()),
            '\\' if !escaped => escaped = true,
            _ => {
                value.push(c);
                escaped = false;
            }
        }
    }
    (Value::from(value), "")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::io::terminal::Terminal;

    const TEXT: &str = r#"2026-11-22T01:02:03.000004Z  INFO depguard_webhook::service::decision_log: denied namespace="shop" name="a" kind="configmaps" requester="O \"B\"" dry_run=true decided="undecided" plan="pods=NamespaceScan" blockers=0 rules="" why="it failed: retry later" misfits=0"#;
    const JSON: &str = r#"{"timestamp":"2026-11-22T01:02:02Z","level":"INFO","message":"denied","cluster":"2x","namespace":"","name":"b","kind":"vpcs.network.example.com","requester":"admin","dry_run":false,"decided":"referenced","blockers":2,"rules":"2x/vm","misfits":0,"target":"depguard_webhook::service::decision_log"}"#;

    #[test]
    fn a_refusal_is_read_in_either_format() {
        let text = Refusal::parse(TEXT).unwrap();
        assert_eq!((text.namespace.as_str(), text.name.as_str(), text.requester.as_str()), ("shop", "a", "O \"B\""));
        assert_eq!((text.decided.as_str(), text.why.as_str()), ("undecided", "it failed: retry later"));
        assert!(text.dry_run);
        let json = Refusal::parse(JSON).unwrap();
        assert_eq!((json.cluster.as_str(), json.kind.as_str(), json.blockers), ("2x", "vpcs.network.example.com", 2));
        let now = "2026-11-22T01:03:03Z".parse().unwrap();
        let shown = table(&[json, text], now).render(&Terminal::captured("").0);
        let lines: Vec<_> = shown.lines().collect();
        assert!(lines[1].starts_with("60s ago   configmaps"), "{shown}");
        assert!(lines[1].ends_with("O \"B\" (dry run)   it failed: retry later"), "{shown}");
        assert!(lines[2].starts_with("61s ago   vpcs.network.example.com"), "{shown}");
    }

    #[test]
    fn other_lines_are_none() {
        let allowed = TEXT.replace(": denied ", ": allowed ");
        let quoting = JSON.replace(r#""message":"denied""#, r#""message":"allowed""#);
        let late = TEXT.replace("2026-11-22T01:02:03.000004Z", "yesterday");
        for line in ["", "denied", "{}", &allowed, &quoting, &late] {
            assert_eq!(Refusal::parse(line), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(noise in ".{0,80}", at in 0_usize..200) {
            let _ = Refusal::parse(&noise);
            let cut: String = TEXT.chars().take(at).chain(noise.chars()).collect();
            let _ = Refusal::parse(&cut);
        }
    }
}
