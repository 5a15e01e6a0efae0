//! Subresource `pods/binding`: admission sees the creation of a Binding, whose target, annotations and labels are copied
//! onto the Pod.

use serde_json::{Value, json};

use crate::kinds::BINDING;
use crate::protocol::json::{is_terminating, map_at, name_of, text};
use crate::protocol::status::{ApiError, ApiResult};
use crate::request::act::Act;
use crate::write::admission::{self, Attributes};

pub(crate) async fn bind(act: &Act<'_>, name: &str, mut binding: Value) -> ApiResult<Value> {
    if binding["kind"] != "Binding" || binding["apiVersion"] != "v1" {
        return Err(ApiError::bad_request("the object provided is not a Binding of v1"));
    }
    if name_of(&binding) != name {
        return Err(ApiError::bad_request("name in URL does not match name in Binding object"));
    }
    map_at(&mut binding, &["metadata"]).insert("namespace".to_owned(), json!(act.namespace));
    admission::admit(act, &Attributes::creation_below(act, name, BINDING, &binding)).await?;
    let done = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    loop {
        let stored = act.world.store.get(&act.key(name)).ok_or_else(|| act.not_found(name))?;
        let mut pod = (*stored.object).clone();
        let conflict = |why: &str| ApiError::conflict(&act.resource.group, &act.resource.plural, name, why);
        if is_terminating(&pod) {
            return Err(conflict(&format!("pod {name} is being deleted, cannot be assigned to a host")));
        }
        if let Some(node) = text(&pod, "/spec/nodeName") {
            return Err(conflict(&format!("pod {name} is already assigned to node {node:?}")));
        }
        for field in ["annotations", "labels"] {
            let added = binding["metadata"][field].as_object().cloned().unwrap_or_default();
            map_at(&mut pod, &["metadata", field]).extend(added);
        }
        map_at(&mut pod, &["spec"]).insert("nodeName".to_owned(), binding["target"]["name"].clone());
        if act.dry_run || act.world.store.replace(act.key(name), stored.revision, pod).is_ok() {
            return Ok(done);
        }
    }
}
