//! Foreign keys for kcp and Kubernetes, without I/O.
//!
//! A [`DependencyRule`](api::DependencyRule) says that one kind refers to another through a field. This crate reads
//! rules, and decides whether an object may be deleted: not while a dependent still refers to it. It opens no
//! connection and knows no async runtime. Bytes go in, a [`Decision`] comes out, so that an admission webhook, a command
//! line and a test can all embed it.
//!
//! # Deciding a deletion
//!
//! Load the rules, parse the review, have answered what the evaluation asks for:
//!
//! ```
//! use depguard_core::{Context, Home, Review, RuleSet};
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
//! let rules = RuleSet::try_load(Home::Kubernetes, [&rule])?;
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
//! [`Evaluation::decide_until`] does the same for servers that don't block, and [`Evaluation::queries`] is what both stand
//! on.
//!
//! # Checking a rule
//!
//! [`Rule::parse`] is the only way to a [`Rule`], so whoever holds one knows that it is right. Its errors name the field:
//!
//! ```
//! use depguard_core::{Home, Rule};
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
//!     Rule::parse(Home::Kubernetes, &rule).unwrap_err().to_string(),
//!     "spec.dependencies[0].fieldRef.path: path `.spec.vpc-ref.name` has a character that is not a letter, a digit or `_` at offset 9: \
//!      quote the name, as in `.metadata.annotations['example.com/vpc']`"
//! );
//! ```
//!
//! # Reading references from a list
//!
//! ```
//! use depguard_core::{Extractor, FieldPath};
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
//! - `.metadata.annotations['example.com/vpc']`: any other name is quoted, with `'` or `"`; `\` escapes a quote and itself
//! - `.spec.networks[*].vpc`: every element of a list, every value of a map; `.*` is the same
//! - `.spec.networks[0].vpc`: one element of a list
//! - at most 253 bytes and 4 wildcards; no filters, no slices, no search at any depth
//!
//! Only a string, and each string of a list, is a reference. A number, an object, or a field that is not there refers
//! to nothing.
//!
//! # What it holds to
//!
//! - **When it can't know, it refuses.** A list that failed, expired again and again, was cut, carries no
//!   `resourceVersion` or was not answered at all is never taken for an empty one.
//! - **No input makes it panic**, and what it keeps is bounded, however many dependents there are.
//! - **A rule bears only where its exports are bound.** In kcp it is silent in every logical cluster whose APIBindings
//!   do not show both ends, so nobody's rule can freeze or spy on somebody else's objects.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]
// What is public may grow, or says why it never will.
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod answers;
pub mod api;
mod applicability;
mod bearing;
mod bindings;
mod bounds;
pub mod canary;
mod components;
mod consent;
mod decision;
mod discovery;
mod durations;
mod evaluation;
mod extract;
mod fetched;
mod found;
mod graph;
mod held;
mod home;
mod inquiry;
mod json;
mod kind_waves;
mod listing;
pub mod locks;
mod lookup;
mod message;
pub mod names;
pub mod naming;
mod outline;
mod overrides;
pub mod owners;
mod path;
mod pattern;
mod plan;
mod query;
mod reading;
mod references;
mod required_read;
mod review;
mod rule;
mod ruleset;
mod scopes;
mod selector;
mod table;
mod target;
mod text;
mod timeout;
mod turns;
mod unreviewed;
mod workspaces;

pub use api::{FailurePolicy, Strategy};
pub use applicability::{KnownRules, RuleCurrency, Withdrawal};
pub use components::components;
pub use consent::{Acceptance, Accepted, Consent, Consents, PathLookups};
pub use decision::{Because, Blocker, Count, Decision, Denial, Notes, Problem, Reason, Referrers, RefusalCode, Ruling};
pub use durations::parse_duration;
pub use evaluation::Evaluation;
pub use extract::{Extractor, Item, Needle, Page, PageError};
pub use fetched::Fetched;
pub use held::{Held, Means, ReferenceReader, Referent};
pub use home::Home;
pub use inquiry::{Inquiry, Loaded, LoadedError, LoadedRule};
pub use kind_waves::KindWaves;
pub use lookup::Lookup;
pub use message::{Message, MessageError};
pub use names::{
    ExportName, Group, GroupResource, GroupVersionResource, Kind, LogicalCluster, NameError, Namespace, Resource,
    Version, WorkspacePath,
};
pub use outline::Outline;
pub use overrides::OverridePolicy;
pub use owners::{OwnerDecision, OwnerEvaluation};
pub use path::{FieldPath, PathError, PathErrorKind, Segment};
pub use pattern::{Pattern, PatternError};
pub use plan::{Dependents, Planned};
pub use query::{Accept, Answer, Query, QueryId, Request, percent_encode};
pub use reading::Reading;
pub use required_read::RequiredRead;
pub use review::{Operation, Requester, Review, ReviewError};
pub use rule::{Dependent, Edge, ExportRef, FieldReference, Place, Reference, Rule, RuleError, RuleKey, Target, When};
pub use ruleset::{CompiledRule, Context, LoadError, RuleSet};
pub use selector::{Selector, SelectorError};
pub use timeout::time_to_answer;
pub use turns::{Turns, to_clear};
pub use unreviewed::Unreviewed;
pub use workspaces::Workspaces;

/// The page that a registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
