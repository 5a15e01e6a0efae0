//! Review of a rule before it is stored: whoever writes a rule that can't protect learns it then.
//!
//! The webhook's configuration for these reviews has failure policy `Ignore`, and nothing here protects an object. So an
//! answer that is missing is no reason to refuse: rules are applied before the definitions of their kinds, and a rule's
//! status says the same later. For the same reason, a kind that is not served is a warning.
//!
//! On plain Kubernetes the rule is held against the kinds that it names ([`schema`](crate::schema)); in kcp against itself
//! only.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::evaluation::decision::Causes;
use crate::model::api;
use crate::model::control_plane::ControlPlane;
use crate::model::field_path::FieldPath;
use crate::model::names::{Group, GroupResource, GroupVersionResource, Resource};
use crate::protocol::admission_review::Operation;
use crate::protocol::cause::Cause;
use crate::protocol::object_review::ObjectReview;
use crate::protocol::problem::{MAX_PROBLEMS, clipped};
use crate::protocol::request::{Accept, Query, QueryId};
use crate::protocol::response::Answer;
use crate::protocol::reviewed_object::ReviewedObject;
use crate::rule::checked_rule::Rule;
use crate::rule::error::RuleError;
use crate::schema::{self, KindFacts, KindState, Mismatch, SchemaFit};

/// Maximum number of kinds that one review reads. Further kinds of the rule are not checked.
const MAX_KINDS: usize = 16;

/// A review that is being decided: send its [`queries`](Self::queries), pass on each [`answer`](Self::answer), and
/// [`decide`](Self::decide).
#[derive(Debug)]
pub struct RuleAdmission {
    state: State,
    /// Warning that the rule takes the place of a rule about other dependents.
    replaces: Option<String>,
}

#[derive(Debug)]
enum State {
    Decided(RuleDecision),
    Reading(Box<Reading>),
}

/// Rule whose kinds are read; the first kind is that of the dependents.
#[derive(Debug)]
struct Reading {
    rule: Rule,
    left_out: Vec<FieldPath>,
    kinds: Vec<KindRead>,
}

/// Kind that is being read.
#[derive(Debug)]
struct KindRead {
    gvr: GroupVersionResource,
    step: Step,
    is_asked: bool,
}

#[derive(Debug)]
enum Step {
    Definition,
    Discovery,
    Published(KindFacts),
    Done(KindState),
}

/// The decision on a review at the path of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum RuleDecision {
    /// The request stores no new spec of a rule.
    NotReviewed,
    /// The rule can be used, as far as that is known, with these warnings.
    Accepted(Vec<String>),
    /// The rule can't be used, for these reasons, each with its field, if it is one field's.
    Refused(Vec<(String, Option<String>)>),
}

impl RuleAdmission {
    /// Begins to decide.
    pub fn begin(control_plane: ControlPlane, review: &ObjectReview<'_>) -> Self {
        let Some((object, before)) = new_spec(review) else {
            return Self { state: State::Decided(RuleDecision::NotReviewed), replaces: None };
        };
        let replaces = before.and_then(|before| replaces(&before, object.get("spec")?));
        let decided = State::Decided;
        let state = match (Rule::parse(control_plane, &object), control_plane) {
            // The review has no logical cluster, so nothing can be said about the rule.
            (Err(RuleError::NoCluster), _) => decided(RuleDecision::NotReviewed),
            // The schema lets no unknown field in, so a newer version's rule comes before that version's webhook.
            (Err(error @ RuleError::Shape(_)), _) => decided(RuleDecision::Accepted(vec![error.to_string()])),
            (Err(error), _) => {
                decided(RuleDecision::Refused(vec![(error.to_string(), error.field().map(str::to_owned))]))
            }
            (Ok(rule), ControlPlane::Kcp) => decided(Findings::of_rule(&rule).decision()),
            (Ok(rule), ControlPlane::Kubernetes) => {
                let kinds = kinds(&rule).into_iter().map(KindRead::new).collect();
                State::Reading(Box::new(Reading { rule, left_out: schema::left_out(&object).collect(), kinds }))
            }
        };
        Self { state, replaces }
    }

    /// Returns the queries to send now. Each is returned once.
    pub fn queries(&mut self) -> Vec<Query> {
        let State::Reading(reading) = &mut self.state else { return Vec::new() };
        reading.kinds.iter_mut().enumerate().filter_map(|(index, kind)| kind.query(QueryId(index))).collect()
    }

    /// Takes the answer to a query.
    pub fn answer(&mut self, id: QueryId, answer: Answer<'_>) {
        if let State::Reading(reading) = &mut self.state
            && let Some(kind) = reading.kinds.get_mut(id.0)
        {
            kind.answer(answer, id.0 == 0);
        }
    }

    /// Returns true if nothing is asked any more.
    pub fn is_settled(&self) -> bool {
        match &self.state {
            State::Decided(_) => true,
            State::Reading(reading) => reading.kinds.iter().all(|kind| matches!(kind.step, Step::Done(_))),
        }
    }

