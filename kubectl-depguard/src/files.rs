//! What `-f` names, read as documents: bounded, and each with where it stands.

use std::collections::HashSet;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::outcome::Failure;
use crate::rules::Unread;
use crate::terminal::Terminal;
use crate::yaml;

/// The flags of commands that read files.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct FileArgs {
    /// File or folder to read instead of an API server; - is standard input; may be given several times
    #[arg(short, long = "filename", value_name = "FILE")]
    pub(crate) filename: Vec<PathBuf>,

    /// Read folders within folders too
    #[arg(short = 'R', long, requires = "filename")]
    pub(crate) recursive: bool,
}

/// An object in a file.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    pub(crate) value: Arc<Value>,
    pub(crate) origin: Origin,
}

/// An object in a file, with the text that it was read from: for whoever tells on which line a field stands.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    pub(crate) document: Document,
    /// The text of the whole document.
    pub(crate) text: Arc<str>,
    /// The line of the file at which the text begins, from 1.
    pub(crate) begin: usize,
    /// Where in the document the object stands: `items[1].` in a list, else nothing.
    pub(crate) within: String,
}

/// Manifests of files and folders, and the files of the folders that are none.
#[derive(Debug, Default)]
pub(crate) struct Manifests {
    pub(crate) documents: Vec<Document>,
    /// Files that may hold manifests, and can't be read.
    pub(crate) unread: Vec<Unread>,
    /// Files that can be read, and hold something else, such as a chart's `values.yaml`.
    pub(crate) others: Vec<Arc<str>>,
}

/// Where a document stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Origin {
    pub(crate) file: Arc<str>,
    /// The line of its first field, from 1.
    pub(crate) line: usize,
}

/// The longest file, in bytes.
const MOST_BYTES: u64 = 64 << 20;
/// The files of one command.
const MOST_FILES: usize = 10_000;
/// The objects of one command.
const MOST_DOCUMENTS: usize = 1_000_000;
/// How deep folders are read.
const MOST_DEPTH: usize = 32;

impl FileArgs {
    /// Whether any file is named.
    pub(crate) fn is_empty(&self) -> bool {
        self.filename.is_empty()
    }

    /// Reads the manifests among them. A mistake in a file that is named ends the command; one in a file of a folder is
    /// told, and the others are looked at all the same.
    pub(crate) fn manifests(&self, terminal: &mut Terminal) -> Result<Manifests, Failure> {
        let mut found = Manifests::default();
        texts(&self.filename, self.recursive, terminal, |name, path, bytes| {
            let is_named = path.is_none_or(|path| self.filename.iter().any(|named| named == path));
            let mut texts = Vec::new();
            match parse(name, bytes, &mut texts) {
                Err(why) if is_named => return Err(why),
                Err(why) => {
                    found.unread.push(Unread { what: format!("the file `{name}`"), why: why.message().to_owned() });
                }
                Ok(()) => {}
            }
            let (manifests, others): (Vec<_>, Vec<_>) =
                texts.into_iter().map(|text| text.document).partition(|document| is_manifest(&document.value));
            found.documents.extend(manifests);
            found.others.extend(others.first().map(|other| Arc::clone(&other.origin.file)));
            Ok(())
        })?;
        Ok(found)
    }

    /// Reads them all; a list's items are objects of their own.
    pub(crate) fn read(&self, terminal: &mut Terminal) -> Result<Vec<Document>, Failure> {
        read(&self.filename, self.recursive, terminal)
    }

    /// The same, with their texts.
    pub(crate) fn read_texts(&self, terminal: &mut Terminal) -> Result<Vec<Text>, Failure> {
        read_texts(&self.filename, self.recursive, terminal)
    }
}

/// Reads these files and folders, in this order, and those of a folder by their names.
pub(crate) fn read(paths: &[PathBuf], recursive: bool, terminal: &mut Terminal) -> Result<Vec<Document>, Failure> {
    Ok(read_texts(paths, recursive, terminal)?.into_iter().map(|text| text.document).collect())
}

/// The same, with their texts.
pub(crate) fn read_texts(paths: &[PathBuf], recursive: bool, terminal: &mut Terminal) -> Result<Vec<Text>, Failure> {
    let mut documents = Vec::new();
    texts(paths, recursive, terminal, |name, _, bytes| parse(name, bytes, &mut documents))?;
    Ok(documents)
}

