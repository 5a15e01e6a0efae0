//! Review of the spec of a rule, a lock or an owner before it is stored: whoever writes one that can't do what it says
//! learns it then.
//!
//! The webhook's configuration for these reviews has failure policy `Ignore`, and nothing here protects an object. So an
//! answer that is missing is no reason to refuse: rules are applied before the definitions of their kinds, and a status
//! says the same later. For the same reason, a kind that is not served is a warning.
//!
//! The spec is held against the kinds that it names. In kcp this goes for rules, and for the kinds of the rule's own
//! workspace, as far as the webhook may read its APIExports and APIResourceSchemas; a lock is held against itself only.

mod findings;
mod kind_read;
#[cfg(feature = "locks")]
mod lock;
#[cfg(feature = "owners")]
mod owner;
mod rule;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use self::findings::Findings;
use self::kind_read::KindRead;
use self::rule::WrittenRule;
use crate::evaluation::decision::Causes;
#[cfg(feature = "locks")]
use crate::guards::locks::{Lock, LockKind};
#[cfg(feature = "owners")]
use crate::guards::owners;
use crate::model::api;
use crate::model::control_plane::ControlPlane;
use crate::protocol::admission_review::{Operation, Review};
use crate::protocol::cause::Cause;
use crate::protocol::object_review::ObjectReview;
use crate::protocol::problem::{MAX_PROBLEMS, clipped};
use crate::protocol::request::{Query, QueryId};
use crate::protocol::response::Answer;
use crate::protocol::reviewed_object::ReviewedObject;

/// Maximum number of kinds that one review reads. Further kinds of the spec are not checked.
const MAX_KINDS: usize = 16;

/// A review that is being decided: send its [`queries`](Self::queries), pass on each [`answer`](Self::answer), and
/// [`decide`](Self::decide).
#[derive(Debug)]
pub struct SpecAdmission {
    state: State,
    /// Warning that a rule takes the place of a rule about other dependents.
    replaces: Option<String>,
}

#[derive(Debug)]
enum State {
    Decided(SpecDecision),
    Reading(Reading),
}

/// Spec whose kinds are read.
#[derive(Debug)]
struct Reading {
    spec: Spec,
    kinds: Vec<KindRead>,
}

/// Kind of object that a review is about.
#[derive(Debug, Clone, Copy)]
enum Subject {
    Rule,
    #[cfg(feature = "locks")]
    Lock(LockKind),
    #[cfg(feature = "owners")]
    Owner,
}

/// Spec that can be read.
#[derive(Debug)]
enum Spec {
    Rule(Box<WrittenRule>),
    #[cfg(feature = "locks")]
    Lock(Box<Lock>, ControlPlane),
    #[cfg(feature = "owners")]
    Owner(Vec<owners::Entry>),
}

/// The decision on a review of a spec.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum SpecDecision {
    /// The request stores no new spec of a rule, a lock or an owner.
    NotReviewed,
    /// The spec can be used, as far as that is known, with these warnings.
    Accepted(Vec<String>),
    /// The spec can't be used, for these reasons, each with its field, if it is one field's. The cause says whether it is
    /// that of a rule, a lock or an owner.
    Refused(Cause, Vec<(String, Option<String>)>),
}

