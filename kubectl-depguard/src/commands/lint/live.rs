//! Facts about kinds from an API server, read as the controller reads them.

use std::sync::Arc;

use depguard_controller::read_kind;
use depguard_core::model::GroupResource;
use depguard_core::schema::KindState;
use depguard_core::{ExportName, api};
use depguard_kcp::Endpoint;
use futures::{StreamExt, stream};
use serde_json::Value;

use super::code::Code;
use super::kinds::{KindFindings, KindProblem, KindReference};
use super::subject::Subject;
use crate::cluster::api_server::{ApiServer, refused};
use crate::cluster::rules::ReadFailure;
use crate::io::exit::Failure;

/// Limit on the kinds that are read at once: a published schema can take some megabytes.
const MAX_CONCURRENT_READS: usize = 2;

/// Reads the rules of the workspace or cluster, or the reason why they can't be read. Without the kind there are no
/// rules.
pub(super) async fn rules(live: &ApiServer) -> Result<(Vec<Value>, Option<ReadFailure>), Failure> {
    let path = format!("/apis/{}/{}/{}", api::GROUP, api::VERSION, api::PLURAL);
    match live.endpoint().list_json(&path).await {
        Ok(list) => Ok((list.items.into_iter().map(whole).collect(), None)),
        Err(why) if why.is_not_found() => Ok((Vec::new(), None)),
        Err(why) => Ok((Vec::new(), Some(refused("the existing rules".to_owned(), &why)?))),
    }
}

/// Adds `apiVersion` and `kind` to an item of a list, which may leave them out.
fn whole(mut rule: Value) -> Value {
    if let Some(rule) = rule.as_object_mut() {
        rule.entry("apiVersion").or_insert_with(|| format!("{}/{}", api::GROUP, api::VERSION).into());
        rule.entry("kind").or_insert_with(|| api::KIND.into());
    }
    rule
}

/// Reads the facts about these kinds; for a kind with `true`, the fields as well.
pub(super) async fn kinds(
    live: &ApiServer,
    named_kinds: Vec<(KindReference, bool)>,
) -> Vec<(KindReference, Result<KindFindings, KindProblem>)> {
    let seen = stream::iter(named_kinds).map(|(named, with_schema)| async move {
        let known = kind(live, &named, with_schema).await;
        (named, known)
    });
    seen.buffered(MAX_CONCURRENT_READS).collect().await
}

async fn kind(live: &ApiServer, named: &KindReference, with_schema: bool) -> Result<KindFindings, KindProblem> {
    let kind = named.gvr.group_resource();
    let Some((path, export)) = &named.export else {
        let seen = read_kind(&live.endpoint(), &named.gvr, None, with_schema).await;
        let definition = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind}");
        return Ok(KindFindings { definition: definition_of(&live.endpoint(), &seen, &definition).await, seen });
    };
    let (endpoint, place) = match path {
        None => (live.endpoint(), "this workspace".to_owned()),
        Some(path) => (live.connection().workspace(path), format!("workspace {path}")),
    };
    let schema = schema_of(&endpoint, export, &kind, &place).await?;
    let seen = read_kind(&endpoint, &named.gvr, Some(&schema), with_schema).await;
    let definition = format!("/apis/apis.kcp.io/v1alpha1/apiresourceschemas/{schema}");
    Ok(KindFindings { definition: definition_of(&endpoint, &seen, &definition).await, seen })
}

/// Reads the definition of a custom kind whose schema is known; other kinds need none.
async fn definition_of(endpoint: &Endpoint, seen: &KindState, path: &str) -> Option<Arc<Subject>> {
    seen.facts().filter(|facts| facts.is_custom && facts.schema.is_some())?;
    Some(Arc::new(Subject::stored(endpoint.get_json(path).await.ok()?)))
}

/// Returns the APIResourceSchema by which an APIExport serves a kind.
async fn schema_of(
    endpoint: &Endpoint,
    export: &ExportName,
    kind: &GroupResource,
    place: &str,
) -> Result<String, KindProblem> {
    let not_found = |message| Err(KindProblem { code: Code::ExportNotFound, message });
    let object = match endpoint.get_json(&format!("/apis/apis.kcp.io/v1alpha2/apiexports/{export}")).await {
        Ok(object) => object,
        Err(why) if why.is_not_found() => {
            return not_found(format!("APIExport {export} not found in {place}: create it, or correct its name"));
        }
        Err(why) => {
            let message = format!("could not find out whether APIExport {export} in {place} serves {kind}: {why}");
            return Err(KindProblem { code: Code::KindUnchecked, message });
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
