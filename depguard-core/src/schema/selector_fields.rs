//! Fields of the selectors that an edge reads, and that its rule doesn't name.

use crate::model::label_selector::Selector;
use crate::rule::{Edge, Reference, SelectorReference};
use crate::schema::openapi::Schema;

/// Returns why nobody may be able to tell what the selectors of an edge select, as far as the dependents' schema says: they
/// may have fields that the rule doesn't name.
pub fn unclear_selector(edge: &Edge, dependents: &Schema) -> Option<String> {
    let Reference::Selector(SelectorReference { path, narrowed_by }) = &edge.reference else { return None };
    let fields = dependents.fields(path).into_iter();
    let is_read = |field: &&str| Selector::FIELDS.contains(field) || narrowed_by.iter().any(|name| name == field);
    let others: Vec<_> = fields.filter(|field| !is_read(field)).map(|field| format!("`{field}`")).collect();
    (!others.is_empty()).then(|| {
        format!(
            "a selector at `{path}` may have {}: where it does, nobody can tell what it selects, and deletions are refused; \
             name the fields that only narrow it in spec.dependencies[{}].selectorRef.narrowedBy",
            others.join(", "),
            edge.index
        )
    })
}
