//! Object whose deletion the command explains.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::text;
use crate::cluster::kinds::KindInfo;

/// Object to delete.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Target {
    group: String,
    version: String,
    pub(super) resource: String,
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    #[serde(skip)]
    pub(super) info: KindInfo,
    #[serde(skip)]
    pub(super) object: Arc<Value>,
}

impl Target {
    pub(crate) fn new(info: &KindInfo, object: Arc<Value>) -> Self {
        let owned = |pointer| text(&object, pointer).map(str::to_owned);
        Self {
            group: info.gvr.group.as_str().to_owned(),
            version: info.gvr.version.as_str().to_owned(),
            resource: info.gvr.resource.as_str().to_owned(),
            kind: info.kind.clone(),
            namespace: owned("/metadata/namespace"),
            name: owned("/metadata/name").unwrap_or_default(),
            info: info.clone(),
            object,
        }
    }

    /// Returns the target as `vpcs/a`.
    pub(crate) fn shown(&self) -> String {
        format!("{}/{}", self.resource, self.name)
    }

    /// Returns true if the deletion was accepted.
    pub(super) fn is_terminating(&self) -> bool {
        text(&self.object, "/metadata/deletionTimestamp").is_some()
    }

    pub(super) fn path(&self) -> String {
        self.info.path(self.namespace.as_deref(), Some(&self.name))
    }

    pub(super) fn right_to_delete(&self) -> String {
        let place = self.namespace.as_ref().map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
        format!("delete {}{place}", self.info.gvr.group_resource())
    }
}
