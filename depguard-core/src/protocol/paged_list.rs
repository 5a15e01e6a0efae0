//! Reading of one list, page by page: the next request, restarts, and the end.

use crate::protocol::cause::Cause;
use crate::protocol::problem::Unresolved;
use crate::protocol::request::{Filter, MAX_PER_PAGE, page_path};
use crate::protocol::response::Answer;
use crate::protocol::response_error::{failed, failure};
use crate::scan::extract::{Page, PageError};

/// The most restarts of one list after it expired.
const MAX_RESTARTS: u32 = 5;
/// The most pages of one list: more than any API server has.
const MAX_PAGES: u32 = 20_000;
/// Intended size of a page. After a page of more than twice that size, the next pages are requested with fewer
/// objects.
const PAGE_BYTES: usize = 1 << 20;

/// State of reading a list, without I/O: it says which page to request next, and what each answer means.
///
/// ```
/// use depguard_core::protocol::{Answer, PagedList, Progress};
/// use depguard_core::scan::Extractor;
///
/// let mut list = PagedList::new("/api/v1/pods".to_owned());
/// assert_eq!(list.next(), "/api/v1/pods?limit=500");
/// let body = br#"{"metadata": {"resourceVersion": "7", "continue": "t"}, "items": []}"#;
/// let progress = list.answer(Answer::Response { status: 200, body }, |page| Extractor::new([]).page(page, |_| ()));
/// assert_eq!(progress, Progress::More);
/// assert_eq!(list.next(), "/api/v1/pods?limit=500&continue=t");
/// ```
#[derive(Debug)]
pub struct PagedList {
    path: String,
    /// The filter of the list; `None`: the whole list is read.
    filter: Option<Filter>,
    limit: u32,
    /// The limit of the first page, if it is another one.
    first_limit: Option<u32>,
    continue_token: Option<String>,
    restarts: u32,
    /// Number of pages that were read since the list last began.
    pages: u32,
}

/// Meaning of an answer for the list.
#[derive(Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "whoever reads a list must handle each way in which it goes on")]
pub enum Progress {
    /// The next page is needed.
    More,
    /// The list was read to its end.
    Complete,
    /// The list expired: forget all pages, and begin again.
    Restart,
    /// There is no such list (404).
    NotFound,
    /// The list can't be read. The text is the reason, as the end of a sentence that begins with the name of the
    /// list.
    Failed(Unresolved),
}

impl PagedList {
    /// Creates the state before the first page of the list at `path`, which may have a query.
    pub fn new(path: String) -> Self {
        Self { path, filter: None, limit: MAX_PER_PAGE, first_limit: None, continue_token: None, restarts: 0, pages: 0 }
    }

    /// Creates a list with a filter.
    pub(crate) fn filtered(path: String, filter: Filter) -> Self {
        Self { filter: Some(filter), ..Self::new(path) }
    }

    /// Asks for fewer objects in the first page.
    pub(crate) fn beginning_with(self, limit: u32) -> Self {
        Self { first_limit: Some(limit), ..self }
    }

    /// Moves the list to another path, where it begins again.
    pub(crate) fn move_to(&mut self, path: String) {
        self.path = path;
        self.begin();
    }

    /// Returns the path and query of the next page.
    pub fn next(&self) -> String {
        self.page(self.limit(), self.continue_token.as_deref())
    }

    /// Returns the maximum of objects on the next page.
    pub fn limit(&self) -> u32 {
        let first = self.first_limit.filter(|_| self.continue_token.is_none());
        first.map_or(self.limit, |first| first.min(self.limit))
    }

    /// Returns the value that [`Self::next`] will have after this page; `None` if the list ends with the page.
    pub(crate) fn after(&self, page: &Page, bytes: usize) -> Option<String> {
        page.continue_token.as_deref().map(|token| self.page(self.limit_after(bytes), Some(token)))
    }

    fn page(&self, limit: u32, continue_token: Option<&str>) -> String {
        page_path(&self.path, self.filter.as_ref(), limit, continue_token)
    }

