//! A suite as its author writes it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use depguard_core::{Group, Namespace, OverridePolicy, Version};
use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::Spanned;

use crate::files::{self, Document, Origin};
use crate::kinds::guess_resource;
use crate::outcome::Failure;
use crate::terminal::Terminal;
use crate::yaml::Mistake;

/// Rules, objects, and what must be decided of them.
#[derive(Debug)]
pub(crate) struct Suite {
    pub(crate) name: String,
    pub(crate) file: Arc<str>,
    pub(crate) namespace: Namespace,
    /// Rules, objects and definitions of kinds.
    pub(crate) documents: Vec<Document>,
    pub(crate) overrides: OverridePolicy,
    pub(crate) tests: Vec<(usize, Test)>,
}

/// One deletion. `line` is where it stands.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "a test: a map with `delete` and `expect`")]
pub(crate) struct Test {
    pub(crate) name: Option<String>,
    /// `KIND/NAME`
    pub(crate) delete: String,
    pub(crate) namespace: Option<String>,
    pub(crate) by: Option<By>,
    /// Objects that are not there in this test.
    #[serde(default)]
    pub(crate) without: Vec<String>,
    pub(crate) expect: Expect,
    pub(crate) blockers: Option<Vec<String>>,
    pub(crate) warned: Option<Vec<String>>,
    pub(crate) audited: Option<Vec<String>>,
    pub(crate) message: Option<String>,
    pub(crate) warnings: Option<Vec<String>>,
}

/// Who deletes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "who deletes: a map with `user` and `groups`")]
pub(crate) struct By {
    pub(crate) user: Option<String>,
    #[serde(default)]
    pub(crate) groups: Vec<String>,
}

/// What must be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", expecting = "a decision, such as `denied` or `allowed`")]
pub(crate) enum Expect {
    /// Whatever allows it.
    Allowed,
    /// For those who refer to it.
    Denied,
    /// Refused, since it can't be found out.
    Undecided,
    NoRule,
    Unreferenced,
    TornDown,
    Terminating,
    Overridden,
    Warned,
    Audited,
    Tolerated,
}

#[derive(Deserialize)]
#[serde(
    rename_all = "camelCase",
    deny_unknown_fields,
    expecting = "a suite: a map with `rules`, `objects` and `tests`"
)]
struct Written {
    name: Option<String>,
    namespace: Option<String>,
    #[serde(default)]
    rules: Vec<Spanned<Value>>,
    #[serde(default)]
    objects: Vec<Spanned<Value>>,
    overrides: Option<Overrides>,
    tests: Vec<Spanned<Test>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "who may override: a map with `users` and `groups`")]
struct Overrides {
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    groups: Vec<String>,
}

const DEFAULT_NAMESPACE: &str = "default";

impl Suite {
    /// Reads the suites in these files and folders. What else is in a folder, rules for instance, is passed over.
    pub(crate) fn read(paths: &[PathBuf], recursive: bool, terminal: &mut Terminal) -> Result<Vec<Self>, Failure> {
        let mut written = Vec::new();
        files::texts(paths, recursive, terminal, |name, path, bytes| {
            let text = std::str::from_utf8(bytes).map_err(|_| {
                Failure::new(format!("`{name}` is not text in UTF-8")).hint("name files of YAML or JSON")
            })?;
            let in_folder = path.is_some_and(|path| !paths.iter().any(|named| named == path));
            if in_folder && !holds_suites(text) {
                return Ok(());
            }
            let folder = path.and_then(Path::parent).map(Path::to_owned).unwrap_or_default();
            let suites: Vec<Written> = serde_saphyr::from_multiple(text).map_err(|why| unreadable(name, &why))?;
            written.extend(suites.into_iter().map(|suite| (name.to_owned(), folder.clone(), suite)));
            Ok(())
        })?;
        if written.is_empty() {
            return Err(Failure::new("there is no suite in what was named")
                .hint("a suite is a map with `rules`, `objects` and `tests`; see docs/test-suites.md"));
        }
        written.into_iter().map(|(file, folder, written)| Self::complete(file, &folder, written, terminal)).collect()
    }

