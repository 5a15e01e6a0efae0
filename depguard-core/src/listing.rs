//! One list, page by page: what to ask next, when to begin again, when to give up.

use crate::answers::{failed, failure};
use crate::extract::{Page, PageError};
use crate::query::{Answer, Filter, PAGE_LIMIT, page_path};

/// How often a list may expire under us before we give up.
const MOST_RESTARTS: u32 = 5;
/// Where a page is larger than twice that, the next ones are asked for with fewer objects.
const PAGE_BYTES: usize = 1 << 20;

/// How far a list was read.
#[derive(Debug)]
pub(crate) struct Listing {
    path: String,
    /// What of the list is wanted; `None`: all of it.
    filter: Option<Filter>,
    limit: u32,
    continue_token: Option<String>,
    restarts: u32,
}

/// What an answer means for the list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Ask for the next page.
    More,
    /// The list was read to its end.
    Complete,
    /// It expired: forget what was read, and ask from the beginning.
    Restart,
    /// There is no such list (404).
    NotFound,
    /// It can't be read, and why, as the end of a sentence that begins with what was listed.
    Failed(String),
}

impl Listing {
    pub(crate) fn new(path: String) -> Self {
        Self { path, filter: None, limit: PAGE_LIMIT, continue_token: None, restarts: 0 }
    }

    /// What of the list passes a filter.
    pub(crate) fn filtered(path: String, filter: Filter) -> Self {
        Self { filter: Some(filter), ..Self::new(path) }
    }

    /// The same list is to be found elsewhere; it begins anew there.
    pub(crate) fn move_to(&mut self, path: String) {
        self.path = path;
        self.continue_token = None;
    }

    /// The path and query of the page to ask for now.
    pub(crate) fn next(&self) -> String {
        self.page(self.limit, self.continue_token.as_deref())
    }

    /// What [`Self::next`] will be once a page that says this was taken, unless the list ends with it.
    pub(crate) fn after(&self, page: &Page, bytes: usize) -> Option<String> {
        page.continue_token.as_deref().map(|token| self.page(self.limit_after(bytes), Some(token)))
    }

    fn page(&self, limit: u32, continue_token: Option<&str>) -> String {
        page_path(&self.path, self.filter.as_ref(), limit, continue_token)
    }

    /// Takes the answer to [`Self::next`]; `read` reads a page's objects.
    pub(crate) fn answer(
        &mut self,
        answer: Answer<'_>,
        read: impl FnOnce(&[u8]) -> Result<Page, PageError>,
    ) -> Progress {
        match answer {
            Answer::Response { status: 200, body } => match read(body) {
                Ok(page) => self.advance(page, body.len()),
                Err(error) => Progress::Failed(format!("was answered with {error}; look at what answers there")),
            },
            Answer::Response { status: 410, .. } => self.restart(),
            Answer::Response { status: 404, .. } => Progress::NotFound,
            Answer::Response { status, body } => Progress::Failed(failure(status, body, "get and list it")),
            Answer::TooLarge if self.limit > 1 => {
                // The token stays: pages of one list may differ in size.
                self.limit = (self.limit / 8).max(1);
                Progress::More
            }
            Answer::TooLarge => Progress::Failed("was answered with one object too large to be read".to_owned()),
            Answer::Failed(why) => Progress::Failed(failed(why)),
        }
    }

    /// Fewer objects where they are large; a page holds as many as were asked for, unless it is the last.
    fn limit_after(&self, bytes: usize) -> u32 {
        if bytes <= 2 * PAGE_BYTES {
            return self.limit;
        }
        let fits = u64::from(self.limit) * PAGE_BYTES as u64 / bytes as u64;
        u32::try_from(fits).unwrap_or(self.limit).clamp(1, self.limit)
    }

    fn advance(&mut self, page: Page, bytes: usize) -> Progress {
        if page.resource_version.is_none() {
            let why = "was answered with a list that has no metadata.resourceVersion, as a virtual workspace answers for what is not there; retry later";
            return Progress::Failed(why.to_owned());
        }
        match page.continue_token {
            None => Progress::Complete,
            Some(token) if self.continue_token.as_ref() == Some(&token) => {
                Progress::Failed("does not come to an end: a page was followed by itself".to_owned())
            }
            Some(token) => {
                self.continue_token = Some(token);
                self.limit = self.limit_after(bytes);
                Progress::More
            }
        }
    }

    fn restart(&mut self) -> Progress {
        self.continue_token = None;
        self.restarts += 1;
        if self.restarts > MOST_RESTARTS {
            return Progress::Failed("expired (410) again and again before its end; retry later".to_owned());
        }
        Progress::Restart
    }
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
        let mut list = Listing::new("/api/v1/pods".to_owned());
        assert_eq!(list.next(), "/api/v1/pods?limit=500");
        assert_eq!(list.answer(ok(), |_| page(Some("1"), Some("t1"))), Progress::More);
        assert_eq!(list.next(), "/api/v1/pods?limit=500&continue=t1");
        assert_eq!(list.answer(ok(), |_| page(Some("1"), Some("t2"))), Progress::More);
        assert_eq!(list.answer(ok(), |_| page(Some("1"), None)), Progress::Complete);
    }

    #[test]
    fn an_expired_list_begins_again_but_not_for_ever() {
        let mut list = Listing::new("/p".to_owned());
        let gone = Answer::Response { status: 410, body: b"" };
        assert_eq!(list.answer(ok(), |_| page(Some("1"), Some("t"))), Progress::More);
        for _ in 0..MOST_RESTARTS {
            assert_eq!(list.answer(gone, |_| page(None, None)), Progress::Restart);
            assert_eq!(list.next(), "/p?limit=500");
        }
        assert!(matches!(list.answer(gone, |_| page(None, None)), Progress::Failed(_)));
    }

    #[test]
    fn a_list_without_a_resource_version_is_no_answer() {
        let mut list = Listing::new("/p".to_owned());
        assert!(matches!(list.answer(ok(), |_| page(None, None)), Progress::Failed(_)));
    }

    #[test]
    fn a_page_that_follows_itself_is_no_answer() {
        let mut list = Listing::new("/p".to_owned());
        assert_eq!(list.answer(ok(), |_| page(Some("1"), Some("t"))), Progress::More);
        assert!(matches!(list.answer(ok(), |_| page(Some("1"), Some("t"))), Progress::Failed(_)));
    }

    #[test]
    fn a_page_too_large_is_asked_for_in_smaller_ones() {
        let mut list = Listing::new("/p".to_owned());
        for limit in [62, 7, 1] {
            assert_eq!(list.answer(Answer::TooLarge, |_| page(None, None)), Progress::More);
            assert_eq!(list.next(), format!("/p?limit={limit}"));
        }
        assert!(matches!(list.answer(Answer::TooLarge, |_| page(None, None)), Progress::Failed(_)));
    }

    #[test]
    fn large_objects_are_asked_for_in_smaller_pages() {
        let mut list = Listing::new("/p".to_owned());
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
}
