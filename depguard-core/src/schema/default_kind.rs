//! Kind that a rule takes for an absent one, and the one that an API server fills in.

use crate::model::names::Kind;
use crate::rule::{Edge, FieldReference, Reference, ValueSource};
use crate::schema::openapi::Schema;

/// Default kind of an edge that is another than the schema's.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OtherDefault {
    /// Field of the rule: `spec.dependencies[0].fieldRef.defaultKind`.
    pub field: String,
    /// The problem, and what to write.
    pub message: String,
}

/// Checks that an edge takes that kind for an absent one which an API server fills in by the dependents' schema.
pub fn other_default(edge: &Edge, dependents: &Schema) -> Option<OtherDefault> {
    let Reference::Field(reference) = &edge.reference else { return None };
    let FieldReference { kind: Some(ValueSource { path: Some(path), pattern: None }), default_kind: Some(own), .. } =
        &**reference
    else {
        return None;
    };
    let other = dependents.defaults(path).into_iter().find(|default| *default != own.as_str())?;
    let field = format!("spec.dependencies[{}].fieldRef.defaultKind", edge.index);
    let message = format!(
        "{field} is {own}, but an API server writes {other} to `{path}` where that is absent: write `defaultKind: {other}`"
    );
    Some(OtherDefault { field, message })
}

/// Returns true if an absent kind means another one than the edge's.
pub(super) fn is_another(edge: &Edge) -> bool {
    let Reference::Field(reference) = &edge.reference else { return false };
    let is_own = |default: &Kind| edge.target.kind.as_ref() == Some(default);
    reference.default_kind.as_ref().is_some_and(|default| !is_own(default))
}
