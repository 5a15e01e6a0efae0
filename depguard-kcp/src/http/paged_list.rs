//! Lists that are read page by page: requests and bodies, driven by the core's [`PagedList`].

use bytes::Bytes;
use depguard_core::protocol::{Accept, Answer, PagedList, Progress};
use depguard_core::scan::Page;
use http::{Method, Response};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

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

/// Page of a list, read.
pub(crate) enum ReadPage<T> {
    /// More pages follow.
    More(Vec<T>),
    /// The list is complete, and has this resource version.
    Last(Vec<T>, String),
    /// The only object of the page is too large; the same page may be asked for again, in another form.
    TooLarge(ApiError),
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
        let (mut items, mut size) = (Vec::new(), 0_usize);
        loop {
            let read = |object: &str| {
                size = size.saturating_add(object.len());
                serde_json::from_str(object)
            };
            match self.page_of(&mut list, path, JSON, MAX_BODY, read).await? {
                ReadPage::More(page) => items.extend(page),
                ReadPage::Last(page, resource_version) => {
                    items.extend(page);
                    return Ok(List { resource_version, items });
                }
                ReadPage::TooLarge(error) => return Err(error),
                ReadPage::Expired(_) => {
                    items.clear();
                    size = 0;
                }
            }
            if size > MAX_BODY {
                return Err(RequestError::TooLarge { request: described(&Method::GET, self, path) }.into());
            }
        }
    }

    /// Passes the objects of a collection to `each`, page by page, in their present state. Only one page is kept in
    /// memory.
    ///
    /// Refuses a list without `metadata.resourceVersion`, as [`Self::list_json`] does. Refuses a list that expired
    /// halfway (410), because its further pages would show another state than the earlier ones.
    pub async fn list_pages(&self, path: &str, each: impl FnMut(Vec<Value>)) -> Result<(), ApiError> {
        self.pages(path, JSON, MAX_BODY, |object| serde_json::from_str(object), each).await
    }

    /// Passes the JSON of a collection's objects to `each`, page by page, as [`Self::list_pages`] does. A page of several
    /// objects has at most `most` bytes, and only one is kept in memory.
    pub async fn list_texts(&self, path: &str, most: usize, mut each: impl FnMut(&str)) -> Result<(), ApiError> {
        let read = |object: &str| {
            each(object);
            Ok(())
        };
        self.pages(path, JSON, most, read, |_| ()).await
    }

    /// Passes the metadata of a collection's objects to `each`, page by page: each value has only `metadata`, or the
    /// whole object if the server knows no other form. Refuses the same lists as [`Self::list_pages`].
    pub async fn list_metadata_pages(&self, path: &str, each: impl FnMut(Vec<Value>)) -> Result<(), ApiError> {
        self.pages(path, Accept::Metadata.as_str(), MAX_BODY, |object| serde_json::from_str(object), each).await
    }

    /// Passes each page of a list, in the form that `accept` names and of at most `most` bytes, to `each`; `read` reads an
    /// object's JSON. Refuses a list that expired.
    pub(crate) async fn pages<T>(
        &self,
        path: &str,
        accept: &'static str,
        most: usize,
        mut read: impl FnMut(&str) -> serde_json::Result<T>,
        mut each: impl FnMut(Vec<T>),
    ) -> Result<(), ApiError> {
        let mut list = PagedList::new(path.to_owned());
        loop {
            match self.page_of(&mut list, path, accept, most, &mut read).await? {
                ReadPage::More(items) => each(items),
                ReadPage::Last(items, _) => {
                    each(items);
                    return Ok(());
                }
                ReadPage::TooLarge(error) | ReadPage::Expired(error) => return Err(error),
            }
        }
    }

    /// Reads the next page of the list at `path`, of at most `most` bytes; `read` reads an object's JSON. After a page
    /// that is larger, the next one asks for fewer objects.
    pub(crate) async fn page_of<T>(
        &self,
        list: &mut PagedList,
        path: &str,
        accept: &'static str,
        most: usize,
        mut read: impl FnMut(&str) -> serde_json::Result<T>,
    ) -> Result<ReadPage<T>, ApiError> {
        let response = match self.get_within(&list.next(), accept, &mut UpTo(most)).await {
            Err(RequestError::TooLarge { .. }) => None,
            response => Some(response?),
        };
        let answer = response.as_ref().map_or(Answer::TooLarge, |response| Answer::Response {
            status: response.status().as_u16(),
            body: response.body(),
        });
        let (mut items, mut resource_version) = (Vec::new(), None);
        let progress = list.answer(answer, |body| {
            let page: PageWire<'_> = serde_json::from_slice(body)?;
            for object in page.items {
                items.push(read(object.get())?);
            }
            resource_version.clone_from(&page.metadata.resource_version);
            Ok(page.metadata)
        });
        let failed = |why: &str| failure(described(&Method::GET, self, path), response.as_ref(), why);
        match progress {
            Progress::Failed(why) if response.is_none() => Ok(ReadPage::TooLarge(failed(why.text()))),
            Progress::More => Ok(ReadPage::More(items)),
            Progress::Complete => Ok(ReadPage::Last(items, resource_version.unwrap_or_default())),
            Progress::Restart => Ok(ReadPage::Expired(failed("expired"))),
            Progress::NotFound => Err(failed("does not exist")),
            Progress::Failed(why) => Err(failed(why.text())),
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

#[derive(Deserialize)]
struct PageWire<'a> {
    #[serde(default)]
    metadata: Page,
    #[serde(deserialize_with = "null_or_items", borrow)]
    items: Vec<&'a RawValue>,
}
