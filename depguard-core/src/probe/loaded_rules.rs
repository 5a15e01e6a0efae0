//! Request for the rules that a webhook has loaded: a review that no API server sends.
//!
//! A controller posts the request to the URL that it installed. The answer tells whether the webhook is there, and
//! whether it decides by the rules that the controller sees. The request looks like a `CONNECT` to
//! `dependencyrules/enforcement`, which is a resource of no API server. The answer is always `allowed`, so a request
//! can't cause a deletion.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;

use crate::model::api;
use crate::model::names::LogicalCluster;
use crate::protocol::admission_review::{Operation, Review, ReviewError};
use crate::rule::set::RuleSet;
use crate::rule::{RuleKey, RuleVersion};

/// A request to a webhook, which asks for the rules that the webhook has loaded, out of at most [`Self::MAX_RULES`].
///
/// Anybody who reaches the webhook can send one. So the answer tells of each rule once, only of rules that exist, and at
/// most [`Self::MAX_ANSWER`] bytes: the rules beyond count as not loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedRulesRequest {
    uid: String,
    rules: BTreeSet<RuleKey>,
}

/// A webhook's answer to an [`LoadedRulesRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum Loaded {
    /// The webhook decides by rules; these are the rules of the loaded-rules request that it has loaded.
    Rules(BTreeMap<RuleKey, LoadedRule>),
    /// The webhook can't decide yet, for this reason.
    NotLoaded(String),
    /// The webhook gave an ordinary answer: it doesn't know the loaded-rules request.
    Silent,
}

/// A rule that a webhook has loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct LoadedRule {
    /// The rule's version. A webhook that is older than this field tells no UID.
    pub version: RuleVersion,
    /// The right that the webhook lacks to decide by the rule, as a sentence. `None`: no right is known to be
    /// missing.
    pub lacks: Option<String>,
    /// The number of reference registers by which the webhook interlocks the references of rules with the deletions of
    /// their targets; 0: the webhook only checks both.
    pub registers: u16,
    /// True if the webhook takes reviews of this path's kind from API servers only.
    pub authenticated: bool,
}

impl LoadedRule {
    /// Creates a rule in this version, without a missing right, of a webhook that doesn't interlock.
    pub fn new(version: RuleVersion) -> Self {
        Self { version, ..Self::default() }
    }

    /// Returns the rule, interlocked by this number of registers.
    pub fn interlocked_by(self, registers: u16) -> Self {
        Self { registers, ..self }
    }

    /// Returns the rule of a webhook that knows if an API server asks.
    pub fn authenticated(self, authenticated: bool) -> Self {
        Self { authenticated, ..self }
    }

    /// Returns the rule with this missing right.
    pub fn lacking(self, right: impl Into<String>) -> Self {
        Self { lacks: Some(right.into()), ..self }
    }
}

/// The reason why an answer to an [`LoadedRulesRequest`] can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadedError {
    /// An answer that is no answered AdmissionReview.
    #[error("it did not answer with an AdmissionReview ({0})")]
    Malformed(#[from] serde_json::Error),
    /// The answer to another review.
    #[error("it answered a different review")]
    OtherUid,
}

const SUBRESOURCE: &str = "enforcement";
/// Audit annotations of the answer.
const LOADED: &str = "loaded";
const NOT_LOADED: &str = "notLoaded";
const VERSION: &str = "version";
/// Maximum number of characters that the answer tells of the rights that a rule lacks.
const MAX_LACKS: usize = 512;
/// Bytes of an answer besides its rules, at most.
const REST: usize = 4 << 10;

impl LoadedRulesRequest {
    /// Maximum number of rules in one request: a webhook refuses to read more.
    pub const MAX_RULES: usize = 10_000;
    /// Number of rules of which an answer tells in any case. Whoever has more rules asks again.
    pub const RULES_AT_ONCE: usize = 1_000;
    /// Maximum length of an answer, in bytes: that of a review.
    pub const MAX_ANSWER: usize = 3 << 20;

