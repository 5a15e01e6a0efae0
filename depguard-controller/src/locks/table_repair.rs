//! Repair and cleaning of the tables by which a review finds its locks: no lock is missing in them, and entries without
//! a lock go in the end.

use depguard_core::locks::{Entry, Lock, LockKind, LockTable, TableName, tables_of};
use depguard_core::model::Namespace;
use depguard_kcp::{ApiError, Endpoint, Preconditions};

/// Maximum number of attempts to write a table that somebody else writes meanwhile.
const MAX_TRIES: usize = 8;

/// Makes sure that the stored table says all of `required`.
pub(super) async fn ensure(endpoint: &Endpoint, name: &TableName, required: &[Entry]) -> Result<(), String> {
    let mut conflict = None;
    for _ in 0..MAX_TRIES {
        match try_ensure(endpoint, name, required).await {
            Err(WriteFailure::Conflict(error)) => conflict = Some(error),
            Err(WriteFailure::For(why)) => return Err(why),
            Ok(()) => return Ok(()),
        }
    }
    let why = conflict.map(|error| error.to_string()).unwrap_or_default();
    Err(format!("LockTable {name} changed during each attempt to write it: {why}"))
}

/// Returns true if a table says all of `required`.
pub(super) fn says(table: &LockTable, required: &[Entry]) -> bool {
    required.iter().all(|entry| {
        table.entries().any(|found| {
            found.lock == entry.lock
                && found.namespace == entry.namespace
                && found.names.is_superset(&entry.names)
                && entry.selectors.iter().all(|selector| found.selectors.contains(selector))
        })
    })
}

