//! What was asked for and listed, counted where it is served.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use crate::identity::User;
use crate::kinds::Resource;
use crate::routes::{Objects, Query};

/// The lists of one resource that were answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
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

impl Lists {
    /// What came on top of an earlier count of the same.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            begun: self.begun.saturating_sub(before.begun),
            selecting: self.selecting.saturating_sub(before.selecting),
            pages: self.pages.saturating_sub(before.pages),
            bytes: self.bytes.saturating_sub(before.bytes),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Traffic {
    lists: Mutex<BTreeMap<Asked, Lists>>,
    asked: Mutex<BTreeSet<Asked>>,
}

/// Who asked, and for which group and resource.
type Asked = (String, String, String);

impl Traffic {
    /// Somebody asked for objects of this kind, whatever he was answered.
    pub(crate) fn ask(&self, user: &User, objects: &Objects) {
        let asked = (user.token(), objects.group.clone(), objects.plural.clone());
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(asked);
    }

    pub(crate) fn count(&self, user: &User, resource: &Resource, query: &Query, bytes: u64) {
        let mut all = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let lists = all.entry((user.token(), resource.group.clone(), resource.plural.clone())).or_default();
        let begins = query.value("continue").is_none();
        lists.begun += u64::from(begins);
        lists.selecting += u64::from(begins && query.value("fieldSelector").is_some());
        lists.pages += 1;
        lists.bytes += bytes;
    }

    /// The lists of a resource by those users.
    pub(crate) fn of(&self, group: &str, resource: &str, by: impl Fn(&str) -> bool) -> Lists {
        let all = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let of = all.iter().filter(|((user, g, r), _)| g == group && r == resource && by(user));
        of.fold(Lists::default(), |sum, (_, lists)| Lists {
            begun: sum.begun + lists.begun,
            selecting: sum.selecting + lists.selecting,
            pages: sum.pages + lists.pages,
            bytes: sum.bytes + lists.bytes,
        })
    }

    /// Who asked for objects of a kind.
    pub(crate) fn askers(&self, group: &str, resource: &str) -> BTreeSet<String> {
        let all = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter(|(_, g, r)| g == group && r == resource).map(|(user, ..)| user.clone()).collect()
    }
}
