//! Runs the tests of a suite.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use depguard_core::{GroupResource, Namespace, RuleSet, Workspaces};
use serde::Serialize;
use serde_json::Value;

use super::suite::{By, Expect, Suite, Test, namespace_of};
use crate::answers::Answers;
use crate::disk::Disk;
use crate::judge::{Deletion, Judgment, Law, Referring, Server};
use crate::kinds::KindInfo;
use crate::outcome::Failure;
use crate::source::Source;
use crate::terminal::Terminal;

/// A suite, and what came of its tests.
#[derive(Debug, Serialize)]
pub(crate) struct Ran {
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) tests: Vec<Tested>,
}

/// What came of a test.
#[derive(Debug, Serialize)]
pub(crate) struct Tested {
    pub(crate) name: String,
    pub(crate) line: usize,
    #[serde(rename = "result")]
    outcome: &'static str,
    /// What was expected and is not so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) differences: Vec<Difference>,
}

/// Something that is not as it was expected.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Difference {
    pub(crate) what: &'static str,
    pub(crate) expected: String,
    pub(crate) got: String,
}

/// Who deletes, where a test says nothing.
const SOMEBODY: &str = "tester";
const GROUP: &str = "system:authenticated";

pub(crate) async fn run(suite: Suite, terminal: &mut Terminal) -> Result<Ran, Failure> {
    let Suite { name, file, namespace, documents, overrides, tests } = suite;
    let disk = Disk::new(documents, &namespace);
    twice(&disk)?;
    let rules = disk.rules();
    for broken in rules.parsed().filter_map(Result::err) {
        terminal.err().write_all(format!("{file}: a rule can't be used: {broken}\n").as_bytes())?;
    }
    let set = rules.set();
    let answers = Answers::of(&disk);
    let stage = Stage { source: Source::Disk(disk), answers, set, overrides, namespace };
    let mut tested = Vec::new();
    for (line, test) in tests {
        let differences = match stage.play(&test, &format!("{file}:{line}")).await {
            Ok(judgment) => differences(&test, &judgment),
            // The others are run all the same.
            Err(failure) => vec![Difference {
                what: "test",
                expected: "one that can be run".to_owned(),
                got: failure.message().to_owned(),
            }],
        };
        let outcome = if differences.is_empty() { "pass" } else { "fail" };
        tested.push(Tested { name: test.title(), line, outcome, differences });
    }
    Ok(Ran { name, file: file.to_string(), tests: tested })
}

/// Of two objects of one name a server would hold one, and nobody could say which.
fn twice(disk: &Disk) -> Result<(), Failure> {
    let mut seen = BTreeMap::new();
    for object in disk.objects() {
        let text = |pointer| object.value.pointer(pointer).and_then(Value::as_str);
        let name = (object.gvr.group_resource(), text("/metadata/namespace"), text("/metadata/name"));
        if let Some(first) = seen.insert(name, &object.origin) {
            return Err(Failure::new(format!("{}: this object is there already, at {first}", object.origin))
                .hint("give it another name, or take one of them away"));
        }
    }
    Ok(())
}

impl Tested {
    pub(crate) fn passed(&self) -> bool {
        self.differences.is_empty()
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, got {}", self.what, self.expected, self.got)
    }
}

/// All that a suite's tests share.
struct Stage {
    source: Source,
    answers: Answers,
    set: RuleSet,
    overrides: depguard_core::OverridePolicy,
    namespace: Namespace,
}

impl Stage {
    async fn play(&self, test: &Test, at: &str) -> Result<Judgment, Failure> {
        let namespace = match &test.namespace {
            Some(name) => namespace_of(name, at)?,
            None => self.namespace.clone(),
        };
        let (kind, object) = self.find(&test.delete, &namespace).await?;
        let mut answers = None;
        for named in &test.without {
            let (kind, object) = self.find(named, &namespace).await?;
            let group_resource: GroupResource = kind.gvr.group_resource();
            answers.get_or_insert_with(|| self.answers.clone()).remove(&group_resource, &object);
        }
        let By { user, groups } = test.by.clone().unwrap_or_default();
        let groups: Vec<_> = groups.into_iter().chain([GROUP.to_owned()]).collect();
        let law = Law { rules: &self.set, workspaces: &Workspaces::new(), overrides: &self.overrides };
        let deletion =
            Deletion { gvr: &kind.gvr, object: &object, user: user.as_deref().unwrap_or(SOMEBODY), groups: &groups };
        law.judge(deletion, Server::Memory(answers.as_ref().unwrap_or(&self.answers))).await
    }

    async fn find(&self, named: &str, namespace: &Namespace) -> Result<(KindInfo, Arc<Value>), Failure> {
        let Some((kind, name)) = named.split_once('/') else {
            return Err(Failure::new(format!("`{named}` names no object: write KIND/NAME, as in `vpc/a`")));
        };
        let kind = self.source.kind(kind).await?;
        let object = self.source.object(&kind, Some(namespace), name).await?.ok_or_else(|| {
            let kind = kind.gvr.group_resource();
            Failure::new(format!("there is no {kind}/{name} in namespace {namespace} among the suite's objects"))
        })?;
        Ok((kind, object))
    }
}

/// What is not as the test expects it. What it doesn't speak of may be anything.
fn differences(test: &Test, judgment: &Judgment) -> Vec<Difference> {
    let mut differences = Vec::new();
    let mut differs = |what, expected: String, got: String| differences.push(Difference { what, expected, got });
    let label = judgment.label();
    let as_expected = match test.expect {
        Expect::Allowed => judgment.allowed(),
        Expect::Denied => label == "referenced",
        other => label == other.as_str(),
    };
    if !as_expected {
        let told = judgment.message().map(|message| format!(": {message}")).unwrap_or_default();
        let got = match (judgment.allowed(), label) {
            (true, label) => format!("allowed ({label})"),
            (false, "referenced") => "denied".to_owned(),
            (false, label) => label.to_owned(),
        };
        differs("decision", test.expect.as_str().to_owned(), format!("{got}{told}"));
    }
    for (what, expected, got) in [
        ("blockers", &test.blockers, judgment.blockers()),
        ("warned", &test.warned, judgment.warned()),
        ("audited", &test.audited, judgment.audited()),
    ] {
        let Some(expected) = expected else { continue };
        let expected: BTreeSet<_> = expected.iter().cloned().collect();
        let found: BTreeSet<_> = got.who.iter().map(ToString::to_string).collect();
        if got.more || expected != found {
            differs(what, listed(&expected), list_of(&found, &got));
        }
    }
    if let Some(expected) = &test.message
        && judgment.message().as_ref() != Some(expected)
    {
        differs("message", expected.clone(), judgment.message().unwrap_or_else(|| "none".to_owned()));
    }
    if let Some(expected) = &test.warnings
        && judgment.warnings() != *expected
    {
        let listed = |warnings: &[String]| if warnings.is_empty() { "none".to_owned() } else { warnings.join("; ") };
        differs("warnings", listed(expected), listed(&judgment.warnings()));
    }
    differences
}

fn listed(names: &BTreeSet<String>) -> String {
    if names.is_empty() { "none".to_owned() } else { names.iter().cloned().collect::<Vec<_>>().join(", ") }
}

fn list_of(names: &BTreeSet<String>, referring: &Referring) -> String {
    let more = if referring.more { " and more than a refusal names" } else { "" };
    format!("{}{more}", listed(names))
}
