//! Reads a part of a range: after a key, up to a limit, at this revision or an earlier one.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::{Change, ExpiredRevision, Inner, Key, Object, Range};
use crate::protocol::json::field_of;

/// Part of a range to read.
#[derive(Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) range: Range<'a>,
    /// Revision; `None` stands for the present one.
    pub(crate) revision: Option<u64>,
    /// Key after which the page begins.
    pub(crate) after: Option<Key>,
    pub(crate) limit: usize,
    /// Selectable field and its required value. The objects found by it still pass the filter.
    pub(crate) field: Option<(&'a str, &'a str)>,
    /// Set if the filter lets all pass. The remaining objects can then be counted without being read.
    pub(crate) unfiltered: bool,
}

/// Page that was read.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) objects: Vec<Arc<Object>>,
    pub(crate) last: Option<Key>,
    pub(crate) revision: u64,
    /// Set if more objects follow the last one.
    pub(crate) more: bool,
    /// Number of further objects, known only for a first page.
    pub(crate) remaining: Option<usize>,
}

impl Inner {
    pub(super) fn page(
        &mut self,
        ask: &Ask<'_>,
        mut selects: impl FnMut(&Key, &Object) -> bool,
    ) -> Result<Page, ExpiredRevision> {
        let revision = ask.revision.unwrap_or(self.revision);
        if revision < self.forgotten || revision > self.revision {
            return Err(ExpiredRevision);
        }
        let then = self.since(ask, revision);
        if let (Some((field, _)), true) = (ask.field, then.is_empty()) {
            self.index(ask.range, field);
        }
        let then = self.since(ask, revision);
        let found: Box<dyn Iterator<Item = (&Key, &Arc<Object>)>> =
            match ask.field.and_then(|(field, value)| self.tally.keys(ask.range, field, value)) {
                Some(keys) if then.is_empty() => Box::new(
                    keys.range((ask.start(), Bound::Unbounded))
                        .filter(|key| ask.range.contains(key))
                        .filter_map(|key| Some((key, &self.objects.get(key)?.1))),
                ),
                _ => Box::new(merge(self.within(ask).map(|(key, (_, object))| (key, object)), then)),
            };
        let mut found = found.filter(|(key, object)| selects(key, object));
        let mut page = Page { objects: Vec::new(), last: None, revision, more: false, remaining: None };
        for (key, object) in found.by_ref().take(ask.limit) {
            page.objects.push(Arc::clone(object));
            page.last = Some(key.clone());
        }
        if ask.after.is_none() {
            let rest = match ask.unfiltered {
                true if ask.revision.is_none() => self.tally.count(ask.range).saturating_sub(page.objects.len()),
                _ => found.count(),
            };
            page.remaining = Some(rest);
            page.more = rest > 0;
        } else {
            page.more = found.next().is_some();
        }
        Ok(page)
    }

    /// Returns the objects of the range that changed after a revision, in their state at that revision.
    fn since(&self, ask: &Ask<'_>, revision: u64) -> BTreeMap<&Key, Option<&Arc<Object>>> {
        let changed = |change: &&Change| {
            ask.range.contains(&change.key) && ask.after.as_ref().is_none_or(|after| *after < change.key)
        };
        let changes = self.history.iter().rev().take_while(|change| change.revision > revision);
        changes.filter(changed).map(|change| (&change.key, change.previous.as_ref())).collect()
    }

    /// Returns the present objects in the range after the key.
    pub(super) fn within<'a>(&'a self, ask: &'a Ask<'_>) -> impl Iterator<Item = (&'a Key, &'a (u64, Arc<Object>))> {
        let range = ask.range;
        self.objects
            .range((ask.start(), Bound::Unbounded))
            .take_while(move |(key, _)| {
                key.group == range.group
                    && key.resource == range.resource
                    && range.cluster.is_none_or(|cluster| cluster == key.cluster)
                    && range.cluster.and(range.namespace).is_none_or(|name| name == key.namespace)
            })
            .filter(move |(key, _)| range.contains(key))
    }

    pub(super) fn index(&mut self, range: Range<'_>, field: &str) {
        if self.tally.has_index(range, field) {
            return;
        }
        let everywhere = Range { cluster: None, namespace: None, ..range };
        let ask = Ask::all(everywhere);
        let values: Vec<(Key, String)> =
            self.within(&ask).map(|(key, (_, object))| (key.clone(), field_of(&object.value(), field))).collect();
        self.tally.begin(range.group, range.resource, field, values.into_iter());
    }
}

impl<'a> Ask<'a> {
    /// Requests all objects of a range in their present state.
    pub(crate) fn all(range: Range<'a>) -> Self {
        Self { range, revision: None, after: None, limit: usize::MAX, field: None, unfiltered: true }
    }

    fn start(&self) -> Bound<Key> {
        let range = self.range;
        match &self.after {
            Some(after) => Bound::Excluded(after.clone()),
            None => Bound::Included(Key::new(
                range.group,
                range.resource,
                range.cluster.unwrap_or_default(),
                range.cluster.and(range.namespace).unwrap_or_default(),
                "",
            )),
        }
    }
}

/// Merges the present objects with the former ones: each later change is undone.
fn merge<'a>(
    now: impl Iterator<Item = (&'a Key, &'a Arc<Object>)>,
    then: BTreeMap<&'a Key, Option<&'a Arc<Object>>>,
) -> impl Iterator<Item = (&'a Key, &'a Arc<Object>)> {
    let (mut now, mut then) = (now.peekable(), then.into_iter().peekable());
    std::iter::from_fn(move || {
        loop {
            let (from_now, from_then) = match (now.peek(), then.peek()) {
                (None, None) => return None,
                (Some((one, _)), Some((other, _))) => (one <= other, other <= one),
                (is, was) => (is.is_some(), was.is_some()),
            };
            let is = if from_now { now.next() } else { None };
            if !from_then {
                return is;
            }
            if let Some((key, Some(object))) = then.next() {
                return Some((key, object));
            }
        }
    })
}
