//! What an API server knows of the kinds that rules name: read as the controller reads it.

use std::sync::Arc;

use depguard_controller::fitting::Seen;
use depguard_controller::look;
use depguard_core::{ExportName, GroupResource, api};
use depguard_kcp::Endpoint;
use futures::{StreamExt, stream};
use serde_json::Value;

use super::code::Code;
use super::kinds::{Known, Named, Unknown};
use super::subject::Subject;
use crate::live::{Live, refused};
use crate::outcome::Failure;
use crate::terminal::Terminal;

/// Kinds that are looked at at once: a published schema can take some megabytes.
const AT_ONCE: usize = 2;

/// The rules that the workspace or the cluster has; none where it doesn't know rules. Who must not read them is told so.
pub(super) async fn rules(live: &Live, terminal: &mut Terminal) -> Result<Vec<Value>, Failure> {
    let path = format!("/apis/{}/{}/{}", api::GROUP, api::VERSION, api::PLURAL);
    match live.endpoint().list_json(&path).await {
        Ok(list) => Ok(list.items.into_iter().map(whole).collect()),
        Err(why) if why.is_not_found() => Ok(Vec::new()),
        Err(why) => {
            let unread = refused("the rules that there are".to_owned(), &why)?;
            terminal
                .note(&format!("could not look at {unread}, so nothing is said of cycles and overlaps with them"))?;
            Ok(Vec::new())
        }
    }
}

/// A list need not say of what kind each of its items is.
fn whole(mut rule: Value) -> Value {
    if let Some(rule) = rule.as_object_mut() {
        rule.entry("apiVersion").or_insert_with(|| format!("{}/{}", api::GROUP, api::VERSION).into());
        rule.entry("kind").or_insert_with(|| api::KIND.into());
    }
    rule
}

/// What is known of these kinds; of those with `true` the fields as well.
pub(super) async fn kinds(live: &Live, wanted: Vec<(Named, bool)>) -> Vec<(Named, Result<Known, Unknown>)> {
    let seen = stream::iter(wanted).map(|(named, with_schema)| async move {
        let known = kind(live, &named, with_schema).await;
        (named, known)
    });
    seen.buffered(AT_ONCE).collect().await
}

async fn kind(live: &Live, named: &Named, with_schema: bool) -> Result<Known, Unknown> {
    let kind = named.gvr.group_resource();
    let Some((path, export)) = &named.export else {
        let seen = look(&live.endpoint(), &named.gvr, None, with_schema).await;
        let definition = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind}");
        return Ok(Known { definition: definition_of(&live.endpoint(), &seen, &definition).await, seen });
    };
    let (endpoint, place) = match path {
        None => (live.endpoint(), "this workspace".to_owned()),
        Some(path) => (live.connection().workspace(path), format!("workspace {path}")),
    };
    let schema = schema_of(&endpoint, export, &kind, &place).await?;
    let seen = look(&endpoint, &named.gvr, Some(&schema), with_schema).await;
    let definition = format!("/apis/apis.kcp.io/v1alpha1/apiresourceschemas/{schema}");
    Ok(Known { definition: definition_of(&endpoint, &seen, &definition).await, seen })
}

/// The definition of a kind of which more is to be told than what it is.
async fn definition_of(endpoint: &Endpoint, seen: &Seen, path: &str) -> Option<Arc<Subject>> {
    seen.facts().filter(|facts| facts.is_custom && facts.schema.is_some())?;
    Some(Arc::new(Subject::stored(endpoint.get_json(path).await.ok()?)))
}

/// The APIResourceSchema by which an APIExport serves a kind.
async fn schema_of(
    endpoint: &Endpoint,
    export: &ExportName,
    kind: &GroupResource,
    place: &str,
) -> Result<String, Unknown> {
    let not_found = |message| Err(Unknown { code: Code::ExportNotFound, message });
    let object = match endpoint.get_json(&format!("/apis/apis.kcp.io/v1alpha2/apiexports/{export}")).await {
        Ok(object) => object,
        Err(why) if why.is_not_found() => {
            return not_found(format!("APIExport {export} not found in {place}: create it, or correct its name"));
        }
        Err(why) => {
            let message = format!("it is not known whether APIExport {export} in {place} serves {kind}: {why}");
            return Err(Unknown { code: Code::KindUnchecked, message });
        }
    };
    let resources = object.pointer("/spec/resources").and_then(Value::as_array).into_iter().flatten();
    let text =
        |resource: &Value, field: &str| resource.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let found = resources.into_iter().find(|resource| {
        text(resource, "group") == kind.group.as_str() && text(resource, "name") == kind.resource.as_str()
    });
    match found {
        Some(resource) => Ok(text(resource, "schema")),
        None => not_found(format!(
            "APIExport {export} in {place} does not serve {kind}: correct the export, or the group and resource beside it"
        )),
    }
}
