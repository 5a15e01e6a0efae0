//! Deletes one object or a collection, as the API server's generic registry does.

mod options;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::options::Kind;
use crate::protocol::json::{finalizers, is_terminating, name_of, namespace_of, now};
use crate::protocol::routes::Query;
use crate::protocol::status::ApiResult;
use crate::read;
use crate::read::selectors::Selector;
use crate::request::act::Act;
use crate::request::view::Target;
use crate::world::logical_cluster_key;
use crate::write::admission::{self, Attributes};
use crate::write::holds_itself;

pub(crate) use options::{DeleteOptions, Propagation};

/// Outcome of a deletion.
#[derive(Clone, Debug)]
pub(crate) enum Deletion {
    Gone(Arc<Value>),
    /// The object has finalizers, and goes when they are removed.
    Terminating(Arc<Value>),
}

/// Deletes one object. Admission sees the object in the state that is deleted: if the object changes meanwhile, all
/// checks run again. `review_name` is empty in a collection delete.
pub(crate) async fn one(act: &Act<'_>, name: &str, review_name: &str, options: &DeleteOptions) -> ApiResult<Deletion> {
    let key = act.key(name);
    loop {
        let stored = act.world.store.get(&key).ok_or_else(|| act.not_found(name))?;
        let object = &stored.object;
        options.check(act, name, object)?;
        check_immortal(act, name)?;
        if act.resource.is("core.kcp.io", "logicalclusters") {
            return Err(act.forbidden(name, "LogicalCluster cannot be deleted"));
        }
        if is_terminating(object) && holds_itself(object) {
            // The namespace is being deleted already; a second request decides nothing more.
            return Ok(Deletion::Terminating(stored.object));
        }
        let reviewed_at = act.world.store.revision();
        if !options.reviewed {
            let review = options.for_review(act.dry_run);
            admission::admit(act, &Attributes::delete(review_name, object, review)).await?;
        }
        // This applies also to a terminating object: the last request decides about its dependents.
        let left = if knows_dependents(act) { options.with_finalizer(object) } else { (**object).clone() };
        let held = !finalizers(&left).is_empty() || holds_itself(object);
        if held && is_terminating(object) && left == **object {
            return Ok(Deletion::Terminating(stored.object));
        }
        let terminating = if held && !is_terminating(object) { marked(&left) } else { left };
        if act.dry_run {
            let object = Arc::new(terminating);
            return Ok(if held { Deletion::Terminating(object) } else { Deletion::Gone(object) });
        }
        let done = if held {
            act.world
                .store
                .replace(key.clone(), stored.revision, terminating)
                .map(|now| Deletion::Terminating(now.object))
        } else {
            let removed = act.world.store.remove_reviewed(&key, stored.revision, reviewed_at);
            removed.map(|()| Deletion::Gone(stored.object))
        };
        if let Ok(deleted) = done {
            return Ok(deleted);
        }
    }
}

/// Deletes a collection: one worker, in key order, that stops at the first refusal.
pub(crate) async fn collection(
    act: &Act<'_>,
    target: &Target,
    query: &Query,
    options: &DeleteOptions,
) -> ApiResult<Vec<Arc<Value>>> {
    let selector = Selector::parse(query, act.resource)?;
    let (stored, _) = act.world.store.list(read::range(target));
    let stored = read::visible(act.world, target, stored);
    let mut deleted = Vec::new();
    for stored in stored.into_iter().filter(|stored| selector.matches(&stored.object)) {
        let mut at = Act::new(act.world, act.user, act.resource, act.cluster, namespace_of(&stored.object));
        at.dry_run = act.dry_run;
        let done = one(&at, name_of(&stored.object), "", options).await;
        act.warn(at.take_warnings());
        match done {
            Ok(_) => deleted.push(stored.object),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(deleted)
}

/// Returns true if the deletion may choose what happens to the dependents. It may not for namespaces and events.
fn knows_dependents(act: &Act<'_>) -> bool {
    !["namespaces", "events"].iter().any(|plural| act.resource.is("", plural))
}

/// Returns the object marked as being deleted.
pub(crate) fn marked(object: &Value) -> Value {
    let mut terminating = object.clone();
    terminating["metadata"]["deletionTimestamp"] = json!(now());
    if terminating["kind"] == "Namespace" {
        terminating["status"]["phase"] = json!("Terminating");
    } else {
        terminating["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    }
    if let Some(generation) = terminating["metadata"]["generation"].as_i64() {
        terminating["metadata"]["generation"] = json!(generation + 1);
    }
    terminating
}

/// Refuses to delete the namespaces that a cluster keeps, such as `default`. In kcp they go with their workspace only.
fn check_immortal(act: &Act<'_>, name: &str) -> ApiResult<()> {
    let immortal = matches!(name, "default" | "kube-system" | "kube-public");
    if !act.resource.is("", "namespaces") || !immortal {
        return Ok(());
    }
    let workspace = act.world.store.get(&logical_cluster_key(act.cluster));
    if act.world.kind == Kind::Kcp && workspace.is_none_or(|workspace| is_terminating(&workspace.object)) {
        return Ok(());
    }
    Err(act.forbidden(name, "this namespace may not be deleted"))
}
