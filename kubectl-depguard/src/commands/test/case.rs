//! Runs the tests of a suite.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use depguard_core::model::{GroupResource, Namespace};
use depguard_core::{RuleSet, Workspaces};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::coverage::{Coverage, SingleReference};
use super::suite::{Expect, Requester, Suite, Test, namespace_of};
use crate::cluster::kinds::KindInfo;
use crate::cluster::manifests::Manifests;
use crate::cluster::rules::Rules;
use crate::cluster::source::Source;
use crate::engine::offline_server::OfflineServer;
use crate::engine::simulated_delete::{Deletion, Judgment, Policies, ReferrerSet, Server};
use crate::io::exit::Failure;
use crate::io::terminal::Terminal;

/// Suite with the results of its tests.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SuiteResult {
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) tests: Vec<TestResult>,
}

/// Result of a test.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TestResult {
    pub(crate) name: String,
    pub(crate) line: usize,
    #[serde(rename = "result")]
    outcome: &'static str,
    /// Differences from the expectation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) differences: Vec<Difference>,
}

/// Difference between the expectation and the decision.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Difference {
    pub(crate) what: &'static str,
    pub(crate) expected: String,
    pub(crate) got: String,
}

/// User and group of a deletion, unless the test names them.
const SOMEBODY: &str = "tester";
const GROUP: &str = "system:authenticated";

/// Runs the tests, and records which references count in them if the user wants to know.
pub(crate) async fn run(
    suite: Suite,
    mut coverage: Option<&mut Coverage>,
    terminal: &mut Terminal,
) -> Result<SuiteResult, Failure> {
    let Suite { name, file, namespace, documents, overrides, tests } = suite;
    let manifests = Manifests::new(&documents, &namespace)?;
    let rules = manifests.rules();
    check_unique(&manifests, &rules, &file)?;
    if let Some(unread) = rules.unread.first() {
        return Err(Failure::new(format!("{file}: could not read {unread}")).hint("correct it"));
    }
    for broken in rules.parsed().filter_map(Result::err) {
        terminal.err().write_all(format!("{file}: a rule can't be used: {broken}\n").as_bytes())?;
    }
    let set = rules.set();
    let answers = OfflineServer::from_manifests(&manifests)?;
    let single = if coverage.is_some() { SingleReference::all(&rules) } else { Vec::new() };
    if let Some(coverage) = coverage.as_deref_mut() {
        single.iter().for_each(|single| coverage.add(single));
    }
    let context = SuiteContext { source: Source::Manifests(manifests), answers, set, overrides, namespace };
    let mut tested = Vec::new();
    for (line, test) in tests {
        let case = context.case(&test, &format!("{file}:{line}")).await;
        if let (Ok(case), Some(coverage)) = (&case, coverage.as_deref_mut()) {
            for single in single.iter().filter(|single| single.target == case.kind.gvr.group_resource()) {
                let judgment = context.judge(case, &single.rules).await?;
                coverage.count(single, &judgment);
            }
        }
        let judgment = match &case {
            Ok(case) => context.judge(case, &context.set).await,
            Err(failure) => Err(failure.clone()),
        };
        let differences = match judgment {
            Ok(judgment) => differences(&test, &judgment),
            // The other tests run all the same.
            Err(failure) => vec![Difference {
                what: "test",
                expected: "a test that can run".to_owned(),
                got: failure.message().to_owned(),
            }],
        };
        let outcome = if differences.is_empty() { "pass" } else { "fail" };
        tested.push(TestResult { name: test.title(), line, outcome, differences });
    }
    Ok(SuiteResult { name, file: file.to_string(), tests: tested })
}

/// Refuses two objects or two rules of the same name: a server would hold only one of them, and it is unknown which.
fn check_unique(manifests: &Manifests, rules: &Rules, file: &str) -> Result<(), Failure> {
    let mut names = BTreeSet::new();
    for rule in &rules.objects {
        let name = rule.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if names.contains(&name) {
            return Err(
                Failure::new(format!("{file}: there are two rules `{name}`")).hint("rename one of them, or remove it")
            );
        }
        names.insert(name);
    }
    let mut seen = BTreeMap::new();
    for object in manifests.objects() {
        let name = (object.gvr.group_resource(), object.namespace(), object.name());
        if let Some(first) = seen.insert(name, object.origin()) {
            return Err(Failure::new(format!("{}: duplicate object, first at {first}", object.origin()))
                .hint("rename it, or remove one of them"));
        }
    }
    Ok(())
}

impl TestResult {
    pub(crate) fn passed(&self) -> bool {
        self.differences.is_empty()
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, got {}", self.what, self.expected, self.got)
    }
}

/// State that all tests of a suite share.
struct SuiteContext {
    source: Source,
    answers: OfflineServer,
    set: RuleSet,
    overrides: depguard_core::OverridePolicy,
    namespace: Namespace,
}

/// Deletion of one test.
struct Case {
    kind: KindInfo,
    object: Arc<Value>,
    /// Answers without the objects that don't exist in this test; `None` if all exist.
    answers: Option<OfflineServer>,
    user: String,
    groups: Vec<String>,
}

impl SuiteContext {
    /// Finds the object of a test, and prepares the answers to the engine's queries.
    async fn case(&self, test: &Test, at: &str) -> Result<Case, Failure> {
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
        let Requester { user, groups } = test.by.clone().unwrap_or_default();
        let groups = groups.into_iter().chain([GROUP.to_owned()]).collect();
        Ok(Case { kind, object, answers, user: user.unwrap_or_else(|| SOMEBODY.to_owned()), groups })
    }

    /// Decides the deletion by these rules.
    async fn judge(&self, case: &Case, rules: &RuleSet) -> Result<Judgment, Failure> {
        let Case { kind, object, answers, user, groups } = case;
        let policies = Policies { rules, workspaces: &Workspaces::new(), overrides: &self.overrides };
        let deletion = Deletion { gvr: &kind.gvr, object, user, groups };
        policies.simulate(deletion, Server::Offline(answers.as_ref().unwrap_or(&self.answers))).await
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

/// Returns the differences from the expectation. A test may leave out any field, which then may have any value.
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
        let found: BTreeSet<_> = got.objects.iter().map(ToString::to_string).collect();
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

fn list_of(names: &BTreeSet<String>, referring: &ReferrerSet) -> String {
    let more = if referring.more { ", and more than a refusal names" } else { "" };
    format!("{}{more}", listed(names))
}
