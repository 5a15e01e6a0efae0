//! Referrers of a target, and their text of readable length.

use std::fmt::{Display, Write};

use crate::protocol::problem::clipped;
use crate::rule::RuleKey;

/// The dependents that refer to a target.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Referrers {
    /// The first referrers, in the order of kind, namespace and name; each once, however often it refers to the
    /// target.
    pub blockers: Vec<Blocker>,
    /// The number of referrers.
    pub count: Count,
    /// The rules by which they refer, in order.
    pub rules: Vec<RuleKey>,
    /// Additional messages of the rules.
    pub messages: Vec<String>,
}

/// A dependent that refers to a target, and that forbids the deletion if the rule says so.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "depguard's other crates construct it with all fields")]
pub struct Blocker {
    /// The dependent's kind.
    pub kind: String,
    /// The dependent's namespace, if it has one that differs from the target's.
    pub namespace: Option<String>,
    /// The dependent's name.
    pub name: String,
    /// The field that refers to the target: `spec.vpcRef.name`.
    pub field: String,
    /// The rule of the reference; the first one if there are several.
    pub rule: RuleKey,
}

/// Number of dependents that refer to a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a number is known or it is not")]
pub enum Count {
    /// Exactly this many.
    Exactly(usize),
    /// At least this many: the search ended early.
    AtLeast(usize),
}

/// Bounds of a message, which keep it readable however many blockers there are.
const MAX_NAMED: usize = crate::lookup::referrer_set::MAX_SOUGHT - 1;
const MAX_NAMED_BYTES: usize = 2_048;
const MAX_RULES: usize = 5;
const MAX_MESSAGES: usize = 3;

impl Referrers {
    /// Returns the names of the referrers, the rules if there are several, and the additional messages of the rules.
    pub(super) fn text(&self) -> String {
        let mut text = names(&self.blockers, self.count);
        text.push_str(&rules_text(&self.rules));
        for message in self.messages.iter().take(MAX_MESSAGES) {
            // Writing to a string can't fail.
            let _ = write!(text, "; {}", clipped(message));
        }
        text
    }

    /// Returns the blockers that the text names.
    pub(super) fn named(&self) -> &[Blocker] {
        named(&self.blockers)
    }
}

impl std::fmt::Display for Blocker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{}/{namespace}/{}", self.kind, self.name),
            None => write!(f, "{}/{}", self.kind, self.name),
        }
    }
}

/// Returns the names as text: `VirtualMachine/m1, VirtualMachine/m2 and 3 more (5 in all)`.
pub(crate) fn names(blockers: &[Blocker], count: Count) -> String {
    let names: Vec<_> = named(blockers).iter().map(Blocker::to_string).collect();
    let mut text = names.join(", ");
    let more = |count: usize| count.saturating_sub(names.len());
    // Writing to a string can't fail.
    let _ = match count {
        Count::Exactly(count) if more(count) == 0 => Ok(()),
        Count::Exactly(count) => write!(text, " and {} more ({count} in all)", more(count)),
        Count::AtLeast(count) => write!(text, " and at least {} more", more(count)),
    };
    text
}

/// Returns the rules as the end of a message, if there are several.
pub(super) fn rules_text(rules: &[RuleKey]) -> String {
    if rules.len() > 1 { by_rules(rules.iter()) } else { String::new() }
}

/// Returns rules as the end of a message.
pub(in crate::evaluation) fn by_rules<'r>(rules: impl ExactSizeIterator<Item = &'r RuleKey>) -> String {
    let (len, more) = (rules.len(), rules.len().saturating_sub(MAX_RULES));
    let shown: Vec<_> = rules.take(MAX_RULES).map(ToString::to_string).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("; by rule{} {}{more}", if len == 1 { "" } else { "s" }, shown.join(", "))
}

/// Returns the objects that fit into the message: at least one.
pub(super) fn named<T: Display>(objects: &[T]) -> &[T] {
    let mut bytes = 0;
    let fits = objects.iter().take(MAX_NAMED).take_while(|object| {
        let first = bytes == 0;
        bytes += object.to_string().len() + ", ".len();
        first || bytes <= MAX_NAMED_BYTES
    });
    let fits = fits.count();
    objects.get(..fits).unwrap_or(objects)
}
