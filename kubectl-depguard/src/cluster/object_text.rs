//! Object kept as a line of JSON. Its tree takes some 20 times the memory, and a scan needs one tree at a time.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use crate::io::exit::Failure;

/// Object as text. Two are equal if their objects are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectText(Form);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    /// JSON with sorted fields.
    Json(Arc<str>),
    /// Tree of an object that JSON would change, or that is needed as a tree at once.
    Tree(Arc<Value>),
}

/// Limit on the nesting of an object that is kept as JSON; serde_json reads 127 levels.
const MAX_DEPTH: usize = 100;

impl ObjectText {
    pub(crate) fn new(object: &Arc<Value>) -> Self {
        match comes_back(object, MAX_DEPTH) {
            true => Self(Form::Json(object.to_string().into())),
            false => Self::from_tree(Arc::clone(object)),
        }
    }

    /// Keeps the tree, for the few objects of which every part is needed soon.
    pub(crate) fn from_tree(object: Arc<Value>) -> Self {
        Self(Form::Tree(object))
    }

    /// Returns the text that [`Self::new`] makes of the same object.
    pub(crate) fn compact(&self) -> Self {
        match &self.0 {
            Form::Json(_) => self.clone(),
            Form::Tree(object) => Self::new(object),
        }
    }

    /// Returns the object as JSON.
    pub(crate) fn json(&self) -> Cow<'_, str> {
        match &self.0 {
            Form::Json(json) => Cow::Borrowed(json),
            Form::Tree(object) => Cow::Owned(object.to_string()),
        }
    }

    /// Returns the object as a tree.
    pub(crate) fn to_value(&self) -> Result<Arc<Value>, Failure> {
        match &self.0 {
            Form::Json(json) => serde_json::from_str(json).map(Arc::new).map_err(|why| {
                Failure::new(format!("could not read an object of the files again: {why}"))
                    .hint("run the command again")
            }),
            Form::Tree(object) => Ok(Arc::clone(object)),
        }
    }
}

/// Returns true if the JSON parser surely reads the value as it is now: it is nested in at most so many levels, and holds
/// no floating-point number, whose last digit may change.
fn comes_back(value: &Value, levels: usize) -> bool {
    let below = levels.checked_sub(1);
    match (value, below) {
        (Value::Array(_) | Value::Object(_), None) => false,
        (Value::Array(items), Some(below)) => items.iter().all(|item| comes_back(item, below)),
        (Value::Object(fields), Some(below)) => fields.values().all(|field| comes_back(field, below)),
        (Value::Number(number), _) => !number.is_f64(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn nested(depth: usize) -> Arc<Value> {
        Arc::new((0..depth).fold(json!(1), |inner, _| json!({ "a": inner })))
    }

    #[test]
    fn an_object_of_any_depth_comes_back() {
        for depth in [1, MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1, 127, 128, 500] {
            let object = nested(depth);
            assert_eq!(ObjectText::new(&object).to_value().unwrap(), object, "{depth}");
        }
    }

    proptest! {
        #[test]
        fn every_number_and_text_comes_back(float in any::<f64>(), small in any::<i64>(), large in any::<u64>(), text in ".*") {
            let object = Arc::new(json!({"f": float, "s": small, "l": large, "t": text, "n": null}));
            prop_assert_eq!(ObjectText::new(&object).to_value().unwrap(), object);
        }
    }
}
