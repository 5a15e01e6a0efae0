//! A Lease of `coordination.k8s.io`: reading and writing it.

use std::time::Duration;

use depguard_kcp::{ApiError, Endpoint};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::model::names::VERSION_ANNOTATION;

/// Lease by its name; a clone refers to the same Lease.
#[derive(Debug, Clone)]
pub(crate) struct Lease {
    endpoint: Endpoint,
    namespace: String,
    name: String,
}

/// Content of a Lease.
#[derive(Debug, Clone)]
pub(crate) struct HeldLease {
    object: Value,
    /// Resource version, which changes with each write.
    pub(crate) version: String,
    /// Identity of the holder; empty if nobody holds the Lease.
    pub(crate) holder: String,
    /// Time for which the Lease is held after its last renewal.
    pub(crate) duration: Duration,
    renewed: Option<Timestamp>,
}

impl Lease {
    pub(crate) fn new(endpoint: Endpoint, namespace: &str, name: &str) -> Self {
        Self { endpoint, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Reads the Lease; `None` if there is none.
    pub(crate) async fn read(&self) -> Result<Option<HeldLease>, ApiError> {
        match self.endpoint.get_json(&format!("{}/{}", self.collection(), self.name)).await {
            Ok(object) => Ok(Some(HeldLease::from_object(object))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes that `holder` holds the Lease for so long from now on, provided that the Lease is still as `known`.
    pub(crate) async fn write(
        &self,
        known: Option<&HeldLease>,
        holder: &str,
        duration: Duration,
    ) -> Result<HeldLease, ApiError> {
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
        let text = |pointer: &str| known.and_then(|known| known.object.pointer(pointer)).and_then(Value::as_str);
        let is_new = known.is_none_or(|known| known.holder != holder);
        let changes = known.and_then(|known| known.object.pointer("/spec/leaseTransitions")).and_then(Value::as_i64);
        let changes = changes.unwrap_or_default().saturating_add(i64::from(is_new && known.is_some()));
        let mut object = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "annotations": {(VERSION_ANNOTATION): env!("CARGO_PKG_VERSION")},
            },
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": duration.as_secs().max(1),
                "acquireTime": if is_new { &now } else { text("/spec/acquireTime").unwrap_or(&now) },
                "renewTime": now,
                "leaseTransitions": changes,
            },
        });
        if let (Some(known), Some(metadata)) = (known, object.get_mut("metadata").and_then(Value::as_object_mut)) {
            metadata.insert("resourceVersion".to_owned(), json!(known.version));
        }
        let written = match known {
            None => self.endpoint.post_json(&self.collection(), &object).await?,
            Some(_) => self.endpoint.put_json(&format!("{}/{}", self.collection(), self.name), &object).await?,
        };
        Ok(HeldLease::from_object(written))
    }

    fn collection(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.namespace)
    }
}

impl HeldLease {
    /// Returns true if a holder renewed the Lease no longer ago than it lasts, by this machine's clock.
    pub(crate) fn is_fresh(&self) -> bool {
        let seconds = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        let age = self.renewed.map(|renewed| Timestamp::now().as_second().saturating_sub(renewed.as_second()));
        !self.holder.is_empty() && age.is_some_and(|age| age <= seconds(self.duration))
    }

    fn from_object(object: Value) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let seconds = object.pointer("/spec/leaseDurationSeconds").and_then(Value::as_u64);
        Self {
            version: text("/metadata/resourceVersion"),
            holder: text("/spec/holderIdentity"),
            duration: Duration::from_secs(seconds.unwrap_or_default()),
            renewed: text("/spec/renewTime").parse().ok(),
            object,
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    pub(crate) fn held(object: &Value) -> HeldLease {
        HeldLease::from_object(object.clone())
    }
}
