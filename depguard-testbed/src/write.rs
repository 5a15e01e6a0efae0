//! Creates and updates objects.

pub(crate) mod admission;
pub(crate) mod apply;
pub(crate) mod bind;
pub(crate) mod defaults;
pub(crate) mod delete;
pub(crate) mod evict;
pub(crate) mod json_patch;
pub(crate) mod metadata;
pub(crate) mod names;
pub(crate) mod patch;
pub(crate) mod schema;
pub(crate) mod token_request;
pub(crate) mod webhook;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::auth::escalate;
use crate::kinds::Origin;
use crate::kinds::scale::{SCALE, type_of_scale};
use crate::options::Kind;
use crate::protocol::json::{
    annotation, finalizers, is_terminating, map_at, now, random_name, set_annotation, text, uuid,
};
use crate::protocol::status::{ApiError, ApiResult, Cause};
use crate::request::act::Act;
use crate::request::view::{self, Export};
use crate::store::{Key, WriteConflict};
use crate::world::{CLUSTER, PATH};
use crate::write::admission::Attributes;

/// Metadata that only the server writes, so that an update can't change it.
const SERVERS_OWN: &[&str] = &[
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
];

pub(crate) async fn create(act: &Act<'_>, mut object: Value) -> ApiResult<Arc<Value>> {
    check_type(act, &object)?;
    let metadata = map_at(&mut object, &["metadata"]);
    if metadata.contains_key("resourceVersion") && metadata["resourceVersion"] != "" {
        return Err(ApiError::bad_request("resourceVersion should not be set on objects to be created"));
    }
    if text(&object, "/metadata/name").is_none() {
        let Some(prefix) = text(&object, "/metadata/generateName") else {
            let why = "Required value: name or generateName is required";
            let cause = Cause::new("FieldValueRequired", "metadata.name", why);
            return Err(ApiError::invalid(&act.resource.group, &act.resource.kind, "", &[cause]));
        };
        object["metadata"]["name"] = json!(format!("{prefix}{}", random_name(5)));
    }
    let name = text(&object, "/metadata/name").unwrap_or_default().to_owned();
    names::check(act, &name)?;
    check_namespace(act, &object, &name)?;
    if definition_is_going(act) {
        return Err(act.forbidden(&name, "create not allowed while custom resource definition is terminating"));
    }
    stamp(act, &mut object);
    if act.resource.status {
        map_at(&mut object, &[]).remove("status");
    }
    defaults::on_create(act, &mut object)?;
    metadata::tidy(&mut object);
    metadata::check_owners(act, &name, &object)?;
    escalate::check(act, &name, None, &object)?;
    schema::check(act.resource, &mut object, &name)?;
    admission::admit(act, &Attributes::create(act, &name, &object)).await?;
    check_namespace(act, &object, &name)?;
    let exists = || ApiError::already_exists(&act.resource.group, &act.resource.plural, &name);
    if act.dry_run {
        return if act.world.store.get(&act.key(&name)).is_some() { Err(exists()) } else { Ok(Arc::new(object)) };
    }
    let stored = act.world.store.create(act.key(&name), object).map_err(|_| exists())?;
    Ok(stored.object)
}

/// Replaces an object (PUT), under the condition of its `resourceVersion` if it names one.
pub(crate) async fn replace(
    act: &Act<'_>,
    name: &str,
    subresource: Option<&str>,
    object: &Value,
) -> ApiResult<Arc<Value>> {
    check_type_of(act, subresource, object)?;
    if text(object, "/metadata/name") != Some(name) {
        let given = text(object, "/metadata/name").unwrap_or_default();
        let why = format!("the name of the object ({given}) does not match the name on the URL ({name})");
        return Err(ApiError::bad_request(why));
    }
    // Only core kinds and scales can be overwritten without a version.
    if text(object, "/metadata/resourceVersion").is_none()
        && !act.resource.group.is_empty()
        && subresource != Some(SCALE)
    {
        let why = "Invalid value: 0: must be specified for an update";
        let cause = Cause::new("FieldValueInvalid", "metadata.resourceVersion", why);
        return Err(ApiError::invalid(&act.resource.group, &act.resource.plural, name, &[cause]));
    }
    update(act, name, subresource, |_| Ok(object.clone())).await
}

