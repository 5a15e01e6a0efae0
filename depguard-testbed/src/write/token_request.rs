//! Subresource `serviceaccounts/token`: issues the tokens of ServiceAccounts.

use serde_json::{Value, json};

use crate::kinds::TOKEN;
use crate::options::Kind;
use crate::protocol::json::{map_at, seconds_now, text, time, uuid};
use crate::protocol::status::{ApiError, ApiResult, Cause};
use crate::request::act::Act;
use crate::world::World;
use crate::world::tokens::{SHORTEST, audience_of};
use crate::write::admission::{self, Attributes};

/// Group and kind of the requests.
pub(crate) const GROUP: &str = "authentication.k8s.io";
pub(crate) const KIND: &str = "TokenRequest";

const MAX_SECONDS: u64 = 1 << 32;
const DEFAULT_SECONDS: i64 = 3600;

/// Answers a TokenRequest. As in a real server, a dry run returns a token as well.
pub(crate) async fn issue(act: &Act<'_>, name: &str, mut request: Value) -> ApiResult<Value> {
    check_type(&request)?;
    let account = act.world.store.get(&act.key(name)).ok_or_else(|| act.not_found(name))?;
    let uid = text(&account.object, "/metadata/uid").unwrap_or_default();
    check_metadata(act, name, uid, &request)?;
    let seconds = lifetime(act.world, &request)?;
    let audiences = audiences(act.world, &request)?;
    if request.pointer("/spec/boundObjectRef").is_some_and(|bound| !bound.is_null()) {
        return Err(ApiError::bad_request(
            "the testbed binds tokens to no object: leave spec.boundObjectRef out, or delete the service account to end \
             its tokens",
        ));
    }
    let start = seconds_now();
    let end = start + seconds;
    request["kind"] = json!(KIND);
    request["apiVersion"] = json!(format!("{GROUP}/v1"));
    let metadata = map_at(&mut request, &["metadata"]);
    metadata.insert("name".to_owned(), json!(name));
    metadata.insert("namespace".to_owned(), json!(act.namespace));
    metadata.insert("uid".to_owned(), json!(uid));
    metadata.insert("creationTimestamp".to_owned(), json!(time(start)));
    request["spec"] = json!({"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": null});
    map_at(&mut request, &[]).remove("status");
    admission::admit(act, &Attributes::creation_below(act, name, TOKEN, &request)).await?;

    let mut claims = json!({
        "iss": audience_of(act.world.kind), "aud": audiences, "jti": uuid(), "iat": start, "nbf": start, "exp": end,
        "sub": format!("system:serviceaccount:{}:{name}", act.namespace),
        "kubernetes.io": {"namespace": act.namespace, "serviceaccount": {"name": name, "uid": uid}},
    });
    if act.world.kind == Kind::Kcp {
        claims["kubernetes.io"]["clusterName"] = json!(act.cluster);
    }
    request["status"] = json!({"token": act.world.tokens.sign(&claims), "expirationTimestamp": time(end)});
    Ok(request)
}

/// Refuses another kind or version. Both may be left out, because only one kind is possible.
fn check_type(request: &Value) -> ApiResult<()> {
    let (kind, version) = (text(request, "/kind").unwrap_or(KIND), text(request, "/apiVersion").unwrap_or("v1"));
    let version = version.strip_prefix("authentication.k8s.io/").unwrap_or(version);
    if kind == KIND && version == "v1" {
        return Ok(());
    }
    let why = format!("{kind} in version \"{version}\" cannot be handled as a TokenRequest");
    Err(ApiError::bad_request(why))
}

fn check_metadata(act: &Act<'_>, name: &str, uid: &str, request: &Value) -> ApiResult<()> {
    if text(request, "/metadata/namespace").is_some_and(|said| said != act.namespace) {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if let Some(said) = text(request, "/metadata/name").filter(|said| *said != name) {
        let why = format!("Invalid value: \"{said}\": must match the service account name if specified");
        return Err(invalid(name, "metadata.name", &why));
    }
    if let Some(said) = text(request, "/metadata/uid").filter(|said| *said != uid) {
        let why =
            format!("the UID in the token request ({said}) does not match the UID of the service account ({uid})");
        return Err(ApiError::conflict(GROUP, KIND, name, &why));
    }
    Ok(())
}

fn lifetime(world: &World, request: &Value) -> ApiResult<u64> {
    let asked = match request.pointer("/spec/expirationSeconds") {
        None | Some(Value::Null) => DEFAULT_SECONDS,
        Some(asked) => asked
            .as_i64()
            .ok_or_else(|| ApiError::bad_request("spec.expirationSeconds of the TokenRequest is not a whole number"))?,
    };
    let shortest = world.tokens.shortest;
    let limit = match u64::try_from(asked) {
        Ok(seconds) if (shortest..=MAX_SECONDS).contains(&seconds) => return Ok(seconds),
        Ok(seconds) if seconds > MAX_SECONDS => "larger than 2^32 seconds".to_owned(),
        _ if shortest == SHORTEST.as_secs() => "less than 10 minutes".to_owned(),
        _ => format!("less than {shortest} seconds"),
    };
    let why = format!("Invalid value: {asked}: may not specify a duration {limit}");
    Err(invalid("", "spec.expirationSeconds", &why))
}

/// Returns the audiences of the token: this server, unless the request names others.
fn audiences(world: &World, request: &Value) -> ApiResult<Value> {
    match request.pointer("/spec/audiences") {
        Some(Value::Array(audiences)) if audiences.iter().all(Value::is_string) && !audiences.is_empty() => {
            Ok(json!(audiences))
        }
        None | Some(Value::Null) => Ok(json!([audience_of(world.kind)])),
        Some(Value::Array(audiences)) if audiences.is_empty() => Ok(json!([audience_of(world.kind)])),
        Some(_) => Err(ApiError::bad_request("spec.audiences of the TokenRequest is not a list of strings")),
    }
}

fn invalid(name: &str, field: &str, why: &str) -> ApiError {
    ApiError::invalid(GROUP, KIND, name, &[Cause::new("FieldValueInvalid", field, why)])
}
