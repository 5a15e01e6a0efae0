//! What was listed, counted where it is served.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::kinds::Resource;
use crate::routes::Query;

/// The lists of one resource that were answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    /// Lists begun: requests without a continue token.
    pub begun: u64,
    /// Of these, those by a field selector.
    pub selecting: u64,
    /// Requests, whether they begin a list or continue it.
    pub pages: u64,
    /// The bytes of all bodies.
    pub bytes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Traffic(Mutex<BTreeMap<(String, String), Lists>>);

impl Traffic {
    pub(crate) fn count(&self, resource: &Resource, query: &Query, bytes: u64) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lists = all.entry((resource.group.clone(), resource.plural.clone())).or_default();
        let begins = query.value("continue").is_none();
        lists.begun += u64::from(begins);
        lists.selecting += u64::from(begins && query.value("fieldSelector").is_some());
        lists.pages += 1;
        lists.bytes += bytes;
    }

    pub(crate) fn of(&self, group: &str, resource: &str) -> Lists {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&(group.to_owned(), resource.to_owned())).copied().unwrap_or_default()
    }
}