/// Reads, changes, checks and writes an object. Repeats all after a concurrent write. If the change itself names a
/// `resourceVersion`, a concurrent write is a conflict.
pub(crate) async fn update(
    act: &Act<'_>,
    name: &str,
    subresource: Option<&str>,
    change: impl Fn(&Value) -> ApiResult<Value>,
) -> ApiResult<Arc<Value>> {
    let key = act.key(name);
    loop {
        let stored = act.world.store.get(&key).ok_or_else(|| act.not_found(name))?;
        let old = &stored.object;
        let scale = act.resource.scale.as_ref().filter(|_| subresource == Some(SCALE));
        let mut object = match scale {
            Some(paths) => paths.change(old, &change)?,
            None => change(old)?,
        };
        // If the client left out the annotation of the object's place, admission does not see it either.
        let placeless = annotation(&object, CLUSTER).is_none();
        if let Some(expected) = text(&object, "/metadata/resourceVersion")
            && expected != stored.revision.to_string()
        {
            return Err(act.stale(name));
        }
        if let Some(uid) = text(&object, "/metadata/uid")
            && text(old, "/metadata/uid") != Some(uid)
        {
            let why = format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                text(old, "/metadata/uid").unwrap_or_default()
            );
            return Err(ApiError::conflict(&act.resource.group, &act.resource.plural, name, &why));
        }
        defaults::on_write(act, &mut object);
        keep(act, subresource, old, &mut object);
        metadata::tidy(&mut object);
        metadata::check_finalizers(act, name, old, &object)?;
        metadata::check_owners(act, name, &object)?;
        escalate::check(act, name, Some(old), &object)?;
        schema::check(act.resource, &mut object, name)?;
        object["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
        defaults::on_update(act, old, &object)?;
        let shown = match scale {
            Some(paths) => Some((paths.show(old), paths.show(&object))),
            None if placeless && act.world.kind == Kind::Kcp => Some(((**old).clone(), without_place(&object))),
            None => None,
        };
        let (before, after) = shown.as_ref().map_or((&**old, &object), |(before, after)| (before, after));
        admission::admit(act, &Attributes::update(act, name, subresource, before, after)).await?;
        if act.dry_run || object == **old {
            return Ok(Arc::new(object));
        }
        // Removing the last finalizer of a terminating object removes the object.
        let written = if is_terminating(&object) && finalizers(&object).is_empty() && !holds_itself(&object) {
            act.world.store.remove(&key, stored.revision).map(|()| Arc::new(object))
        } else {
            act.world.store.replace(key.clone(), stored.revision, object).map(|stored| stored.object)
        };
        match written {
            Ok(object) => return Ok(object),
            Err(WriteConflict::Changed | WriteConflict::Exists) => {}
        }
    }
}

/// Returns true if a namespace has finalizers of its own, in its spec.
pub(crate) fn holds_itself(object: &Value) -> bool {
    object["kind"] == "Namespace"
        && object.pointer("/spec/finalizers").and_then(Value::as_array).is_some_and(|held| !held.is_empty())
}

