//! Lists that are read page by page.

use depguard_core::model::percent_encode;
use http::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::http::body_limit::UpTo;
use crate::http::endpoint::{Endpoint, MAX_BODY, RequestError};
use crate::http::objects::{ApiError, Status, described, null_or_items, with_query};

/// Maximum of objects on a page.
const MAX_PER_PAGE: usize = 500;
/// Maximum of pages of a list: more than any sane API server has.
const MAX_PAGES: usize = 20_000;
/// Maximum of restarts of a list after a 410.
const MAX_RESTARTS: usize = 3;

const JSON: &str = "application/json";

/// Complete list.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct List {
    /// Resource version of the state that the list shows.
    pub resource_version: String,
    /// Listed objects.
    pub items: Vec<Value>,
}

impl Endpoint {
    /// Lists a collection with all its pages, in its present state.
    ///
    /// Refuses a list without `metadata.resourceVersion`: kcp's virtual workspaces return such an empty list if the
    /// shard behind them returned 404. Refuses a list of more than [`MAX_BODY`] bytes.
    pub async fn list_json(&self, path: &str) -> Result<List, ApiError> {
        let mut restarts = 0;
        loop {
            match self.list_once(path).await {
                Err(error) if error.status() == Some(410) && restarts < MAX_RESTARTS => {
                    restarts = restarts.saturating_add(1);
                }
                done => return done,
            }
        }
    }

    async fn list_once(&self, path: &str) -> Result<List, ApiError> {
        let mut items = Vec::new();
        let resource_version = self.pages(path, JSON, MAX_BODY, |page| items.extend(page)).await?;
        Ok(List { resource_version, items })
    }

    /// Passes the objects of a collection to `each`, page by page, in their present state. Only one page is kept in
    /// memory.
    ///
    /// Refuses a list without `metadata.resourceVersion`, as [`Self::list_json`] does. Refuses a list that expired
    /// halfway (410), because its further pages would show another state than the earlier ones.
    pub async fn list_pages(&self, path: &str, each: impl FnMut(Vec<Value>)) -> Result<(), ApiError> {
        self.pages(path, JSON, usize::MAX, each).await.map(drop)
    }

    /// Passes each page of a list, in the form that `accept` names, to `each`. Reads at most `most` bytes. Returns the
    /// resource version that the list shows.
    pub(crate) async fn pages<T: DeserializeOwned>(
        &self,
        path: &str,
        accept: &'static str,
        most: usize,
        mut each: impl FnMut(Vec<T>),
    ) -> Result<String, ApiError> {
        let what = || described(&Method::GET, self, path);
        let unusable = |why: String| ApiError::Unusable { request: what(), why };
        let mut query = format!("limit={MAX_PER_PAGE}");
        let mut left = most;
        for _ in 0..MAX_PAGES {
            let response = self.get_within(&with_query(path, &query), accept, &mut UpTo(MAX_BODY)).await?;
            if !response.status().is_success() {
                let status = Status::read(response.status(), response.body());
                return Err(ApiError::Refused { request: what(), status });
            }
            left = left.checked_sub(response.body().len()).ok_or_else(|| RequestError::TooLarge { request: what() })?;
            let page: Page<T> =
                serde_json::from_slice(response.body()).map_err(|why| unusable(format!("it is not a list ({why})")))?;
            let PageMetadata { resource_version, continue_ } = page.metadata;
            let Some(resource_version) = resource_version.filter(|version| !version.is_empty()) else {
                let why = "the list has no metadata.resourceVersion, so it may be incomplete";
                return Err(unusable(why.to_owned()));
            };
            each(page.items);
            match continue_.filter(|token| !token.is_empty()) {
                None => return Ok(resource_version),
                Some(token) => query = format!("limit={MAX_PER_PAGE}&continue={}", percent_encode(&token)),
            }
        }
        Err(unusable(format!("it has not ended after {MAX_PAGES} pages")))
    }
}

#[derive(Deserialize)]
struct Page<T> {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(deserialize_with = "null_or_items", bound(deserialize = "T: Deserialize<'de>"))]
    items: Vec<T>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct PageMetadata {
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    continue_: Option<String>,
}
