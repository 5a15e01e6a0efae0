//! Serves one request, from its head to its answer.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body as _, Incoming};
use serde_json::{Value, json};

use crate::api_server::discovery;
use crate::auth::authorize::authorize;
use crate::auth::{access_review, authenticate};
use crate::kinds::scale::SCALE;
use crate::kinds::{BINDING, EVICTION, Resource, TOKEN};
use crate::options::Kind;
use crate::protocol::identity::{self, User};
use crate::protocol::reply::{self, Reply};
use crate::protocol::routes::{self, Ask, Door, Objects, Query};
use crate::protocol::status::{ApiError, ApiResult};
use crate::read::form::Form;
use crate::read::{self, list, watch};
use crate::request::act::Act;
use crate::request::view::{self, Reach, Target, View};
use crate::world::World;
use crate::world::faults::{Fault, RequestOutcome};
use crate::world::shards::Outage;
use crate::write::delete::{self, DeleteOptions};
use crate::write::{self, bind, evict, patch, token_request};

/// Maximum length of a request's body, as in etcd-backed API servers.
const MAX_BODY: usize = 3 * 1024 * 1024;

/// Answers a request. The error means that there is no answer and the connection breaks.
pub(crate) async fn answer(
    world: &Arc<World>,
    shard: Option<usize>,
    request: Request<Incoming>,
) -> std::io::Result<Reply> {
    let path_and_query = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let token = identity::token(request.headers()).unwrap_or_default();
    let outcome = world.faults.outcome(token, request.method().as_str(), path_and_query);
    if matches!(outcome, RequestOutcome::Cut) {
        return Err(reply::reset());
    }
    let reply = disturbed(world, shard, request).await;
    if outcome.is_answered() { Ok(reply) } else { Err(reply::reset()) }
}

async fn disturbed(world: &Arc<World>, shard: Option<usize>, request: Request<Incoming>) -> Reply {
    let path_and_query = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let mut cut = false;
    let mut lists = Lists::default();
    for fault in world.faults.strike(request.method().as_str(), &path_and_query) {
        match fault {
            Fault::Latency(time) => {
                let mut changes = world.faults.subscribe();
                let cleared = changes.wait_for(|_| !world.faults.is_on(fault));
                _ = tokio::time::timeout(time, cleared).await;
            }
            Fault::TooManyRequests { retry_after } => {
                return reply::error(&ApiError::too_many_requests(retry_after));
            }
            Fault::Forbidden => {
                let path = request.uri().path();
                return reply::error(&ApiError::denied_path("somebody", path, "injected fault"));
            }
            Fault::NotFound => return reply::error(&ApiError::no_such_path()),
            Fault::InternalError => return reply::error(&ApiError::internal("injected fault")),
            Fault::ExpiredContinue => return reply::error(&list::expired_continue()),
            Fault::Cut => cut = true,
            Fault::EmptyList => lists.empty_in_views = true,
            Fault::BareList => lists.empty = true,
            Fault::ShortPages(most) => lists.page = lists.page.min(most.max(1)),
            // These hit no requests: open watches, controllers and new connections check them.
            Fault::WatchDropped
            | Fault::WatchExpired
            | Fault::WatchSilent
            | Fault::NoEndpoints
            | Fault::ExpiredCertificate => {}
        }
    }
    let reply = handle(world, shard, request, lists).await.unwrap_or_else(|error| reply::error(&error));
    if cut { reply::cut(reply).await } else { reply }
}

/// Effects of faults on lists.
struct Lists {
    /// Lists are empty and have no `resourceVersion`: only those of virtual workspaces, or all.
    empty_in_views: bool,
    empty: bool,
    /// Maximum of objects on a page.
    page: usize,
}

impl Default for Lists {
    fn default() -> Self {
        Self { empty_in_views: false, empty: false, page: usize::MAX }
    }
}

