//! Suites as their authors write them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use depguard_core::model::{Namespace, Version};
use depguard_core::{Group, OverridePolicy};
use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::Spanned;

use crate::cluster::documents::{Document, Origin};
use crate::cluster::files;
use crate::cluster::kinds::guess_resource;
use crate::cluster::yaml::{self, YamlError};
use crate::io::exit::Failure;
use crate::io::terminal::Terminal;

/// Rules, objects, and the expected decisions about them.
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

/// Test of one deletion.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "a test: a map with `delete` and `expect`")]
pub(crate) struct Test {
    pub(crate) name: Option<String>,
    /// Object to delete: `KIND/NAME`.
    pub(crate) delete: String,
    pub(crate) namespace: Option<String>,
    pub(crate) by: Option<Requester>,
    /// Objects that don't exist in this test.
    #[serde(default)]
    pub(crate) without: Vec<String>,
    pub(crate) expect: Expect,
    pub(crate) blockers: Option<Vec<String>>,
    pub(crate) warned: Option<Vec<String>>,
    pub(crate) audited: Option<Vec<String>>,
    pub(crate) message: Option<String>,
    pub(crate) warnings: Option<Vec<String>>,
}

/// User who deletes, and the user's groups.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a requester: a map with `user` and `groups`")]
pub(crate) struct Requester {
    pub(crate) user: Option<String>,
    #[serde(default)]
    pub(crate) groups: Vec<String>,
}

/// Expected decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", expecting = "a decision, such as `denied` or `allowed`")]
pub(crate) enum Expect {
    /// Allowed for any reason.
    Allowed,
    /// Refused because of dependents.
    Denied,
    /// Refused because the decision can't be found out.
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
struct SuiteFile {
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
#[serde(deny_unknown_fields, expecting = "an override policy: a map with `users` and `groups`")]
struct Overrides {
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    groups: Vec<String>,
}

const DEFAULT_NAMESPACE: &str = "default";

impl Suite {
    /// Reads the suites in these files and folders. Other files in a folder, for example rules, are skipped.
    pub(crate) fn read(paths: &[PathBuf], recursive: bool, terminal: &mut Terminal) -> Result<Vec<Self>, Failure> {
        let mut written = Vec::new();
        files::texts(paths, recursive, terminal, |name, path, bytes| {
            let text = std::str::from_utf8(bytes)
                .map_err(|_| Failure::new(format!("`{name}` is not UTF-8 text")).hint("name files of YAML or JSON"))?;
            let in_folder = path.is_some_and(|path| !paths.iter().any(|named| named == path));
            if in_folder && !holds_suites(text) {
                return Ok(());
            }
            let folder = path.and_then(Path::parent).map(Path::to_owned).unwrap_or_default();
            let suites: Vec<SuiteFile> = yaml::read_all(text).map_err(|why| unreadable(name, &why))?;
            written.extend(suites.into_iter().map(|suite| (name.to_owned(), folder.clone(), suite)));
            Ok(())
        })?;
        if written.is_empty() {
            return Err(Failure::new("the named files contain no suite")
                .hint("a suite is a map with `rules`, `objects` and `tests`; see docs/test-suites.md"));
        }
        written.into_iter().map(|(file, folder, written)| Self::complete(file, &folder, written, terminal)).collect()
    }

    fn complete(file: String, folder: &Path, written: SuiteFile, terminal: &mut Terminal) -> Result<Self, Failure> {
        let SuiteFile { name, namespace, rules, objects, overrides, tests } = written;
        let file: Arc<str> = file.into();
        if tests.is_empty() {
            return Err(
                Failure::new(format!("{file}: the suite has no tests")).hint("write at least one under `tests`")
            );
        }
        let mut documents = Vec::new();
        for Spanned { value, referenced, .. } in rules.into_iter().chain(objects) {
            let origin = Origin { file: Arc::clone(&file), line: line_of(referenced.line()) };
            match value {
                Value::String(path) => documents.extend(files::read(&[folder.join(path)], false, terminal)?),
                value @ Value::Object(_) => documents.push(Document { value: Arc::new(value), origin }),
                _ => {
                    return Err(Failure::new(format!("{origin}: neither an object nor a file"))
                        .hint("write a manifest, or the path of a file or folder, relative to the suite"));
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
    /// Returns the name of the test, or a description of its deletion.
    pub(crate) fn title(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("delete {}", self.delete))
    }
}

impl Expect {
    /// Returns the decision as a suite writes it.
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

/// Returns true if a file looks like suites: it has `tests`, or it is no API object and has other fields of a suite.
fn holds_suites(text: &str) -> bool {
    let is_suite = |document: &Value| {
        let has = |field: &str| document.get(field).is_some();
        has("tests") || (!has("apiVersion") && !has("kind") && (has("rules") || has("objects") || has("overrides")))
    };
    // A file that can't be read counts as a suite, so that its error is reported.
    yaml::read_all::<Value>(text).map_or(true, |documents| documents.iter().any(is_suite))
}

/// Checks an object. One that can't be placed would be missing among the dependents, and a deletion would wrongly pass.
fn check(document: &Document) -> Result<(), Failure> {
    let given = |pointer| {
        let text = document.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        (!text.is_empty()).then_some(text)
    };
    for pointer in ["/apiVersion", "/kind", "/metadata/name"] {
        if given(pointer).is_none() {
            let field = pointer.trim_start_matches('/').replace('/', ".");
            return Err(Failure::new(format!("{}: the object has no {field}", document.origin)).hint("add it"));
        }
    }
    let (api_version, kind) = (given("/apiVersion").unwrap_or_default(), given("/kind").unwrap_or_default());
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if Group::parse(group).is_err() || Version::parse(version).is_err() || guess_resource(kind).is_none() {
        return Err(Failure::new(format!("{}: `{kind}` of `{api_version}` is not a valid kind", document.origin))
            .hint("correct its apiVersion or kind"));
    }
    Ok(())
}

fn unreadable(file: &str, mistake: &YamlError) -> Failure {
    let line = mistake.line.map(|line| format!(":{line}")).unwrap_or_default();
    Failure::new(format!("{file}{line}: not a suite: {mistake}")).hint("docs/test-suites.md lists all fields")
}

fn line_of(line: u64) -> usize {
    usize::try_from(line).unwrap_or(usize::MAX)
}

fn stem(file: &str) -> String {
    Path::new(file).file_stem().map_or_else(|| file.to_owned(), |stem| stem.to_string_lossy().into_owned())
}
