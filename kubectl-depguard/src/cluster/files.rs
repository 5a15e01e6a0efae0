//! Files and folders that `-f` names, read as documents.

use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::cluster::documents::list::no_object;
use crate::cluster::documents::parts::{MAX_DOCUMENTS, too_many};
use crate::cluster::documents::{
    INCOMPLETE, Origin, Text, is_incomplete_manifest, is_manifest, is_patch_of_definition, parse,
};
use crate::cluster::object_record::ObjectRecord;
use crate::cluster::record_reader::{self, FileObjects};
use crate::cluster::rules::ReadFailure;
use crate::io::exit::Failure;
use crate::io::terminal::Terminal;

/// The flags of commands that read files.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct FileArgs {
    /// File or folder to read instead of an API server; - is standard input; may be repeated
    #[arg(short, long = "filename", value_name = "FILE")]
    pub(crate) filename: Vec<PathBuf>,

    /// Read subfolders, too
    #[arg(short = 'R', long, requires = "filename")]
    pub(crate) recursive: bool,
}

/// Manifests of files and folders. Files in the folders that hold no manifests are listed apart.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub(crate) records: Vec<ObjectRecord>,
    /// Files that may hold manifests but can't be read.
    pub(crate) unread: Vec<ReadFailure>,
    /// Files that can be read but hold something else, such as a chart's `values.yaml`.
    pub(crate) others: Vec<Arc<str>>,
}

/// Documents that a command needs, among all that files hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needed {
    pub(crate) is_needed: fn(&Value) -> bool,
    /// Words, of which the text of each such document has one.
    pub(crate) words: &'static [&'static str],
}

/// Limit on the size of a file, in bytes.
const MAX_BYTES: u64 = 64 << 20;
/// Limit on the files of one command.
const MAX_FILES: usize = 10_000;
/// Limit on the depth of nested folders.
const MAX_DEPTH: usize = 32;

impl FileArgs {
    /// Returns true if any file is named.
    pub(crate) fn is_empty(&self) -> bool {
        self.filename.is_empty()
    }

    /// Reads manifests from the named files and folders. An error in a named file ends the command. An error in a file
    /// of a folder is reported, and the command reads the other files.
    pub(crate) fn manifests(&self, terminal: &mut Terminal) -> Result<Files, Failure> {
        let mut found = Files::default();
        let progress = terminal.progress("reading files");
        let passed_over = texts(&self.filename, self.recursive, terminal, |name, path, bytes| {
            let is_named = is_named(path, &self.filename);
            let (objects, failure) = record_reader::read(name, bytes, &progress);
            let FileObjects { records, incomplete, others, foreign } = objects;
            if let Some(why) = failure.or_else(|| foreign.first().filter(|_| is_named).map(no_object)) {
                if is_named {
                    return Err(why);
                }
                found.unread.push(ReadFailure::of_file(name, &why));
            }
            found.records.extend(records);
            found.unread.extend(incomplete.iter().map(self::incomplete));
            found.others.extend(others.into_iter().chain(foreign).next().map(|origin| origin.file));
            if found.records.len() > MAX_DOCUMENTS { Err(too_many()) } else { Ok(()) }
        })?;
        // What refers to an object may be there, as in a file that can't be read.
        found.unread.extend(passed_over.iter().map(|folder| {
            let what = format!("the folder `{}`", folder.display());
            ReadFailure::new(what, "-R reads subfolders, too; or name the files that you mean")
        }));
        Ok(found)
    }

    /// Reads the documents that a command needs, as [`needed`] does.
    pub(crate) fn needed(
        &self,
        needed: Needed,
        terminal: &mut Terminal,
    ) -> Result<(Vec<Text>, Vec<ReadFailure>), Failure> {
        self::needed(&self.filename, self.recursive, needed, terminal)
    }
}

