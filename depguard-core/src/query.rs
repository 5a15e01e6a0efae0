//! What an evaluation asks for, and what it may be answered.

use std::fmt::Write;

use crate::names::{ExportName, LogicalCluster};

/// A GET that an evaluation needs the answer of.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "made by depguard's other crates too, which say each field")]
pub struct Query {
    /// To be handed back with the answer.
    pub id: QueryId,
    /// The logical cluster to ask; `None` in home kubernetes, where there is one API server to ask.
    pub cluster: Option<LogicalCluster>,
    /// Whose API is asked for: the APIExport and its logical cluster. `None` for local kinds, bindings and discovery.
    pub export: Option<(LogicalCluster, ExportName)>,
    /// The path and query, encoded: `/apis/compute.example.com/v1/namespaces/default/virtualmachines?limit=500`.
    ///
    /// It names no `resourceVersion`, so an API server answers it consistently. Nor must whoever asks add one.
    pub path: String,
    /// What to ask for in the header `Accept`. A server that knows only JSON may answer with that.
    pub accept: Accept,
}

/// In which form an answer is wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates decide by each case: none shall pass them by unseen"
)]
pub enum Accept {
    /// Whole objects.
    #[default]
    Json,
    /// The objects' metadata alone.
    Metadata,
    /// What the server prints of the objects.
    Table,
}

impl Accept {
    /// The value of the header.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Metadata => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
            // Nothing else will do.
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
    /// What to ask for in the header `Accept`.
    pub accept: Accept,
}

/// Tells the queries of one evaluation apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueryId(pub(crate) usize);

/// What came back for a query.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_enums, reason = "a request ends in one of these ways")]
pub enum Answer<'a> {
    /// An HTTP response, whatever its status.
    Response {
        /// The HTTP status.
        status: u16,
        /// The whole body. Whoever can't be sure that it is whole must say [`Answer::Failed`]: of a page without the
        /// target's name only the ends are read.
        body: &'a [u8],
    },
    /// A body larger than whoever asked wants to hold. A page is asked for again with fewer objects.
    TooLarge,
    /// No response, and why.
    Failed(&'a str),
}

/// The number of objects a page is asked for with at first.
pub(crate) const PAGE_LIMIT: u32 = 500;

/// What a list is asked for besides all its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Filter {
    /// Those that a field selector selects.
    Field(String),
    /// No object at all: only what is printed of them.
    Cells,
}

/// The query of one page of a list.
pub(crate) fn page_path(list: &str, filter: Option<&Filter>, limit: u32, continue_token: Option<&str>) -> String {
    let mut path = format!("{list}?");
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

/// Percent-encodes a name for a path, or a value for a query.
pub fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:@".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string can't fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_continue_token_is_encoded_whatever_it_holds() {
        assert_eq!(page_path("/api/v1/pods", None, 500, None), "/api/v1/pods?limit=500");
        assert_eq!(page_path("/p", None, 1, Some("a+b/c=&é#")), "/p?limit=1&continue=a%2Bb%2Fc%3D%26%C3%A9%23");
    }

    #[test]
    fn a_field_selector_is_encoded_too() {
        assert_eq!(
            page_path("/p", Some(&Filter::Field(r"a.b=x\,y".to_owned())), 2, None),
            "/p?fieldSelector=a.b%3Dx%5C%2Cy&limit=2"
        );
    }
}
