//! Counts of requests and lists, taken where they are served.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use crate::kinds::Resource;
use crate::protocol::identity::User;
use crate::protocol::routes::{Objects, Query};

/// Counts of the answered lists of one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lists {
    /// Number of lists begun: requests without a continue token.
    pub begun: u64,
    /// Number of these with a field selector.
    pub selecting: u64,
    /// Number of requests that begin or continue a list.
    pub pages: u64,
    /// Number of bytes of all bodies.
    pub bytes: u64,
}

impl Lists {
    /// Returns the increase since an earlier count of the same lists.
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
    lists: Mutex<BTreeMap<TrafficKey, Lists>>,
    /// Paths, with selectors, whose last watch was not opened.
    refused: Mutex<BTreeMap<TrafficKey, BTreeSet<String>>>,
    asked: Mutex<BTreeMap<TrafficKey, BTreeSet<String>>>,
    /// Number of requests for objects, by the user's token, then by verb.
    requests: Mutex<BTreeMap<String, BTreeMap<String, u64>>>,
}

/// Number of different requests that are noted of one user for one resource.
const MAX_NOTED: usize = 64;

/// Token of the user, group and resource.
type TrafficKey = (String, String, String);

impl Traffic {
    /// Notes that a user requested objects of this kind, whatever the answer.
    pub(crate) fn ask(&self, user: &User, verb: &str, objects: &Objects) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry(user.token()).or_default().entry(verb.to_owned()).or_default() += 1;
        drop(requests);
        let by = (user.token(), objects.group.clone(), objects.plural.clone());
        let mut all = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = all.entry(by).or_default();
        if asked.len() < MAX_NOTED {
            asked.insert([verb, objects.name.as_deref().unwrap_or_default()].join(" ").trim_end().to_owned());
        }
    }

    /// Returns the number of a user's requests, by verb.
    pub(crate) fn requests(&self, token: &str) -> BTreeMap<String, u64> {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.get(token).cloned().unwrap_or_default()
    }

    /// Notes a request for a watch, by its path and query. The watch counts as refused until it is opened.
    pub(crate) fn watch(&self, user: &User, objects: &Objects, asked: &str, is_opened: bool) {
        let by = (user.token(), objects.group.clone(), objects.plural.clone());
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let paths = refused.entry(by).or_default();
        // Each attempt begins at another revision.
        let path = selection(asked);
        if is_opened {
            paths.remove(&path)
        } else {
            paths.insert(path)
        };
    }

    /// Returns the paths, with selectors, on which a user's last watch of a resource was refused.
    pub(crate) fn refused(&self, token: &str, group: &str, resource: &str) -> BTreeSet<String> {
        let by = (token.to_owned(), group.to_owned(), resource.to_owned());
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.get(&by).cloned().unwrap_or_default()
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

    /// Returns the counts of a resource's lists by the selected users.
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

    /// Returns the requests for objects of a kind, by the user's token.
    pub(crate) fn asked(&self, group: &str, resource: &str) -> BTreeMap<String, BTreeSet<String>> {
        let all = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let of = all.iter().filter(|((_, g, r), _)| g == group && r == resource);
        of.map(|((user, ..), asked)| (user.clone(), asked.clone())).collect()
    }
}

/// Returns the path of a request with the selectors of its query.
fn selection(path_and_query: &str) -> String {
    let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
    let selectors = query.split('&').filter(|part| part.contains("Selector="));
    [path].into_iter().chain(selectors).collect::<Vec<_>>().join(" ")
}