/// Reads the needed documents of these files and folders, with their texts. An error in a named file ends the command. In
/// a folder, a file that can't be read is returned if it may hold a needed document; a note tells all other files that
/// hold no manifests.
pub(crate) fn needed(
    paths: &[PathBuf],
    recursive: bool,
    Needed { is_needed, words }: Needed,
    terminal: &mut Terminal,
) -> Result<(Vec<Text>, Vec<ReadFailure>), Failure> {
    let (mut found, mut unread, mut others) = (Vec::new(), Vec::new(), Vec::new());
    texts(paths, recursive, terminal, |name, path, bytes| {
        let (is_named, mut documents) = (is_named(path, paths), Vec::new());
        let foreign = match parse(name, bytes, &mut documents) {
            Ok(foreign) => foreign,
            Err(why) if is_named => return Err(why),
            Err(why) => {
                let text = String::from_utf8_lossy(bytes);
                match words.iter().any(|word| text.contains(word)) {
                    true => unread.push(ReadFailure::of_file(name, &why)),
                    false => others.push(Arc::from(name)),
                }
                Vec::new()
            }
        };
        let is_kept = |value: &Value| is_needed(value) && (is_named || !is_patch_of_definition(value));
        let (kept, rest): (Vec<_>, Vec<_>) = documents.into_iter().partition(|text| is_kept(&text.document.value));
        if let Some(origin) = foreign.first().filter(|_| is_named) {
            return Err(no_object(origin));
        }
        let mut incomplete = rest.iter().filter(|text| is_incomplete_manifest(&text.document.value));
        if is_named && let Some(text) = incomplete.next() {
            return Err(named_incomplete(text));
        }
        // What says its kind is of another one.
        let has = |text: &&Text, field: &str| text.document.value.get(field).is_some();
        let may_be_needed = |text: &&Text| has(text, "apiVersion") && !has(text, "kind");
        unread.extend(incomplete.filter(may_be_needed).map(|text| self::incomplete(&text.document.origin)));
        let rest = rest.into_iter().map(|text| text.document).filter(|document| !is_manifest(&document.value));
        others.extend(rest.map(|document| document.origin).chain(foreign).next().map(|origin| origin.file));
        found.extend(kept);
        if found.len() > MAX_DOCUMENTS { Err(too_many()) } else { Ok(()) }
    })?;
    others.iter().try_for_each(|file| terminal.note(&skipped(file)))?;
    Ok((found, unread))
}

/// Returns the note about a file of which some documents are not manifests.
pub(crate) fn skipped(file: &str) -> String {
    format!("skipped the documents of `{file}` that are not manifests")
}

/// Returns true for a file that the user names, and false for one in a folder.
pub(crate) fn is_named(path: Option<&Path>, paths: &[PathBuf]) -> bool {
    path.is_none_or(|path| paths.iter().any(|named| named == path))
}

fn incomplete(origin: &Origin) -> ReadFailure {
    ReadFailure::new(format!("the object at {origin}"), INCOMPLETE)
}

fn named_incomplete(text: &Text) -> Failure {
    Failure::new(format!("could not read the object at {}: {INCOMPLETE}", text.document.origin))
        .hint("write both, or name only the other files with -f")
}

/// Passes the content of each of these files, and of the files in these folders, to `each`, with a name to show and a
/// path; standard input has no path. Returns the subfolders with manifests that were passed over.
pub(crate) fn texts(
    paths: &[PathBuf],
    recursive: bool,
    terminal: &mut Terminal,
    mut each: impl FnMut(&str, Option<&Path>, &[u8]) -> Result<(), Failure>,
) -> Result<Vec<PathBuf>, Failure> {
    let (mut known, mut passed_over) = (HashSet::new(), Vec::new());
    for path in paths {
        if path.as_os_str() == "-" {
            let bytes = bounded(terminal.stdin(), "standard input")?;
            each("standard input", None, &bytes)?;
            continue;
        }
        let mut found = Found::default();
        collect(path, recursive, 0, &mut known, &mut found)?;
        passed_over.extend(found.passed_over);
        for file in found.files {
            let name = file.display().to_string();
            let opened = std::fs::File::open(&file).map_err(|why| unreadable(&name, &why))?;
            each(&name, Some(&file), &bounded(opened, &name)?)?;
        }
    }
    Ok(passed_over)
}

/// Files that a path stands for, and the subfolders that were passed over.
#[derive(Default)]
struct Found {
    files: Vec<PathBuf>,
    passed_over: Vec<PathBuf>,
}