    /// Creates a loaded-rules request about these rules. The answer repeats `uid`.
    pub fn new<'k>(uid: impl Into<String>, rules: impl IntoIterator<Item = &'k RuleKey>) -> Self {
        Self { uid: uid.into(), rules: rules.into_iter().cloned().collect() }
    }

    /// Returns the rules of the loaded-rules request.
    pub fn rules(&self) -> &BTreeSet<RuleKey> {
        &self.rules
    }

    /// Reads a loaded-rules request from the bytes from which `review` was parsed; `None` for an ordinary review.
    pub fn from_review(review: &Review<'_>, bytes: &[u8]) -> Result<Option<Self>, ReviewError> {
        let is_request = review.operation() == Operation::Connect
            && (review.group(), review.resource()) == (api::GROUP, api::PLURAL)
            && review.sub_resource() == Some(SUBRESOURCE);
        if !is_request {
            return Ok(None);
        }
        let asked: Question = serde_json::from_slice(bytes)?;
        Ok(Some(Self { uid: review.uid().to_owned(), rules: asked.request.object.rules }))
    }

    /// Returns the AdmissionReview to post.
    pub fn to_review(&self) -> Vec<u8> {
        let rules: Vec<_> = self.rules.iter().map(|key| Entry::new(key, None)).collect();
        let object = json!({"rules": rules});
        json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": self.uid,
                "kind": {"group": api::GROUP, "version": api::VERSION, "kind": api::KIND},
                "resource": {"group": api::GROUP, "version": api::VERSION, "resource": api::PLURAL},
                "subResource": SUBRESOURCE,
                "operation": "CONNECT",
                "userInfo": {},
                "object": object,
            },
        })
        .to_string()
        .into_bytes()
    }

    /// Returns the AdmissionReview with the answer of a webhook that decides by `rules`; `Err` holds the reason why
    /// it can't decide yet. `lacks` lists the rules for which the webhook lacks a right, each with that right.
    /// `replica` has what the webhook says of each rule.
    pub fn answer(
        &self,
        rules: Result<&RuleSet, &str>,
        lacks: &BTreeMap<RuleKey, String>,
        replica: &LoadedRule,
    ) -> Vec<u8> {
        let (annotation, text) = match rules {
            Ok(rules) => {
                let loaded = self.rules.iter().filter_map(|key| {
                    let version = rules.version_of(key)?.clone();
                    let lacks = lacks.get(key).map(|lacks| lacks.chars().take(MAX_LACKS).collect());
                    let rule = LoadedRule { version, lacks, ..replica.clone() };
                    Some(json!(Entry::new(key, Some(rule))).to_string())
                });
                let mut bytes = REST;
                let loaded: Vec<_> = loaded
                    .take_while(|entry| {
                        // Each quotation mark is escaped once more in the answer.
                        let escapes = entry.matches(['"', '\\']).count();
                        bytes = bytes.saturating_add(entry.len()).saturating_add(escapes).saturating_add(1);
                        bytes < Self::MAX_ANSWER
                    })
                    .collect();
                (LOADED, format!("[{}]", loaded.join(",")))
            }
            Err(why) => (NOT_LOADED, why.to_owned()),
        };
        let annotations = BTreeMap::from([(annotation, text), (VERSION, env!("CARGO_PKG_VERSION").to_owned())]);
        json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": {"uid": self.uid, "allowed": true, "auditAnnotations": annotations},
        })
        .to_string()
        .into_bytes()
    }

    /// Reads a webhook's answer to this loaded-rules request.
    pub fn read(&self, answer: &[u8]) -> Result<Loaded, LoadedError> {
        let answer: ReviewAnswer = serde_json::from_slice(answer)?;
        if answer.response.uid != self.uid {
            return Err(LoadedError::OtherUid);
        }
        let annotations = answer.response.audit_annotations;
        if let Some(why) = annotations.get(NOT_LOADED) {
            return Ok(Loaded::NotLoaded(why.clone()));
        }
        let Some(loaded) = annotations.get(LOADED) else { return Ok(Loaded::Silent) };
        let entries: Vec<Entry> = serde_json::from_str(loaded)?;
        let rules = entries.iter().filter_map(|entry| Some((entry.key()?, entry.rule())));
        Ok(Loaded::Rules(rules.collect()))
    }
}

