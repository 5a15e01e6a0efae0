//! Watch of one resource, reported as changes.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;

use depguard_core::{ControlPlane, LogicalCluster, api};
use futures::StreamExt;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::allowance::Allowance;
use super::objects::Objects;
use super::snapshot::{ObjectKey, Watched};
use super::staleness::LastUnderstood;
use super::store::{Change, Source};
use crate::http::endpoint::Endpoint;
use crate::watch::steady::{Form, WatchEvent, WatchFailure};

/// Change, with the number of the watch that reports it: a watch that was ended may have reported before.
pub(crate) struct Report {
    pub(crate) source: Source,
    pub(crate) watch: u64,
    pub(crate) change: Change,
    /// Time of the last contact with the watch.
    pub(crate) last_understood: Instant,
}

/// Watch to run, and the receiver of its reports.
pub(crate) struct Watch {
    pub(crate) endpoint: Endpoint,
    pub(crate) watched: Watched,
    pub(crate) control_plane: ControlPlane,
    pub(crate) allowance: Allowance,
    pub(crate) source: Source,
    pub(crate) number: u64,
    pub(crate) reports: mpsc::Sender<Report>,
    pub(crate) last_understood: LastUnderstood,
}

/// Error: the reflector is gone, so nobody is listening.
struct NoListener;

impl Watch {
    /// Watches until nobody is listening.
    pub(crate) async fn run(self) {
        let Watched { group, version, plural, names, .. } = self.watched;
        let root = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{group}") };
        let mut path = format!("{root}/{version}/{plural}");
        if let (ControlPlane::Kubernetes, Some(name)) = (self.control_plane, names) {
            path.push_str(&format!("?fieldSelector=metadata.name%3D{name}"));
        }
        let form = WholeObject { watched: self.watched, control_plane: self.control_plane };
        let mut events = pin!(self.endpoint.follow(path, form));
        // While a list is read, this holds its objects so far. They count only once the list is complete.
        let mut listed = Objects::default();
        while let Some(event) = events.next().await {
            if self.take(event, &mut listed).await.is_err() {
                return;
            }
        }
    }

    async fn take(&self, event: WatchEvent<(ObjectKey, Value)>, listed: &mut Objects) -> Result<(), NoListener> {
        // The objects of a list show nothing before its end.
        if matches!(event, WatchEvent::Changed(_) | WatchEvent::Gone(_) | WatchEvent::Bookmark) {
            self.last_understood.note();
        }
        match event {
            WatchEvent::Listing => *listed = Objects::new(self.allowance),
            WatchEvent::Listed((key, _)) | WatchEvent::Changed((key, _)) | WatchEvent::Gone((key, _))
                if self.watched.names.is_some_and(|name| key.1 != name) => {}
            WatchEvent::Listed((key, value)) => _ = listed.insert(key, Arc::new(value)),
            WatchEvent::Complete => {
                self.note_well();
                self.report(Change::Listed(std::mem::take(listed))).await?;
            }
            WatchEvent::Changed((key, value)) => self.report(Change::Applied(key, Arc::new(value))).await?,
            WatchEvent::Gone((key, _)) => self.report(Change::Deleted(key)).await?,
            WatchEvent::Bookmark => {}
            WatchEvent::Failed(WatchFailure { why, status, listing }) => {
                *listed = Objects::default();
                let why = format!("cannot watch {} at {}: {why}", self.watched.full_name(), self.endpoint.url());
                // 403 and 404: the API server doesn't show the resource at all.
                let hidden = matches!(status, Some(403 | 404));
                if listing {
                    self.note_failing(&why, hidden);
                }
                self.report(Change::Failed { why, hidden }).await?;
            }
        }
        Ok(())
    }

    /// Reports once that the present objects can't be listed, unless the resource may be hidden.
    fn note_failing(&self, why: &str, hidden: bool) {
        let may_be = hidden && !self.watched.required;
        if !may_be && self.last_understood.set_failing(true) {
            tracing::warn!(resource = self.watched.plural, "not followed any more: {why}");
        }
    }

    /// Reports once that the objects were listed again.
    fn note_well(&self) {
        self.last_understood.note();
        if self.last_understood.set_failing(false) {
            tracing::info!(resource = self.watched.plural, url = self.endpoint.url(), "followed again");
        }
    }

    async fn report(&self, change: Change) -> Result<(), NoListener> {
        let last_understood = self.last_understood.last();
        let report = Report { source: self.source.clone(), watch: self.number, change, last_understood };
        self.reports.send(report).await.map_err(|_| NoListener)
    }
}

/// Form that shows an object by its key and its JSON, without the fields that depguard does not need.
struct WholeObject {
    watched: Watched,
    control_plane: ControlPlane,
}

