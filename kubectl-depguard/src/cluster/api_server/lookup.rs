//! Reads of single objects, each found, missing or unread.

use std::sync::Arc;

use depguard_core::model::{GroupResource, Namespace, percent_encode};
use depguard_kcp::ApiError;
use serde_json::Value;

use super::{ApiServer, refused};
use crate::cluster::kinds::KindInfo;
use crate::cluster::rules::ReadFailure;
use crate::io::exit::Failure;

/// Result of looking one object up.
#[derive(Debug, Clone)]
pub(crate) enum Lookup {
    Found(Arc<Value>),
    /// No object of this name exists.
    Missing,
    /// The object could not be read, so it is unknown if it exists.
    Unread(ReadFailure),
}

impl ApiServer {
    /// Looks an object up: it is missing only if the API server says so of the object, and not of its kind.
    pub(crate) async fn look_up(
        &self,
        kind: &KindInfo,
        namespace: Option<&Namespace>,
        name: &str,
    ) -> Result<Lookup, Failure> {
        let namespace = namespace.filter(|_| kind.namespaced != Some(false)).map(Namespace::as_str);
        match self.get(kind, namespace, name).await {
            Ok(Some(object)) => Ok(Lookup::Found(Arc::new(object))),
            Ok(None) => Ok(Lookup::Missing),
            Err(why) => refused(described(&kind.gvr.group_resource(), namespace, name), &why).map(Lookup::Unread),
        }
    }

    /// Passes each object of that name to `each`: the one in a namespace, or those in all. None is missing unless the
    /// API server says so: a request that fails for any reason leaves them unread.
    pub(crate) async fn each_named(
        &self,
        kind: &KindInfo,
        namespace: Option<&str>,
        name: &str,
        mut each: impl FnMut(Value),
    ) -> Result<(), ReadFailure> {
        let namespace = namespace.filter(|_| kind.namespaced != Some(false));
        let read = if namespace.is_none() && kind.namespaced != Some(false) {
            let path =
                format!("{}?fieldSelector={}", kind.path(None, None), percent_encode(&format!("metadata.name={name}")));
            self.endpoint().list_pages(&path, |page| page.into_iter().for_each(&mut each)).await
        } else {
            self.get(kind, namespace, name).await.map(|object| object.into_iter().for_each(each))
        };
        read.map_err(|why| {
            let what = described(&kind.gvr.group_resource(), namespace, name);
            refused(what.clone(), &why).unwrap_or_else(|_| ReadFailure::new(what, why.to_string()))
        })
    }

    async fn get(&self, kind: &KindInfo, namespace: Option<&str>, name: &str) -> Result<Option<Value>, ApiError> {
        // No object can have a name that is no segment of a path.
        if name.is_empty() || name.contains(['/', '%']) || matches!(name, "." | "..") {
            return Ok(None);
        }
        match self.endpoint().get_json(&kind.path(namespace, Some(name))).await {
            Ok(object) => Ok(Some(object)),
            Err(why) if why.is_missing(name) => Ok(None),
            Err(why) => Err(why),
        }
    }
}

/// Names an object in a message: `vpcs.network.example.com a in namespace shop`.
pub(crate) fn described(resource: &GroupResource, namespace: Option<&str>, name: &str) -> String {
    let within = namespace.map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
    format!("{resource} {name}{within}")
}