    /// Decides by the answers so far.
    pub fn decide(self) -> RuleDecision {
        let mut decision = match self.state {
            State::Decided(decision) => decision,
            State::Reading(reading) => reading.findings().decision(),
        };
        if let RuleDecision::Accepted(warnings) = &mut decision {
            warnings.splice(..0, self.replaces);
        }
        decision
    }
}

/// Returns the rule of a review that stores a new spec of one, and the spec before; `None` for any other request.
fn new_spec(review: &ObjectReview<'_>) -> Option<(Value, Option<Value>)> {
    #[derive(Deserialize)]
    struct Parts<'a> {
        #[serde(borrow)]
        spec: Option<&'a RawValue>,
    }
    let about = review.review();
    let stores = matches!(about.operation(), Operation::Create | Operation::Update) && about.sub_resource().is_none();
    let is_rule = about.group() == api::GROUP && about.resource() == api::PLURAL;
    let is_terminating = review.new_metadata().as_ref().is_some_and(ReviewedObject::is_terminating);
    if !stores || !is_rule || is_terminating {
        return None;
    }
    let spec = |state: Option<&str>| -> Option<Value> {
        serde_json::from_str(serde_json::from_str::<Parts<'_>>(state?).ok()?.spec?.get()).ok()
    };
    let before = spec(review.old_object());
    let object: Value = serde_json::from_str(review.object()?).ok()?;
    (before.is_none() || object.get("spec") != before.as_ref()).then_some((object, before))
}

/// Returns a warning if a rule is about other dependents than before: two authors may have chosen the same name.
fn replaces(before: &Value, after: &Value) -> Option<String> {
    let dependents = |spec: &Value| {
        let text = |field| spec.get("dependent")?.get(field)?.as_str();
        Some(GroupResource {
            group: Group::parse(text("group")?).ok()?,
            resource: Resource::parse(text("resource")?).ok()?,
        })
    };
    let (was, is) = (dependents(before)?, dependents(after)?);
    (was != is).then(|| {
        format!(
            "a rule of this name was about {was}, and is about {is} now: it protects nothing any more that {was} refer to; \
             give one of the two another name if both are meant"
        )
    })
}

/// Returns the kinds that a rule names, each once: the dependents' kind first.
fn kinds(rule: &Rule) -> Vec<GroupVersionResource> {
    let mut kinds = vec![rule.dependent().gvr.clone()];
    for edge in rule.edges() {
        if kinds.len() < MAX_KINDS && !kinds.contains(&edge.target.gvr) {
            kinds.push(edge.target.gvr.clone());
        }
    }
    kinds
}

impl KindRead {
    fn new(gvr: GroupVersionResource) -> Self {
        // A definition is read first: what an API server publishes lags behind it.
        let step = if gvr.group.is_core() { Step::Discovery } else { Step::Definition };
        Self { gvr, step, is_asked: false }
    }

    fn query(&mut self, id: QueryId) -> Option<Query> {
        let path = match &self.step {
            _ if self.is_asked => return None,
            Step::Definition => {
                let name = self.gvr.group_resource();
                format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
            }
            Step::Discovery => self.gvr.root(),
            Step::Published(_) => format!("/openapi/v3{}", self.gvr.root()),
            Step::Done(_) => return None,
        };
        self.is_asked = true;
        Some(Query { id, cluster: None, export: None, path, accept: Accept::Json })
    }

    /// Takes the answer to the query of the present step. Fields matter only `with_schema`.
    fn answer(&mut self, answer: Answer<'_>, with_schema: bool) {
        let found = match answer {
            Answer::Response { status: 200, body } => serde_json::from_slice::<Value>(body).ok(),
            _ => None,
        };
        let is_missing = matches!(answer, Answer::Response { status: 404, .. });
        let unknown = || Step::Done(KindState::Unknown(String::new()));
        let step = std::mem::replace(&mut self.step, unknown());
        self.is_asked = false;
        self.step = match (step, found) {
            (Step::Definition, Some(object)) => {
                let seen = KindState::from_definition(&object, self.gvr.version.as_str());
                Step::Done(if with_schema { seen } else { seen.without_schema() })
            }
            (Step::Definition, None) if is_missing => Step::Discovery,
            // The kinds of Kubernetes itself are always there, and others may be installed later.
            (Step::Discovery, None) if is_missing && self.gvr.group.is_core() => Step::Done(KindState::NotServed),
            (Step::Discovery, None) if is_missing => Step::Done(KindState::NotInstalled),
            (Step::Discovery, Some(list)) => match KindFacts::from_discovery(&list, &self.gvr) {
                Some(facts) if with_schema => Step::Published(facts),
                Some(facts) => Step::Done(KindState::from(facts)),
                None => Step::Done(KindState::NotServed),
            },
            (Step::Published(facts), Some(document)) => {
                Step::Done(KindState::from(facts.with_published(&document, &self.gvr)))
            }
            (Step::Published(facts), None) => Step::Done(KindState::from(facts)),
            (Step::Definition | Step::Discovery, None) => unknown(),
            (done @ Step::Done(_), _) => done,
        };
    }
}

