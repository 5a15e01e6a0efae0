//! Proofs about workspaces, by consistent reads at the moment of a decision: the rules in force, and the providers
//! that have withdrawn.
//!
//! The watched objects of a shard become outdated while the shard can't be reached. Instead of relying on them, these
//! checks ask each logical cluster that matters to one deletion, by the route that kcp currently provides. An answer
//! is true at that moment; without an answer, nothing is proved.

mod known_rules;
mod presence;
mod rule_currency;
mod withdrawal;

use crate::protocol::request::{Query, QueryId};
use crate::protocol::response::Answer;

pub use self::known_rules::KnownRules;
pub use self::rule_currency::RuleCurrency;
pub use self::withdrawal::Withdrawal;

/// A proof by consistent reads.
pub trait Proof {
    /// Returns the queries to send now, each once.
    fn queries(&mut self) -> Vec<Query>;

    /// Takes the answer to a query. An answer to an unknown query, or a second answer, is ignored.
    fn answer(&mut self, id: QueryId, answer: Answer<'_>);

    /// Returns true if no further answer can change the result.
    fn is_settled(&self) -> bool;
}
