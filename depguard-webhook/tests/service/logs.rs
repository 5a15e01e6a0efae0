//! Log lines of the service, as the binary writes them.

use depguard_kcp::cli::{LogFormat, to_writer};
use depguard_testbed::LogBuffer;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::{answer, at_once, causes, list, post, post_bytes, refused, review, service, unasked, vm};

const FORMATS: [LogFormat; 2] = [LogFormat::Text, LogFormat::Json];

/// Text that stands in objects, and must not get into a log.
const MARKER: &str = "for-nobodys-eyes";

/// Returns the review of an object with markers wherever its owner may write.
fn marked() -> Value {
    let mut review = review();
    let object = &mut review["request"]["oldObject"];
    object["spec"] = json!({"secret": MARKER, "list": [MARKER]});
    object["status"] = json!({"secret": MARKER});
    object["metadata"]["annotations"] = json!({"kcp.io/cluster": MARKER, "note": MARKER, MARKER: "x"});
    object["metadata"]["labels"] = json!({"secret": MARKER});
    object["metadata"]["finalizers"] = json!([MARKER]);
    review["request"]["object"] = object.clone();
    review["request"]["options"] = json!({"secret": MARKER});
    review
}

fn marked_vm(name: &str, vpc: &str) -> Value {
    let mut vm = vm(name, vpc);
    vm["spec"]["secret"] = json!(MARKER);
    vm["metadata"]["annotations"] = json!({"note": MARKER});
    vm["metadata"]["labels"] = json!({"secret": MARKER});
    vm
}

/// Logs one review at the finest level, and returns its one line about the decision.
async fn logged(format: LogFormat, items: &'static [&'static str]) -> String {
    let log = LogBuffer::default();
    let guard = to_writer(format, "trace", log.writer());
    let page = list(&items.iter().map(|name| marked_vm(name, "a")).collect::<Vec<_>>());
    let response = answer(service(at_once(move |_| page.clone())), post(&marked())).await;
    assert_eq!(response["allowed"], items.is_empty());
    drop(guard);
    let lines = log.lines();
    assert!(lines.iter().all(|line| !line.contains(MARKER)), "{lines:#?}");
    let decided: Vec<_> =
        lines.into_iter().filter(|line| line.contains("denied") || line.contains("allowed")).collect();
    let [line] = decided.as_slice() else { panic!("{decided:#?}") };
    line.clone()
}

#[tokio::test]
async fn a_denial_is_one_line_with_all_that_an_operator_asks_for() {
    let line = logged(LogFormat::Json, &["m1", "m2"]).await;
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&line["level"], &line["message"]), (&json!("INFO"), &json!("denied")), "{line}");
    for (field, value) in [
        ("namespace", json!("default")),
        ("name", json!("a")),
        ("kind", json!("vpcs.network.example.com")),
        ("rules", json!("virtualmachines")),
        ("blockers", json!(2)),
        ("requester", json!("alice")),
        ("decided", json!("referenced")),
        ("plan", json!("virtualmachines=FieldSelector")),
    ] {
        assert_eq!(line[field], value, "{field} of {line}");
    }
    assert!(line["timestamp"].is_string() && line.get("cluster").is_none(), "{line}");

    let line = logged(LogFormat::Text, &["m1", "m2"]).await;
    for part in [
        " INFO ",
        "denied",
        "namespace=\"default\"",
        "name=\"a\"",
        "kind=\"vpcs.network.example.com\"",
        "rules=\"virtualmachines\"",
        "blockers=2",
        "requester=\"alice\"",
    ] {
        assert!(line.contains(part), "`{part}` is not in {line}");
    }
    assert!(!line.contains('\u{1b}'), "colours are for terminals: {line:?}");
}

/// Most reviews are allowed.
#[tokio::test]
async fn what_is_allowed_is_no_more_than_a_line_for_whoever_debugs() {
    for format in FORMATS {
        let line = logged(format, &[]).await;
        assert!(line.contains("DEBUG") && !line.contains("INFO"), "{line}");
    }
}

#[tokio::test]
async fn of_what_is_no_review_is_logged_where_it_is_wrong_and_not_what_was_sent() {
    for format in FORMATS {
        let log = LogBuffer::default();
        let _guard = to_writer(format, "trace", log.writer());
        let wrong = json!({"request": {"uid": {MARKER: MARKER}}});
        service(unasked()).oneshot(post_bytes("/validate", wrong.to_string())).await.unwrap();
        let mut wrong = marked();
        wrong["request"]["oldObject"]["metadata"]["annotations"] = json!(MARKER);
        service(unasked()).oneshot(post(&wrong)).await.unwrap();
        let lines = log.lines();
        assert_eq!(lines.iter().filter(|line| line.contains("a request was rejected")).count(), 2, "{lines:#?}");
        assert!(lines.iter().all(|line| !line.contains(MARKER) && line.contains("column")), "{lines:#?}");
    }
}

/// The line holds the API server's words: the operator has to find the fault.
#[tokio::test]
async fn what_could_not_be_found_out_is_logged_with_why() {
    let log = LogBuffer::default();
    let _guard = to_writer(LogFormat::Json, "info", log.writer());
    let failing = service(at_once(|_| crate::response(403, &json!({"message": "no list for you"}))));
    let response = answer(failing, post(&marked())).await;
    refused(&response);
    let [line] = &log.lines()[..] else { panic!("{:?}", log.lines()) };
    let line: Value = serde_json::from_str(line).unwrap();
    assert!(line["why"].as_str().unwrap().contains("no list for you"), "{line}");
    assert_eq!((&line["decided"], &line["blockers"]), (&json!("undecided"), &json!(0)), "{line}");
    // The log says the same word as the answer.
    assert_eq!((&line["causes"], causes(&response)), (&json!("ReadForbidden"), vec!["ReadForbidden"]), "{line}");
}
