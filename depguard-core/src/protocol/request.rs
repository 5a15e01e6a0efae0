//! Requests of an evaluation, and the forms of their answers.

use std::fmt::Write;

use crate::model::names::{ExportName, LogicalCluster};
use crate::model::percent_encoding::percent_encode;

/// A GET whose answer an evaluation needs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "depguard's other crates construct it with all fields")]
pub struct Query {
    /// The id to return with the answer.
    pub id: QueryId,
    /// The logical cluster to ask; `None` on plain Kubernetes, which has only one API server.
    pub cluster: Option<LogicalCluster>,
    /// The APIExport that serves the API, with its logical cluster. `None` for local kinds, bindings and discovery.
    pub export: Option<(LogicalCluster, ExportName)>,
    /// The path and query, encoded: `/apis/compute.example.com/v1/namespaces/default/virtualmachines?limit=500`.
    ///
    /// The path of a query that decides names no `resourceVersion`, so an API server answers consistently. Callers must not
    /// add one.
    pub path: String,
    /// The value of the header `Accept`. A server that knows only JSON may answer with JSON.
    pub accept: Accept,
}

/// Requested form of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum Accept {
    /// Whole objects.
    #[default]
    Json,
    /// The objects' metadata alone.
    Metadata,
    /// The printed columns of the objects.
    Table,
    /// The metadata of one object.
    ObjectMetadata,
    /// The first event of a watch, with the metadata of its object. A caller may read on to the end of the watch.
    Event,
}

impl Accept {
    /// Returns the value of the header.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Metadata => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
            Self::ObjectMetadata | Self::Event => {
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
            }
            // No other form is of any use.
            Self::Table => "application/json;as=Table;g=meta.k8s.io;v=v1",
        }
    }
}

/// A GET of one logical cluster; see [`Query`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Request {
    /// The path and query, encoded.
    pub path: String,
    /// The value of the header `Accept`.
    pub accept: Accept,
}

/// A POST, a PUT or a PATCH of JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "depguard's other crates construct it with all fields")]
pub struct Send {
    /// The id to return with the answer.
    pub id: QueryId,
    /// The logical cluster that receives the request; `None` on plain Kubernetes.
    pub cluster: Option<LogicalCluster>,
    /// The verb of the request.
    pub verb: Verb,
    /// The path, encoded.
    pub path: String,
    /// The body, as JSON.
    pub body: Vec<u8>,
}

impl Send {
    /// Makes a creation on plain Kubernetes that no evaluation asks for.
    pub fn creation(path: String, body: Vec<u8>) -> Self {
        Self { id: QueryId(0), cluster: None, verb: Verb::Create, path, body }
    }
}

/// A request to an API server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum Ask {
    /// A GET. It may be shared by all evaluations that asked for it before it was sent.
    Get(Query),
    /// A request with a body, which is never shared.
    Send(Send),
}

/// The verb of a request with a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum Verb {
    /// Creation, by `POST`.
    Create,
    /// Replacement, by `PUT`.
    Replace,
    /// Merge, by `PATCH` with a JSON merge patch.
    Merge,
}

/// Id of a query, unique within one evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueryId(pub(crate) usize);

/// The number of objects for which the first page is asked.
pub(crate) const MAX_PER_PAGE: u32 = 500;

/// Restriction of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Filter {
    /// Only the objects that a field selector selects.
    Field(String),
    /// No objects: only their printed columns.
    Cells,
}

impl Filter {
    /// Selects the objects with this value in a field.
    pub(crate) fn field(field: &str, value: &str) -> Self {
        let mut selector = format!("{field}=");
        for c in value.chars() {
            if matches!(c, '\\' | ',' | '=') {
                selector.push('\\');
            }
            selector.push(c);
        }
        Self::Field(selector)
    }
}

/// Returns the path and query of one page of a list, whose own path may have a query.
pub(crate) fn page_path(list: &str, filter: Option<&Filter>, limit: u32, continue_token: Option<&str>) -> String {
    let mut path = format!("{list}{}", if list.contains('?') { '&' } else { '?' });
    match filter {
        Some(Filter::Field(selector)) => {
            path.push_str("fieldSelector=");
            path.push_str(&percent_encode(selector));
            path.push('&');
        }
        Some(Filter::Cells) => path.push_str("includeObject=None&"),
        None => {}
    }
    // Writing to a string can't fail.
    let _ = write!(path, "limit={limit}");
    if let Some(token) = continue_token {
        path.push_str("&continue=");
        path.push_str(&percent_encode(token));
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_continue_token_is_encoded_whatever_it_holds() {
        assert_eq!(page_path("/api/v1/pods", None, 500, None), "/api/v1/pods?limit=500");
        assert_eq!(page_path("/p?labelSelector=a", None, 2, None), "/p?labelSelector=a&limit=2");
        assert_eq!(page_path("/p", None, 1, Some("a+b/c=&é#")), "/p?limit=1&continue=a%2Bb%2Fc%3D%26%C3%A9%23");
    }

    #[test]
    fn a_field_selector_is_encoded_too() {
        assert_eq!(
            page_path("/p", Some(&Filter::field("a.b", "x,y")), 2, None),
            "/p?fieldSelector=a.b%3Dx%5C%2Cy&limit=2"
        );
    }
}
