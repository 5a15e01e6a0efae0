//! Reader of an object's references: the same references that an evaluation finds, from their other end.

use std::sync::Arc;

use serde_json::Value;

use crate::lookup::matcher::ReferenceMatcher;
use crate::lookup::reference::ObjectReference;
use crate::rule::compiled_edge::CompiledEdge;
use crate::rule::{Edge, Rule};
use crate::scan::extract::PageError;

/// Reader of the references that objects hold by some edges, with the code by which an
/// [`Evaluation`](crate::Evaluation) finds the referrers of its target.
///
/// ```
/// use depguard_core::{ControlPlane, Rule};
/// use depguard_core::lookup::{ReferenceReader, ReferenceTarget, ReferencedObject};
/// use serde_json::json;
///
/// let rule = Rule::parse(ControlPlane::Kubernetes, &json!({"metadata": {"name": "virtualmachines"}, "spec": {
///     "dependent": {"group": "compute.example.com", "version": "v1", "kind": "VirtualMachine", "resource": "virtualmachines"},
///     "dependencies": [{
///         "group": "network.example.com", "version": "v1", "resource": "vpcs",
///         "fieldRef": {"path": ".spec.vpcRef.name"},
///     }],
/// }}))?;
/// let reader = ReferenceReader::new(rule.edges().iter().map(|edge| (&rule, edge)));
///
/// let vm = json!({"metadata": {"name": "m1", "namespace": "x"}, "spec": {"vpcRef": {"name": "a"}}});
/// let vpc = |namespace: &str| ReferencedObject::read(&json!({"metadata": {"name": "a", "namespace": namespace}}));
/// reader.read(&vm, |held| {
///     assert_eq!(held.edge, 0);
///     assert_eq!(held.means, ReferenceTarget::Named { name: "a".into(), namespace: Some("x".into()), uid: None });
///     // The versions that are served matter to edges that ignore dependents which the target owns.
///     let (group, kinds) = ("network.example.com".parse().unwrap(), [("v1".to_owned(), Some("VPC".to_owned()))].into());
///     assert!(held.refers_to(&vpc("x"), &group, &kinds) && !held.refers_to(&vpc("y"), &group, &kinds));
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ReferenceReader(ReferenceMatcher);

impl ReferenceReader {
    /// Creates a reader for these edges, each with its rule.
    pub fn new<'r>(edges: impl IntoIterator<Item = (&'r Rule, &'r Edge)>) -> Self {
        let edges = edges.into_iter().map(|(rule, edge)| {
            let dependent = Arc::new(rule.dependent().clone());
            Arc::new(CompiledEdge::new(rule, &dependent, edge.clone()))
        });
        Self(ReferenceMatcher::new(&edges.collect::<Vec<_>>()))
    }

    /// Hands all references of an object, certain or not, to `each`; two references to the same target come twice.
    /// The object counts as one of the edges' dependent kind.
    ///
    /// An object without a name is an error.
    pub fn read(&self, object: &Value, each: impl FnMut(ObjectReference<'_>)) -> Result<(), PageError> {
        self.read_json(&object.to_string(), each)
    }

    /// Hands all references of an object to `each`, as [`Self::read`] does. Takes memory for the references alone,
    /// whatever else the object's JSON has.
    pub fn read_json(&self, object: &str, each: impl FnMut(ObjectReference<'_>)) -> Result<(), PageError> {
        self.0.references(object, each)
    }
}
