//! Fields that a rule leaves out on purpose, by its annotation.

use serde_json::Value;

use crate::model::api::LEFT_OUT_ANNOTATION;
use crate::model::field_path::FieldPath;

/// Returns the fields that a rule leaves out, each with all fields below. Each line of the annotation is a path and the
/// reason; a line without a reason leaves nothing out.
pub fn left_out(rule: &Value) -> impl Iterator<Item = FieldPath> {
    let annotations = rule.pointer("/metadata/annotations");
    let text = annotations.and_then(|annotations| annotations.get(LEFT_OUT_ANNOTATION)?.as_str()).unwrap_or_default();
    text.lines().filter_map(|line| {
        let (path, reason) = line.split_once(": ")?;
        FieldPath::parse(path.trim()).ok().filter(|_| !reason.trim().is_empty())
    })
}
