//! `lint`, `test` and `dangling` in CI: the formats that CI systems read, and coverage.

use std::path::{Path, PathBuf};

use kubectl_depguard::ExitStatus;
use roxmltree::Document;
use serde_json::Value;

use crate::tool::{Ran, depguard, write};

/// Text that ends a line, a command or an element in one format or another.
const HOSTILE: &str = r#"a\n::error ::b%0A]]></failure><x>&\"\u001b[31m\u0001,:"#;
const FORMATS: [&str; 4] = ["github", "gitlab", "junit", "sarif"];

const RULE: &str = r"
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: maps}
spec:
  dependent: {group: '', version: v1, kind: ConfigMap, resource: configmaps}
  dependencies:
  - {group: '', version: v1, resource: secrets, fieldRef: {path: .data.secret}}
  - {group: '', version: v1, resource: serviceaccounts, fieldRef: {path: .data.acount}}
";
const BROKEN: &str = "
---
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: broken}
spec: {}
";

/// Returns a ConfigMap that refers to a Secret of this name, at the second line.
fn map(name: &str, secret: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: ConfigMap, metadata: {{name: \"{name}\"}}, data: {{secret: \"{secret}\"}}}}\n"
    )
}

/// Returns a suite with one test of this name, which fails unless `expect` is `denied`.
fn suite(name: &str, expect: &str) -> String {
    format!(
        "name: \"{name}\"\nrules: [rules.yaml]\nobjects:\n- {{apiVersion: v1, kind: Secret, metadata: {{name: s}}}}\n- {{apiVersion: v1, kind: ConfigMap, metadata: {{name: c}}, data: {{secret: s}}}}\ntests:\n- {{name: \"{name}\", delete: secret/s, expect: {expect}}}\n"
    )
}

/// Runs the command on the folder, in this format.
async fn ran(folder: &Path, command: &str, format: &str) -> Ran {
    let path = folder.to_str().unwrap();
    let words: Vec<_> = command.split(' ').map(|word| word.replace("DIR", path)).collect();
    let args: Vec<_> = words.iter().map(String::as_str).chain(["-o", format]).collect();
    depguard(&args).await
}

/// Checks that the text has the form of its format. Returns the number of problems that fail the command.
fn failures(format: &str, text: &str) -> usize {
    match format {
        "github" => {
            for line in text.lines() {
                assert!(["::error ", "::warning ", "::notice "].iter().any(|begin| line.starts_with(begin)), "{text}");
                assert!(!line.contains(|c: char| c.is_control()), "{text}");
            }
            text.lines().filter(|line| line.starts_with("::error ")).count()
        }
        "gitlab" => {
            let issues: Vec<Value> = serde_json::from_str(text).unwrap();
            for issue in &issues {
                let strings = ["/description", "/check_name", "/fingerprint", "/severity", "/location/path"];
                assert!(strings.iter().all(|field| issue.pointer(field).is_some_and(Value::is_string)), "{issue}");
                assert!(issue["location"]["lines"]["begin"].as_u64().is_some_and(|line| line > 0), "{issue}");
            }
            issues.iter().filter(|issue| issue["severity"] == "major").count()
        }
        "junit" => {
            let document = Document::parse(text).unwrap_or_else(|why| panic!("{why}: {text}"));
            let cases = document.descendants().filter(|node| node.has_tag_name("testcase"));
            assert!(cases.count() > 0, "{text}");
            document.descendants().filter(|node| node.has_tag_name("failure")).count()
        }
        _ => {
            let log: Value = serde_json::from_str(text).unwrap();
            let run = &log["runs"][0];
            assert_eq!(log["version"], "2.1.0");
            assert!(run["tool"]["driver"]["name"].as_str().unwrap().starts_with("kubectl depguard "), "{log}");
            let results = run["results"].as_array().unwrap();
            assert!(results.iter().all(|result| result["message"]["text"].is_string()), "{log}");
            results.iter().filter(|result| result["level"] == "error").count()
        }
    }
}

#[tokio::test]
async fn a_problem_is_in_each_format_and_a_hostile_name_stays_a_name() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "rules.yaml", RULE);
    write(folder.path(), "broken.yaml", &RULE.replace("spec:\n", &format!("spec:\n  \"{HOSTILE}\": 1\n")));
    write(folder.path(), "objects.yaml", &map(HOSTILE, HOSTILE));
    write(folder.path(), "suite.yaml", &suite(HOSTILE, "allowed"));
    for command in
        ["lint -f DIR/broken.yaml", "test -f DIR/suite.yaml", "dangling -f DIR/rules.yaml -f DIR/objects.yaml"]
    {
        for format in FORMATS {
            let ran = ran(folder.path(), command, format).await;
            assert_eq!(ran.status, ExitStatus::Finding, "{command} {format}: {ran:?}");
            assert_eq!(failures(format, &ran.out), 1, "{command} {format}: {ran:?}");
        }
    }
}