    fn complete(file: String, folder: &Path, written: Written, terminal: &mut Terminal) -> Result<Self, Failure> {
        let Written { name, namespace, rules, objects, overrides, tests } = written;
        let file: Arc<str> = file.into();
        if tests.is_empty() {
            return Err(
                Failure::new(format!("{file}: the suite holds no tests")).hint("write at least one under `tests`")
            );
        }
        let mut documents = Vec::new();
        for Spanned { value, referenced, .. } in rules.into_iter().chain(objects) {
            let origin = Origin { file: Arc::clone(&file), line: line_of(referenced.line()) };
            match value {
                Value::String(path) => documents.extend(files::read(&[folder.join(path)], false, terminal)?),
                value @ Value::Object(_) => documents.push(Document { value: Arc::new(value), origin }),
                _ => {
                    return Err(Failure::new(format!("{origin}: this is neither an object nor a file"))
                        .hint("write a manifest, or the path of a file or folder, as seen from the suite"));
                }
            }
        }
        for document in &documents {
            check(document)?;
        }
        let overrides = match overrides {
            None => OverridePolicy::default(),
            Some(Overrides { users, groups }) => {
                OverridePolicy { users: users.into_iter().collect(), groups: groups.into_iter().collect() }
            }
        };
        Ok(Self {
            name: name.unwrap_or_else(|| stem(&file)),
            namespace: namespace_of(namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE), &file)?,
            file,
            documents,
            overrides,
            tests: tests.into_iter().map(|test| (line_of(test.referenced.line()), test.value)).collect(),
        })
    }
}

impl Test {
    /// Its name, or what it does.
    pub(crate) fn title(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("delete {}", self.delete))
    }
}

impl Expect {
    /// As it is written.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Undecided => "undecided",
            Self::NoRule => "no-rule",
            Self::Unreferenced => "unreferenced",
            Self::TornDown => "torn-down",
            Self::Terminating => "terminating",
            Self::Overridden => "overridden",
            Self::Warned => "warned",
            Self::Audited => "audited",
            Self::Tolerated => "tolerated",
        }
    }
}

pub(crate) fn namespace_of(name: &str, at: &str) -> Result<Namespace, Failure> {
    Namespace::parse(name).map_err(|why| Failure::new(format!("{at}: the namespace {why}")).hint("correct the suite"))
}

/// Whether a file looks like suites: its documents are no objects of an API.
fn holds_suites(text: &str) -> bool {
    let documents = serde_saphyr::from_multiple::<Value>(text);
    // One that can't be read is looked at as a suite, so that its mistake is told.
    documents.map_or(true, |documents| documents.iter().any(|document| document.get("tests").is_some()))
}

/// An object that nobody could place would be missing among the dependents, and a deletion pass for it.
fn check(document: &Document) -> Result<(), Failure> {
    let given = |pointer| {
        let text = document.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        (!text.is_empty()).then_some(text)
    };
    for pointer in ["/apiVersion", "/kind", "/metadata/name"] {
        if given(pointer).is_none() {
            let field = pointer.trim_start_matches('/').replace('/', ".");
            return Err(Failure::new(format!("{}: this object has no {field}", document.origin)).hint("write it there"));
        }
    }
    let (api_version, kind) = (given("/apiVersion").unwrap_or_default(), given("/kind").unwrap_or_default());
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if Group::parse(group).is_err() || Version::parse(version).is_err() || guess_resource(kind).is_none() {
        return Err(Failure::new(format!("{}: there can't be a kind `{kind}` in `{api_version}`", document.origin))
            .hint("correct its apiVersion or kind"));
    }
    Ok(())
}

fn unreadable(file: &str, why: &serde_saphyr::Error) -> Failure {
    let mistake = Mistake::new(why);
    let line = mistake.line.map(|line| format!(":{line}")).unwrap_or_default();
    Failure::new(format!("{file}{line}: this is no suite: {mistake}")).hint("docs/test-suites.md has all its fields")
}

fn line_of(line: u64) -> usize {
    usize::try_from(line).unwrap_or(usize::MAX)
}

fn stem(file: &str) -> String {
    Path::new(file).file_stem().map_or_else(|| file.to_owned(), |stem| stem.to_string_lossy().into_owned())
}
