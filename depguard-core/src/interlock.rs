//! Interlock of references with deletions: of the creation of a reference and the deletion of its target, at most one
//! is allowed, even if API servers ask about both at the same moment.
//!
//! A deletion is checked against the references that are stored, and a reference against the targets that are stored.
//! Without an interlock both checks may pass at once, and the stored reference then points to nothing. So both sides
//! leave a mark in a [`Register`], a small object of depguard's own, *before* they read the other side's objects:
//!
//! - [`Insert`] decides if a dependent may begin to refer to its targets. It records an [`Intent`] for each target, then
//!   reads the targets.
//! - [`Delete`] decides if a target may be deleted. It lists the dependents, records a [`Flag`], then lists the
//!   dependents again.
//! - [`RegisterWrite`] records the [`Note`]s of any number of evaluations by one write. A note is recorded only if the
//!   other side has no live mark about the same target; else nothing is written for the note. So of two sides at most
//!   one has a mark, and a side that is refused leaves none.
//! - A side that was refused by a live mark leaves a [`Wait`]. Once refused again, it goes next: until then the other side
//!   records no new mark about the target. So nobody is put off for ever.
//! - [`Cleaner`] takes away the marks that no request can need any more. It alone judges age, by its own clock.
//!
//! None of these types does I/O, reads a clock, or draws a random number: times and [`Nonce`]s come in as values.
//!
//! # Assumptions
//!
//! The promise holds if all of these do; `docs/proof.md` says how each was tried.
//!
//! - An API server stores an object only within the lifetime of the request, and only in the state that was reviewed: a
//!   creation if no object has the name, an update or a deletion if the object is still at the reviewed revision. If
//!   not, the webhook is asked again.
//! - The cleaner keeps each mark for longer than the lifetime of any request.
//! - GETs and LISTs are consistent reads, sent after the request for them was handed out. A read may be shared by several
//!   evaluations only if it was sent after each of them had asked.
//! - Nobody else writes registers.
//!
//! # A deletion and a creation at the same moment
//!
//! ```
//! use depguard_core::Group;
//! use depguard_core::interlock::*;
//! use depguard_core::model::{GroupResource, Resource};
//! use serde_json::json;
//!
//! # let kind = |resource: &str| GroupResource { group: Group::CORE, resource: Resource::parse(resource).unwrap() };
//! # let key = |resource, name: &str| ObjectKey { cluster: None, kind: kind(resource), namespace: None, name: name.into() };
//! let buckets = Buckets::new(1).unwrap();
//! let vpc = key("vpcs", "a");
//! let machine = Dependent::created(key("machines", "m1"), "8f2e").unwrap();
//! let mut insert = Insert::begin(buckets, Nonce::new(1), &machine, [vpc.clone()]);
//! let mut delete = Delete::begin(buckets, Nonce::new(2), vpc.clone(), Revision::parse("41d0", "17").unwrap());
//! let mut register = Register::parse(json!({
//!     "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "ReferenceRegister",
//!     "metadata": {"name": buckets.register_of(&vpc).to_string(), "uid": "e5c1", "resourceVersion": "7"},
//!     "spec": {"openFor": "e5c1"},
//! }).to_string().as_bytes())?;
//!
//! // The creation records its intent first, so the deletion of the VPC must wait.
//! let Ask::Record(_, note) = insert.asks().remove(0) else { unreachable!() };
//! let (written, outcomes) = register.with(&[note]);
//! register = written.unwrap();
//! insert.recorded(register.name(), outcomes[0].clone());
//!
//! delete.listed(Listing::Empty);
//! let Ask::Record(_, note) = delete.asks().remove(0) else { unreachable!() };
//! let (written, outcomes) = register.with(&[note]);
//! assert!(written.is_none());
//! delete.recorded(outcomes[0].clone());
//! // The machine is not stored yet, and may be at any moment.
//! assert_eq!(delete.asks(), [Ask::Dependent(machine.key().clone())]);
//! delete.observed(machine.key(), Observation::Absent);
//! // So the deletion waits. If it is put off once more, it goes before further creations.
//! let Ask::Record(_, wait) = delete.asks().remove(0) else { unreachable!() };
//! let (written, outcomes) = register.with(&[wait]);
//! register = written.unwrap();
//! delete.recorded(outcomes[0].clone());
//! assert_eq!(delete.verdict(), Some(&Verdict::Refused(Refusal::AgainSoon)));
//!
//! // The VPC is there, so the machine may be created.
//! assert_eq!(insert.asks(), [Ask::Target(vpc.clone())]);
//! let revision = Revision::parse("41d0", "17").unwrap();
//! insert.observed(&vpc, Observation::Stored { revision, is_terminating: false });
//! assert_eq!(insert.verdict(), Some(&Verdict::Allowed));
//! # Ok::<(), RegisterError>(())
//! ```

// From a review to the register: `insert` and `delete` ask for `note`s to be recorded. A `register` consists of `mark`s by
// `object_key`; `stored_register` makes it a shared object, and `wire` reads and prints it. `cleaner` takes marks away.
mod cleaner;
mod delete;
mod evaluation;
mod insert;
mod mark;
mod note;
mod object_key;
mod object_read;
mod register;
mod stored_register;
mod wire;

pub use cleaner::{AgingPart, Cleaner};
pub use delete::Delete;
pub use evaluation::{Ask, Listing, Observation, Refusal, Verdict};
pub use insert::Insert;
pub use mark::{Flag, Intent, Marks, Nonce, SharedMark, Side, Wait};
pub use note::{Note, Opponent, Outcome};
pub use object_key::{Buckets, Dependent, Generation, ObjectKey, RegisterKey, RegisterName, Revision};
pub use object_read::ObjectRead;
pub use register::Register;
pub use stored_register::RegisterWrite;
#[cfg(feature = "schemars")]
pub use wire::register_schema;
pub use wire::{KIND, PLURAL, RegisterError};

/// The most intents of one target that a register names one by one; more are covered by one [shared mark](SharedMark). A
/// hundred dependents that are made at once have room, since a shared mark holds the target's deletion up for longer.
pub const MAX_INTENTS: usize = 128;
/// The most flags of one target. More deletions of one target at a time are refused for the moment.
pub const MAX_FLAGS: usize = 128;
/// The maximum size of a register, in bytes of JSON.
pub const MAX_REGISTER_BYTES: usize = 512 << 10;
