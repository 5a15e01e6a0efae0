//! Object locks: the users who may change or delete an object, and the end of that restriction.
//!
//! An ObjectLock or a ClusterObjectLock says that only its holder may change or delete some objects. [Lock
//! tables](LockTable) name the locks that may be about an object, so a review of an unlocked object costs one GET, or
//! two at the same time. A table only says which locks to read; the locks themselves decide.
//!
//! [`LockEvaluation`] decides a review without I/O: it returns the requests, takes the answers, and decides.
//!
//! ```
//! use depguard_core::locks::{LockEvaluation, Timestamp};
//! use depguard_core::ControlPlane;
//! use depguard_core::protocol::{Answer, Ask, ObjectReview};
//! use serde_json::json;
//!
//! let review = json!({"apiVersion": "admission.k8s.io/v1", "request": {
//!     "uid": "1", "operation": "DELETE", "userInfo": {"username": "alice"}, "name": "a", "namespace": "default",
//!     "resource": {"group": "", "version": "v1", "resource": "configmaps"},
//!     "oldObject": {"metadata": {"name": "a", "namespace": "default"}},
//! }}).to_string();
//! let review = ObjectReview::parse(review.as_bytes())?;
//! let now = Timestamp::parse("2026-12-01T00:00:00Z").unwrap();
//! let mut evaluation = LockEvaluation::begin(ControlPlane::Kubernetes, &review, now);
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

// The way of a review. For an object: `object` names it and the requested operation, and `evaluation::search` asks
// for the locks that may forbid that, by `reading`. `lock_match` judges each lock, `object_scope` knows if the object
// is torn down, and `access` knows which locks the requester may see. For a lock: `lock_admission` decides, and makes
// `writing` record the lock in its tables before the lock is stored. Both keep their requests on a `request_queue`.
mod access;
mod change;
mod compat;
mod decision;
mod evaluation;
mod holder;
mod lock;
mod lock_admission;
mod lock_match;
mod object;
mod object_scope;
mod parse;
mod reading;
mod request_queue;
mod table;
mod table_gc;
mod timestamp;
mod wire;
mod writing;

pub use decision::LockDecision;
pub use evaluation::LockEvaluation;
pub use holder::Holder;
pub use lock::{EXPIRY_TOLERANCE, Lock, LockError, LockKind, LockTarget, Operations, Pick, tables_of};
pub use table::{Entry, KIND as TABLE_KIND, LockTable, PLURAL as TABLE_PLURAL, TableError, TableName};
pub use table_gc::{CLEAN_AFTER, TableGc};
pub use timestamp::Timestamp;
pub use writing::{TableNote, TableWrite};
#[cfg(feature = "schemars")]
pub use {table::table_schema, wire::lock_schema};

/// Path under which locks and their tables are served.
pub(crate) const ROOT: &str = "/apis/dependencies.opendefense.cloud/v1alpha1";

/// The most targets of a lock.
pub const MAX_TARGETS: usize = 64;
/// The most kinds of objects that one lock names; each kind has its own table.
pub(crate) const MAX_TABLES: usize = 16;
/// The most fields that a lock freezes.
pub const MAX_FIELDS: usize = 32;
/// The longest reason of a lock, in characters.
pub const MAX_REASON: usize = 512;
/// The most users, the most groups, and the most service accounts that hold a lock.
pub const MAX_HOLDERS: usize = 64;
/// The most locks that one table names.
pub const MAX_ENTRIES: usize = 4_000;
/// The maximum size of a table, in bytes.
pub(crate) const MAX_TABLE_BYTES: usize = 512 << 10;
