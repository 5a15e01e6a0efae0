//! Reader of the objects in a file. It holds the trees of a few objects at a time, even within one long list, and reads
//! the documents of a long file on several cores.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use indicatif::ProgressBar;
use serde_json::Value;

use self::content::{Content, ContentSeed, Item};
use crate::cluster::documents::list::{ITEMS, ItemType, is_foreign, objects_of};
use crate::cluster::documents::parts::{MAX_DOCUMENTS, Part, parts, text_of, too_many};
use crate::cluster::documents::{Document, Origin, is_incomplete_manifest, is_manifest};
use crate::cluster::object_record::{ObjectRecord, SharedNames};
use crate::cluster::yaml;
use crate::io::exit::Failure;

mod content;
#[cfg(test)]
mod tests;

/// Objects of a file, in their order.
#[derive(Debug, Default)]
pub(crate) struct FileObjects {
    pub(crate) records: Vec<ObjectRecord>,
    /// Objects that lack their `apiVersion` or their `kind`.
    pub(crate) incomplete: Vec<Origin>,
    /// Documents that hold something else.
    pub(crate) others: Vec<Origin>,
    /// Documents that are no objects.
    pub(crate) foreign: Vec<Origin>,
}

/// Documents that one core reads before it takes more.
const BATCH: usize = 64;
/// Limit on the cores that read a file: more would wait for the memory.
const MAX_THREADS: usize = 8;

/// Reads the objects of a file up to the first error, which is returned beside them. Counts them on `progress`.
pub(crate) fn read(file: &str, bytes: &[u8], progress: &ProgressBar) -> (FileObjects, Option<Failure>) {
    let file = Arc::from(file);
    match text_of(&file, bytes).and_then(parts) {
        Ok(parts) => read_parts(&file, &parts, progress),
        Err(why) => (FileObjects::default(), Some(why)),
    }
}

fn read_parts(file: &Arc<str>, parts: &[Part<'_>], progress: &ProgressBar) -> (FileObjects, Option<Failure>) {
    let batches: Vec<_> = parts.chunks(BATCH).collect();
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = cores.min(batches.len()).min(MAX_THREADS);
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
    let work = || {
        let (mut names, mut done) = (SharedNames::default(), Vec::new());
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            // The batches behind the first error don't count.
            let Some(batch) = batches.get(index).filter(|_| index < failed.load(Ordering::Relaxed)) else {
                return done;
            };
            let mut reader = PartReader { file, names: &mut names, progress, objects: FileObjects::default() };
            let failure = batch.iter().try_for_each(|part| reader.read(part)).err();
            if failure.is_some() {
                failed.fetch_min(index, Ordering::Relaxed);
            }
            done.push((index, reader.objects, failure));
        }
    };
    let mut done = if threads < 2 {
        work()
    } else {
        thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            let joined =
                workers.into_iter().map(|worker| worker.join().unwrap_or_else(|why| std::panic::resume_unwind(why)));
            joined.flatten().collect()
        })
    };
    done.sort_by_key(|(index, ..)| *index);
    let mut objects = FileObjects::default();
    for (_, batch, failure) in done {
        objects.extend(batch);
        if let Some(failure) = failure {
            return (objects, Some(failure));
        }
        if objects.records.len() > MAX_DOCUMENTS {
            return (objects, Some(too_many()));
        }
    }
    (objects, None)
}

impl FileObjects {
    fn extend(&mut self, more: Self) {
        let Self { records, incomplete, others, foreign } = more;
        self.records.extend(records);
        self.incomplete.extend(incomplete);
        self.others.extend(others);
        self.foreign.extend(foreign);
    }

    fn add(&mut self, document: &Document, names: &mut SharedNames) {
        if is_manifest(&document.value) {
            self.records.push(ObjectRecord::new(document, names));
        } else if is_incomplete_manifest(&document.value) {
            self.incomplete.push(document.origin.clone());
        } else {
            self.others.push(document.origin.clone());
        }
    }
}

/// Reader of one part after the other.
struct PartReader<'r> {
    file: &'r Arc<str>,
    names: &'r mut SharedNames,
    progress: &'r ProgressBar,
    objects: FileObjects,
}

impl PartReader<'_> {
    fn read(&mut self, part: &Part<'_>) -> Result<(), Failure> {
        let origin = Origin { file: Arc::clone(self.file), line: part.first };
        let content = self.content(part, &origin)?;
        match content {
            Content::Value(value) if is_foreign(&value) => {
                self.objects.foreign.push(origin);
                Ok(())
            }
            Content::Value(value) => self.add_all(value, &origin),
            Content::Items { fields, items } => match ItemType::from_list(&fields) {
                Some(item_type) => items.into_iter().try_for_each(|item| self.add(item, &item_type, &origin)),
                // An object with a field of that name.
                None => {
                    let items = items.iter().map(Item::to_value).collect::<Result<_, _>>()?;
                    let mut fields = fields;
                    fields.insert(ITEMS.to_owned(), Value::Array(items));
                    self.add_all(Value::Object(fields), &origin)
                }
            },
        }
    }

    /// Parses a document: as JSON if it looks like that and is valid, otherwise as YAML.
    fn content(&mut self, part: &Part<'_>, origin: &Origin) -> Result<Content, Failure> {
        let mut seed = ContentSeed::new(origin, self.names, self.progress);
        let json = if part.is_json() { seed.read_json(part.text) } else { None };
        let content = match json {
            Some(content) => Ok(content),
            None => yaml::read_with(part.text, |yaml| seed.read(yaml)),
        };
        // The error of a list that is too long only stopped the parser.
        if seed.is_full() {
            return Err(too_many());
        }
        content.map_err(|why| part.failure(self.file, &why))
    }

    /// Adds an item of a list.
    fn add(&mut self, item: Item, item_type: &ItemType, origin: &Origin) -> Result<(), Failure> {
        match item {
            Item::Record(record) => self.objects.records.push(record),
            Item::Value(mut value) => {
                item_type.complete(&mut value);
                return self.add_all(value, origin);
            }
        }
        Ok(())
    }

    /// Adds an object, or the objects of a list.
    fn add_all(&mut self, value: Value, origin: &Origin) -> Result<(), Failure> {
        let Self { names, objects, progress, .. } = self;
        objects_of(value, origin, "", &mut |object, _| {
            progress.inc(1);
            objects.add(&Document { value: Arc::new(object), origin: origin.clone() }, names);
            if objects.records.len() > MAX_DOCUMENTS { Err(too_many()) } else { Ok(()) }
        })
    }
}
