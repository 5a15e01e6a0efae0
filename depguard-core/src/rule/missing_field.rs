//! Required fields that a rule lacks.

use serde_json::Value;

use crate::rule::error::RuleError;

const RESOURCE: &str = "resource";
const OF_DEPENDENT: [&str; 4] = ["group", "version", "kind", RESOURCE];
const OF_DEPENDENCY: [&str; 3] = ["group", "version", RESOURCE];

/// Returns the first required field that the rule lacks; `None` if it has all that can be told.
pub(super) fn find(object: &Value) -> Option<RuleError> {
    let spec = object.get("spec")?;
    let dependent = spec.get("dependent").and_then(|part| in_part("spec.dependent", part, &OF_DEPENDENT));
    dependent.or_else(|| {
        let mut dependencies = spec.get("dependencies")?.as_array()?.iter().enumerate();
        dependencies.find_map(|(index, part)| in_part(&format!("spec.dependencies[{index}]"), part, &OF_DEPENDENCY))
    })
}

fn in_part(at: &str, part: &Value, required: &[&str]) -> Option<RuleError> {
    let part = part.as_object()?;
    // An API server treats an empty field as an absent one.
    let missing = required.iter().find(|name| part.get(**name).is_none_or(Value::is_null))?;
    let advice = match (*missing, part.get("kind").and_then(Value::as_str)) {
        (RESOURCE, Some(kind)) => format!("write the plural name of {kind} that `kubectl api-resources` prints"),
        (RESOURCE, None) => "write the plural name of the kind that `kubectl api-resources` prints".to_owned(),
        _ => "write it".to_owned(),
    };
    Some(RuleError::Missing { field: format!("{at}.{missing}"), advice })
}
