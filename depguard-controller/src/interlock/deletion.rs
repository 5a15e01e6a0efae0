//! Deletion of registers, of every generation.

use depguard_core::interlock::RegisterName;
use depguard_kcp::{ApiError, Endpoint, Preconditions};
use serde_json::Value;

/// Register that is stored, whatever its generation.
pub(crate) struct StoredRegister {
    pub(crate) name: String,
    uid: String,
}

impl StoredRegister {
    /// Returns all registers; none if the API server doesn't serve registers.
    pub(crate) async fn list(endpoint: &Endpoint) -> Result<Vec<Self>, ApiError> {
        let mut all = Vec::new();
        let read = |object: &Value| {
            let field = |pointer| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
            Some(Self { name: field("/metadata/name")?, uid: field("/metadata/uid")? })
        };
        match endpoint
            .list_metadata_pages(&RegisterName::collection(), |page| all.extend(page.iter().filter_map(read)))
            .await
        {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(all),
        }
    }

    /// Deletes the register, and no later one of the same name; a register that is gone is no error.
    pub(crate) async fn delete(&self, endpoint: &Endpoint) -> Result<(), ApiError> {
        let only = Preconditions { uid: Some(&self.uid), resource_version: None };
        match endpoint.delete(&format!("{}/{}", RegisterName::collection(), self.name), only).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}
