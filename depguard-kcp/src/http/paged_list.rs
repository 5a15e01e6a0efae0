//! Lists that are read page by page: requests and bodies, driven by the core's [`PagedList`].

use bytes::Bytes;
use depguard_core::protocol::{Accept, Answer, PagedList, Progress};
use depguard_core::scan::{Page, PageError};
use http::{Method, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::http::body_limit::UpTo;
use crate::http::endpoint::{Endpoint, MAX_BODY, RequestError};
use crate::http::objects::{ApiError, Status, described, null_or_items};

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

/// End of the pages of a list.
enum End {
    /// The list is complete; this is its resource version.
    Complete(String),
    /// The list expired: the pages so far don't count, and it may be begun again.
    Expired(ApiError),
}

impl Endpoint {
    /// Lists a collection with all its pages, in its present state.
    ///
    /// Refuses a list without `metadata.resourceVersion`: kcp's virtual workspaces return such an empty list if the
    /// shard behind them returned 404. Refuses a list of more than [`MAX_BODY`] bytes.
    pub async fn list_json(&self, path: &str) -> Result<List, ApiError> {
        let mut list = PagedList::new(path.to_owned());
        loop {
            let mut items = Vec::new();
            if let End::Complete(resource_version) =
                self.pages_of(&mut list, path, JSON, MAX_BODY, |page| items.extend(page)).await?
            {
                return Ok(List { resource_version, items });
            }
        }
    }

    /// Passes the objects of a collection to `each`, page by page, in their present state. Only one page is kept in
    /// memory.
    ///
    /// Refuses a list without `metadata.resourceVersion`, as [`Self::list_json`] does. Refuses a list that expired
    /// halfway (410), because its further pages would show another state than the earlier ones.
    pub async fn list_pages(&self, path: &str, each: impl FnMut(Vec<Value>)) -> Result<(), ApiError> {
        self.pages(path, JSON, each).await
    }

    /// Passes the metadata of a collection's objects to `each`, page by page: each value has only `metadata`, or the
    /// whole object if the server knows no other form. Refuses the same lists as [`Self::list_pages`].
    pub async fn list_metadata_pages(&self, path: &str, each: impl FnMut(Vec<Value>)) -> Result<(), ApiError> {
        self.pages(path, Accept::Metadata.as_str(), each).await
    }

    /// Passes each page of a list, in the form that `accept` names, to `each`. Refuses a list that expired.
    pub(crate) async fn pages<T: DeserializeOwned>(
        &self,
        path: &str,
        accept: &'static str,
        each: impl FnMut(Vec<T>),
    ) -> Result<(), ApiError> {
        match self.pages_of(&mut PagedList::new(path.to_owned()), path, accept, usize::MAX, each).await? {
            End::Complete(_) => Ok(()),
            End::Expired(error) => Err(error),
        }
    }

    /// Passes each page of the list to `each`. Reads at most `most` bytes.
    async fn pages_of<T: DeserializeOwned>(
        &self,
        list: &mut PagedList,
        path: &str,
        accept: &'static str,
        most: usize,
        mut each: impl FnMut(Vec<T>),
    ) -> Result<End, ApiError> {
        let what = || described(&Method::GET, self, path);
        let mut left = most;
        loop {
            let response = match self.get_within(&list.next(), accept, &mut UpTo(MAX_BODY)).await {
                Err(RequestError::TooLarge { .. }) => None,
                response => Some(response?),
            };
            let answer = response.as_ref().map_or(Answer::TooLarge, |response| Answer::Response {
                status: response.status().as_u16(),
                body: response.body(),
            });
            let size = response.as_ref().map_or(0, |response| response.body().len());
            left = left.checked_sub(size).ok_or_else(|| RequestError::TooLarge { request: what() })?;
            let (mut items, mut resource_version) = (Vec::new(), None);
            let progress = list.answer(answer, |body| {
                let page = read(body, &mut items)?;
                resource_version.clone_from(&page.resource_version);
                Ok(page)
            });
            let failed = |why: &str| failure(what(), response.as_ref(), why);
            match progress {
                Progress::More => each(items),
                Progress::Complete => {
                    each(items);
                    return Ok(End::Complete(resource_version.unwrap_or_default()));
                }
                Progress::Restart => return Ok(End::Expired(failed("expired"))),
                Progress::NotFound => return Err(failed("does not exist")),
                Progress::Failed(why) => return Err(failed(why.text())),
            }
        }
    }
}

/// Returns the error of a list that can't be read. The status of a refusal says more than `why` does.
fn failure(request: String, response: Option<&Response<Bytes>>, why: &str) -> ApiError {
    match response.filter(|response| !response.status().is_success()) {
        Some(refusal) => ApiError::Refused { request, status: Status::read(refusal.status(), refusal.body()) },
        None => ApiError::Unusable { request, why: why.to_owned() },
    }
}

/// Reads a page: its objects, and its metadata for the list.
fn read<T: DeserializeOwned>(body: &[u8], items: &mut Vec<T>) -> Result<Page, PageError> {
    let malformed = |why: serde_json::Error| PageError::Malformed { why: why.to_string() };
    let read: PageWire<T> = serde_json::from_slice(body).map_err(malformed)?;
    *items = read.items;
    let mut page = Page::default();
    page.resource_version = read.metadata.resource_version.filter(|version| !version.is_empty());
    page.continue_token = read.metadata.continue_.filter(|token| !token.is_empty());
    Ok(page)
}

#[derive(Deserialize)]
struct PageWire<T> {
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
