//! Which locks bear on an object: first the tables, then the locks that they name.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use super::lock::{Lock, LockKind};
use super::object::Object;
use super::table::{LockTable, PLURAL, TableError, TableName};
use crate::answers::{SOMETHING_ELSE, UNANSWERED, is_object_missing, object};
use crate::api;
use crate::discovery::resource_names;
use crate::extract::{Page, PageError};
use crate::listing::{Listing, Progress};
use crate::names::Namespace;
use crate::query::{Answer, percent_encode};

/// As many locks are read one by one; more of them by one list.
const MOST_GETS: usize = 8;

/// A table that an object may stand in.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) name: TableName,
    /// `None`: not answered.
    pub(super) state: Option<TableState>,
}

#[derive(Debug)]
pub(super) enum TableState {
    /// There is none, so nothing stands in it.
    Absent,
    /// There are no tables at all: it must be asked whether there are locks.
    NotServed,
    Known(Box<LockTable>),
    /// What is stored there can't be used.
    Broken(TableError),
    /// It could not be read, and why, as the end of a sentence.
    Unread(String),
}

/// How locks are read.
#[derive(Debug)]
pub(super) enum Locks {
    /// One of them.
    One(LockKind, String),
    /// Those of these names, of all in that place.
    List(LockKind, Listing, BTreeSet<String>),
}

/// The tables of an object.
pub(super) fn tables(object: &Object) -> Vec<Read> {
    let table =
        |namespace: Option<Namespace>| Read { name: TableName { namespace, kind: object.kind.clone() }, state: None };
    let own = object.namespace.clone().map(|namespace| table(Some(namespace)));
    own.into_iter().chain([table(None)]).collect()
}

impl TableState {
    /// What an answer shows of the table of that name.
    pub(super) fn of(name: &TableName, answer: Answer<'_>) -> Self {
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
                Ok(_) => Self::Unread(SOMETHING_ELSE.to_owned()),
                Err(error) => Self::Broken(error),
            },
        }
    }
}

/// Where it is asked whether there can be locks, where there are no tables.
pub(super) const DISCOVERY: &str = super::ROOT;

/// Whether locks are served; or why that can't be told, as the end of a sentence.
pub(super) fn serves_locks(answer: Answer<'_>) -> Result<bool, String> {
    let Some(body) = object(answer, "get /apis")? else { return Ok(false) };
    let names = resource_names(body).ok_or(SOMETHING_ELSE)?;
    Ok(names.iter().any(|name| LockKind::of_plural(name).is_some()))
}

/// The locks that must be read for an object of which all tables are known, each with the revision at which admission
/// wrote last that it is about the object.
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

/// How to read them.
pub(super) fn plan(
    candidates: impl IntoIterator<Item = (LockKind, String)>,
    namespace: Option<&Namespace>,
) -> Vec<Locks> {
    let mut of_kind: BTreeMap<LockKind, BTreeSet<String>> = BTreeMap::new();
    for (kind, name) in candidates {
        of_kind.entry(kind).or_default().insert(name);
    }
    let many = of_kind.values().map(BTreeSet::len).sum::<usize>() > MOST_GETS;
    let mut plan = Vec::new();
    for (kind, names) in of_kind {
        if many {
            let list = Listing::new(kind.path(place_of(kind, namespace)));
            plan.push(Locks::List(kind, list, names));
        } else {
            plan.extend(names.into_iter().map(|name| Locks::One(kind, name)));
        }
    }
    plan
}

/// Where locks of a kind are that bear on objects of a namespace.
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

    /// Takes an answer, and hands each lock that is there to `each`. Whether the next page is to be asked for; or why the
    /// locks can't be read, as a whole sentence.
    pub(super) fn answer(
        &mut self,
        namespace: Option<&Namespace>,
        answer: Answer<'_>,
        mut each: impl FnMut(Lock),
    ) -> Result<bool, String> {
        match self {
            Self::One(kind, name) => {
                let what = || format!("the read of {} {name}", kind.kind());
                match one(*kind, name, place_of(*kind, namespace), answer) {
                    Ok(lock) => lock.into_iter().for_each(each),
                    Err(why) => return Err(format!("{} {why}", what())),
                }
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
                    // What is read again is the same lock: it counts once.
                    Progress::More | Progress::Restart => Ok(true),
                    Progress::Complete => Ok(false),
                    Progress::NotFound => {
                        Err(format!("the list of {} failed with HTTP 404; retry later", kind.plural()))
                    }
                    Progress::Failed(why) => Err(format!("the list of {} {why}", kind.plural())),
                }
            }
        }
    }

    /// What is said where no answer came.
    pub(super) fn unanswered(&self) -> String {
        match self {
            Self::One(kind, name) => format!("the read of {} {name} {}", kind.kind(), UNANSWERED),
            Self::List(kind, ..) => format!("the list of {} {}", kind.plural(), UNANSWERED),
        }
    }
}

/// Reads one lock; `None`: there is none of that name.
fn one(kind: LockKind, name: &str, namespace: Option<&Namespace>, answer: Answer<'_>) -> Result<Option<Lock>, String> {
    if let Answer::Response { status: 404, body } = answer
        && !is_object_missing(body, kind.plural(), name)
    {
        return Err("was answered with HTTP 404, but not as for a lock that is not there; retry later".to_owned());
    }
    let right = format!("get {} of {}", kind.plural(), api::GROUP);
    let Some(body) = object(answer, &right)? else { return Ok(None) };
    let value: Value = serde_json::from_slice(body).map_err(|_| SOMETHING_ELSE.to_owned())?;
    let lock = Lock::read(kind, &value);
    let is_it = value.get("kind").and_then(Value::as_str) == Some(kind.kind())
        && lock.name() == name
        && (lock.namespace() == namespace);
    if is_it { Ok(Some(lock)) } else { Err(SOMETHING_ELSE.to_owned()) }
}

fn page(bytes: &[u8], each: impl FnMut(&Value)) -> Result<Page, PageError> {
    #[derive(Deserialize)]
    struct List {
        #[serde(default)]
        metadata: Page,
        items: Vec<Value>,
    }
    let list: List = serde_json::from_slice(bytes)?;
    list.items.iter().for_each(each);
    Ok(list.metadata)
}