#[tokio::test]
async fn without_a_problem_no_format_has_one() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "rules.yaml", RULE);
    write(folder.path(), "objects.yaml", "{apiVersion: v1, kind: Secret, metadata: {name: s}}");
    write(folder.path(), "map.yaml", &map("c", "s"));
    write(folder.path(), "suite.yaml", &suite("in use", "denied"));
    for command in [
        "lint -f DIR/rules.yaml",
        "test -f DIR/suite.yaml",
        "dangling -f DIR/rules.yaml -f DIR/objects.yaml -f DIR/map.yaml",
    ] {
        for format in FORMATS {
            let ran = ran(folder.path(), command, format).await;
            assert_eq!((ran.status, failures(format, &ran.out)), (ExitStatus::Well, 0), "{command} {format}: {ran:?}");
        }
    }
}

/// A rule that can't be used leaves it unknown whether references dangle: no report may look as if all were well.
#[tokio::test]
async fn an_incomplete_report_says_so() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "rules.yaml", &format!("{RULE}{BROKEN}"));
    write(folder.path(), "objects.yaml", "{apiVersion: v1, kind: Secret, metadata: {name: s}}");
    write(folder.path(), "map.yaml", &map("c", "s"));
    for (format, told) in [
        ("github", "::error title=incomplete::could not read rule broken"),
        ("gitlab", "\"check_name\": \"incomplete\""),
        ("junit", "<error message=\"could not read rule broken"),
        ("sarif", "\"executionSuccessful\": false"),
    ] {
        let ran = ran(folder.path(), "dangling -f DIR/rules.yaml -f DIR/objects.yaml -f DIR/map.yaml", format).await;
        assert_eq!(ran.status, ExitStatus::Failure, "{format}: {ran:?}");
        assert!(ran.out.contains(told), "{format}: {ran:?}");
    }
}

#[tokio::test]
async fn a_dangling_reference_has_the_place_of_its_dependent() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "rules.yaml", RULE);
    let file = write(folder.path(), "objects.yaml", &map("c", "gone"));
    let command = "dangling -f DIR/rules.yaml -f DIR/objects.yaml";
    let github = ran(folder.path(), command, "github").await;
    let told = format!(
        "::error file={},line=2,title=dangling reference::ConfigMap/default/c: data.secret refers to \
         Secret/default/gone, which does not exist (rule maps)\n",
        file.display()
    );
    assert_eq!(github.out, told);
    let json: Value = serde_json::from_str(&ran(folder.path(), command, "json").await.out).unwrap();
    assert_eq!(
        (&json["dangling"][0]["line"], &json["dangling"][0]["file"]),
        (&2.into(), &file.to_str().unwrap().into())
    );
}

#[tokio::test]
async fn a_path_that_matched_nothing_is_shown_by_coverage() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "rules.yaml", RULE);
    write(folder.path(), "objects.yaml", "{apiVersion: v1, kind: Secret, metadata: {name: s}}");
    write(folder.path(), "map.yaml", &map("c", "s"));
    let command = "dangling --coverage -f DIR/rules.yaml -f DIR/objects.yaml -f DIR/map.yaml";
    let wide = ran(folder.path(), command, "wide").await.well();
    assert_eq!(
        wide,
        "RULE   FIELD         DEPENDENTS   OBJECTS   REFERENCES\n\
         maps   data.secret   configmaps   1         1\n\
         maps   data.acount   configmaps   1         0\n"
    );
    let github = ran(folder.path(), command, "github").await.well();
    assert_eq!(github, "::notice title=path matched nothing::rule maps: `data.acount` is in none of 1 configmaps\n");
    let json: Value = serde_json::from_str(&ran(folder.path(), command, "json").await.well()).unwrap();
    assert_eq!(json["coverage"][1]["references"], 0, "{json}");
}

