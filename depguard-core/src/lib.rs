//! Foreign keys for kcp and Kubernetes, without I/O.
//!
//! A [`DependencyRule`](api::DependencyRule) says that one kind refers to another through a field. This crate reads
//! rules, and decides if an object may be deleted: while a dependent still refers to it, the deletion is refused. The
//! crate opens no connection and knows no async runtime. It takes bytes and returns a [`Decision`], so an admission
//! webhook, a command line and a test can all embed it.
//!
//! # Deciding a deletion
//!
//! Load the rules, parse the review, and answer the queries of the evaluation:
//!
//! ```
//! use depguard_core::{Context, ControlPlane, Review, RuleSet};
//! use serde_json::json;
//!
//! let rule = json!({
//!     "metadata": {"name": "virtualmachines"},
//!     "spec": {
//!         "dependent": {"group": "compute.example.com", "version": "v1", "kind": "VirtualMachine", "resource": "virtualmachines"},
//!         "dependencies": [{
//!             "group": "network.example.com", "version": "v1", "resource": "vpcs",
//!             "fieldRef": {"path": ".spec.vpcRef.name"},
//!         }],
//!     },
//! });
//! let rules = RuleSet::try_load(ControlPlane::Kubernetes, [&rule])?;
//!
//! // What the API server posts to a webhook, and what it answers to a LIST.
//! let review = json!({"apiVersion": "admission.k8s.io/v1", "request": {
//!     "uid": "1", "operation": "DELETE",
//!     "resource": {"group": "network.example.com", "version": "v1", "resource": "vpcs"},
//!     "oldObject": {"metadata": {"name": "a", "namespace": "default"}},
//! }}).to_string();
//! let page = json!({"metadata": {"resourceVersion": "7"}, "items": [
//!     {"metadata": {"name": "m1", "namespace": "default"}, "spec": {"vpcRef": {"name": "a"}}},
//! ]}).to_string();
//!
//! let review = Review::parse(review.as_bytes())?;
//! let decision = rules.evaluate(&review, &Context::default()).decide_with(|query| {
//!     // Here a webhook does a GET of `query.path` in the logical cluster `query.cluster`.
//!     assert_eq!(
//!         query.path,
//!         "/apis/compute.example.com/v1/namespaces/default/virtualmachines?fieldSelector=spec.vpcRef.name%3Da&limit=500"
//!     );
//!     Ok::<_, std::io::Error>((200, page.as_bytes()))
//! });
//!
//! assert_eq!(decision.message().unwrap(), "cannot delete vpcs/a: still referenced by VirtualMachine/m1");
//! let answer = decision.to_review(review.uid()); // the AdmissionReview to send back
//! # assert!(!answer.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Evaluation::decide_until`] does the same for servers that don't block. Both use [`Evaluation::queries`].
//!
//! # Checking a rule
//!
//! Only [`Rule::parse`] creates a [`Rule`], so every [`Rule`] is valid. Its errors name the field:
//!
//! ```
//! use depguard_core::{ControlPlane, Rule};
//! use serde_json::json;
//!
//! let rule = json!({"metadata": {"name": "r"}, "spec": {
//!     "dependent": {"group": "compute.example.com", "version": "v1", "kind": "VirtualMachine", "resource": "virtualmachines"},
//!     "dependencies": [{
//!         "group": "network.example.com", "version": "v1", "resource": "vpcs",
//!         "fieldRef": {"path": ".spec.vpc-ref.name"},
//!     }],
//! }});
//! assert_eq!(
//!     Rule::parse(ControlPlane::Kubernetes, &rule).unwrap_err().to_string(),
//!     "spec.dependencies[0].fieldRef.path: path `.spec.vpc-ref.name` has a character that is not a letter, a digit or `_` at offset 9: \
//!      quote the name, as in `.metadata.annotations['example.com/vpc']`"
//! );
//! ```
//!
//! # Reading references from a list
//!
//! ```
//! use depguard_core::FieldPath;
//! use depguard_core::scan::Extractor;
//!
//! let path = FieldPath::parse(".spec.vpcRef.name")?;
//! let list = br#"{"metadata": {"resourceVersion": "7"}, "items": [
//!     {"metadata": {"name": "m1"}, "spec": {"vpcRef": {"name": "a"}, "disks": [1, 2, 3]}},
//!     {"metadata": {"name": "m2"}, "spec": {}}
//! ]}"#;
//! let mut references = Vec::new();
//! let page = Extractor::new([&path]).page(list, |item| {
//!     references.push((item.name().to_owned(), item.value(0).map(str::to_owned)));
//! })?;
//! assert_eq!(references, [("m1".to_owned(), Some("a".to_owned())), ("m2".to_owned(), None)]);
//! assert_eq!(page.continue_token, None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The syntax of field paths
//!
//! - `.spec.vpcRef.name`: field names are letters, digits and `_`, and don't begin with a digit; the first dot may be
//!   left out
//! - `.metadata.annotations['example.com/vpc']`: any other name is quoted, with `'` or `"`; `\` escapes a quote and
//!   itself
//! - `.spec.networks[*].vpc`: every element of a list, every value of a map; `.*` is the same
//! - `.spec.networks[0].vpc`: one element of a list
//! - a path has at most 253 bytes and 4 wildcards; there are no filters, no slices and no search at any depth
//!
//! A reference is a string, or each string of a list. A number, an object or a missing field refers to nothing.
//!
//! # Modules and features
//!
//! The root has what a provider needs. Tools that check rules, follow references or explain decisions find the rest in
//! the modules. The features `locks`, `owners` and `interlock`, all off by default, switch on the modules of these
//! names.
//!
//! # Guarantees
//!
//! - **In doubt, the crate refuses.** A list never counts as empty if it failed, expired again and again, was cut, has
//!   no `resourceVersion` or was not answered.
//! - **No input causes a panic**, and memory is bounded, however many dependents there are.
//! - **A rule applies only if its exports are bound.** In kcp a rule has no effect in a logical cluster whose
//!   APIBindings don't show both ends, so no provider's rule can freeze another provider's objects or spy on them.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]
// A public type may grow, or gives the reason why it never will.
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

