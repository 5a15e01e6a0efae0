//! List of a logical cluster's APIBindings, page by page, and the readers of each binding.

use crate::applicability::api_bindings::{self, BINDINGS_PATH, Binding};
use crate::protocol::paged_list::{PagedList, Progress};
use crate::protocol::problem::Unresolved;
use crate::protocol::response::Answer;
use crate::protocol::response_error::not_a_kcp;

/// The list of APIBindings that is being read.
#[derive(Debug)]
pub(crate) struct BindingsList(PagedList);

/// Reader of the APIBindings of a list.
pub(crate) trait BindingReader {
    /// Takes an APIBinding.
    fn observe(&mut self, binding: &Binding<'_>);

    /// Returns to the state before any APIBinding was read.
    fn reset(&mut self);
}

impl BindingsList {
    pub(crate) fn new() -> Self {
        Self(PagedList::new(BINDINGS_PATH.to_owned()))
    }

    /// Creates a list that an API server answers from its cache: a hint.
    #[cfg(feature = "interlock")]
    pub(crate) fn hint() -> Self {
        Self(PagedList::new(format!("{BINDINGS_PATH}?resourceVersion=0")))
    }

    /// Returns the path and query of the next page.
    pub(crate) fn next(&self) -> String {
        self.0.next()
    }

    /// Takes a page. Returns `None` if another one is needed; at the end, whether the list was read, or the reason why
    /// not, as the end of a sentence.
    pub(crate) fn answer(
        &mut self,
        answer: Answer<'_>,
        reader: &mut impl BindingReader,
    ) -> Option<Result<(), Unresolved>> {
        let progress = self.0.answer(answer, |body| api_bindings::read_page(body, |binding| reader.observe(binding)));
        match progress {
            Progress::More => None,
            Progress::Restart => {
                reader.reset();
                None
            }
            Progress::Complete => Some(Ok(())),
            Progress::NotFound => Some(Err(not_a_kcp())),
            Progress::Failed(why) => Some(Err(why)),
        }
    }
}
