//! JSON patches by RFC 6902, with the peculiarities of the API server's library. A patch applies as a whole or not at
//! all.

use std::slice;

use ::json_patch::{AddOperation, Patch, PatchOperation, patch_unsafe};
use serde_json::Value;

use crate::protocol::status::{ApiError, ApiResult};

/// Maximum of operations that an API server accepts.
const MAX_OPERATIONS: usize = 10_000;

/// Patch that was parsed.
pub(crate) struct JsonPatch(Patch);

impl JsonPatch {
    pub(crate) fn parse(mut patch: Value) -> ApiResult<Self> {
        let unreadable = || ApiError::bad_request("error decoding patch: it is not a list of operations");
        let operations = patch.as_array_mut().ok_or_else(unreadable)?;
        if operations.len() > MAX_OPERATIONS {
            return Err(ApiError::too_large());
        }
        // A missing value counts as null.
        for operation in operations.iter_mut().filter_map(Value::as_object_mut) {
            operation.entry("value").or_insert(Value::Null);
        }
        serde_json::from_value(patch).map(Self).map_err(|_| ApiError::unprocessable())
    }

    /// Returns the patched object. A patch that doesn't fit is a 422 without a reason, as in the real server.
    pub(crate) fn apply(&self, to: &Value) -> ApiResult<Value> {
        let mut object = to.clone();
        for operation in self.0.iter() {
            apply(operation, &mut object)?;
        }
        if object.is_object() { Ok(object) } else { Err(ApiError::unprocessable()) }
    }
}

fn apply(operation: &PatchOperation, object: &mut Value) -> ApiResult<()> {
    let path = operation.path();
    let added;
    let operation = match operation {
        other if object.pointer(path.as_str()).is_some() => other,
        // A missing value equals null.
        PatchOperation::Test(test) if test.value.is_null() => return Ok(()),
        // In a map, `replace` adds a missing value.
        PatchOperation::Replace(replace)
            if path.parent().and_then(|map| object.pointer(map.as_str())).is_some_and(Value::is_object) =>
        {
            added = PatchOperation::Add(AddOperation { path: replace.path.clone(), value: replace.value.clone() });
            &added
        }
        other => other,
    };
    patch_unsafe(object, slice::from_ref(operation)).map_err(|_| ApiError::unprocessable())
}
