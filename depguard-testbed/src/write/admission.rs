//! Validating webhooks that a change must pass, and the reviews that they see.

use std::collections::BTreeMap;

use futures::future::join_all;
use serde_json::{Value, json};

use crate::kinds::{Origin, Resource};
use crate::protocol::json::{array, text, uuid};
use crate::protocol::status::{ApiError, ApiResult};
use crate::read;
use crate::read::selectors::label_selector_matches;
use crate::request::act::Act;
use crate::store::Key;
use crate::world::audit::Audit;
use crate::write::token_request;
use crate::write::webhook::{self, Verdict};

/// Operation on an object, as webhooks see it.
pub(crate) struct Attributes<'a> {
    operation: &'static str,
    name: &'a str,
    subresource: Option<&'a str>,
    object: Option<&'a Value>,
    old: Option<&'a Value>,
    options: Value,
}

impl<'a> Attributes<'a> {
    pub(crate) fn create(act: &Act<'_>, name: &'a str, object: &'a Value) -> Self {
        let options = options(act, "CreateOptions");
        Self { operation: "CREATE", name, subresource: None, object: Some(object), old: None, options }
    }

    /// Returns the attributes of creating a subresource that is not kept.
    pub(crate) fn creation_below(act: &Act<'_>, name: &'a str, subresource: &'a str, object: &'a Value) -> Self {
        Self { subresource: Some(subresource), ..Self::create(act, name, object) }
    }

    pub(crate) fn update(
        act: &Act<'_>,
        name: &'a str,
        subresource: Option<&'a str>,
        old: &'a Value,
        object: &'a Value,
    ) -> Self {
        let options = options(act, "UpdateOptions");
        Self { operation: "UPDATE", name, subresource, object: Some(object), old: Some(old), options }
    }

    /// Returns the attributes of a deletion. `name` is empty if the request names no object, as in a collection delete.
    pub(crate) fn delete(name: &'a str, old: &'a Value, options: Value) -> Self {
        Self { operation: "DELETE", name, subresource: None, object: None, old: Some(old), options }
    }
}

fn options(act: &Act<'_>, kind: &str) -> Value {
    let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
    if act.dry_run {
        options["dryRun"] = json!(["All"]);
    }
    if let Some(manager) = act.manager {
        options["fieldManager"] = json!(manager);
    }
    options
}

/// Calls every webhook that matches the change. Returns the first refusal, in the webhooks' order.
pub(crate) async fn admit(act: &Act<'_>, attributes: &Attributes<'_>) -> ApiResult<()> {
    // Webhooks cannot lock anybody out of their own configurations.
    if act.resource.group == "admissionregistration.k8s.io" {
        return Ok(());
    }
    let configurations = act.world.store.in_cluster(
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations",
        cluster_of_webhooks(act),
    );
    let mut calls = Vec::new();
    for configuration in &configurations {
        for webhook in array(&configuration.object, "/webhooks") {
            let Some(version) = version_for(act.resource, attributes, webhook) else {
                continue;
            };
            if !selected(act, attributes, webhook) {
                continue;
            }
            refuse_dry_run(act, webhook)?;
            let matched = act.resource.in_version(&version);
            let (uid, review) = review(act, attributes, &matched);
            calls.push(async move { (webhook, webhook::call(act.world, webhook, &uid, &review).await) });
        }
    }
    let mut refusal = None;
    for (webhook, verdict) in join_all(calls).await {
        match verdict {
            Ok(Verdict { allowed, warnings, status, annotations }) => {
                act.warn(warnings);
                note(act, attributes, name_of(webhook), annotations);
                if !allowed {
                    refusal.get_or_insert_with(|| denial(name_of(webhook), status));
                }
            }
            Err(why) if text(webhook, "/failurePolicy") == Some("Ignore") => {
                tracing::warn!(webhook = name_of(webhook), %why, "webhook failed open");
            }
            Err(why) => {
                let why = format!("failed calling webhook \"{}\": failed to call webhook: {why}", name_of(webhook));
                refusal.get_or_insert_with(|| ApiError::internal(&why));
            }
        }
    }
    refusal.map_or(Ok(()), Err)
}

/// Returns the logical cluster whose configurations apply: the export's for a bound API, otherwise the object's own.
fn cluster_of_webhooks<'a>(act: &'a Act<'_>) -> &'a str {
    match &act.resource.origin {
        Origin::Bound { cluster, .. } => cluster,
        Origin::BuiltIn | Origin::Local => act.cluster,
    }
}

/// Returns the version in which the webhook wants to see the change: the request's own version if a rule names it,
/// otherwise another version of the resource if the webhook accepts equivalents. Returns `None` if no rule matches.
fn version_for(resource: &Resource, attributes: &Attributes<'_>, webhook: &Value) -> Option<String> {
    let wants =
        |version: &str| array(webhook, "/rules").iter().any(|rule| rule_matches(rule, resource, version, attributes));
    if wants(&resource.version) {
        return Some(resource.version.clone());
    }
    if text(webhook, "/matchPolicy") == Some("Exact") {
        return None;
    }
    resource.versions.iter().find(|version| wants(version)).cloned()
}

fn rule_matches(rule: &Value, resource: &Resource, version: &str, attributes: &Attributes<'_>) -> bool {
    let is = |one: &str, value: &str| one == "*" || one == value;
    let names =
        |field: &str, value: &str| array(rule, field).iter().filter_map(Value::as_str).any(|one| is(one, value));
    let below = attributes.subresource.unwrap_or_default();
    let resources = array(rule, "/resources").iter().filter_map(Value::as_str).any(|one| {
        let (plural, subresource) = one.split_once('/').unwrap_or((one, ""));
        is(plural, &resource.plural) && is(subresource, below)
    });
    let scope = match text(rule, "/scope") {
        Some("Cluster") => !resource.namespaced,
        Some("Namespaced") => resource.namespaced,
        _ => true,
    };
    resources
        && scope
        && names("/operations", attributes.operation)
        && names("/apiGroups", &resource.group)
        && names("/apiVersions", version)
}