    /// Takes the answer to [`Self::next`]; `read` reads a page's objects.
    pub fn answer(&mut self, answer: Answer<'_>, read: impl FnOnce(&[u8]) -> Result<Page, PageError>) -> Progress {
        match answer {
            Answer::Response { status: 200, body } => match read(body) {
                Ok(page) => self.advance(page, body.len()),
                Err(error) => Progress::Failed(unusable_page(&error)),
            },
            Answer::Response { status: 410, .. } => self.restart(),
            Answer::Response { status: 404, .. } => Progress::NotFound,
            Answer::Response { status, body } => Progress::Failed(failure(status, body, "get and list it")),
            Answer::TooLarge if self.limit > 1 => {
                // The token stays valid: pages of one list may differ in size.
                self.limit = (self.limit / 8).max(1);
                Progress::More
            }
            Answer::TooLarge => {
                let why = "has an object that is too large to read; make that object smaller";
                Progress::Failed(Unresolved::new(Cause::DependentInvalid, why))
            }
            Answer::Failed(why) => Progress::Failed(failed(why)),
        }
    }

    /// Returns the limit for the next page: fewer objects if they are large, and more again after a small page. Each page
    /// but the last one holds as many objects as requested.
    fn limit_after(&self, bytes: usize) -> u32 {
        if bytes < PAGE_BYTES / 2 {
            return self.limit.saturating_mul(2).min(MAX_PER_PAGE);
        }
        if bytes <= 2 * PAGE_BYTES {
            return self.limit;
        }
        let fits = u64::from(self.limit()) * PAGE_BYTES as u64 / bytes as u64;
        u32::try_from(fits).unwrap_or(self.limit).clamp(1, self.limit)
    }

    fn advance(&mut self, page: Page, bytes: usize) -> Progress {
        if page.resource_version.is_none() {
            let why = "was answered with a list without metadata.resourceVersion: a virtual workspace may not serve \
                       the kind yet; retry later";
            return Progress::Failed(Unresolved::new(Cause::ReadFailed, why));
        }
        self.pages += 1;
        match page.continue_token {
            None => Progress::Complete,
            Some(token) if self.continue_token.as_ref() == Some(&token) => never_ends("two pages have the same token"),
            Some(_) if self.pages >= MAX_PAGES => never_ends(&format!("it has more than {MAX_PAGES} pages")),
            Some(token) => {
                self.limit = self.limit_after(bytes);
                self.continue_token = Some(token);
                Progress::More
            }
        }
    }

    /// Goes back to the first page.
    fn begin(&mut self) {
        self.continue_token = None;
        self.pages = 0;
    }

    fn restart(&mut self) -> Progress {
        self.begin();
        self.restarts += 1;
        if self.restarts > MAX_RESTARTS {
            let why = "expired (HTTP 410) several times before its end; retry later";
            return Progress::Failed(Unresolved::new(Cause::ReadFailed, why));
        }
        Progress::Restart
    }
}

/// Returns the message for a page that is not a part of a list.
pub(crate) fn unusable_page(error: &PageError) -> Unresolved {
    Unresolved::new(Cause::ReadUnusable, format!("was answered with {error}; check which server answers there"))
}