/// Hands the content of each of these files, and of those in these folders, to `each`: with what it is called, and its
/// path unless it is standard input.
pub(crate) fn texts(
    paths: &[PathBuf],
    recursive: bool,
    terminal: &mut Terminal,
    mut each: impl FnMut(&str, Option<&Path>, &[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut known = HashSet::new();
    for path in paths {
        if path.as_os_str() == "-" {
            let bytes = bounded(terminal.stdin(), "standard input")?;
            each("standard input", None, &bytes)?;
            continue;
        }
        let mut files = Vec::new();
        collect(path, recursive, 0, &mut known, &mut files)?;
        for file in files {
            let name = file.display().to_string();
            let opened = std::fs::File::open(&file).map_err(|why| unreadable(&name, &why))?;
            each(&name, Some(&file), &bounded(opened, &name)?)?;
        }
    }
    Ok(())
}

/// The files that a path stands for: itself, or what is in it and looks like YAML or JSON. `known`: the files and folders
/// that are read already, by whatever name, as a symbolic link may lead back to them.
fn collect(
    path: &Path,
    recursive: bool,
    depth: usize,
    known: &mut HashSet<PathBuf>,
    files: &mut Vec<PathBuf>,
) -> Result<(), Failure> {
    let failed = |why| unreadable(&path.display().to_string(), &why);
    let metadata = std::fs::metadata(path).map_err(failed)?;
    // What is no file and no folder, such as a pipe, can be read once, and has no other name.
    let is_kept = metadata.is_dir() || metadata.is_file();
    if is_kept && !known.insert(std::fs::canonicalize(path).map_err(failed)?) {
        return Ok(());
    }
    if !metadata.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        entries.push(entry.map_err(failed)?.path());
        if entries.len() > MOST_FILES {
            return Err(Failure::new(format!("`{}` holds more than {MOST_FILES} files", path.display()))
                .hint("name those that are meant"));
        }
    }
    entries.sort();
    for entry in entries {
        let is_manifest =
            entry.extension().is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known));
        let is_wanted = if entry.is_dir() { recursive && depth < MOST_DEPTH } else { is_manifest };
        if is_wanted {
            collect(&entry, recursive, depth.saturating_add(1), known, files)?;
        }
        if files.len() > MOST_FILES {
            return Err(Failure::new(format!("more than {MOST_FILES} files are named"))
                .hint("name fewer files, or run it several times"));
        }
    }
    Ok(())
}

fn bounded(reader: impl Read, name: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    reader.take(MOST_BYTES.saturating_add(1)).read_to_end(&mut bytes).map_err(|why| unreadable(name, &why))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(Failure::new(format!("`{name}` is larger than {} MiB", MOST_BYTES >> 20))
            .hint("split it into several files"));
    }
    Ok(bytes)
}

fn unreadable(name: &str, why: &std::io::Error) -> Failure {
    Failure::new(format!("could not read `{name}`: {why}")).hint("name a file, a folder, or - for standard input")
}

/// Takes a file's text apart. Documents are split by their markers, which can stand nowhere else at the begin of a line,
/// so that each is known by its line.
fn parse(file: &str, bytes: &[u8], documents: &mut Vec<Text>) -> Result<(), Failure> {
    let text = std::str::from_utf8(bytes).map_err(|why| {
        Failure::new(format!("`{file}` is not text in UTF-8: byte {} is not", why.valid_up_to()))
            .hint("name files of YAML or JSON")
    })?;
    let file: Arc<str> = file.into();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut part = Part::default();
    for (line, content) in text.split_inclusive('\n').enumerate() {
        let number = line.saturating_add(1);
        let marker = content.strip_prefix("---").filter(|rest| rest.chars().next().is_none_or(char::is_whitespace));
        if let Some(rest) = marker {
            part.close(&file, documents)?;
            part.add(number, rest);
        } else if content.trim_end() == "..." {
            part.close(&file, documents)?;
        } else if !(content.starts_with('%') && part.is_blank()) {
            part.add(number, content);
        }
    }
    part.close(&file, documents)
}

/// The lines of one document so far.
#[derive(Default)]
struct Part {
    text: String,
    /// The line at which `text` begins.
    begin: usize,
    /// The line of its first field.
    first: usize,
}

impl Part {
    fn is_blank(&self) -> bool {
        self.first == 0
    }

    fn add(&mut self, number: usize, line: &str) {
        let content = line.trim();
        if self.first == 0 && !content.is_empty() && !content.starts_with('#') {
            self.first = number;
        }
        if self.text.is_empty() {
            self.begin = number;
        }
        self.text.push_str(line);
    }

    fn close(&mut self, file: &Arc<str>, documents: &mut Vec<Text>) -> Result<(), Failure> {
        let Self { text, begin, first } = std::mem::take(self);
        if first == 0 {
            return Ok(());
        }
        let origin = Origin { file: Arc::clone(file), line: first };
        // What an API server lists is JSON, and may be more than is taken as YAML.
        let json = if text.trim_start().starts_with('{') { serde_json::from_str(&text).ok() } else { None };
        let value = match json {
            Some(value) => value,
            None => yaml(&text, file, begin, first)?,
        };
        push(value, &origin, (&text.into(), begin, ""), documents)
    }
}