/// Collects the files that a path stands for: the file itself, or the files in the folder that look like YAML or JSON.
/// `known` holds the files and folders that are read already, under whatever name, as a symbolic link may lead back to
/// them.
fn collect(
    path: &Path,
    recursive: bool,
    depth: usize,
    known: &mut HashSet<PathBuf>,
    found: &mut Found,
) -> Result<(), Failure> {
    let failed = |why| unreadable(&path.display().to_string(), &why);
    let metadata = std::fs::metadata(path).map_err(failed)?;
    // A path that is neither a file nor a folder, such as a pipe, can be read once and has no other name.
    let is_kept = metadata.is_dir() || metadata.is_file();
    if is_kept && !known.insert(std::fs::canonicalize(path).map_err(failed)?) {
        return Ok(());
    }
    if !metadata.is_dir() {
        found.files.push(path.to_owned());
        return Ok(());
    }
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        entries.push(entry.map_err(failed)?.path());
        if entries.len() > MAX_FILES {
            return Err(Failure::new(format!("`{}` contains more than {MAX_FILES} files", path.display()))
                .hint("name the files that you need"));
        }
    }
    entries.sort();
    for entry in entries {
        if entry.is_dir() && recursive && depth >= MAX_DEPTH {
            return Err(Failure::new(format!("`{}` lies more than {MAX_DEPTH} folders deep", entry.display()))
                .hint("name the folders below with -f"));
        }
        match entry.is_dir() {
            true if !recursive && holds_manifests(&entry, depth) => found.passed_over.push(entry),
            true if !recursive => {}
            is_folder if is_folder || is_manifest_file(&entry) => {
                collect(&entry, recursive, depth.saturating_add(1), known, found)?;
            }
            _ => {}
        }
        if found.files.len() > MAX_FILES {
            return Err(Failure::new(format!("more than {MAX_FILES} files are named"))
                .hint("name fewer files, or run the command several times"));
        }
    }
    Ok(())
}

fn is_manifest_file(file: &Path) -> bool {
    file.extension().is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known))
}

/// Returns true if a file that looks like YAML or JSON lies in a folder, or in one below it. A folder that can't be read
/// may hold some; a hidden one, such as `.git`, is no place for manifests.
fn holds_manifests(folder: &Path, depth: usize) -> bool {
    let is_hidden = folder.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    if is_hidden || depth >= MAX_DEPTH {
        return !is_hidden;
    }
    let Ok(entries) = std::fs::read_dir(folder) else { return true };
    entries.flatten().any(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => holds_manifests(&entry.path(), depth.saturating_add(1)),
        // A link may lead back to a folder above.
        Ok(kind) if kind.is_symlink() => entry.path().is_dir() || is_manifest_file(&entry.path()),
        _ => is_manifest_file(&entry.path()),
    })
}

fn bounded(reader: impl Read, name: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    reader.take(MAX_BYTES.saturating_add(1)).read_to_end(&mut bytes).map_err(|why| unreadable(name, &why))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Failure::new(format!("`{name}` is larger than {} MiB", MAX_BYTES >> 20))
            .hint("split it into several files"));
    }
    Ok(bytes)
}

fn unreadable(name: &str, why: &std::io::Error) -> Failure {
    Failure::new(format!("could not read `{name}`: {why}")).hint("name a file, a folder, or - for standard input")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_read_once_whatever_leads_to_it_and_a_file_in_it_that_is_none_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for (name, text) in [
            ("a.yaml", "{apiVersion: v1, kind: Secret, metadata: {name: a}}"),
            ("chart.yaml", "apiVersion: v1\n{{- if .Values.a }}\nkind: Secret\n{{- end }}\n"),
            ("list.json", "[{apiVersion: v1, kind: Secret}]"),
            ("patch.yaml", "[{op: remove, path: /spec}]"),
            ("values.yaml", "replicas: 1"),
        ] {
            std::fs::write(path(name), text).unwrap();
        }
        std::os::unix::fs::symlink(".", path("loop")).unwrap();
        std::os::unix::fs::symlink("a.yaml", path("b.yaml")).unwrap();
        let read = |paths: &[PathBuf]| {
            let files = FileArgs { filename: paths.to_vec(), recursive: true };
            files.manifests(&mut Terminal::captured("").0)
        };
        let found = read(&[folder.path().to_owned(), path("a.yaml"), folder.path().join(".")]).unwrap();
        assert_eq!(found.records.len(), 1, "{found:?}");
        let unread: Vec<_> = found.unread.iter().map(ToString::to_string).collect();
        assert!(unread.len() == 2 && unread[0].contains("chart.yaml") && unread[1].contains("list.json"), "{unread:?}");
        let others: Vec<_> = found.others.iter().filter_map(|file| file.rsplit('/').next()).collect();
        assert_eq!(others, ["patch.yaml", "values.yaml"]);
        assert!(read(&[path("patch.yaml")]).is_err(), "nothing in it is an object");
        let failure = read(&[path("chart.yaml")]).unwrap_err();
        assert!(failure.what_to_do().is_some_and(|hint| hint.contains("helm template")), "{failure:?}");
    }
}
