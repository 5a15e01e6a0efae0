//! Authentication: the user whose token a request has.

use http::HeaderMap;
use serde_json::Value;

use crate::protocol::identity::{self, Proof, User};
use crate::protocol::json::{array, is_terminating, seconds_now, text};
use crate::protocol::status::{ApiError, ApiResult};
use crate::store::Key;
use crate::world::tokens::audience_of;
use crate::world::{ONLY, World};

/// Returns the user whose token the request has, or the user whom that user impersonates.
pub(crate) fn authenticate(world: &World, headers: &HeaderMap) -> ApiResult<User> {
    by_token(world, headers)?.impersonating(headers)
}

/// Returns the user whose token the request has.
fn by_token(world: &World, headers: &HeaderMap) -> ApiResult<User> {
    let token = identity::token(headers).ok_or_else(ApiError::unauthorized)?;
    // No user's name looks like a token.
    if !(token.starts_with("ey") && token.matches('.').count() == 2) {
        return Ok(User::with_token(world.kind, token));
    }
    world.tokens.verify(token).and_then(|claims| holder(world, &claims)).ok_or_else(ApiError::unauthorized)
}

/// Returns the ServiceAccount that the claims name, while the account exists and the token has not expired.
fn holder(world: &World, claims: &Value) -> Option<User> {
    let said = |pointer: &str| text(claims, pointer).unwrap_or_default();
    let in_time = claims["exp"].as_u64().is_some_and(|end| seconds_now() < end);
    let for_us = array(claims, "/aud").iter().any(|audience| audience == audience_of(world.kind));
    if !in_time || !for_us {
        return None;
    }
    let home = text(claims, "/kubernetes.io/clusterName");
    let (namespace, name) = (said("/kubernetes.io/namespace"), said("/kubernetes.io/serviceaccount/name"));
    let uid = said("/kubernetes.io/serviceaccount/uid");
    let account = world.store.get(&Key::new("", "serviceaccounts", home.unwrap_or(ONLY), namespace, name))?;
    // An account of the same name with another UID does not count.
    if is_terminating(&account.object) || text(&account.object, "/metadata/uid") != Some(uid) {
        return None;
    }
    let proof = Proof { uid: uid.to_owned(), id: said("/jti").to_owned() };
    Some(User::proven(namespace, name, home, proof))
}