/// Findings about a rule.
#[derive(Debug, Default)]
struct Findings {
    errors: Vec<(String, Option<String>)>,
    warnings: Vec<String>,
}

impl Findings {
    /// Returns what can be said about a rule without the kinds that it names.
    fn of_rule(rule: &Rule) -> Self {
        let unreviewed = schema::unreviewed(rule).into_iter();
        let errors = unreviewed.map(|(field, why)| (format!("{field} has no effect: {why}; remove it"), Some(field)));
        let warnings = schema::local_targets(rule).iter().map(ToString::to_string).collect();
        Self { errors: errors.collect(), warnings }
    }

    fn decision(self) -> RuleDecision {
        if self.errors.is_empty() { RuleDecision::Accepted(self.warnings) } else { RuleDecision::Refused(self.errors) }
    }
}

impl Reading {
    fn findings(&self) -> Findings {
        let Self { rule, left_out, kinds } = self;
        let mut found = Findings::of_rule(rule);
        let dependent = rule.dependent();
        let of_targets = rule
            .edges()
            .iter()
            .map(|edge| (&edge.target.gvr, edge.target.kind.as_ref(), format!("spec.dependencies[{}]", edge.index)));
        let named = [(&dependent.gvr, Some(&dependent.kind), "spec.dependent".to_owned())];
        for (gvr, kind, field) in named.into_iter().chain(of_targets) {
            if let Some(read) = kinds.iter().find(|read| read.gvr == *gvr)
                && let Step::Done(seen) = &read.step
                && let Err(problem) = schema::kind(Some(seen), gvr, kind, &field)
            {
                match problem.what {
                    // A rule about what is not installed sleeps: packs are applied as a whole.
                    Mismatch::Unknown | Mismatch::NotInstalled => {}
                    Mismatch::NotServed | Mismatch::Version => found.warnings.push(problem.to_string()),
                    Mismatch::Kind => found.errors.push((problem.to_string(), Some(format!("{field}.kind")))),
                }
            }
        }
        let facts = |gvr: &GroupVersionResource| match &kinds.iter().find(|read| read.gvr == *gvr)?.step {
            Step::Done(seen) => seen.facts(),
            _ => None,
        };
        let Some(dependents) = facts(&dependent.gvr) else { return found };
        for edge in rule.edges() {
            let problem = schema::namespace(rule, edge, dependents, facts(&edge.target.gvr), left_out);
            found.warnings.extend(problem.err().map(|problem| problem.to_string()));
        }
        if let Some(schema) = &dependents.schema {
            for path in schema::paths(rule, schema) {
                if matches!(path.fit, SchemaFit::Missing(_) | SchemaFit::Other(_)) {
                    found.errors.push((path.to_string(), Some(path.field)));
                }
            }
        }
        found
    }
}

impl RuleDecision {
    /// Returns true if the rule may be stored.
    pub fn allowed(&self) -> bool {
        !matches!(self, Self::Refused(_))
    }

    /// Returns the warnings of an answer that allows, for people.
    pub fn warnings(&self) -> Vec<String> {
        let Self::Accepted(warnings) = self else { return Vec::new() };
        warnings.iter().take(MAX_PROBLEMS).map(|warning| clipped(warning)).collect()
    }

    /// Returns the message of a refusal, for people; `None` if the review is allowed.
    pub fn message(&self) -> Option<String> {
        let Self::Refused(errors) = self else { return None };
        let shown: Vec<_> = errors.iter().take(MAX_PROBLEMS).map(|(error, _)| clipped(error)).collect();
        let more = errors.len().saturating_sub(MAX_PROBLEMS);
        let more = if more > 0 { format!("; and {more} more problems") } else { String::new() };
        Some(format!("the rule does not work as written: {}{more}", shown.join("; ")))
    }

    /// Returns the causes of a refusal, for programs; none if the review is allowed.
    pub fn causes(&self) -> Causes {
        let mut causes = Causes::default();
        if let Self::Refused(errors) = self {
            for (error, field) in errors.iter().take(MAX_PROBLEMS) {
                causes.add(Cause::RuleInvalid, error, field.as_deref().unwrap_or_default());
            }
        }
        causes
    }

    /// Labels of all decisions.
    pub const LABELS: [&'static str; 4] = ["not-reviewed", "accepted", "warned", "refused"];

    /// Returns the decision as one word of a closed set, fit for a metric's label.
    pub fn label(&self) -> &'static str {
        match self {
            Self::NotReviewed => "not-reviewed",
            Self::Accepted(warnings) if warnings.is_empty() => "accepted",
            Self::Accepted(_) => "warned",
            Self::Refused(_) => "refused",
        }
    }
}

#[cfg(test)]
mod tests;
