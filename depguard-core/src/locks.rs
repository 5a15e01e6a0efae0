//! Object locks: who may change or delete what, and until when.
//!
//! An ObjectLock or a ClusterObjectLock says that some objects must not be changed or deleted by anyone but its holder.
//! Which locks bear on an object is found in [lock tables](LockTable), which name them: a review of an unlocked object
//! costs one GET, or two side by side. A table only says which locks to read; the locks decide.
//!
//! [`LockEvaluation`] decides a review without I/O: it says what to send, takes the answers, and decides.
//!
//! ```
//! use depguard_core::locks::{Ask, LockEvaluation, LockReview, Moment};
//! use depguard_core::{Answer, Home};
//! use serde_json::json;
//!
//! let review = json!({"apiVersion": "admission.k8s.io/v1", "request": {
//!     "uid": "1", "operation": "DELETE", "userInfo": {"username": "alice"}, "name": "a", "namespace": "default",
//!     "resource": {"group": "", "version": "v1", "resource": "configmaps"},
//!     "oldObject": {"metadata": {"name": "a", "namespace": "default"}},
//! }}).to_string();
//! let review = LockReview::parse(review.as_bytes())?;
//! let now = Moment::parse("2026-12-01T00:00:00Z").unwrap();
//! let mut evaluation = LockEvaluation::begin(Home::Kubernetes, &review, now);
//! loop {
//!     let asks = evaluation.asks();
//!     if asks.is_empty() {
//!         break;
//!     }
//!     for ask in asks {
//!         // Here a webhook sends it, and hands back whatever was answered. These two tables are not there.
//!         let Ask::Get(query) = ask else { continue };
//!         let name = query.path.rsplit('/').next().unwrap();
//!         let body = json!({
//!             "kind": "Status", "reason": "NotFound", "code": 404, "details": {"kind": "locktables", "name": name},
//!         }).to_string();
//!         evaluation.answer(query.id, Answer::Response { status: 404, body: body.as_bytes() });
//!     }
//! }
//! assert!(evaluation.decide().allowed());
//! # Ok::<(), depguard_core::ReviewError>(())
//! ```

// How a review goes. Of an object: `object` says which it is and what is to be done with it, and `evaluation::search` asks
// for the locks that may forbid that, by `reading`. What each says is judged by `standing`, whether what the object lies in
// is torn down by `surroundings`, and what the requester may know by `access`. Of a lock: `guard` decides, and has
// `writing` note the lock in its tables before it is stored. Both keep on a `desk` what they have asked.
mod access;
mod ages;
mod change;
mod compat;
mod decision;
mod desk;
mod evaluation;
mod guard;
mod holder;
mod lock;
mod moment;
mod object;
mod parse;
mod reading;
mod review;
mod standing;
mod surroundings;
mod table;
mod writing;

pub use ages::{Ages, CLEAN_AFTER};
pub use decision::LockDecision;
pub use desk::{Ask, Send, Verb};
pub use evaluation::LockEvaluation;
pub use holder::Holder;
pub use lock::{DuringTeardown, EXPIRY_TOLERANCE, Lock, LockError, LockKind, LockTarget, Operations, Pick, tables_of};
pub use moment::Moment;
pub use review::LockReview;
pub use table::{Entry, KIND as TABLE_KIND, LockTable, PLURAL as TABLE_PLURAL, TableError, TableName};
pub use writing::{TableNote, TableWrite};

/// Where locks and their tables are served.
pub(crate) const ROOT: &str = "/apis/dependencies.opendefense.cloud/v1alpha1";

/// The most targets of a lock.
pub const MAX_TARGETS: usize = 64;
/// The most kinds that one lock is about, each with a table of its own.
pub const MAX_TABLES: usize = 16;
/// The most fields that a lock freezes.
pub const MAX_FIELDS: usize = 32;
/// The longest reason, in characters.
pub const MAX_REASON: usize = 512;
/// The most users, groups or service accounts that hold a lock.
pub const MAX_HOLDERS: usize = 64;
/// The most locks that one table names.
pub const MAX_ENTRIES: usize = 4_000;
/// The most that a table says, in bytes.
pub const MAX_TABLE_BYTES: usize = 512 << 10;