/// A target in another namespace is read, but nobody asked for its own references.
#[tokio::test]
async fn coverage_counts_paths_in_the_namespaces_that_were_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let rules = "  - {group: '', version: v1, resource: services, selectorRef: {path: .data.labels}}
  - {group: '', version: v1, resource: secrets, fieldRef: {path: .data.far, namespace: far}}
---
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: secrets}
spec:
  dependent: {group: '', version: v1, kind: Secret, resource: secrets}
  dependencies: [{group: '', version: v1, resource: serviceaccounts, fieldRef: {path: .data.account}}]
";
    write(folder.path(), "rules.yaml", &format!("{RULE}{rules}"));
    let objects = "\
{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: shop}, data: {account: a}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: a, namespace: shop}}
---
{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: far}, data: {account: gone}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: far}, data: {secret: s}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: shop}, data: {secret: s, far: s}}
";
    write(folder.path(), "objects.yaml", objects);
    let command = "dangling --coverage -n shop -f DIR/rules.yaml -f DIR/objects.yaml";
    // A rule that looks for labels in a text finds nothing, so nobody knows whether all was found.
    let wide = ran(folder.path(), command, "wide").await;
    assert_eq!(wide.status, ExitStatus::Failure, "{wide:?}");
    assert!(wide.err.contains("could not read the references of rule maps"), "{wide:?}");
    assert_eq!(
        wide.out,
        "RULE      FIELD          DEPENDENTS   OBJECTS   REFERENCES\n\
         maps      data.secret    configmaps   1         1\n\
         maps      data.acount    configmaps   1         0\n\
         maps      data.far       configmaps   1         1\n\
         secrets   data.account   secrets      1         1\n"
    );
}

#[tokio::test]
async fn a_reference_that_no_test_needs_is_shown_by_coverage() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "rules.yaml", RULE);
    write(folder.path(), "suite.yaml", &suite("in use", "denied"));
    let ran = async |format| ran(folder.path(), "test --coverage -f DIR/suite.yaml", format).await.well();
    let out = ran("wide").await;
    let table = "\nRULE   FIELD         TARGET            TESTS\n\
                 maps   data.acount   serviceaccounts   0\n\
                 maps   data.secret   secrets           1\n";
    assert!(out.contains(table), "{out}");
    let told = "::notice title=reference without a test::rule maps: the reference `data.acount` to serviceaccounts counts in no test\n";
    assert_eq!(ran("github").await, told);
    let json: Value = serde_json::from_str(&ran("json").await).unwrap();
    assert_eq!(json["coverage"][0]["tests"], 0, "{json}");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn yaml(file: &str) -> Value {
    serde_saphyr::from_str(&std::fs::read_to_string(root().join(file)).unwrap()).unwrap()
}

/// Checks that the command line knows these words.
fn assert_known(words: &[&str]) {
    let parsed = kubectl_depguard::command().try_get_matches_from(words);
    assert!(parsed.is_ok(), "{words:?}: {}", parsed.unwrap_err());
}

#[test]
fn the_hooks_call_commands_that_there_are() {
    let hooks = yaml(".pre-commit-hooks.yaml");
    let page = std::fs::read_to_string(root().join("docs/ci.md")).unwrap();
    for hook in hooks.as_array().unwrap() {
        let (id, entry) = (hook["id"].as_str().unwrap(), hook["entry"].as_str().unwrap());
        let args: &[&str] =
            if id == "depguard-lint" { &["-f", "rules/", "--schemas", "crds/"] } else { &["-f", "tests/"] };
        assert_known(&entry.split(' ').chain(args.iter().copied()).collect::<Vec<_>>());
        assert!(page.contains(&format!("`{id}`")), "docs/ci.md lacks {id}");
        assert_eq!((&hook["language"], &hook["pass_filenames"]), (&"system".into(), &false.into()));
    }
    assert_eq!(hooks.as_array().unwrap().len(), 3);
}

/// Runs a step of the action as GitHub does, with these inputs. Returns its exit code and output.
fn step(step: &Value, inputs: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = std::process::Command::new("bash");
    command.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"].as_str().unwrap()]);
    let program = Path::new(env!("CARGO_BIN_EXE_kubectl-depguard")).parent().unwrap();
    command.env("PATH", format!("{}:{}", program.display(), std::env::var("PATH").unwrap()));
    for (name, value) in step["env"].as_object().unwrap() {
        let from = value.as_str().unwrap().trim_start_matches("${{ ").trim_end_matches(" }}");
        let given = inputs.iter().find(|(input, _)| from == format!("inputs.{input}"));
        command.env(name, given.map_or("", |(_, value)| value));
    }
    let ran = command.output().unwrap();
    (ran.status.code(), String::from_utf8(ran.stdout).unwrap())
}