/// A rule on the wire.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    logical_cluster: Option<String>,
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    generation: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lacks: Option<String>,
    /// Left out by a webhook that doesn't interlock, or that is older than the interlock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    registers: Option<u16>,
    /// Left out by a webhook that anybody may ask, or that doesn't know.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    authenticated: bool,
}

impl Entry {
    fn new(key: &RuleKey, loaded: Option<LoadedRule>) -> Self {
        let logical_cluster = key.cluster.as_ref().map(ToString::to_string);
        let entry = Self { logical_cluster, name: key.name.clone(), ..Self::default() };
        let Some(LoadedRule { version: RuleVersion { uid, generation }, lacks, registers, authenticated }) = loaded
        else {
            return entry;
        };
        let registers = Some(registers).filter(|registers| *registers > 0);
        Self { generation: Some(generation), uid, lacks, registers, authenticated, ..entry }
    }

    fn rule(&self) -> LoadedRule {
        LoadedRule {
            version: RuleVersion { uid: self.uid.clone(), generation: self.generation.unwrap_or_default() },
            lacks: self.lacks.clone(),
            registers: self.registers.unwrap_or_default(),
            authenticated: self.authenticated,
        }
    }

    /// Returns the rule's key; `None` if the logical cluster's name is invalid.
    fn key(&self) -> Option<RuleKey> {
        let cluster = self.logical_cluster.as_deref().map(LogicalCluster::parse).transpose().ok()?;
        Some(RuleKey { cluster, name: self.name.clone() })
    }
}

#[derive(Deserialize)]
struct Question {
    request: QuestionRequest,
}

#[derive(Deserialize)]
struct QuestionRequest {
    object: QuestionObject,
}

#[derive(Deserialize)]
struct QuestionObject {
    #[serde(deserialize_with = "distinct")]
    rules: BTreeSet<RuleKey>,
}

/// Reads rules, each once however often the list names it. A longer list than a request may have is an error before
/// more of the list is read.
fn distinct<'de, D: Deserializer<'de>>(list: D) -> Result<BTreeSet<RuleKey>, D::Error> {
    struct Rules;
    impl<'de> Visitor<'de> for Rules {
        type Value = BTreeSet<RuleKey>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of rules")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut rules = BTreeSet::new();
            while let Some(entry) = list.next_element::<Entry>()? {
                rules.extend(entry.key());
                if rules.len() > LoadedRulesRequest::MAX_RULES {
                    return Err(A::Error::custom(format_args!(
                        "the request names more than {} rules",
                        LoadedRulesRequest::MAX_RULES
                    )));
                }
            }
            Ok(rules)
        }
    }
    list.deserialize_seq(Rules)
}