async fn handle(
    world: &Arc<World>,
    shard: Option<usize>,
    request: Request<Incoming>,
    lists: Lists,
) -> ApiResult<Reply> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let parsed = routes::parse(parts.uri.path(), world.kind == Kind::Kcp);
    let (door, ask) = parsed.ok_or_else(ApiError::no_such_path)?;
    match ask {
        Ask::Health => return Ok(reply::bytes(200, "text/plain", Bytes::from_static(b"ok"))),
        Ask::Version => return Ok(reply::json(200, &discovery::version(world.kind))),
        _ => {}
    }
    let asked = match &door {
        Door::Cluster(name) => world.cluster_of(name).and_then(|cluster| world.shards.asked(shard, &cluster)),
        Door::Export { .. } => shard.or(world.shards.of_front_proxy()),
    };
    is_there(world, asked).await?;
    let user = authenticate::authenticate(world, &parts.headers)?;
    let view = view::enter(world, &user, shard, &door, parts.uri.path())?;
    let query = Query::parse(parts.uri.query());
    let verb = match &ask {
        Ask::Objects(objects) => routes::verb(&parts.method, objects, query.is_true("watch")),
        _ => Some("get"),
    };
    let verb = verb.ok_or_else(ApiError::method_not_allowed)?;
    if let Ask::Objects(objects) = &ask {
        world.traffic.ask(&user, verb, objects);
        if verb == "watch" {
            world.traffic.watch(&user, objects, path, false);
        }
    }
    authorize(world, &user, &view, &ask, verb, &query)?;
    // An apply of a missing object creates it.
    let creation = if verb == "patch" { authorize(world, &user, &view, &ask, "create", &query) } else { Ok(()) };
    let objects = match ask {
        Ask::Objects(objects) => objects,
        ask => return discovery::answer(world, &view, &ask).map(|found| reply::json(200, &found)),
    };
    let target = view::resolve(world, &user, &view, &objects, verb)?;
    let in_view = lists.empty_in_views && matches!(view, View::Export { .. });
    if in_view || (lists.empty && verb == "list") {
        return Ok(read::nothing(&target, verb == "watch"));
    }
    match verb {
        "get" => read::get(world, &target, &objects),
        "list" => {
            let form = Form::of_list(&parts.headers, &query)?;
            let reply = list::list(world, &target, &query, form, lists.page)?;
            world.traffic.count(&user, &target.resource, &query, reply.body().size_hint().lower());
            Ok(reply)
        }
        "watch" => {
            let reply = watch::open(world, target, path, &query)?;
            world.traffic.watch(&user, &objects, path, true);
            Ok(reply)
        }
        _ => {
            let content_type = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
            let body = read_body(body).await?;
            let content_type = content_type.unwrap_or_default();
            change(world, &user, &target, &objects, verb, &query, content_type, &body, creation.err()).await
        }
    }
}

/// Waits while a shard is hung. Returns an error if the shard is gone.
async fn is_there(world: &World, shard: Option<usize>) -> ApiResult<()> {
    let Some(mut outage) = world.shards.outage(shard) else { return Ok(()) };
    // Waiting fails only if the testbed has ended.
    let outage = outage.wait_for(|outage| *outage != Some(Outage::Hung)).await.map_or(None, |outage| *outage);
    if outage.is_some() { Err(ApiError::bad_gateway()) } else { Ok(()) }
}

#[expect(clippy::too_many_arguments, reason = "one call, from the one place that has taken the request apart")]
async fn change(
    world: &World,
    user: &User,
    target: &Target,
    objects: &Objects,
    verb: &str,
    query: &Query,
    content_type: &str,
    body: &[u8],
    no_creation: Option<ApiError>,
) -> ApiResult<Reply> {
    let Reach::One(cluster) = &target.reach else {
        return Err(ApiError::method_not_allowed());
    };
    let mut act = Act::new(world, user, &target.resource, cluster, target.namespace.as_deref().unwrap_or_default());
    act.dry_run = query.value("dryRun") == Some("All");
    act.manager = query.value("fieldManager");
    act.no_creation = no_creation;
    let done = carry_out(&mut act, target, objects, verb, query, content_type, body).await;
    let reply = match done {
        Ok((code, object)) if object["kind"] == "Status" || verb == "deletecollection" => reply::json(code, &object),
        Ok((code, object)) if objects.subresource.as_deref() == Some(TOKEN) => reply::json(code, &object),
        Ok((code, object)) if objects.subresource.as_deref() == Some(SCALE) => {
            let paths = target.resource.scale.as_ref();
            reply::json(code, &paths.map_or(Value::Null, |paths| paths.show(&object)))
        }
        Ok((code, object)) => reply::json(code, &read::present(&target.resource, &object)),
        Err(error) => reply::error(&error),
    };
    // A refused requester gets the warnings as well.
    Ok(reply::with_warnings(reply, &act.take_warnings()))
}