// From top to bottom: each module imports only from those below it (e2e/tests/repository/architecture.rs holds the order).

/// Reviews of updates, evictions and subresources: object locks, owners across namespaces, and rules themselves.
mod guards;

/// Evaluation of a deletion, from a review to a decision: it returns queries, takes their answers, and decides.
mod evaluation;

// Interlock of references with deletions. Its documentation stands in the module, since links there must resolve there.
#[cfg(feature = "interlock")]
pub mod interlock;

/// Lookups of dependents: the requests that find them, and the items of an answer that refer to the object.
pub mod lookup;

/// Freshness: proofs that the loaded rules are the current ones.
pub mod freshness;

/// Applicability of rules: API bindings, grants, the caller's scope, overrides, teardown.
pub mod applicability;

/// Probes: the rules that a webhook has loaded, and a check that API servers ask the webhook.
pub mod probe;

/// Schemas of kinds, and the fit of a rule to the kinds that it names.
pub mod schema;

/// Rules: parsed, checked, and compiled to edges. The names, paths and patterns of every [`Rule`] are valid.
pub mod rule;

/// Bytes of the Kubernetes API: reviews, requests, responses, lists, discovery.
pub mod protocol;

/// Scan of JSON for a few fields, without building a tree of the whole.
pub mod scan;

/// Graphs: cycles, and the order of deletion.
pub mod graph;

/// Words of the API: names, field paths, selectors, patterns, durations.
pub mod model;

// The root is what a provider meets who embeds the core: docs/embedding.md says what is promised of it. Each other item
// is in one of the public modules.
pub use applicability::overrides::OverridePolicy;
pub use applicability::workspace_paths::Workspaces;
pub use evaluation::Evaluation;
pub use evaluation::begin::Context;
pub use evaluation::decision::Decision;
#[cfg(feature = "locks")]
pub use guards::locks;
#[cfg(feature = "owners")]
pub use guards::owners;
pub use guards::spec_admission;
pub use model::control_plane::ControlPlane;
pub use model::field_path::FieldPath;
pub use model::names::{ExportName, Group, GroupVersionResource, LogicalCluster, WorkspacePath};
pub use protocol::admission_review::{Review, ReviewError};
pub use protocol::request::Query;
pub use protocol::response::Fetched;
pub use protocol::timeout::time_to_answer;
pub use rule::checked_rule::Rule;
pub use rule::error::RuleError;
pub use rule::set::{LoadError, RuleSet};

/// Wire types of DependencyRules, with the annotations that depguard reads.
///
/// The types hold whatever the user wrote; [`Rule::parse`] checks it.
pub mod api {
    pub use crate::model::api::*;
}

/// Parts of a [`Decision`]: the verdict, its reason, the referrers, further notes.
pub mod decision {
    pub use crate::evaluation::decision::{
        AllowReason, Blocker, Causes, Count, Denial, Diagnostics, MissingReason, MissingTarget, MissingTargets, Reason,
        Referrers, Sender, Verdict,
    };
}

/// Parts of reviews in the [interlock].
#[cfg(feature = "interlock")]
pub mod interlocked {
    pub use crate::evaluation::interlocked::{
        BearingEdges, InterlockedDeletion, InterlockedReferences, InterlockedReview,
    };
}

/// Loop that drives an [`Evaluation`], or whatever else asks for answers, with requests of the caller's own.
pub mod driver {
    pub use crate::evaluation::drive::{Evaluating, drive};
}

/// The README, which a package registry shows; its examples are tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
