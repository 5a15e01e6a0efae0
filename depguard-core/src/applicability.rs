//! Which workspaces' rules apply, proved by consistent reads at the moment of a decision.
//!
//! What is watched of a shard grows old while the shard can't be heard of. These checks ask each logical cluster that
//! matters to one deletion instead, through whichever way kcp leads there now: an answer is the truth of that moment, and
//! where none comes, nothing is proved.

mod known_rules;
mod presence;
mod rule_currency;
mod withdrawal;

pub use self::known_rules::KnownRules;
pub use self::rule_currency::RuleCurrency;
pub use self::withdrawal::Withdrawal;
