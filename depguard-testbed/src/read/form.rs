//! Form in which the client wants a list: the `Accept` header.

use http::HeaderMap;
use http::header::ACCEPT;

use crate::protocol::routes::Query;
use crate::protocol::status::{ApiError, ApiResult};

/// Content of a list for each object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Objects,
    /// `as=PartialObjectMetadataList`
    Metadata,
    /// `as=Table`
    Table(Include),
}

/// Content of a table's row beside its cells: `includeObject`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    Nothing,
    Metadata,
    Object,
}

impl Form {
    /// Returns the first form that the client accepts and the server serves.
    pub(crate) fn of_list(headers: &HeaderMap, query: &Query) -> ApiResult<Self> {
        let Some(accept) = headers.get(ACCEPT).and_then(|value| value.to_str().ok()) else {
            return Ok(Self::Objects);
        };
        for media in accept.split(',') {
            let mut parts = media.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default();
            if !matches!(kind, "application/json" | "application/*" | "*/*" | "") {
                continue;
            }
            let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
            let value = |name: &str| parameters.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
            match (value("as"), value("g"), value("v")) {
                (None, ..) => return Ok(Self::Objects),
                (Some("PartialObjectMetadataList"), Some("meta.k8s.io"), Some("v1")) => return Ok(Self::Metadata),
                (Some("Table"), Some("meta.k8s.io"), Some("v1")) => return Include::from_query(query).map(Self::Table),
                _ => {}
            }
        }
        Err(ApiError::not_acceptable())
    }
}

impl Include {
    fn from_query(query: &Query) -> ApiResult<Self> {
        match query.value("includeObject") {
            None | Some("Metadata") => Ok(Self::Metadata),
            Some("None") => Ok(Self::Nothing),
            Some("Object") => Ok(Self::Object),
            Some(other) => Err(ApiError::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: \"{other}\": must be 'Metadata', \
                 'Object', 'None', or empty"
            ))),
        }
    }
}
