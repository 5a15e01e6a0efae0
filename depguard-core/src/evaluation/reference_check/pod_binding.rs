//! Binding of a Pod to a node: the API server copies the Binding's target, annotations and labels onto the Pod, which
//! the review does not show.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{PendingQuery, ReferenceCheck};
use crate::evaluation::decision::AllowReason;
use crate::model::names::Namespace;
use crate::model::percent_encoding::percent_encode;
use crate::protocol::cause::Cause;
use crate::protocol::object_review::ObjectReview;
use crate::protocol::problem::Unresolved;
use crate::protocol::request::{Accept, Query, QueryId};
use crate::protocol::response::Answer;
use crate::protocol::response_error::{object, something_else};
use crate::protocol::reviewed_object::ReviewedObject;
use crate::scan::json::{Json, Malformed, Value as Token};

/// Binding of a Pod that is not read yet.
#[derive(Debug)]
pub(super) struct PodBinding {
    namespace: Namespace,
    name: String,
    binding: Binding,
}

#[derive(Debug, Deserialize)]
struct Binding {
    metadata: Metadata,
    target: Target,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    annotations: Option<BTreeMap<String, String>>,
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Deserialize)]
struct Target {
    name: String,
}

/// Fields of a map, each with the text of its value.
type Fields<'a> = BTreeMap<Cow<'a, str>, Cow<'a, str>>;

impl ReferenceCheck {
    /// Begins to read the Pod that a review binds. An error is the end of a sentence.
    pub(super) fn begin_binding(&mut self, review: &ObjectReview<'_>, binding: &str) -> Result<(), String> {
        let namespace = review.review().asked_namespace().and_then(|namespace| Namespace::parse(namespace).ok());
        let namespace = namespace.ok_or("it names no valid namespace")?;
        let binding = serde_json::from_str(binding).map_err(|error| format!("its object is no Binding: {error}"))?;
        self.pod_binding = Some(PodBinding { namespace, name: self.subject.name.clone(), binding });
        self.queries.push(PendingQuery::Pod);
        Ok(())
    }

    pub(super) fn answer_pod(&mut self, answer: Answer<'_>) {
        let Some(binding) = self.pod_binding.take() else { return };
        let bound = match object(answer, "get pods") {
            Ok(Some(body)) => self.begin_bound_pod(&binding, body).ok_or_else(something_else),
            // Another Pod of that name may exist by the time of the binding.
            Ok(None) => Err(Unresolved::new(Cause::ReadFailed, "found no Pod of that name; retry later")),
            Err(why) => Err(why),
        };
        if let Err(why) = bound {
            let strictest = self.strictest();
            self.record_failure(strictest, why.about(binding.read_name()));
        }
    }

    /// Begins to check the Pod as it will be. `None`: this is not the Pod.
    fn begin_bound_pod(&mut self, binding: &PodBinding, body: &[u8]) -> Option<()> {
        let pod = str::from_utf8(body).ok()?;
        let metadata: ReviewedObject<'_> = serde_json::from_str(pod).ok()?;
        if metadata.name() != Some(&binding.name) || metadata.namespace() != Some(binding.namespace.as_str()) {
            return None;
        }
        if metadata.is_terminating() {
            self.exemption = Some(AllowReason::Terminating);
            return Some(());
        }
        let bound = binding.binding.apply(pod).ok()?;
        self.begin_object(&bound, &metadata, Some(pod)).ok()
    }
}

impl PodBinding {
    pub(super) fn query(&self, id: QueryId) -> Query {
        let path = format!("/api/v1/namespaces/{}/pods/{}", self.namespace, percent_encode(&self.name));
        Query { id, cluster: None, export: None, path, accept: Accept::Json }
    }

    pub(super) fn read_name(&self) -> String {
        format!("the read of Pod {}/{}", self.namespace, self.name)
    }
}

impl Binding {
    /// Returns the Pod as it is once it is bound.
    fn apply(&self, pod: &str) -> Result<String, Malformed> {
        let text = |value: &str| Cow::from(Value::from(value).to_string());
        let mut pod = fields(Some(pod))?;
        let mut metadata = fields(pod.get("metadata").map(Cow::as_ref))?;
        let Metadata { annotations, labels } = &self.metadata;
        for (field, added) in [("annotations", annotations), ("labels", labels)] {
            let mut all = fields(metadata.get(field).map(Cow::as_ref))?;
            all.extend(added.iter().flatten().map(|(key, value)| (Cow::from(key), text(value))));
            let all = printed(&all);
            metadata.insert(Cow::from(field), Cow::from(all));
        }
        let mut spec = fields(pod.get("spec").map(Cow::as_ref))?;
        spec.insert(Cow::from("nodeName"), text(&self.target.name));
        let (metadata, spec) = (printed(&metadata), printed(&spec));
        pod.extend([("metadata", metadata), ("spec", spec)].map(|(field, value)| (Cow::from(field), Cow::from(value))));
        Ok(printed(&pod))
    }
}

/// Splits a map into its fields; an absent map has none.
fn fields(map: Option<&str>) -> Result<Fields<'_>, Malformed> {
    let mut fields = Fields::new();
    let mut json = Json::new(map.unwrap_or("null").as_bytes());
    match json.value()? {
        Token::Map => {}
        Token::Null => return Ok(fields),
        Token::List | Token::String(_) | Token::Other => return Err(json.expected("a map")),
    }
    let mut next = json.first_key()?;
    while let Some(key) = next {
        let start = json.offset();
        json.skip()?;
        let value = Cow::from(json.text_since(start)?);
        if fields.insert(key.text()?, value).is_some() {
            return Err(json.expected("each key once, before"));
        }
        next = json.next_key()?;
    }
    Ok(fields)
}

fn printed(fields: &Fields<'_>) -> String {
    let fields: Vec<_> = fields.iter().map(|(key, value)| format!("{}:{value}", Value::from(key.as_ref()))).collect();
    format!("{{{}}}", fields.join(","))
}