fn selected(act: &Act<'_>, attributes: &Attributes<'_>, webhook: &Value) -> bool {
    let labels_of = |object: &Value| object.pointer("/metadata/labels").cloned().unwrap_or(Value::Null);
    let selector = webhook.get("objectSelector");
    let objects = [attributes.object, attributes.old];
    let object = objects.iter().flatten().any(|object| label_selector_matches(selector, &labels_of(object)));
    let selector = webhook.get("namespaceSelector");
    let labels = match act.resource.is("", "namespaces") {
        // A namespace that is created or changed counts with its new labels.
        true => attributes.object.or(attributes.old).map_or(Value::Null, labels_of),
        false if !act.resource.namespaced => return object,
        false => {
            let namespace = act.world.store.get(&Key::new("", "namespaces", act.cluster, "", act.namespace));
            namespace.map_or(Value::Null, |namespace| labels_of(&namespace.object))
        }
    };
    object && label_selector_matches(selector, &labels)
}

fn refuse_dry_run(act: &Act<'_>, webhook: &Value) -> ApiResult<()> {
    let harmless = matches!(text(webhook, "/sideEffects"), Some("None" | "NoneOnDryRun"));
    if !act.dry_run || harmless {
        return Ok(());
    }
    Err(ApiError::bad_request(format!("admission webhook \"{}\" does not support dry run", name_of(webhook))))
}

/// Returns the `AdmissionReview` as an API server writes it, and its uid.
fn review(act: &Act<'_>, attributes: &Attributes<'_>, matched: &Resource) -> (String, Value) {
    let uid = uuid();
    let resource = act.resource;
    let kind = |of: &Resource| json!({"group": of.group, "version": of.version, "kind": of.kind});
    let plural = |of: &Resource| json!({"group": of.group, "version": of.version, "resource": of.plural});
    // A subresource may have a kind of its own, in whatever version of the resource it is requested.
    let own = attributes.subresource.and(attributes.object).and_then(own_kind);
    let show = |object: Option<&Value>| match object {
        Some(object) if own.is_none() => read::present(matched, object),
        Some(object) => object.clone(),
        None => Value::Null,
    };
    let mut request = json!({
        "uid": uid,
        "kind": own.clone().unwrap_or_else(|| kind(matched)), "resource": plural(matched),
        "requestKind": own.clone().unwrap_or_else(|| kind(resource)), "requestResource": plural(resource),
        "operation": attributes.operation,
        "userInfo": act.user.info(),
        "object": show(attributes.object), "oldObject": show(attributes.old),
        "dryRun": act.dry_run, "options": attributes.options,
    });
    // Go leaves out empty fields.
    if !attributes.name.is_empty() {
        request["name"] = json!(attributes.name);
    }
    if act.resource.namespaced {
        request["namespace"] = json!(act.namespace);
    } else if act.resource.is("", "namespaces") && !attributes.name.is_empty() {
        request["namespace"] = json!(attributes.name);
    }
    if let Some(subresource) = attributes.subresource {
        request["subResource"] = json!(subresource);
        request["requestSubResource"] = json!(subresource);
    }
    (uid, json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}))
}

/// Returns the kind of a subresource's object, if it differs from the resource's kind.
fn own_kind(object: &Value) -> Option<Value> {
    let (kind, version) = (text(object, "/kind")?, text(object, "/apiVersion")?);
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let own = [
        ("autoscaling", "Scale"),
        ("policy", "Eviction"),
        (token_request::GROUP, token_request::KIND),
        ("", "Binding"),
    ];
    own.contains(&(group, kind)).then(|| json!({"group": group, "version": version, "kind": kind}))
}

fn note(act: &Act<'_>, attributes: &Attributes<'_>, webhook: &str, annotations: BTreeMap<String, String>) {
    if annotations.is_empty() {
        return;
    }
    let plural = &act.resource.plural;
    act.world.audits.note(Audit {
        user: act.user.name.clone(),
        operation: attributes.operation.to_owned(),
        group: act.resource.group.clone(),
        resource: attributes.subresource.map_or_else(|| plural.clone(), |below| format!("{plural}/{below}")),
        namespace: act.namespace.to_owned(),
        name: attributes.name.to_owned(),
        annotations: annotations.into_iter().map(|(key, value)| (format!("{webhook}/{key}"), value)).collect(),
    });
}

/// Returns the webhook's refusal as the requester sees it.
fn denial(webhook: &str, status: Option<Value>) -> ApiError {
    let mut status = status.filter(Value::is_object).unwrap_or_else(|| json!({}));
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).filter(|code| *code >= 400);
    let code = code.unwrap_or(400);
    let denied = format!("admission webhook \"{webhook}\" denied the request");
    let message = match (text(&status, "/message"), text(&status, "/reason")) {
        (Some(said), _) | (None, Some(said)) => format!("{denied}: {said}"),
        (None, None) => format!("{denied} without explanation"),
    };
    status["kind"] = json!("Status");
    status["apiVersion"] = json!("v1");
    if !status["metadata"].is_object() {
        status["metadata"] = json!({});
    }
    status["status"] = json!("Failure");
    status["message"] = json!(message);
    status["code"] = json!(code);
    ApiError::from_status(code, status)
}

fn name_of(webhook: &Value) -> &str {
    text(webhook, "/name").unwrap_or_default()
}