impl SpecAdmission {
    /// Begins to decide.
    pub fn begin(control_plane: ControlPlane, review: &ObjectReview<'_>) -> Self {
        let Some((subject, object, before)) = new_spec(review) else {
            return Self { state: State::Decided(SpecDecision::NotReviewed), replaces: None };
        };
        let replaces = match subject {
            Subject::Rule => before.and_then(|before| rule::replaces(&before, object.get("spec")?)),
            #[cfg(any(feature = "locks", feature = "owners"))]
            _ => None,
        };
        let state = match Spec::parse(control_plane, subject, &object) {
            Err(decision) => State::Decided(decision),
            Ok(spec) => {
                let kinds = spec.kinds();
                State::Reading(Reading { spec, kinds })
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
            kind.answer(answer);
        }
    }

    /// Returns true if nothing is asked any more.
    pub fn is_settled(&self) -> bool {
        match &self.state {
            State::Decided(_) => true,
            State::Reading(reading) => reading.kinds.iter().all(|kind| kind.state().is_some()),
        }
    }

    /// Decides by the answers so far.
    pub fn decide(self) -> SpecDecision {
        let mut decision = match self.state {
            State::Decided(decision) => decision,
            State::Reading(reading) => reading.spec.findings(&reading.kinds).decision(reading.spec.cause()),
        };
        if let SpecDecision::Accepted(warnings) = &mut decision {
            warnings.splice(..0, self.replaces);
        }
        decision
    }
}

/// Returns the object of a review that stores a new spec of a rule, a lock or an owner, and the spec before; `None` for
/// any other request.
fn new_spec(review: &ObjectReview<'_>) -> Option<(Subject, Value, Option<Value>)> {
    #[derive(Deserialize)]
    struct Parts<'a> {
        #[serde(borrow)]
        spec: Option<&'a RawValue>,
    }
    let about = review.review();
    let stores = matches!(about.operation(), Operation::Create | Operation::Update) && about.sub_resource().is_none();
    let subject = Subject::from_review(about)?;
    let is_terminating = review.new_metadata().as_ref().is_some_and(ReviewedObject::is_terminating);
    if !stores || is_terminating {
        return None;
    }
    let spec = |state: Option<&str>| -> Option<Value> {
        serde_json::from_str(serde_json::from_str::<Parts<'_>>(state?).ok()?.spec?.get()).ok()
    };
    let before = spec(review.old_object());
    let object: Value = serde_json::from_str(review.object()?).ok()?;
    (before.is_none() || object.get("spec") != before.as_ref()).then_some((subject, object, before))
}

impl Subject {
    fn from_review(review: &Review<'_>) -> Option<Self> {
        match (review.group(), review.resource()) {
            (api::GROUP, api::PLURAL) => Some(Self::Rule),
            #[cfg(feature = "locks")]
            (api::GROUP, plural) => LockKind::of_plural(plural).map(Self::Lock),
            #[cfg(feature = "owners")]
            (owners::GROUP, owners::GLOBAL_OWNERS) => Some(Self::Owner),
            _ => None,
        }
    }
}

impl Spec {
    /// Reads the spec of an object; the error is the decision on one that can't be read.
    fn parse(control_plane: ControlPlane, subject: Subject, object: &Value) -> Result<Self, SpecDecision> {
        match subject {
            Subject::Rule => WrittenRule::parse(control_plane, object).map(|rule| Self::Rule(Box::new(rule))),
            // The review of locks themselves refuses one that can't be used.
            #[cfg(feature = "locks")]
            Subject::Lock(kind) => {
                let lock = Lock::parse(kind, object).map_err(|_| SpecDecision::Accepted(Vec::new()))?;
                Ok(Self::Lock(Box::new(lock), control_plane))
            }
            #[cfg(feature = "owners")]
            Subject::Owner => owner::parse(object).map(Self::Owner),
        }
    }

    /// Returns the kinds to read: those that the spec names, each once.
    fn kinds(&self) -> Vec<KindRead> {
        match self {
            Self::Rule(rule) => rule.kinds(),
            #[cfg(feature = "locks")]
            Self::Lock(lock, control_plane) => lock::kinds(lock, *control_plane),
            #[cfg(feature = "owners")]
            Self::Owner(entries) => owner::kinds(entries),
        }
    }

    fn findings(&self, kinds: &[KindRead]) -> Findings {
        match self {
            Self::Rule(rule) => rule.findings(kinds),
            #[cfg(feature = "locks")]
            Self::Lock(lock, _) => lock::findings(lock, kinds),
            #[cfg(feature = "owners")]
            Self::Owner(entries) => owner::findings(entries, kinds),
        }
    }

    /// Returns the cause of a refusal.
    fn cause(&self) -> Cause {
        match self {
            Self::Rule(_) => Cause::RuleInvalid,
            #[cfg(feature = "locks")]
            Self::Lock(..) => Cause::LockInvalid,
            #[cfg(feature = "owners")]
            Self::Owner(_) => Cause::OwnerInvalid,
        }
    }
}

impl SpecDecision {
    /// Returns true if the spec may be stored.
    pub fn allowed(&self) -> bool {
        !matches!(self, Self::Refused(..))
    }

    /// Returns the warnings of an answer that allows, for people.
    pub fn warnings(&self) -> Vec<String> {
        let Self::Accepted(warnings) = self else { return Vec::new() };
        warnings.iter().take(MAX_PROBLEMS).map(|warning| clipped(warning)).collect()
    }

    /// Returns the message of a refusal, for people; `None` if the review is allowed.
    pub fn message(&self) -> Option<String> {
        let Self::Refused(cause, errors) = self else { return None };
        let written = match cause {
            Cause::LockInvalid => "lock",
            Cause::OwnerInvalid => "GlobalOwner",
            _ => "rule",
        };
        let shown: Vec<_> = errors.iter().take(MAX_PROBLEMS).map(|(error, _)| clipped(error)).collect();
        let more = errors.len().saturating_sub(MAX_PROBLEMS);
        let more = if more > 0 { format!("; and {more} more problems") } else { String::new() };
        Some(format!("the {written} does not work as written: {}{more}", shown.join("; ")))
    }

    /// Returns the causes of a refusal, for programs; none if the review is allowed.
    pub fn causes(&self) -> Causes {
        let mut causes = Causes::default();
        if let Self::Refused(cause, errors) = self {
            for (error, field) in errors.iter().take(MAX_PROBLEMS) {
                causes.add(*cause, error, field.as_deref().unwrap_or_default());
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
            Self::Refused(..) => "refused",
        }
    }
}

#[cfg(test)]
mod tests;
