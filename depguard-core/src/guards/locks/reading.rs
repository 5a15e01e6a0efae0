//! Reads of the locks that may be about an object: first the tables, then the locks that they name.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::lock::{Lock, LockKind};
use super::object::Object;
use super::parse;
use super::table::{LockTable, PLURAL, TableError, TableName};
use crate::model::api;
use crate::model::names::Namespace;
use crate::model::percent_encoding::percent_encode;
use crate::protocol::cause::Cause;
use crate::protocol::discovery::resource_names;
use crate::protocol::paged_list::{PagedList, Progress};
use crate::protocol::problem::Unresolved;
use crate::protocol::response::Answer;
use crate::protocol::response_error::{is_object_missing, list_not_found, object, something_else};
use crate::scan::extract::{Page, PageError};

/// The most locks that are read one by one; more locks are read by a list of each kind.
const MAX_GETS: usize = 8;

/// A table that may name locks of an object.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) name: TableName,
    /// `None` until the answer arrives.
    pub(super) state: Option<TableState>,
}

#[derive(Debug)]
pub(super) enum TableState {
    /// The table doesn't exist, so it names no lock.
    Absent,
    /// No tables are served: discovery must tell if there are locks.
    NotServed,
    Known(Box<LockTable>),
    /// The stored table can't be used.
    Broken(TableError),
    /// The table could not be read; the reason is the end of a sentence.
    Unread(Unresolved),
}

/// A way of reading locks.
#[derive(Debug)]
pub(super) enum Locks {
    /// One lock.
    One(LockKind, String),
    /// The locks of these names, from the list of one place.
    List(LockKind, PagedList, BTreeSet<String>),
}

/// Returns the tables for an object.
pub(super) fn tables(object: &Object) -> Vec<Read> {
    let table =
        |namespace: Option<Namespace>| Read { name: TableName { namespace, kind: object.kind.clone() }, state: None };
    let own = object.namespace.clone().map(|namespace| table(Some(namespace)));
    own.into_iter().chain([table(None)]).collect()
}

impl TableState {
    /// Reads an answer about the table of that name.
    pub(super) fn from_answer(name: &TableName, answer: Answer<'_>) -> Self {
        let missing = match answer {
            Answer::Response { status: 404, body } => is_object_missing(body, PLURAL, &name.as_name()),
            _ => false,
        };
        match object(answer, "get locktables of dependencies.opendefense.cloud") {
            Ok(None) if missing => Self::Absent,
            Ok(None) => Self::NotServed,
            Err(why) => Self::Unread(why),
            Ok(Some(body)) => match LockTable::parse(body) {
                Ok(table) if table.name() == name => Self::Known(Box::new(table)),
                Ok(_) => Self::Unread(something_else()),
                Err(error) => Self::Broken(error),
            },
        }
    }
}

/// Path of the discovery that tells if there can be locks, although no tables are served.
pub(super) const DISCOVERY: &str = super::ROOT;

/// Returns true if locks are served. An error is the end of a sentence.
pub(super) fn serves_locks(answer: Answer<'_>) -> Result<bool, Unresolved> {
    let Some(body) = object(answer, "get /apis")? else { return Ok(false) };
    let names = resource_names(body).ok_or_else(something_else)?;
    Ok(names.iter().any(|name| LockKind::of_plural(name).is_some()))
}

/// Returns the locks that must be read for an object, from all of its known tables. Each has the revision at which
/// admission last wrote that the lock is about the object.
pub(super) fn candidates(tables: &[Read], object: &Object) -> BTreeMap<(LockKind, String), u64> {
    let mut candidates: BTreeMap<_, u64> = BTreeMap::new();
    for Read { name, state } in tables {
        let Some(TableState::Known(table)) = state else { continue };
        let kind = if name.namespace.is_some() { LockKind::ObjectLock } else { LockKind::ClusterObjectLock };
        let named = table
            .entries()
            .filter(|entry| entry.may_lock(name, object.namespace.as_ref(), &object.name, object.labels.as_ref()));
        for entry in named {
            let revision = candidates.entry((kind, entry.lock.clone())).or_default();
            *revision = entry.revision.max(*revision);
        }
    }
    candidates
}

