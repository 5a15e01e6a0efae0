use std::collections::HashSet;

use proptest::prelude::*;
use roxmltree::Document;
use serde_json::Value;

use super::*;

const HOSTILE: &str = "a\n::error ::b%0A::set-output\r]]></failure><x y='z'/>&amp;\"\u{0}\u{1b}[31m,:\u{ffff}é";

fn list(text: &str) -> CheckList {
    let place = || Some(Place { file: text.to_owned(), line: 7 });
    let problem = |level, fails| Problem {
        code: "DG101",
        about: "path not in the schema",
        level,
        fails,
        place: place(),
        subject: text.to_owned(),
        title: text.to_owned(),
        message: text.to_owned(),
    };
    let check = |problems| Check { suite: text.to_owned(), name: text.to_owned(), place: place(), problems };
    CheckList {
        command: "lint",
        checks: vec![
            check(vec![]),
            check(vec![problem(Level::Error, true), problem(Level::Note, false)]),
            check(vec![Problem { place: None, ..problem(Level::Error, true) }]),
        ],
        gaps: vec![text.to_owned()],
    }
}

/// Checks what GitHub, GitLab, a reader of JUnit and a reader of SARIF find, whatever the text holds.
fn check_all(text: &str) {
    let list = list(text);
    let github = github::print(&list);
    assert_eq!(github.lines().count(), 4, "{github}");
    for line in github.lines() {
        assert!(line.starts_with("::error ") || line.starts_with("::notice "), "{line}");
        // The properties end at the first `::`, and the title is the last of them.
        let properties = line[2..].split("::").next().unwrap();
        assert!(properties.rsplit(',').next().unwrap().contains("title="), "{line}");
        assert!(!line.contains(|c: char| c.is_control()), "{line}");
    }

    let issues: Vec<Value> = serde_json::from_str(&gitlab::print(&list).unwrap()).unwrap();
    assert_eq!(issues.len(), 4);
    let fingerprints: HashSet<_> = issues.iter().map(|issue| issue["fingerprint"].as_str().unwrap()).collect();
    assert_eq!(fingerprints.len(), 4, "{issues:?}");
    for issue in &issues {
        assert!(["info", "minor", "major", "critical", "blocker"].contains(&issue["severity"].as_str().unwrap()));
        assert!(issue["location"]["path"].is_string() && issue["location"]["lines"]["begin"].is_u64(), "{issue}");
        assert!(issue["description"].as_str().unwrap().contains(text) && issue["check_name"].is_string(), "{issue}");
    }

    let sarif: Value = serde_json::from_str(&sarif::print(&list).unwrap()).unwrap();
    let run = &sarif["runs"][0];
    assert_eq!((&sarif["version"], run["results"].as_array().unwrap().len()), (&"2.1.0".into(), 3));
    assert_eq!(run["invocations"][0]["executionSuccessful"], false);
    let rules: Vec<_> = run["tool"]["driver"]["rules"].as_array().unwrap().iter().map(|rule| &rule["id"]).collect();
    for result in run["results"].as_array().unwrap() {
        assert!(rules.contains(&&result["ruleId"]), "{result}");
        assert!(["error", "warning", "note"].contains(&result["level"].as_str().unwrap()), "{result}");
        assert_eq!(result["message"]["text"], text);
        if let Some(uri) = result["locations"][0].pointer("/physicalLocation/artifactLocation/uri") {
            let is_of_uris = |c: char| c.is_ascii_alphanumeric() || "/-._~%:".contains(c);
            assert!(uri.as_str().unwrap().chars().all(is_of_uris), "{uri}");
            assert_eq!(result["locations"][0]["physicalLocation"]["region"]["startLine"], 7);
        }
    }

    let xml = junit::print(&list);
    let read = Document::parse(&xml).unwrap_or_else(|why| panic!("{why}: {xml}"));
    let root = read.root_element();
    assert_eq!(root.tag_name().name(), "testsuites");
    let counts = ["tests", "failures", "errors"].map(|name| root.attribute(name).unwrap().parse::<usize>().unwrap());
    let count = |name: &str| root.descendants().filter(|node| node.has_tag_name(name)).count();
    assert_eq!(counts, [count("testcase"), count("failure"), count("error")], "{xml}");
    assert_eq!((counts, count("system-out")), ([4, 2, 1], 1), "{xml}");
    let held: String =
        text.chars().map(|c| if "\t\n\r".contains(c) || is_of_xml(c) { c } else { '\u{fffd}' }).collect();
    for case in root.descendants().filter(|node| node.has_tag_name("testcase")).take(3) {
        assert_eq!((case.attribute("name"), case.attribute("file")), (Some(&*held), Some(&*held)), "{xml}");
        assert!(
            case.children()
                .all(|node| !node.is_element() || ["failure", "system-out"].contains(&node.tag_name().name()))
        );
    }
}

