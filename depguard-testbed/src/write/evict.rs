//! Subresource `pods/eviction`: a deletion that admission sees as the creation of an Eviction. No disruption budget
//! holds it up.

use serde_json::{Value, json};

use crate::kinds::EVICTION;
use crate::protocol::json::{map_at, name_of};
use crate::protocol::status::{ApiError, ApiResult};
use crate::request::act::Act;
use crate::write::admission::{self, Attributes};
use crate::write::delete::{self, DeleteOptions};

pub(crate) async fn evict(act: &mut Act<'_>, name: &str, mut eviction: Value) -> ApiResult<Value> {
    if eviction["kind"] != "Eviction" || eviction["apiVersion"] != "policy/v1" {
        return Err(ApiError::bad_request("the object provided is not an Eviction of policy/v1"));
    }
    if name_of(&eviction) != name {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    let options = DeleteOptions::of_eviction(&eviction["deleteOptions"])?;
    act.dry_run |= options.dry_run == Some(true);
    map_at(&mut eviction, &["metadata"]).insert("namespace".to_owned(), json!(act.namespace));
    admission::admit(act, &Attributes::creation_below(act, name, EVICTION, &eviction)).await?;
    delete::one(act, name, name, &options).await?;
    Ok(json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}))
}
