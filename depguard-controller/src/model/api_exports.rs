//! APIExports, as far as workspaces let depguard see them.

use std::collections::BTreeMap;

use depguard_core::api::CLUSTER_ANNOTATION;
use depguard_core::model::GroupResource;
use depguard_core::{ExportName, LogicalCluster};
use serde_json::Value;

/// APIExports of the workspaces that accepted the claim on them.
#[derive(Debug)]
pub(crate) enum Exports {
    /// No APIExport can be read, for this reason.
    Unavailable(String),
    /// APIExports by logical cluster and name.
    Known(BTreeMap<(String, String), Value>),
}

/// Answer to the question whether an APIExport serves a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Served {
    Yes,
    /// The export exists, and serves other kinds.
    OtherKinds,
    /// There is no such export.
    NoExport,
}

impl Exports {
    /// Reads APIExports.
    pub(crate) fn read(objects: impl IntoIterator<Item = Value>) -> Self {
        let key = |object: &Value| {
            let cluster = object.pointer("/metadata/annotations")?.get(CLUSTER_ANNOTATION)?.as_str()?;
            Some((cluster.to_owned(), object.pointer("/metadata/name")?.as_str()?.to_owned()))
        };
        Self::Known(objects.into_iter().filter_map(|object| Some((key(&object)?, object))).collect())
    }

    /// Returns whether this export serves the kind. The workspace must have accepted the claim on its exports.
    pub(crate) fn serves(
        &self,
        cluster: &LogicalCluster,
        export: &ExportName,
        kind: &GroupResource,
    ) -> Result<Served, &str> {
        let exports = match self {
            Self::Unavailable(why) => return Err(why),
            Self::Known(exports) => exports,
        };
        Ok(match exports.get(&(cluster.to_string(), export.to_string())) {
            None => Served::NoExport,
            Some(export) if resource(export, kind).is_some() => Served::Yes,
            Some(_) => Served::OtherKinds,
        })
    }

    /// Returns the name of an export of this workspace that serves the kind; `None` if none is seen.
    pub(crate) fn serving(&self, cluster: &LogicalCluster, kind: &GroupResource) -> Option<&str> {
        let Self::Known(exports) = self else { return None };
        let there = exports.range((cluster.to_string(), String::new())..);
        let mut there = there.take_while(|((at, _), _)| at == cluster.as_str());
        there.find(|(_, export)| resource(export, kind).is_some()).map(|((_, name), _)| name.as_str())
    }

    /// Returns the name of the APIResourceSchema by which this export serves the kind.
    pub(crate) fn schema(&self, cluster: &LogicalCluster, export: &ExportName, kind: &GroupResource) -> Option<&str> {
        let Self::Known(exports) = self else { return None };
        let export = exports.get(&(cluster.to_string(), export.to_string()))?;
        resource(export, kind)?.get("schema")?.as_str()
    }
}

fn resource<'v>(export: &'v Value, kind: &GroupResource) -> Option<&'v Value> {
    export.pointer("/spec/resources")?.as_array()?.iter().find(|resource| {
        let field = |name: &str| resource.get(name).and_then(Value::as_str).unwrap_or_default();
        field("group") == kind.group.as_str() && field("name") == kind.resource.as_str()
    })
}
