//! What every status of the contract has: the generation seen, a phase, and conditions.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{PROGRESSING, READY, TERMINATING};

/// What every status begins with.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Common {
    /// The generation that the rest speaks of.
    #[serde(default)]
    pub observed_generation: i64,
    /// All of it in a word.
    #[serde(default)]
    pub phase: String,
    /// What is so and what isn't, one by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Whether something is so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It is.
    True,
    /// It isn't.
    False,
    /// It could not be found out.
    Unknown,
}

/// What is said of one aspect of an object.
#[derive(Debug, Clone, Copy)]
pub struct Aspect<'a> {
    /// Which aspect, in CamelCase.
    pub kind: &'a str,
    /// Whether it is as it should be.
    pub status: Status,
    /// Why, in CamelCase.
    pub reason: &'a str,
    /// Why, for people.
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
    /// Says something of one aspect. Others stay as they are, and so does `lastTransitionTime` where the status does.
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

    /// The condition of this type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == kind)
    }

    /// Takes the phase from the conditions, by the contract's general rule, and notes the generation.
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

/// Whether there are conditions, and all of them are true.
pub fn is_ready(conditions: &[Condition]) -> bool {
    !conditions.is_empty() && conditions.iter().all(|condition| condition.status == "True")
}