/// The text of an error is about this document; its lines are counted from the document's begin.
fn yaml(text: &str, file: &Arc<str>, begin: usize, first: usize) -> Result<Value, Failure> {
    yaml::read(text).map_err(|why| {
        let line = why.line.map_or(first, |line| begin.saturating_add(line).saturating_sub(1));
        let hint = match text.contains("{{") {
            true => "it looks like a template of Helm: `helm template … | kubectl depguard … -f -`",
            false => "correct the file",
        };
        Failure::new(format!("{file}:{line}: this is neither YAML nor JSON: {why}")).hint(hint)
    })
}

/// Whether it says which kind of object it is.
fn is_manifest(value: &Value) -> bool {
    ["apiVersion", "kind"].iter().all(|field| value.get(field).is_some_and(Value::is_string))
}

fn push(
    value: Value,
    origin: &Origin,
    place: (&Arc<str>, usize, &str),
    documents: &mut Vec<Text>,
) -> Result<(), Failure> {
    let (text, begin, within) = place;
    let is_list = value.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
    match value {
        Value::Null => return Ok(()),
        Value::Object(mut list) if is_list && list.get("items").is_some_and(Value::is_array) => {
            if let Some(Value::Array(items)) = list.remove("items") {
                for (index, item) in items.into_iter().enumerate() {
                    push(item, origin, (text, begin, &format!("{within}items[{index}].")), documents)?;
                }
            }
            return Ok(());
        }
        object @ Value::Object(_) => {
            let document = Document { value: Arc::new(object), origin: origin.clone() };
            documents.push(Text { document, text: Arc::clone(text), begin, within: within.to_owned() });
        }
        _ => {
            return Err(Failure::new(format!("{origin}: this is no object"))
                .hint("a manifest has apiVersion, kind and metadata"));
        }
    }
    if documents.len() > MOST_DOCUMENTS {
        return Err(Failure::new(format!("the files hold more than {MOST_DOCUMENTS} objects"))
            .hint("name fewer files, or run it several times"));
    }
    Ok(())
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> Result<Vec<(usize, String)>, String> {
        let mut documents = Vec::new();
        parse("f", text.as_bytes(), &mut documents).map_err(|failure| failure.message().to_owned())?;
        let documents = documents.into_iter().map(|text| text.document);
        Ok(documents.map(|document| (document.origin.line, document.value.to_string())).collect())
    }

    #[test]
    fn each_document_knows_its_line() {
        let text = "# a comment\n\na: 1\nb: |\n  x\n  --- y\n---\n---\n# nothing\n--- # c\n\nc: 2\n...\nkind: List\nitems:\n- {d: 3}\n- {e: 4}\n";
        let expected = [(3, r#"{"a":1,"b":"x\n--- y\n"}"#), (12, r#"{"c":2}"#), (14, r#"{"d":3}"#), (14, r#"{"e":4}"#)];
        assert_eq!(parsed(text).unwrap(), expected.map(|(line, json)| (line, json.to_owned())));
    }

    #[test]
    fn a_long_list_of_an_api_server_is_read() {
        let list = serde_json::json!({"kind": "List", "items": vec![serde_json::json!({"a": vec![0; 100]}); 4_000]});
        assert_eq!(parsed(&list.to_string()).unwrap().len(), 4_000);
    }

    #[test]
    fn what_is_wrong_is_told_by_its_line() {
        let message = parsed("a: 1\n---\nb: 1\nc: [\n").unwrap_err();
        assert!(message.starts_with("f:") && message.contains("neither YAML nor JSON"), "{message}");
        assert_eq!(parsed("- 1\n").unwrap_err(), "f:1: this is no object");
    }

    #[test]
    fn a_folder_is_read_once_whatever_leads_to_it_and_a_file_in_it_that_is_none_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for (name, text) in [
            ("a.yaml", "{apiVersion: v1, kind: Secret, metadata: {name: a}}"),
            ("chart.yaml", "apiVersion: v1\n{{- if .Values.a }}\nkind: Secret\n{{- end }}\n"),
            ("list.json", "[]"),
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
        assert_eq!(found.documents.len(), 1, "{found:?}");
        let unread: Vec<_> = found.unread.iter().map(ToString::to_string).collect();
        assert!(unread.len() == 2 && unread[0].contains("chart.yaml") && unread[1].contains("list.json"), "{unread:?}");
        assert!(found.others.len() == 1 && found.others[0].ends_with("values.yaml"), "{found:?}");
        let failure = read(&[path("chart.yaml")]).unwrap_err();
        assert!(failure.what_to_do().is_some_and(|hint| hint.contains("helm template")), "{failure:?}");
    }

    #[test]
    fn a_mistake_has_one_line_and_it_is_the_files() {
        let message = parsed("# c\n---\na: 1\na: 2\n").unwrap_err();
        assert_eq!(message, "f:4: this is neither YAML nor JSON: `a` stands there twice");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[-a:{}\\[\\]&*!|>%@ \\n\"'0-9#.]{0,60}") {
            let _ = parsed(&text);
        }
    }
}