/// Refuses a namespace that does not exist or is being deleted.
fn check_namespace(act: &Act<'_>, object: &Value, name: &str) -> ApiResult<()> {
    if !act.resource.namespaced {
        return Ok(());
    }
    if let Some(said) = text(object, "/metadata/namespace")
        && said != act.namespace
    {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let key = Key::new("", "namespaces", act.cluster, "", act.namespace);
    let namespace = act.world.store.get(&key);
    let namespace = namespace.ok_or_else(|| ApiError::not_found("", "namespaces", act.namespace))?;
    if is_terminating(&namespace.object) {
        let why = format!("unable to create new content in namespace {} because it is being terminated", act.namespace);
        let mut error = act.forbidden(name, &why);
        error.status["details"]["causes"] = json!([{
            "reason": "NamespaceTerminating",
            "message": format!("namespace {} is being terminated", act.namespace),
            "field": "metadata.namespace",
        }]);
        return Err(error);
    }
    Ok(())
}

/// Returns true if the CRD or the binding that serves the kind is being deleted.
fn definition_is_going(act: &Act<'_>) -> bool {
    let (group, plural, cluster) = (&act.resource.group, &act.resource.plural, act.cluster);
    match &act.resource.origin {
        Origin::BuiltIn => false,
        Origin::Local => {
            let name = format!("{plural}.{group}");
            let definition = Key::new("apiextensions.k8s.io", "customresourcedefinitions", cluster, "", &name);
            act.world.store.get(&definition).is_some_and(|definition| is_terminating(&definition.object))
        }
        Origin::Bound { cluster: of, export } => {
            let export = Export { cluster: of.clone(), name: export.clone() };
            let mut bindings = act.world.store.in_cluster("apis.kcp.io", "apibindings", cluster).into_iter();
            bindings.any(|binding| view::binds(&binding.object, &export) && is_terminating(&binding.object))
        }
    }
}

/// Refuses an object without kind and version, or with others than the path's.
pub(crate) fn check_type(act: &Act<'_>, object: &Value) -> ApiResult<()> {
    check_type_of(act, None, object)
}

fn check_type_of(act: &Act<'_>, subresource: Option<&str>, object: &Value) -> ApiResult<()> {
    let own = act.resource.api_version();
    let (kind, version) = match subresource {
        Some(SCALE) => type_of_scale(),
        _ => (act.resource.kind.as_str(), own.as_str()),
    };
    let (said_kind, said_version) = (text(object, "/kind"), text(object, "/apiVersion"));
    let Some(said) = said_kind else {
        let why = format!("the object provided is unrecognized (must be of type {kind}): Object 'Kind' is missing");
        return Err(ApiError::bad_request(why));
    };
    if said_version != Some(version) {
        let said = said_version.unwrap_or_default();
        let why = format!("the API version in the data ({said}) does not match the expected API version ({version})");
        return Err(ApiError::bad_request(why));
    }
    if said != kind {
        let why = format!("the kind in the data ({said}) does not match the expected kind ({kind})");
        return Err(ApiError::bad_request(why));
    }
    Ok(())
}

/// Sets the fields that a new object gets from the server.
fn stamp(act: &Act<'_>, object: &mut Value) {
    stamp_place(act, object);
    let metadata = map_at(object, &["metadata"]);
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "selfLink"] {
        metadata.remove(field);
    }
    metadata.insert("uid".to_owned(), json!(uuid()));
    metadata.insert("creationTimestamp".to_owned(), json!(now()));
    if act.resource.generation {
        metadata.insert("generation".to_owned(), json!(1));
    }
}

/// Sets type and namespace, and in kcp the annotations that say where the object lies.
fn stamp_place(act: &Act<'_>, object: &mut Value) {
    object["kind"] = json!(act.resource.kind);
    object["apiVersion"] = json!(act.resource.api_version());
    if act.resource.namespaced {
        map_at(object, &["metadata"]).insert("namespace".to_owned(), json!(act.namespace));
    }
    if act.world.kind == Kind::Kcp {
        set_annotation(object, CLUSTER, act.cluster);
        let has_path = ["apibindings", "apiexports"].iter().any(|plural| act.resource.is("apis.kcp.io", plural));
        if has_path && let Some(path) = act.world.path_of(act.cluster) {
            set_annotation(object, PATH, &path);
        }
    }
}

fn without_place(object: &Value) -> Value {
    let mut object = object.clone();
    let metadata = map_at(&mut object, &["metadata"]);
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(CLUSTER);
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    object
}

/// Restores the fields that this kind of update may not change.
fn keep(act: &Act<'_>, subresource: Option<&str>, old: &Value, object: &mut Value) {
    stamp_place(act, object);
    if subresource == Some("status") {
        let status = object["status"].take();
        *object = old.clone();
        map_at(object, &[]).insert("status".to_owned(), status);
        return;
    }
    for field in SERVERS_OWN {
        let metadata = map_at(object, &["metadata"]);
        match old["metadata"].get(*field) {
            Some(value) => metadata.insert((*field).to_owned(), value.clone()),
            None => metadata.remove(*field),
        };
    }
    if act.resource.status {
        let fields = map_at(object, &[]);
        match old.get("status") {
            Some(status) => fields.insert("status".to_owned(), status.clone()),
            None => fields.remove("status"),
        };
    }
    if act.resource.generation && differs_beyond_metadata(old, object) {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
        object["metadata"]["generation"] = json!(generation + 1);
    }
}

fn differs_beyond_metadata(old: &Value, new: &Value) -> bool {
    let content = |object: &Value| {
        let mut content = object.clone();
        let fields = map_at(&mut content, &[]);
        for field in ["metadata", "status", "apiVersion"] {
            fields.remove(field);
        }
        content
    };
    content(old) != content(new)
}
