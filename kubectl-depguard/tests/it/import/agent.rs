//! Sync agent for tests, made after the documentation and the code of the real one. It does one pass over a published
//! object.

use depguard_e2e::{Api, Consumer, Outcome, Resource, ensure};
use kubectl_depguard::synced_names::{self, Naming, Original};
use serde_json::{Value, json};

/// Finalizer on originals in kcp.
const FINALIZER: &str = "syncagent.kcp.io/cleanup";

/// Kind on both sides.
pub(crate) struct Synced {
    pub(crate) kcp: Resource,
    pub(crate) service: Resource,
}

/// Related kind; a field in the spec of the published object holds its name.
pub(crate) struct Related {
    pub(crate) kind: Synced,
    pub(crate) field: &'static str,
    /// True if the original is in kcp.
    pub(crate) of_kcp: bool,
}

pub(crate) struct Agent {
    pub(crate) kcp: Consumer,
    pub(crate) service: Consumer,
    pub(crate) published: Synced,
    pub(crate) related: Vec<Related>,
}

/// Object on one side, or the place where it will be created.
pub(crate) struct End {
    api: Api,
    collection: String,
    path: String,
    object: Option<Value>,
}

impl Agent {
    /// Does one pass. A refusal ends the pass, and the next pass tries again.
    pub(crate) async fn pass(&self, name: &str) -> Outcome {
        let remote = End::read(&self.kcp, &self.published.kcp, name).await?;
        let Some(object) = &remote.object else { return Ok(()) };
        let local = self.copy(object).await?;
        let is_going = remote.is_going();
        if is_going {
            if local.object.is_some() {
                self.related(object, true).await?;
            }
            return remote.follow_into_deletion(&local).await;
        }
        remote.hold(true).await?;
        let Some(copy) = &local.object else {
            let original = original(object);
            let mut labels = json!({});
            for (label, value) in synced_names::Agent::SyncAgent.labels(&original) {
                labels[label] = json!(value);
            }
            return local.create(&self.published.service, labels, object).await;
        };
        if local.is_going() {
            return Ok(());
        }
        local.merge(&json!({"spec": object["spec"]})).await?;
        if copy.get("status").is_some() && copy["status"] != object["status"] {
            let mut current = remote.current().await?;
            current["status"] = copy["status"].clone();
            remote.api.put(&format!("{}/status", remote.path), &current).await?.ok()?;
        }
        self.related(object, false).await
    }

    /// Does enough passes to finish all work that doesn't depend on others.
    pub(crate) async fn passes(&self, name: &str) -> Outcome {
        for _ in 0..4 {
            self.pass(name).await?;
        }
        Ok(())
    }

    /// Finds the copy of a published object by its labels; otherwise returns the place for a new copy.
    pub(crate) async fn copy(&self, object: &Value) -> Outcome<End> {
        let original = original(object);
        let labels = synced_names::Agent::SyncAgent.labels(&original);
        let labels: Vec<_> = labels.iter().map(|(label, value)| format!("{label}={value}")).collect();
        let collection = self.published.service.collection(&self.service.namespace);
        let found = self.service.api.get(&format!("{collection}?labelSelector={}", labels.join(","))).await?.ok()?;
        let found = found["items"].as_array().and_then(|items| items.first()).cloned();
        let naming = Naming::parse(synced_names::Agent::SyncAgent, Some(&self.service.namespace), None)?;
        let name = match &found {
            Some(found) => text(found, "name"),
            None => naming.copy(&original)?.name,
        };
        Ok(End { api: self.service.api.clone(), path: format!("{collection}/{name}"), collection, object: found })
    }

    async fn related(&self, object: &Value, is_primary_going: bool) -> Outcome {
        for related in &self.related {
            // No mutation changes the name between the sides.
            let Some(name) = object["spec"][related.field].as_str() else { continue };
            let kcp = End::read(&self.kcp, &related.kind.kcp, name).await?;
            let service = End::read(&self.service, &related.kind.service, name).await?;
            let (from, to, kind) = match related.of_kcp {
                true => (kcp, service, &related.kind.service),
                false => (service, kcp, &related.kind.kcp),
            };
            let Some(original) = &from.object else { continue };
            if related.of_kcp && (from.is_going() || is_primary_going) {
                from.follow_into_deletion(&to).await?;
                // The agent continues with the referring object only when the copy is gone.
                ensure(to.current().await.is_err(), || format!("{} is not gone yet", to.path))?;
                from.hold(false).await?;
                continue;
            }
            if from.is_going() || is_primary_going {
                continue;
            }
            from.hold(related.of_kcp).await?;
            match to.object {
                None => to.create(kind, json!({}), original).await?,
                Some(_) => to.merge(&content(original)).await?,
            }
        }
        Ok(())
    }
}

impl End {
    async fn read(consumer: &Consumer, kind: &Resource, name: &str) -> Outcome<End> {
        let path = consumer.object(kind, name);
        let reply = consumer.api.get(&path).await?;
        let object = if reply.is_gone() { None } else { Some(reply.ok()?) };
        Ok(End { api: consumer.api.clone(), collection: kind.collection(&consumer.namespace), path, object })
    }

    /// Returns the name of the object on this side.
    pub(crate) fn name(&self) -> String {
        self.path.rsplit('/').next().unwrap_or_default().to_owned()
    }

    fn is_going(&self) -> bool {
        self.object.as_ref().is_some_and(|object| object["metadata"]["deletionTimestamp"].is_string())
    }

    async fn current(&self) -> Outcome<Value> {
        self.api.get(&self.path).await?.ok()
    }

    async fn merge(&self, patch: &Value) -> Outcome {
        self.api.merge(&self.path, patch).await?.ok().map(drop)
    }

    /// Adds the finalizer to an original, or removes it.
    async fn hold(&self, holds: bool) -> Outcome {
        let held = self.object.as_ref().is_some_and(|object| object["metadata"]["finalizers"][0] == FINALIZER);
        match (held, holds) {
            (false, true) => self.merge(&json!({"metadata": {"finalizers": [FINALIZER]}})).await,
            (true, false) => self.merge(&json!({"metadata": {"finalizers": null}})).await,
            _ => Ok(()),
        }
    }

    /// Deletes the destination first, then removes the finalizer of the source.
    async fn follow_into_deletion(&self, destination: &End) -> Outcome {
        match &destination.object {
            Some(_) if destination.is_going() => Ok(()),
            Some(_) => destination.api.delete(&destination.path).await?.ok().map(drop),
            None => self.hold(false).await,
        }
    }

    async fn create(&self, kind: &Resource, labels: Value, source: &Value) -> Outcome {
        let mut copy = content(source);
        copy["apiVersion"] = json!(kind.api_version());
        copy["kind"] = json!(kind.kind);
        copy["metadata"] = json!({"name": self.name(), "labels": labels});
        self.api.post(&self.collection, &copy).await?.ok().map(drop)
    }
}

/// Returns the synced content of an object: everything except its identity and its status.
fn content(object: &Value) -> Value {
    let mut content = object.clone();
    if let Some(fields) = content.as_object_mut() {
        fields.retain(|field, _| !["apiVersion", "kind", "metadata", "status"].contains(&field.as_str()));
    }
    content
}

fn original(object: &Value) -> Original<'_> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    Original {
        cluster: text("/metadata/annotations/kcp.io~1cluster").unwrap_or_default(),
        path: None,
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name").unwrap_or_default(),
    }
}

fn text(object: &Value, field: &str) -> String {
    object["metadata"][field].as_str().unwrap_or_default().to_owned()
}