/// Plans the reads of locks.
pub(super) fn plan(
    candidates: impl IntoIterator<Item = (LockKind, String)>,
    namespace: Option<&Namespace>,
) -> Vec<Locks> {
    let mut of_kind: BTreeMap<LockKind, BTreeSet<String>> = BTreeMap::new();
    for (kind, name) in candidates {
        of_kind.entry(kind).or_default().insert(name);
    }
    let many = of_kind.values().map(BTreeSet::len).sum::<usize>() > MAX_GETS;
    let mut plan = Vec::new();
    for (kind, names) in of_kind {
        if many {
            let list = PagedList::new(kind.path(place_of(kind, namespace)));
            plan.push(Locks::List(kind, list, names));
        } else {
            plan.extend(names.into_iter().map(|name| Locks::One(kind, name)));
        }
    }
    plan
}

/// Returns the namespace of the locks of a kind that may be about objects in a namespace.
fn place_of(kind: LockKind, namespace: Option<&Namespace>) -> Option<&Namespace> {
    namespace.filter(|_| kind == LockKind::ObjectLock)
}

impl Locks {
    pub(super) fn path(&self, namespace: Option<&Namespace>) -> String {
        match self {
            Self::One(kind, name) => {
                format!("{}/{}", kind.path(place_of(*kind, namespace)), percent_encode(name))
            }
            Self::List(_, listing, _) => listing.next(),
        }
    }

    /// Takes an answer, and hands each existing lock to `each`. Returns true if the next page is needed. An error is
    /// a whole sentence.
    pub(super) fn answer(
        &mut self,
        namespace: Option<&Namespace>,
        answer: Answer<'_>,
        mut each: impl FnMut(Lock),
    ) -> Result<bool, Unresolved> {
        match self {
            Self::One(kind, name) => {
                let read = one(*kind, name, place_of(*kind, namespace), answer);
                read.map_err(|why| why.about(self.what()))?.into_iter().for_each(each);
                Ok(false)
            }
            Self::List(kind, listing, names) => {
                let progress = listing.answer(answer, |body| {
                    page(body, |object| {
                        let lock = Lock::read(*kind, object);
                        if names.contains(lock.name()) {
                            each(lock);
                        }
                    })
                });
                match progress {
                    // A lock that is read again is the same lock, and counts once.
                    Progress::More | Progress::Restart => Ok(true),
                    Progress::Complete => Ok(false),
                    Progress::NotFound => Err(list_not_found().about(self.what())),
                    Progress::Failed(why) => Err(why.about(self.what())),
                }
            }
        }
    }

    /// Returns the read as the beginning of a sentence.
    pub(super) fn what(&self) -> String {
        match self {
            Self::One(kind, name) => format!("the read of {} {name}", kind.kind()),
            Self::List(kind, ..) => format!("the list of {}", kind.plural()),
        }
    }
}

/// Reads one lock; `None` if there is no lock of that name.
fn one(
    kind: LockKind,
    name: &str,
    namespace: Option<&Namespace>,
    answer: Answer<'_>,
) -> Result<Option<Lock>, Unresolved> {
    if let Answer::Response { status: 404, body } = answer
        && !is_object_missing(body, kind.plural(), name)
    {
        let why = "was answered with an HTTP 404 that does not name the lock; retry later";
        return Err(Unresolved::new(Cause::ReadFailed, why));
    }
    let right = format!("get {} of {}", kind.plural(), api::GROUP);
    let Some(body) = object(answer, right)? else { return Ok(None) };
    let text = std::str::from_utf8(body).map_err(|_| something_else())?;
    let value = parse::tree(text).map_err(|_| something_else())?;
    let lock = Lock::read(kind, &value);
    let is_it = value.get("kind").and_then(Value::as_str) == Some(kind.kind())
        && lock.name() == name
        && (lock.namespace() == namespace);
    if is_it { Ok(Some(lock)) } else { Err(something_else()) }
}

fn page(bytes: &[u8], mut each: impl FnMut(&Value)) -> Result<Page, PageError> {
    #[derive(Deserialize)]
    struct List<'a> {
        #[serde(default)]
        metadata: Page,
        #[serde(borrow)]
        items: Vec<&'a RawValue>,
    }
    let list: List<'_> = serde_json::from_slice(bytes)?;
    for item in list.items {
        each(&parse::tree(item.get())?);
    }
    Ok(list.metadata)
}