async fn carry_out(
    act: &mut Act<'_>,
    target: &Target,
    objects: &Objects,
    verb: &str,
    query: &Query,
    content_type: &str,
    body: &[u8],
) -> ApiResult<(u16, Value)> {
    let name = objects.name.as_deref().unwrap_or_default();
    let subresource = objects.subresource.as_deref();
    Ok(match verb {
        "create" if subresource == Some(EVICTION) => (201, evict::evict(act, name, parse(body)?).await?),
        "create" if subresource == Some(BINDING) => (201, bind::bind(act, name, parse(body)?).await?),
        "create" if subresource == Some(TOKEN) => (201, token_request::issue(act, name, parse(body)?).await?),
        "create" if target.resource.answered => {
            let review = parse(body)?;
            write::check_type(act, &review)?;
            (201, access_review::answer(act, review)?)
        }
        "create" => (201, (*write::create(act, parse(body)?).await?).clone()),
        "update" => {
            let object = parse(body)?;
            (200, (*write::replace(act, name, subresource, &object).await?).clone())
        }
        "patch" => {
            let (code, object) = patch::patch(act, name, subresource, content_type, body).await?;
            (code, (*object).clone())
        }
        "delete" => {
            let options = DeleteOptions::parse(body, query)?;
            act.dry_run = options.dry_run.unwrap_or(act.dry_run);
            match delete::one(act, name, name, &options).await? {
                delete::Deletion::Terminating(object) => (200, (*object).clone()),
                delete::Deletion::Gone(object) if is_shown_when_gone(&target.resource) => (200, (*object).clone()),
                delete::Deletion::Gone(object) => (200, gone(&target.resource, &object)),
            }
        }
        _ => {
            let options = DeleteOptions::parse(body, query)?;
            act.dry_run = options.dry_run.unwrap_or(act.dry_run);
            let deleted = delete::collection(act, target, query, &options).await?;
            let items: Vec<Value> = deleted.iter().map(|object| (**object).clone()).collect();
            (200, read::list_value(&target.resource, act.world.store.revision(), &items))
        }
    })
}

/// Returns true if a DELETE's answer shows the deleted object. For most kinds it is only a status.
fn is_shown_when_gone(resource: &Resource) -> bool {
    ["serviceaccounts", "pods", "services"].iter().any(|plural| resource.is("", plural))
}

/// Returns the answer of a DELETE whose object is gone at once.
fn gone(resource: &Resource, object: &Value) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": {
            "name": object["metadata"]["name"], "group": resource.group, "kind": resource.plural,
            "uid": object["metadata"]["uid"],
        },
    })
}

async fn read_body(body: Incoming) -> ApiResult<Bytes> {
    match Limited::new(body, MAX_BODY).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(why) if why.is::<http_body_util::LengthLimitError>() => Err(ApiError::too_large()),
        Err(why) => Err(ApiError::bad_request(format!("the body could not be read: {why}"))),
    }
}

fn parse(body: &[u8]) -> ApiResult<Value> {
    let object: Value = serde_json::from_slice(body)
        .map_err(|why| ApiError::bad_request(format!("the object provided is unrecognized: {why}")))?;
    if object.is_object() { Ok(object) } else { Err(ApiError::bad_request("the object provided is not a JSON object")) }
}