/// Removes from a table the entries that their locks no longer need; reads each lock again first. `entries` are entries
/// of `table`. A stored table that has changed since is left alone. Returns true if an entry was removed.
pub(super) async fn clean(endpoint: &Endpoint, table: &LockTable, entries: &[Entry]) -> Result<bool, ApiError> {
    let mut cleaned = table.clone();
    let mut changed = false;
    for entry in entries {
        let now = match lock_of(endpoint, table.name(), entry).await? {
            Some(lock) => {
                let mut named = tables_of(&lock).remove(table.name()).unwrap_or_default().into_iter();
                named.find(|now| now.lock == entry.lock && now.namespace == entry.namespace)
            }
            None => None,
        };
        if now.as_ref().is_some_and(|now| now.says(entry)) {
            continue;
        }
        if let Some(less) = cleaned.cleaned(entry, now.as_ref()) {
            cleaned = less;
            changed = true;
        }
    }
    if !changed {
        return Ok(false);
    }
    let path = table.name().path();
    let written = if cleaned.is_empty() {
        let only = Preconditions { uid: table.uid(), resource_version: table.resource_version() };
        endpoint.delete(&path, only).await
    } else {
        endpoint.put_json(&path, &cleaned.to_value()).await
    };
    match written {
        Ok(_) => Ok(true),
        // Somebody else was faster, perhaps with a new lock: a later round looks at the new table.
        Err(error) if error.is_conflict() || error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

enum WriteFailure {
    Conflict(ApiError),
    For(String),
}

async fn try_ensure(endpoint: &Endpoint, name: &TableName, required: &[Entry]) -> Result<(), WriteFailure> {
    let failed = |error: ApiError| match error.is_conflict() || error.is_not_found() {
        true => WriteFailure::Conflict(error),
        false => WriteFailure::For(error.to_string()),
    };
    let unusable = |error| match error {
        depguard_core::locks::TableError::Full(_) => WriteFailure::For(format!("{error}")),
        error => WriteFailure::For(format!(
            "LockTable {name} can't be read ({error}): delete it, and depguard creates it again"
        )),
    };
    match endpoint.get_json(&name.path()).await {
        Ok(found) => {
            let table = LockTable::from_value(&found).map_err(unusable)?;
            if says(&table, required) {
                return Ok(());
            }
            let table = table.with(required).map_err(unusable)?;
            endpoint.put_json(&name.path(), &table.to_value()).await.map(drop).map_err(failed)
        }
        Err(error) if error.is_not_found() => {
            let table = LockTable::new(name).with(required).map_err(unusable)?;
            // If there is no such kind at all, trying again would not help.
            let collection = TableName::collection();
            endpoint.post_json(&collection, &table.to_value()).await.map(drop).map_err(|error| {
                if error.is_conflict() { WriteFailure::Conflict(error) } else { WriteFailure::For(error.to_string()) }
            })
        }
        Err(error) => Err(WriteFailure::For(error.to_string())),
    }
}

/// Reads the lock of an entry as it is stored now.
async fn lock_of(endpoint: &Endpoint, table: &TableName, entry: &Entry) -> Result<Option<Lock>, ApiError> {
    let namespace: Option<&Namespace> = table.namespace.as_ref();
    let kind = if namespace.is_some() { LockKind::ObjectLock } else { LockKind::ClusterObjectLock };
    match endpoint.get_json(&format!("{}/{}", kind.path(namespace), entry.lock)).await {
        Ok(found) => Ok(Some(Lock::read(kind, &found))),
        Err(error) if error.is_missing(&entry.lock) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use depguard_core::ControlPlane;
    use depguard_kcp::{ConnectOptions, Connection};
    use depguard_testbed::{Options, Testbed};
    use serde_json::json;

    use super::*;
    use crate::manifests;
    use crate::runtime::apply::own_endpoint;

    async fn served(testbed: &Testbed) -> Endpoint {
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, testbed.kubeconfig("", "admin")).unwrap();
        let control_plane = ControlPlane::Kubernetes;
        let options = ConnectOptions::new(control_plane).kubeconfig(kubeconfig);
        let endpoint = own_endpoint(&Connection::open(&options).await.unwrap());
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        for crd in manifests::lock_crds() {
            endpoint.post_json(definitions, &crd).await.unwrap();
        }
        let end = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
        while endpoint.list_json(&TableName::collection()).await.is_err() {
            assert!(tokio::time::Instant::now() < end, "tables are not served");
            tokio::task::yield_now().await;
        }
        endpoint
    }

    /// Writes a table with a lock about the ConfigMap `a`, and returns this table.
    async fn noted(endpoint: &Endpoint, lock: &str) -> LockTable {
        let namespace = Some(Namespace::parse("default").unwrap());
        let name = TableName { namespace, kind: "configmaps".parse().unwrap() };
        let mut entry = Entry::new(lock, None);
        entry.names.insert("a".to_owned());
        ensure(endpoint, &name, &[entry]).await.unwrap();
        stored(endpoint, &name).await
    }

    async fn stored(endpoint: &Endpoint, name: &TableName) -> LockTable {
        LockTable::from_value(&endpoint.get_json(&name.path()).await.unwrap()).unwrap()
    }

    #[tokio::test]
    async fn nothing_is_taken_from_a_table_that_a_new_lock_was_noted_in_meanwhile() {
        let testbed = Testbed::start(Options::kubernetes()).await.unwrap();
        let endpoint = served(&testbed).await;
        let seen = noted(&endpoint, "gone").await;
        let (name, entries) = (seen.name().clone(), seen.entries().cloned().collect::<Vec<_>>());

        // Admission does the same for a lock of this name that is about to be made and is not stored yet.
        let again = seen.with(&entries).unwrap();
        endpoint.put_json(&name.path(), &again.to_value()).await.unwrap();
        assert!(!clean(&endpoint, &seen, &entries).await.unwrap());
        let now = stored(&endpoint, &name).await;
        assert!(says(&now, &entries) && now.revision() > seen.revision());

        // Without the lock, the table would go now. The lock is stored by then.
        let lock = json!({
            "apiVersion": "dependencies.opendefense.cloud/v1alpha1",
            "kind": "ObjectLock",
            "metadata": {"name": "gone"},
            "spec": {"targets": [{"resource": "configmaps", "name": "a"}]},
        });
        let locks = LockKind::ObjectLock.path(name.namespace.as_ref());
        endpoint.post_json(&locks, &lock).await.unwrap();
        let entries: Vec<Entry> = now.entries().cloned().collect();
        assert!(!clean(&endpoint, &now, &entries).await.unwrap());
        endpoint.delete(&format!("{locks}/gone"), Preconditions::default()).await.unwrap();
        assert!(clean(&endpoint, &now, &entries).await.unwrap());
        assert!(endpoint.get_json(&name.path()).await.unwrap_err().is_not_found());
    }

    #[tokio::test]
    async fn nothing_is_taken_from_a_table_while_its_locks_are_not_served() {
        let testbed = Testbed::start(Options::kubernetes()).await.unwrap();
        let endpoint = served(&testbed).await;
        let seen = noted(&endpoint, "snapshot").await;
        let (name, entries) = (seen.name().clone(), seen.entries().cloned().collect::<Vec<_>>());

        let definition =
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/objectlocks.dependencies.opendefense.cloud";
        endpoint.delete(definition, Preconditions::default()).await.unwrap();
        let locks = LockKind::ObjectLock.path(name.namespace.as_ref());
        while endpoint.list_json(&locks).await.is_ok() {
            tokio::task::yield_now().await;
        }
        assert!(clean(&endpoint, &seen, &entries).await.unwrap_err().is_not_found());
        assert_eq!(stored(&endpoint, &name).await, seen);
    }
}
