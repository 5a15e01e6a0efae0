pub(crate) mod extract;
pub(crate) mod json;
pub(crate) mod text;

pub use extract::{Extractor, Item, Page, PageError, Prefilter};