#[test]
fn the_action_checks_tests_and_finds() {
    let folder = tempfile::tempdir().unwrap();
    let [rules, objects, suites] = ["rules", "objects", "suites"].map(|name| {
        let path = folder.path().join(name);
        std::fs::create_dir(&path).unwrap();
        path
    });
    write(&rules, "rules.yaml", &RULE.replace("dependent:", "dependant:"));
    write(&objects, "objects.yaml", &map("c", "gone"));
    write(&suites, "suite.yaml", &suite("in use", "allowed"));
    write(&suites, "rules.yaml", RULE);
    let action = yaml("action.yml");
    let declared = action["inputs"].as_object().unwrap();
    let [rules, objects, suites] = [&rules, &objects, &suites].map(|path| path.to_str().unwrap());
    let inputs = [("rules", rules), ("objects", objects), ("suites", suites), ("schemas", ""), ("fail-on", "error")];
    assert!(inputs.iter().all(|(name, _)| declared.contains_key(*name)) && inputs.len() == declared.len());
    let steps = action["runs"]["steps"].as_array().unwrap();
    let [install, lint, test, dangling] = steps.as_slice() else { panic!("{steps:?}") };
    // The program is on the PATH, so that nothing is built.
    assert_eq!(step(install, &inputs).0, Some(0));
    let (code, out) = step(lint, &inputs);
    assert!(code == Some(1) && out.contains("title=DG001 unknown field::"), "{code:?} {out}");
    let (code, out) = step(test, &inputs);
    assert!(code == Some(1) && out.contains("title=not as expected%3A decision::"), "{code:?} {out}");
    // The rule is broken, so that nobody knows whether the reference dangles.
    assert_eq!(step(dangling, &inputs).0, Some(2));
    write(folder.path(), "rules/rules.yaml", RULE);
    let (code, out) = step(dangling, &inputs);
    assert!(code == Some(1) && out.contains("title=dangling reference::"), "{code:?} {out}");
    assert_eq!(step(lint, &inputs).0, Some(0));
    let none = folder.path().join("none");
    std::fs::create_dir(&none).unwrap();
    let empty = [
        ("rules", none.to_str().unwrap()),
        ("suites", none.to_str().unwrap()),
        ("fail-on", "error"),
        ("objects", objects),
    ];
    for step_ in [lint, test, dangling] {
        assert_eq!(step(step_, &empty).0, Some(2), "{step_}");
    }
}

/// A folder that was moved or is empty must not look as if all were well.
#[tokio::test]
async fn a_command_that_finds_nothing_to_look_at_fails_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    write(folder.path(), "rules.yaml", RULE);
    write(folder.path(), "object.yaml", "{apiVersion: v1, kind: Secret, metadata: {name: s}}");
    write(folder.path(), "other.yaml", "{apiVersion: v1, kind: Event, metadata: {name: e, namespace: x}}");
    write(folder.path(), "untested.yaml", "{rules: [rules.yaml], tests: []}");
    let commands = [
        "dangling -f DIR/empty",
        "dangling -f DIR/object.yaml",
        "dangling -f DIR/rules.yaml",
        "dangling -f DIR/rules.yaml -f DIR/other.yaml",
        "dangling --coverage -f DIR/rules.yaml -f DIR/other.yaml",
        "graph -f DIR/empty",
        "graph --objects -f DIR/rules.yaml -f DIR/other.yaml",
        "impact secret s -f DIR/object.yaml",
        "import published-resource -f DIR/empty",
        "lint -f DIR/empty",
        "lint -f DIR/object.yaml",
        "order -f DIR/empty",
        "suggest -f DIR/empty",
        "test -f DIR/empty",
        "test -f DIR/untested.yaml",
        "why secret s -f DIR/empty",
    ];
    for command in commands {
        let words: Vec<_> =
            command.split(' ').map(|word| word.replace("DIR", folder.path().to_str().unwrap())).collect();
        let ran = depguard(&words.iter().map(String::as_str).collect::<Vec<_>>()).await;
        assert_eq!(ran.status, ExitStatus::Failure, "{command}: {ran:?}");
        assert!(ran.err.contains("error: "), "{command}: {ran:?}");
    }
}