/// Fields of an object, each in its original spelling.
type Fields = BTreeMap<String, Box<RawValue>>;

/// Metadata that identifies an object and its state.
const IDENTITY: [&str; 6] = ["name", "namespace", "uid", "generation", "annotations", "deletionTimestamp"];

#[derive(Deserialize)]
struct Identity {
    name: String,
    namespace: Option<String>,
}

impl Form for WholeObject {
    type Object = (ObjectKey, Value);

    fn read(&self, json: &str) -> serde_json::Result<Self::Object> {
        let mut object: Fields = serde_json::from_str(json)?;
        let metadata = object.remove("metadata").unwrap_or_default();
        let Identity { name, namespace } = serde_json::from_str(metadata.get())?;
        let metadata = pruned(&metadata, &self.watched)?;
        if let Some(fields) = self.watched.fields {
            object.retain(|field, _| fields.contains(&field.as_str()));
        }
        // In a plain cluster, any tenant can write this annotation.
        let cluster = match self.control_plane {
            ControlPlane::Kcp => metadata
                .get("annotations")
                .and_then(|annotations| annotations.get(api::CLUSTER_ANNOTATION)?.as_str())
                .and_then(|cluster| LogicalCluster::parse(cluster).ok()),
            ControlPlane::Kubernetes => None,
        };
        let name = namespace.map_or(name.clone(), |namespace| format!("{namespace}/{name}"));
        let mut value = Map::from_iter([("metadata".to_owned(), metadata)]);
        for (field, json) in object {
            value.insert(field, serde_json::from_str(json.get())?);
        }
        // In a list of a built-in kind, the objects have no type of their own.
        let Watched { group, version, kind, .. } = self.watched;
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        value.entry("apiVersion").or_insert_with(|| api_version.into());
        value.entry("kind").or_insert_with(|| kind.into());
        Ok(((cluster, name), Value::Object(value)))
    }
}

/// Reads metadata without the fields that depguard does not need: they are dropped as text.
fn pruned(metadata: &RawValue, watched: &Watched) -> serde_json::Result<Value> {
    let mut metadata: Fields = serde_json::from_str(metadata.get())?;
    metadata.remove("managedFields");
    if watched.fields.is_some() {
        metadata.retain(|field, _| IDENTITY.contains(&field.as_str()));
    }
    if let (Some(kept), Some(annotations)) = (watched.annotations(), metadata.get("annotations")) {
        let mut annotations: Option<Fields> = serde_json::from_str(annotations.get())?;
        if let Some(annotations) = &mut annotations {
            annotations.retain(|name, _| kept.contains(&name.as_str()));
        }
        metadata.insert("annotations".to_owned(), to_raw_value(&annotations)?);
    }
    serde_json::to_value(metadata)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_never_looked_at_is_dropped_and_nothing_else() {
        let read = |metadata: Value| {
            let form = WholeObject { watched: Watched::RULES, control_plane: ControlPlane::Kcp };
            let object = json!({"metadata": metadata, "spec": {"n": 1.50, "annotations": {"b": "c"}}});
            form.read(&object.to_string()).map(|(_, value)| value).unwrap()
        };
        let object = |metadata: Value| {
            json!({
                "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule",
                "metadata": metadata, "spec": {"n": 1.50, "annotations": {"b": "c"}},
            })
        };
        let all = json!({"name": "a", "managedFields": [{}], "annotations": {"kcp.io/cluster": "c1", "other": "2"}});
        assert_eq!(read(all), object(json!({"name": "a", "annotations": {"kcp.io/cluster": "c1"}})));
        for untouched in [json!({"name": "b", "annotations": null}), json!({"name": "c"})] {
            assert_eq!(read(untouched.clone()), object(untouched));
        }
    }

    #[test]
    fn what_only_the_controller_reads_is_no_news_for_the_webhook() {
        let form = WholeObject {
            watched: Watched { fields: Some(&["spec"]), ..Watched::RULES },
            control_plane: ControlPlane::Kubernetes,
        };
        let read = |version: &str, ready: bool, generation: i64| {
            let metadata = json!({"name": "a", "uid": "u", "generation": generation, "resourceVersion": version});
            let object = json!({"metadata": metadata, "spec": {"n": 1}, "status": {"ready": ready}});
            form.read(&object.to_string()).map(|(_, value)| value).unwrap()
        };
        assert_eq!(read("1", false, 1), read("2", true, 1));
        assert_ne!(read("2", true, 1), read("3", true, 2));
        assert_eq!(read("1", false, 1)["spec"]["n"], 1);
    }
}