#[derive(Deserialize)]
struct ReviewAnswer {
    response: ReviewAnswerResponse,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReviewAnswerResponse {
    uid: String,
    #[serde(default)]
    audit_annotations: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::model::control_plane::ControlPlane;

    fn key(cluster: Option<&str>, name: &str) -> RuleKey {
        RuleKey { cluster: cluster.map(|id| LogicalCluster::parse(id).unwrap()), name: name.to_owned() }
    }

    fn rule(cluster: &str, name: &str, generation: i64, path: &str) -> Value {
        json!({
            "metadata": {"name": name, "uid": format!("uid of {name}"), "generation": generation, "annotations": {"kcp.io/cluster": cluster}},
            "spec": {
                "dependent": {"apiExportName": "c.example.com", "group": "c.example.com", "version": "v1", "kind": "A", "resource": "as"},
                "dependencies": [{"group": "n.example.com", "version": "v1", "resource": "bs", "fieldRef": {"path": path},
                    "apiExportRef": {"path": "root:n", "name": "n.example.com"}}],
            },
        })
    }

    /// Sends the loaded-rules request over the wire and reads the answer.
    fn ask(request: &LoadedRulesRequest, rules: Result<&RuleSet, &str>) -> Loaded {
        let bytes = request.to_review();
        let review = Review::parse(&bytes).unwrap();
        let read = LoadedRulesRequest::from_review(&review, &bytes).unwrap().unwrap();
        assert_eq!(read, *request);
        request.read(&read.answer(rules, &BTreeMap::new(), &LoadedRule::default())).unwrap()
    }

    #[test]
    fn what_is_loaded_is_told_with_its_version_also_of_rules_that_cannot_be_used() {
        let objects =
            [rule("a1", "one", 3, ".spec.b"), rule("a1", "broken", 5, "not a path"), rule("b1", "one", 7, ".spec.b")];
        let rules = RuleSet::load(ControlPlane::Kcp, &objects);
        let keys = [key(Some("a1"), "one"), key(Some("a1"), "broken"), key(Some("a1"), "absent"), key(None, "one")];
        let loaded = |key: &RuleKey, generation| {
            let uid = Some(format!("uid of {}", key.name));
            (key.clone(), LoadedRule::new(RuleVersion { uid, generation }))
        };
        let expected = [loaded(&keys[0], 3), loaded(&keys[1], 5)];
        assert_eq!(ask(&LoadedRulesRequest::new("u", &keys), Ok(&rules)), Loaded::Rules(expected.clone().into()));
        let request = LoadedRulesRequest::new("u", &keys);
        let lacks = [(keys[0].clone(), "list as".to_owned()), (keys[2].clone(), "list bs".to_owned())].into();
        let [one, broken] = expected;
        let expected = [(one.0, one.1.lacking("list as")), broken];
        assert_eq!(
            request.read(&request.answer(Ok(&rules), &lacks, &LoadedRule::default())).unwrap(),
            Loaded::Rules(expected.into())
        );
    }

    #[test]
    fn only_a_webhook_that_says_its_number_of_registers_interlocks() {
        let rules = RuleSet::load(ControlPlane::Kcp, &[rule("a1", "one", 3, ".spec.b")]);
        let key = key(Some("a1"), "one");
        let request = LoadedRulesRequest::new("u", [&key]);
        let read = |answer: &[u8]| match request.read(answer).unwrap() {
            Loaded::Rules(rules) => rules[&key].clone(),
            other => panic!("{other:?}"),
        };
        for authenticated in [true, false] {
            let replica = LoadedRule::default().interlocked_by(16).authenticated(authenticated);
            let read = read(&request.answer(Ok(&rules), &BTreeMap::new(), &replica));
            assert_eq!((read.registers, read.authenticated), (16, authenticated));
        }
        let without = request.answer(Ok(&rules), &BTreeMap::new(), &LoadedRule::default());
        assert_eq!(read(&without).registers, 0);
        let without = String::from_utf8(without).unwrap();
        assert!(["registers", "authenticated"].iter().all(|new| !without.contains(new)), "older controllers read this");
        // What an older webhook says.
        let loaded = json!([{"logicalCluster": "a1", "name": "one", "generation": 3}]).to_string();
        let old = json!({"response": {"uid": "u", "auditAnnotations": {"loaded": loaded}}});
        assert_eq!(read(old.to_string().as_bytes()), LoadedRule::new(RuleVersion { uid: None, generation: 3 }));
    }

    #[test]
    fn a_webhook_without_rules_says_why() {
        let request = LoadedRulesRequest::new("u", &[key(None, "one")]);
        assert_eq!(ask(&request, Err("they are being loaded")), Loaded::NotLoaded("they are being loaded".to_owned()));
    }

    #[test]
    fn an_ordinary_review_is_no_loaded_rules_request() {
        let bytes = LoadedRulesRequest::new("u", &[]).to_review();
        let request: Value = serde_json::from_slice(&bytes).unwrap();
        for (field, value) in [
            ("/request/operation", "DELETE"),
            ("/request/subResource", "status"),
            ("/request/resource/resource", "pods"),
            ("/request/resource/group", ""),
        ] {
            let mut ordinary = request.clone();
            *ordinary.pointer_mut(field).unwrap() = json!(value);
            let bytes = ordinary.to_string();
            let review = Review::parse(bytes.as_bytes()).unwrap();
            assert_eq!(LoadedRulesRequest::from_review(&review, bytes.as_bytes()).unwrap(), None, "{field}");
        }
    }

    #[test]
    fn an_answer_that_is_no_answer_is_told_from_one_that_says_nothing() {
        let request = LoadedRulesRequest::new("u", &[]);
        let read = |answer: Value| request.read(answer.to_string().as_bytes());
        assert!(matches!(read(json!({"response": {"uid": "u", "allowed": true}})), Ok(Loaded::Silent)));
        assert!(matches!(read(json!({"response": {"uid": "v", "allowed": true}})), Err(LoadedError::OtherUid)));
        assert!(matches!(read(json!({"kind": "Status"})), Err(LoadedError::Malformed(_))));
        let annotations = json!({"loaded": "not JSON"});
        let odd = read(json!({"response": {"uid": "u", "auditAnnotations": annotations}}));
        assert!(matches!(odd, Err(LoadedError::Malformed(_))));
    }

    #[test]
    fn a_rule_that_is_named_again_and_again_is_told_once() {
        let rules = RuleSet::load(ControlPlane::Kcp, &[rule("a1", "one", 3, ".spec.b")]);
        let read = |named: Vec<Value>| {
            let mut question: Value = serde_json::from_slice(&LoadedRulesRequest::new("u", &[]).to_review()).unwrap();
            question["request"]["object"] = json!({"rules": named});
            let bytes = question.to_string();
            LoadedRulesRequest::from_review(&Review::parse(bytes.as_bytes()).unwrap(), bytes.as_bytes())
        };
        let names = |number| (0..number).map(|n| json!({"logicalCluster": "a1", "name": format!("r{n}")})).collect();
        let once = LoadedRulesRequest::new("u", [&key(Some("a1"), "one")]);
        // The generation is no part of the question.
        let forged = (0..LoadedRulesRequest::MAX_RULES * 2)
            .map(|n| json!({"logicalCluster": "a1", "name": "one", "generation": n}));
        let forged = read(forged.collect()).unwrap().unwrap();
        assert_eq!(forged, once);
        let answer =
            |request: &LoadedRulesRequest| request.answer(Ok(&rules), &BTreeMap::new(), &LoadedRule::default()).len();
        assert_eq!(answer(&forged), answer(&once));
        let all: Vec<_> =
            (0..LoadedRulesRequest::MAX_RULES).map(|n| rule("a1", &format!("r{n:0>252}"), 3, ".spec.b")).collect();
        let all_rules = RuleSet::load(ControlPlane::Kcp, &all);
        let named = (0..all.len()).map(|n| json!({"logicalCluster": "a1", "name": format!("r{n:0>252}")}));
        let asked = read(named.collect()).unwrap().unwrap();
        let lacks = asked.rules().iter().map(|key| (key.clone(), "list \"as\"; ".repeat(1000))).collect();
        let long = asked.answer(Ok(&all_rules), &lacks, &LoadedRule::default().interlocked_by(16));
        assert!(long.len() <= LoadedRulesRequest::MAX_ANSWER, "{}", long.len());
        let Loaded::Rules(told) = asked.read(&long).unwrap() else { panic!("it tells rules") };
        assert!(told.len() >= LoadedRulesRequest::RULES_AT_ONCE, "{}", told.len());
        let most = read(names(LoadedRulesRequest::MAX_RULES)).unwrap().unwrap();
        assert!(answer(&most) < answer(&once), "of rules that are not there nothing is told");
        let why = read(names(LoadedRulesRequest::MAX_RULES + 1)).unwrap_err().to_string();
        assert!(why.contains("the request names more than 10000 rules"), "{why}");
    }

    #[test]
    fn a_malformed_loaded_rules_request_is_an_error() {
        let mut question: Value = serde_json::from_slice(&LoadedRulesRequest::new("u", &[]).to_review()).unwrap();
        question["request"]["object"] = json!({"rules": [{"logicalCluster": 7}]});
        let bytes = question.to_string();
        assert!(LoadedRulesRequest::from_review(&Review::parse(bytes.as_bytes()).unwrap(), bytes.as_bytes()).is_err());
    }
}