fn never_ends(why: &str) -> Progress {
    let why = format!("never ends: {why}; check which server answers there");
    Progress::Failed(Unresolved::new(Cause::ReadUnusable, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(version: Option<&str>, token: Option<&str>) -> Result<Page, PageError> {
        Ok(Page { resource_version: version.map(str::to_owned), continue_token: token.map(str::to_owned) })
    }

    fn ok() -> Answer<'static> {
        Answer::Response { status: 200, body: b"" }
    }

    #[test]
    fn a_list_ends_only_where_continue_is_absent() {
        let mut list = PagedList::new("/api/v1/pods".to_owned());
        assert_eq!(list.next(), "/api/v1/pods?limit=500");
        assert_eq!(list.answer(ok(), |_| page(Some("1"), Some("t1"))), Progress::More);
        assert_eq!(list.next(), "/api/v1/pods?limit=500&continue=t1");
        assert_eq!(list.answer(ok(), |_| page(Some("1"), Some("t2"))), Progress::More);
        assert_eq!(list.answer(ok(), |_| page(Some("1"), None)), Progress::Complete);
    }

    #[test]
    fn an_expired_list_begins_again_but_not_for_ever() {
        let mut list = PagedList::new("/p".to_owned());
        let gone = Answer::Response { status: 410, body: b"" };
        assert_eq!(list.answer(ok(), |_| page(Some("1"), Some("t"))), Progress::More);
        for _ in 0..MAX_RESTARTS {
            assert_eq!(list.answer(gone, |_| page(None, None)), Progress::Restart);
            assert_eq!(list.next(), "/p?limit=500");
        }
        assert!(matches!(list.answer(gone, |_| page(None, None)), Progress::Failed(_)));
    }

    #[test]
    fn a_list_without_a_resource_version_is_no_answer() {
        let mut list = PagedList::new("/p".to_owned());
        assert!(matches!(list.answer(ok(), |_| page(None, None)), Progress::Failed(_)));
    }

    #[test]
    fn a_page_that_follows_itself_is_no_answer() {
        let mut list = PagedList::new("/p".to_owned());
        assert_eq!(list.answer(ok(), |_| page(Some("1"), Some("t"))), Progress::More);
        assert!(matches!(list.answer(ok(), |_| page(Some("1"), Some("t"))), Progress::Failed(_)));
    }

    #[test]
    fn a_list_that_never_ends_is_no_answer() {
        let mut list = PagedList::new("/p".to_owned());
        for n in 1..MAX_PAGES {
            assert_eq!(list.answer(ok(), |_| page(Some("1"), Some(&n.to_string()))), Progress::More);
        }
        assert!(matches!(list.answer(ok(), |_| page(Some("1"), Some("one more"))), Progress::Failed(_)));
    }

    #[test]
    fn a_list_that_begins_again_may_have_as_many_pages_as_before() {
        let mut list = PagedList::new("/p".to_owned());
        let pages = |list: &mut PagedList| {
            for n in 1..MAX_PAGES {
                assert_eq!(list.answer(ok(), |_| page(Some("1"), Some(&n.to_string()))), Progress::More);
            }
        };
        pages(&mut list);
        let gone = Answer::Response { status: 410, body: b"" };
        assert_eq!(list.answer(gone, |_| page(None, None)), Progress::Restart);
        pages(&mut list);
        assert_eq!(list.answer(ok(), |_| page(Some("1"), None)), Progress::Complete);
    }

    #[test]
    fn a_page_too_large_is_asked_for_in_smaller_ones() {
        let mut list = PagedList::new("/p".to_owned());
        for limit in [62, 7, 1] {
            assert_eq!(list.answer(Answer::TooLarge, |_| page(None, None)), Progress::More);
            assert_eq!(list.next(), format!("/p?limit={limit}"));
        }
        assert!(matches!(list.answer(Answer::TooLarge, |_| page(None, None)), Progress::Failed(_)));
    }

    #[test]
    fn a_list_that_begins_with_few_goes_on_with_full_pages() {
        let mut list = PagedList::new("/p".to_owned()).beginning_with(21);
        assert_eq!(list.next(), "/p?limit=21");
        let large = vec![b' '; 7 << 20];
        let read = Page { resource_version: Some("1".to_owned()), continue_token: Some("t".to_owned()) };
        assert_eq!(list.after(&read, large.len()).as_deref(), Some("/p?limit=3&continue=t"));
        assert_eq!(list.answer(ok(), |_| page(Some("1"), Some("t"))), Progress::More);
        assert_eq!(list.next(), "/p?limit=500&continue=t");
        let gone = Answer::Response { status: 410, body: b"" };
        assert_eq!(list.answer(gone, |_| page(None, None)), Progress::Restart);
        assert_eq!(list.next(), "/p?limit=21");
    }

    #[test]
    fn large_objects_are_asked_for_in_smaller_pages() {
        let mut list = PagedList::new("/p".to_owned());
        let large = vec![b' '; 10 << 20];
        let read = Page { resource_version: Some("1".to_owned()), continue_token: Some("t".to_owned()) };
        assert_eq!(list.after(&read, large.len()).as_deref(), Some("/p?limit=50&continue=t"));
        assert_eq!(
            list.answer(Answer::Response { status: 200, body: &large }, |_| page(Some("1"), Some("t"))),
            Progress::More
        );
        assert_eq!(list.next(), "/p?limit=50&continue=t");
        assert_eq!(list.after(&Page::default(), 0), None);
    }

    #[test]
    fn after_a_large_object_small_ones_come_in_full_pages_again() {
        let mut list = PagedList::new("/p".to_owned());
        for _ in 0..3 {
            list.answer(Answer::TooLarge, |_| page(None, None));
        }
        let body = vec![b' '; PAGE_BYTES];
        let large = Answer::Response { status: 200, body: &body };
        assert_eq!(list.answer(large, |_| page(Some("1"), Some("a"))), Progress::More);
        assert_eq!(list.limit(), 1);
        let limits = (0..10).map(|n| {
            assert_eq!(list.answer(ok(), |_| page(Some("1"), Some(&n.to_string()))), Progress::More);
            list.limit()
        });
        assert_eq!(limits.collect::<Vec<_>>(), [2, 4, 8, 16, 32, 64, 128, 256, 500, 500]);
    }
}
