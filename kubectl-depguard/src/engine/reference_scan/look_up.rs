//! Look-up of missing targets on an API server, for objects of files that are not applied yet.

use std::collections::BTreeMap;

use depguard_core::lookup::ReferencedObject;
use depguard_core::model::GroupResource;
use futures::stream::{self, StreamExt};

use super::{Object, Scan};
use crate::cluster::api_server::{ApiServer, MAX_CONCURRENT_REQUESTS, described};
use crate::cluster::kinds::Kinds;
use crate::cluster::rules::ReadFailure;
use crate::io::exit::Failure;

/// Kind, namespace and name of a target. Without a namespace, objects in all namespaces are meant.
type Target = (GroupResource, Option<String>, String);

impl Scan {
    /// Looks on an API server for the targets of references by `is_meant` objects that the scan did not find, once for
    /// each target. A target that can't be read is unread: it neither exists nor is missing.
    pub(crate) async fn look_up_missing(
        &mut self,
        server: &ApiServer,
        is_meant: impl Fn(&Object) -> bool,
    ) -> Result<(), Failure> {
        let mut missing = BTreeMap::<Target, Vec<usize>>::new();
        for (index, reference) in self.references.iter().enumerate() {
            let is_meant = self.objects.get(reference.from).is_some_and(&is_meant);
            if let Some((kind, namespace, name)) = self.missing_target(reference).filter(|_| is_meant) {
                missing.entry((kind, namespace.map(str::to_owned), name.to_owned())).or_default().push(index);
            }
        }
        let kinds = server.kinds().await?;
        let reads = stream::iter(missing)
            .map(|(target, references)| async move { (read(server, kinds, &target).await, references) });
        let mut reads = std::pin::pin!(reads.buffered(MAX_CONCURRENT_REQUESTS));
        while let Some((read, references)) = reads.next().await {
            for index in references {
                let Some(reference) = self.references.get_mut(index) else { continue };
                match &read {
                    Ok(objects) => reference.exists = objects.iter().any(|object| reference.means.includes(object)),
                    Err(_) => reference.looked_at = false,
                }
            }
            if let Err(unread) = read {
                self.coverage.miss(std::slice::from_ref(&unread));
                self.unread.push(unread);
            }
        }
        Ok(())
    }
}

async fn read(server: &ApiServer, kinds: &Kinds, target: &Target) -> Result<Vec<ReferencedObject>, ReadFailure> {
    let (resource, namespace, name) = target;
    let kind = kinds.of(resource).ok_or_else(|| unserved(kinds, target))?;
    let mut objects = Vec::new();
    let each = |object| objects.push(ReferencedObject::read(&object));
    server.each_named(kind, namespace.as_deref(), name, each).await?;
    Ok(objects)
}

/// Builds the failure for a target of a kind that the API server does not serve, or of which that is unknown.
fn unserved(kinds: &Kinds, (kind, namespace, name): &Target) -> ReadFailure {
    let why = match kinds.unread_of(&kind.group).next() {
        Some(unread) => format!("could not read {unread}"),
        None => ReadFailure::NOT_SERVED.to_owned(),
    };
    ReadFailure::new(described(kind, namespace.as_deref(), name), why)
}
