//! Common fields of every status of the contract: the observed generation, a phase, and conditions.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{PROGRESSING, READY, TERMINATING};

/// Common fields of every status.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Common {
    /// Generation that the other fields are about.
    #[serde(default)]
    pub observed_generation: i64,
    /// Summary in a word.
    #[serde(default)]
    pub phase: String,
    /// Conditions, one of each type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// The condition could not be found out.
    Unknown,
}

/// Report on one aspect of an object.
#[derive(Debug, Clone, Copy)]
pub struct Aspect<'a> {
    /// Name of the aspect, in CamelCase.
    pub kind: &'a str,
    /// Status of the aspect.
    pub status: Status,
    /// Reason in CamelCase.
    pub reason: &'a str,
    /// Reason for people.
    pub message: &'a str,
}

impl Status {
    fn text(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl Common {
    /// Reports one aspect. The others stay the same; `lastTransitionTime` stays the same if the status does.
    pub fn say(&mut self, generation: i64, aspect: Aspect<'_>) {
        let before = self.conditions.iter().position(|condition| condition.type_ == aspect.kind);
        let stays = before
            .and_then(|at| self.conditions.get(at))
            .filter(|condition| condition.status == aspect.status.text())
            .map(|condition| condition.last_transition_time.clone());
        let condition = Condition {
            type_: aspect.kind.to_owned(),
            status: aspect.status.text().to_owned(),
            reason: aspect.reason.to_owned(),
            message: aspect.message.to_owned(),
            observed_generation: Some(generation),
            last_transition_time: stays.unwrap_or_else(|| Time(Timestamp::now())),
        };
        match before.and_then(|at| self.conditions.get_mut(at)) {
            Some(old) => *old = condition,
            None => self.conditions.push(condition),
        }
    }

    /// Returns the condition of this type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == kind)
    }

    /// Derives the phase from the conditions, by the contract's general rule, and notes the generation.
    pub fn conclude(&mut self, generation: i64, is_terminating: bool) {
        self.observed_generation = generation;
        let phase = match is_terminating {
            true => TERMINATING,
            false if is_ready(&self.conditions) => READY,
            false => PROGRESSING,
        };
        self.phase = phase.to_owned();
    }
}

/// Returns true if there are conditions, and all of them are true.
pub fn is_ready(conditions: &[Condition]) -> bool {
    !conditions.is_empty() && conditions.iter().all(|condition| condition.status == "True")
}
