//! Lists with which watchers begin, in pages of few bytes. Objects of one tenant must not fill the memory that all
//! tenants share, and must not make a list fail that also shows other tenants' objects.
//!
//! A page that is too large is requested again with half as many objects. Fields that depguard never reads are dropped
//! before the page is parsed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{Method, Request, Response};
use serde_json::value::{RawValue, to_raw_value};

use crate::http::body_limit::UpTo;
use crate::http::endpoint::{Endpoint, RequestError};

/// Maximum of objects on a page.
const MAX_OBJECTS: usize = 500;
/// Maximum of objects on a page of a resource that tenants write, whose objects may be large.
const MAX_OF_TENANTS: usize = 100;
/// Maximum length of a page of more than one object, in bytes.
const MAX_PAGE: usize = 1 << 20;
/// Maximum length of a page of one object, in bytes: etcd accepts 1.5 MiB by default.
const MAX_OBJECT: usize = 8 << 20;

/// Fetches the lists of one watcher. Clones share the page size.
#[derive(Debug, Clone)]
pub(crate) struct SmallPages {
    /// Annotations that are kept; `None` keeps all.
    annotations: Option<&'static [&'static str]>,
    /// Maximum of objects on a page.
    most: usize,
    /// Number of objects that the next page has.
    objects: Arc<AtomicUsize>,
}

impl SmallPages {
    pub(crate) fn new(annotations: Option<&'static [&'static str]>) -> Self {
        let most = if annotations.is_some() { MAX_OF_TENANTS } else { MAX_OBJECTS };
        Self { annotations, most, objects: Arc::new(AtomicUsize::new(most)) }
    }

    /// Returns true if this request of a watcher asks for a page of a list.
    pub(crate) fn are_asked_for<B>(request: &Request<B>) -> bool {
        let limit = |query: &str| query.split('&').any(|pair| pair.starts_with("limit="));
        request.method() == Method::GET && request.uri().query().is_some_and(limit)
    }

    /// Fetches the page that `request` asks for, or its beginning.
    pub(crate) async fn fetch(
        &self,
        endpoint: &Endpoint,
        request: &Request<()>,
    ) -> Result<Response<Bytes>, RequestError> {
        let mut objects = self.objects.load(Ordering::Relaxed);
        loop {
            let path = with_limit(request, objects);
            let most = if objects == 1 { MAX_OBJECT } else { MAX_PAGE };
            match endpoint.get_like(request.headers(), &path, &mut UpTo(most)).await {
                Err(RequestError::TooLarge { .. }) if objects > 1 => {
                    objects = (objects / 2).max(1);
                    self.objects.store(objects, Ordering::Relaxed);
                }
                answered => {
                    let response = answered?;
                    if response.body().len() < MAX_PAGE / 4 {
                        self.objects.store(objects.saturating_mul(2).min(self.most), Ordering::Relaxed);
                    }
                    return Ok(self.pruned(response));
                }
            }
        }
    }

    /// Returns the same list without the fields that depguard never reads. A body that is no list stays as it is: its
    /// reader reports the error.
    fn pruned(&self, response: Response<Bytes>) -> Response<Bytes> {
        let Some(kept) = self.annotations.filter(|_| response.status().is_success()) else { return response };
        let (mut parts, body) = response.into_parts();
        let body = prune(&body, kept).map_or(body, Bytes::from);
        parts.headers.remove(CONTENT_LENGTH);
        Response::from_parts(parts, body)
    }
}

/// Returns the path and query of a request for at most `objects` objects.
fn with_limit(request: &Request<()>, objects: usize) -> String {
    let query = request.uri().query().unwrap_or_default().split('&');
    let query: Vec<_> = query
        .map(|pair| match pair.strip_prefix("limit=") {
            Some(limit) => {
                let asked = limit.parse().unwrap_or(objects);
                format!("limit={}", if asked == 0 { objects } else { objects.min(asked) })
            }
            None => pair.to_owned(),
        })
        .collect();
    format!("{}?{}", request.uri().path(), query.join("&"))
}

/// Fields of an object, each in its original spelling.
type Fields = BTreeMap<String, Box<RawValue>>;

fn prune(body: &[u8], kept: &[&str]) -> Option<Vec<u8>> {
    let mut list: Fields = serde_json::from_slice(body).ok()?;
    let items: Vec<Fields> = serde_json::from_str(list.get("items")?.get()).ok()?;
    let items: Vec<_> = items.into_iter().map(|item| pruned(item, kept)).collect::<Option<_>>()?;
    list.insert("items".to_owned(), to_raw_value(&items).ok()?);
    serde_json::to_vec(&list).ok()
}

fn pruned(mut object: Fields, kept: &[&str]) -> Option<Fields> {
    if let Some(metadata) = object.get("metadata") {
        let mut metadata: Fields = serde_json::from_str(metadata.get()).ok()?;
        metadata.remove("managedFields");
        if let Some(annotations) = metadata.get("annotations") {
            let mut annotations: Option<Fields> = serde_json::from_str(annotations.get()).ok()?;
            if let Some(annotations) = &mut annotations {
                annotations.retain(|name, _| kept.contains(&name.as_str()));
            }
            metadata.insert("annotations".to_owned(), to_raw_value(&annotations).ok()?);
        }
        object.insert("metadata".to_owned(), to_raw_value(&metadata).ok()?);
    }
    Some(object)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_page_is_asked_for_with_fewer_objects_and_never_with_more() {
        let request = |query: &str| Request::get(format!("https://a/apis/x?{query}")).body(()).unwrap();
        for (query, objects, asked) in [
            ("&limit=500&continue=t", 100, "/apis/x?&limit=100&continue=t"),
            ("limit=10", 100, "/apis/x?limit=10"),
            ("limit=0", 3, "/apis/x?limit=3"),
        ] {
            assert!(SmallPages::are_asked_for(&request(query)));
            assert_eq!(with_limit(&request(query), objects), asked);
        }
        assert!(!SmallPages::are_asked_for(&request("watch=true")));
        assert!(!SmallPages::are_asked_for(&Request::post("https://a/x?limit=5").body(()).unwrap()));
    }

    #[test]
    fn what_is_never_looked_at_is_dropped_and_nothing_else() {
        let object = |metadata: Value| json!({"metadata": metadata, "spec": {"n": 1.50, "annotations": {"b": "c"}}});
        let list = json!({"kind": "L", "metadata": {"resourceVersion": "7", "continue": "t"}, "items": [
            object(json!({"name": "a", "managedFields": [{}], "annotations": {"kept": "1", "other": "2"}})),
            object(json!({"name": "b", "annotations": null})),
            object(json!({"name": "c"})),
            {},
        ]});
        let pruned: Value = serde_json::from_slice(&prune(list.to_string().as_bytes(), &["kept"]).unwrap()).unwrap();
        let expected = json!({"kind": "L", "metadata": {"resourceVersion": "7", "continue": "t"}, "items": [
            object(json!({"name": "a", "annotations": {"kept": "1"}})),
            object(json!({"name": "b", "annotations": null})),
            object(json!({"name": "c"})),
            {},
        ]});
        assert_eq!(pruned, expected);
        for other in ["", "[]", "{}", r#"{"items":null}"#, r#"{"items":[1]}"#] {
            assert_eq!(prune(other.as_bytes(), &[]), None, "{other}");
        }
    }
}
