//! Runs the tests of a suite.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use depguard_core::model::{GroupResource, Namespace};
use depguard_core::{GroupVersionResource, RuleSet, Workspaces};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::coverage::{Coverage, SingleReference};
use super::definitions::Definitions;
use super::differences::differences;
use super::suite::{Request, Requester, Suite, Test, namespace_of};
use crate::cluster::documents::{Document, Origin};
use crate::cluster::kinds::KindInfo;
use crate::cluster::manifests::{ManifestObject, Manifests};
use crate::cluster::rules::Rules;
use crate::cluster::source::Source;
use crate::engine::offline_server::OfflineServer;
use crate::engine::simulated_delete::{Deletion, Judgment, Policies, Server, Write};
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

/// User and group of a request, unless the test names them.
const SOMEBODY: &str = "tester";
const GROUP: &str = "system:authenticated";

/// Runs the tests, and records which references count in them if the user wants to know.
pub(crate) async fn run(
    suite: Suite,
    mut coverage: Option<&mut Coverage>,
    terminal: &mut Terminal,
) -> Result<SuiteResult, Failure> {
    let Suite { name, file, namespace, documents, overrides, tests } = suite;
    let definitions = Definitions::new(&documents);
    let misfits = definitions.misfits(&documents);
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
    let dependents = rules.parsed().flatten().map(|rule| rule.dependent().gvr.clone()).collect();
    let source = Source::Manifests(Box::new(manifests));
    let context = SuiteContext { source, answers, set, overrides, namespace, dependents, definitions, file };
    let mut tested: Vec<_> = TestResult::of_misfits(misfits).into_iter().collect();
    for (line, test) in tests {
        let case = context.case(&test, line).await;
        if let (Ok(case), Some(coverage)) = (&case, coverage.as_deref_mut()) {
            for single in single.iter().filter(|single| case.concerns(single)) {
                let judgment = context.judge(case, &single.rules).await?;
                match case.change {
                    Change::Deletion => coverage.count(single, &judgment),
                    Change::Creation | Change::Update(_) => coverage.count_change(single, &judgment),
                }
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
    Ok(SuiteResult { name, file: context.file.to_string(), tests: tested })
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
    /// Returns the failed test of a suite with rules or objects that don't fit its definitions.
    fn of_misfits(misfits: Vec<String>) -> Option<Self> {
        let difference =
            |got| Difference { what: "definitions", expected: "rules and objects that fit them".to_owned(), got };
        let differences: Vec<_> = misfits.into_iter().map(difference).collect();
        let name = "the suite fits its definitions".to_owned();
        (!differences.is_empty()).then_some(Self { name, line: 1, outcome: "fail", differences })
    }

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
    /// Kinds of the rules' dependents, each in the version of a rule.
    dependents: BTreeSet<GroupVersionResource>,
    definitions: Definitions,
    file: Arc<str>,
}

/// Request of one test.
struct Case {
    gvr: GroupVersionResource,
    object: Arc<Value>,
    change: Change,
    /// Answers without the objects that don't exist in this test; `None` if all exist.
    answers: Option<OfflineServer>,
    user: String,
    groups: Vec<String>,
}

/// Change of a case's object.
enum Change {
    Deletion,
    Creation,
    /// Update of an object that was this one before.
    Update(Arc<Value>),
}

impl SuiteContext {
    /// Finds the object of a test, and prepares the answers to the engine's queries.
    async fn case(&self, test: &Test, line: usize) -> Result<Case, Failure> {
        let namespace = match &test.namespace {
            Some(name) => namespace_of(name, &format!("{}:{line}", self.file))?,
            None => self.namespace.clone(),
        };
        let request = test.request().map_err(|(why, hint)| Failure::new(why).hint(hint))?;
        let created = match request {
            Request::CreateNamed(named) => Some(named),
            Request::Delete(_) | Request::Create(_) | Request::Update(..) => None,
        };
        let mut answers = None;
        for named in test.without.iter().map(String::as_str).chain(created) {
            let (kind, object) = self.find(named, &namespace).await?;
            let group_resource: GroupResource = kind.gvr.group_resource();
            answers.get_or_insert_with(|| self.answers.clone()).remove(&group_resource, &object);
        }
        let (gvr, object, change) = match request {
            Request::Delete(named) => self.named(named, &namespace, Change::Deletion).await?,
            Request::CreateNamed(named) => self.named(named, &namespace, Change::Creation).await?,
            Request::Create(manifest) => {
                let placed = self.place(manifest, &namespace, line)?;
                let (gvr, object) = ((*placed.gvr).clone(), placed.to_value()?);
                let existing = answers.as_ref().unwrap_or(&self.answers);
                if existing.has(&gvr.group_resource(), placed.namespace(), placed.name()) {
                    let why =
                        "the object to create is among the suite's objects: update it, or name it under `without`";
                    return Err(Failure::new(why));
                }
                self.check_fit(&object)?;
                (gvr, object, Change::Creation)
            }
            Request::Update(named, patch) => {
                let (gvr, old_object, _) = self.named(named, &namespace, Change::Deletion).await?;
                let mut object = old_object.clone();
                merge(Arc::make_mut(&mut object), patch);
                let is_same = |pointer| object.pointer(pointer) == old_object.pointer(pointer);
                if !is_same("/metadata/name") || !is_same("/metadata/namespace") {
                    return Err(Failure::new("an update changes neither the name nor the namespace of an object"));
                }
                self.check_fit(&object)?;
                (gvr, object, Change::Update(old_object))
            }
        };
        let Requester { user, groups } = test.by.clone().unwrap_or_default();
        let groups = groups.into_iter().chain([GROUP.to_owned()]).collect();
        Ok(Case { gvr, object, change, answers, user: user.unwrap_or_else(|| SOMEBODY.to_owned()), groups })
    }

    /// Refuses the object of a request that no API server would store as it is.
    fn check_fit(&self, object: &Value) -> Result<(), Failure> {
        self.definitions.misfit(object).map_or(Ok(()), |why| Err(Failure::new(why)))
    }

    /// Decides the request by these rules.
    async fn judge(&self, case: &Case, rules: &RuleSet) -> Result<Judgment, Failure> {
        let Case { gvr, object, change, answers, user, groups } = case;
        let policies = Policies { rules, workspaces: &Workspaces::new(), overrides: &self.overrides };
        let server = Server::Offline(answers.as_ref().unwrap_or(&self.answers));
        let old_object = match change {
            Change::Deletion => return policies.simulate(Deletion { gvr, object, user, groups }, server).await,
            Change::Creation => None,
            Change::Update(old_object) => Some(&**old_object),
        };
        let gvrs = self.reviewed(gvr);
        policies.simulate_write(Write { gvrs: &gvrs, object, old_object, user, groups }, server).await
    }

    /// Returns the versions in which an API server hands the object to the webhook: those of the rules about its kind.
    fn reviewed(&self, gvr: &GroupVersionResource) -> Vec<GroupVersionResource> {
        let kind = gvr.group_resource();
        let versions: Vec<_> = self.dependents.iter().filter(|known| known.group_resource() == kind).cloned().collect();
        if versions.is_empty() { vec![gvr.clone()] } else { versions }
    }

    async fn named(
        &self,
        named: &str,
        namespace: &Namespace,
        change: Change,
    ) -> Result<(GroupVersionResource, Arc<Value>, Change), Failure> {
        let (kind, object) = self.find(named, namespace).await?;
        Ok((kind.gvr, object, change))
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

    /// Returns the object that a test creates.
    fn place(&self, manifest: &Value, namespace: &Namespace, line: usize) -> Result<ManifestObject, Failure> {
        let origin = Origin { file: Arc::clone(&self.file), line };
        let document = Document { value: Arc::new(manifest.clone()), origin };
        let Source::Manifests(manifests) = &self.source else {
            return Err(Failure::new("a suite reads manifests, and no API server"));
        };
        manifests.place_beside(&document, namespace).ok_or_else(|| Failure::new("there is no such kind"))
    }
}

impl Case {
    /// Returns true if the request may depend on this reference alone.
    fn concerns(&self, single: &SingleReference) -> bool {
        let kind = self.gvr.group_resource();
        match self.change {
            Change::Deletion => single.target == kind,
            Change::Creation | Change::Update(_) => single.dependent == kind,
        }
    }
}

/// Applies a JSON merge patch (RFC 7396).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        target.clone_from(patch);
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Some(target) = target.as_object_mut() else { return };
    for (name, value) in fields {
        if value.is_null() {
            target.remove(name);
        } else {
            merge(target.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}