/// Returns true for a character that XML 1.0 can hold, control characters aside.
fn is_of_xml(c: char) -> bool {
    c >= ' ' && !['\u{fffe}', '\u{ffff}'].contains(&c)
}

#[test]
fn a_hostile_name_stays_a_name() {
    check_all(HOSTILE);
}

proptest! {
    #[test]
    fn any_name_stays_a_name(text in r#"(\PC|[\x00-\x1f]|::|%0A|]]>|<!--|&#0;|,|:|\\|/\./){1,20}"#) {
        check_all(&text);
    }
}

#[test]
fn each_format_in_full() {
    let mut list = list("x");
    list.gaps.clear();
    assert_eq!(
        github::print(&list),
        "::error file=x,line=7,title=x::x\n::notice file=x,line=7,title=x::x\n::error title=x::x\n"
    );
    assert_eq!(
        junit::print(&list),
        r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="3" failures="2" errors="0">
  <testsuite name="x" tests="3" failures="2" errors="0" skipped="0">
    <testcase name="x" classname="x" file="x" line="7"/>
    <testcase name="x" classname="x" file="x" line="7">
      <failure message="x">
x
</failure>
      <system-out>
x
</system-out>
    </testcase>
    <testcase name="x" classname="x" file="x" line="7">
      <failure message="x">
x
</failure>
    </testcase>
  </testsuite>
</testsuites>
"#
    );
    let sarif: Value = serde_json::from_str(&sarif::print(&list).unwrap()).unwrap();
    assert_eq!(sarif["runs"][0]["invocations"][0]["executionSuccessful"], true);
}

#[test]
fn a_path_is_a_uri() {
    let list = |file: &str| {
        let mut list = list("x");
        list.checks[1].problems[0].place = Some(Place { file: file.to_owned(), line: 1 });
        let sarif: Value = serde_json::from_str(&sarif::print(&list).unwrap()).unwrap();
        sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].clone()
    };
    assert_eq!(list("./rules/a b.yaml"), "rules/a%20b.yaml");
    assert_eq!(list("/rules/a:b%.yaml"), "file:///rules/a%3Ab%25.yaml");
}

#[test]
fn each_level_has_the_word_of_its_format() {
    for (level, words) in [
        (Level::Error, ["::error ", "major", "error"]),
        (Level::Warning, ["::warning ", "minor", "warning"]),
        (Level::Note, ["::notice ", "info", "note"]),
    ] {
        let mut list = list("x");
        list.checks[1].problems[0].level = level;
        let github = github::print(&list);
        let issues: Value = serde_json::from_str(&gitlab::print(&list).unwrap()).unwrap();
        let sarif: Value = serde_json::from_str(&sarif::print(&list).unwrap()).unwrap();
        assert!(github.starts_with(words[0]), "{github}");
        assert_eq!(issues[0]["severity"], words[1]);
        assert_eq!(sarif["runs"][0]["results"][0]["level"], words[2]);
    }
}

/// GitLab shows only the problems that a merge request adds. A line that moved adds none.
#[test]
fn a_problem_keeps_its_fingerprint_at_another_line_only() {
    let list = |line, message: &str| {
        let mut list = list("x");
        let problem = &mut list.checks[1].problems[0];
        (problem.place, problem.message) = (Some(Place { file: "x".to_owned(), line }), message.to_owned());
        let issues: Value = serde_json::from_str(&gitlab::print(&list).unwrap()).unwrap();
        assert_eq!(issues[0]["location"]["lines"]["begin"], line);
        issues[0]["fingerprint"].clone()
    };
    assert_eq!(list(1, "a"), list(2, "a"));
    assert_ne!(list(1, "a"), list(1, "b"));
}
