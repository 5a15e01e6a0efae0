//! Suites as their authors write them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use depguard_core::model::{Namespace, Version};
use depguard_core::{Group, OverridePolicy};
use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::Spanned;

use crate::cluster::documents::{Document, Origin, has_type, is_incomplete_manifest};
use crate::cluster::files::{self, Needed};
use crate::cluster::kinds::guess_resource;
use crate::cluster::rule_manifests::is_rule;
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

/// Test of one request: a deletion, a creation or an update.
#[derive(Debug, Deserialize)]
#[serde(
    rename_all = "camelCase",
    deny_unknown_fields,
    expecting = "a test: a map with `delete`, `create` or `update`, and `expect`"
)]
pub(crate) struct Test {
    pub(crate) name: Option<String>,
    /// Object to delete: `KIND/NAME`.
    delete: Option<String>,
    /// Object to create: a manifest, or `KIND/NAME` of one of the suite's objects.
    create: Option<Value>,
    /// Object to update: `KIND/NAME`.
    update: Option<String>,
    /// JSON merge patch of the update.
    patch: Option<Value>,
    pub(crate) namespace: Option<String>,
    pub(crate) by: Option<Requester>,
    /// Objects that don't exist in this test.
    #[serde(default)]
    pub(crate) without: Vec<String>,
    pub(crate) expect: Expect,
    pub(crate) blockers: Option<Vec<String>>,
    pub(crate) missing: Option<Vec<String>>,
    pub(crate) warned: Option<Vec<String>>,
    pub(crate) audited: Option<Vec<String>>,
    pub(crate) message: Option<String>,
    pub(crate) warnings: Option<Vec<String>>,
}

/// Request of a test.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Request<'a> {
    /// Deletion of the object of this name: `KIND/NAME`.
    Delete(&'a str),
    /// Creation of one of the suite's objects, which doesn't exist before: `KIND/NAME`.
    CreateNamed(&'a str),
    /// Creation of the object of this manifest.
    Create(&'a Value),
    /// Update of the object of this name by a JSON merge patch.
    Update(&'a str, &'a Value),
}

/// User who sends the request, and the user's groups.
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
    /// Refused because of dependents, or of missing targets.
    Denied,
    /// Refused because the decision can't be found out.
    Undecided,
    NoRule,
    Unreferenced,
    NoNewReference,
    TargetsExist,
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
            if !files::is_named(path, paths) && !holds_suites(&String::from_utf8_lossy(bytes)) {
                return Ok(());
            }
            let text = std::str::from_utf8(bytes)
                .map_err(|_| Failure::new(format!("`{name}` is not UTF-8 text")).hint("name files of YAML or JSON"))?;
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
                Value::String(path) => documents.extend(manifests(&folder.join(path), terminal)?),
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
        let tests: Vec<_> = tests.into_iter().map(|test| (line_of(test.referenced.line()), test.value)).collect();
        for (line, test) in &tests {
            let origin = Origin { file: Arc::clone(&file), line: *line };
            let request = test.request().map_err(|(why, hint)| Failure::new(format!("{origin}: {why}")).hint(hint))?;
            if let Request::Create(manifest) = request {
                check(&Document { value: Arc::new(manifest.clone()), origin })?;
            }
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
            tests,
        })
    }
}

impl Test {
    /// Returns the request of the test, or the mistake in it and its correction.
    pub(crate) fn request(&self) -> Result<Request<'_>, (&'static str, &'static str)> {
        let Self { delete, create, update, patch, .. } = self;
        let request = match (delete, create, update, patch) {
            (Some(named), None, None, None) => Request::Delete(named),
            (None, Some(Value::String(named)), None, None) => Request::CreateNamed(named),
            (None, Some(manifest @ Value::Object(_)), None, None) if is_rule(manifest) => {
                return Err(("`create` is a rule", "write it under `rules`"));
            }
            (None, Some(manifest @ Value::Object(_)), None, None) => Request::Create(manifest),
            (None, Some(_), None, None) => {
                return Err(("`create` is neither an object nor a name", "write a manifest, or KIND/NAME"));
            }
            (None, None, Some(named), Some(patch @ Value::Object(_))) => Request::Update(named, patch),
            (None, None, Some(_), _) => {
                return Err(("the update changes nothing", "write the fields that it changes as a map under `patch`"));
            }
            _ => {
                let why = "a test has exactly one of `delete`, `create`, and `update` with `patch`";
                return Err((why, "split the test, or add what it does"));
            }
        };
        match request {
            Request::Delete(_) if self.missing.is_some() => {
                Err(("a deletion has no `missing` targets", "write the dependents under `blockers`"))
            }
            Request::Create(_) | Request::CreateNamed(_) | Request::Update(..) if self.blockers.is_some() => {
                Err(("only a deletion has `blockers`", "write the targets that are not there under `missing`"))
            }
            _ => Ok(request),
        }
    }

    /// Returns the name of the test, or a description of its request.
    pub(crate) fn title(&self) -> String {
        let described = || match self.request() {
            Ok(Request::Delete(named)) => format!("delete {named}"),
            Ok(Request::CreateNamed(named)) => format!("create {named}"),
            Ok(Request::Create(manifest)) => {
                format!("create {}/{}", field(manifest, "/kind"), field(manifest, "/metadata/name"))
            }
            Ok(Request::Update(named, _)) => format!("update {named}"),
            Err((why, _)) => why.to_owned(),
        };
        self.name.clone().unwrap_or_else(described)
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
            Self::NoNewReference => "no-new-reference",
            Self::TargetsExist => "targets-exist",
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

/// Reads the manifests of a file or folder that a suite names. What is no object in a folder, such as a Kustomization, is
/// skipped with a note.
fn manifests(path: &Path, terminal: &mut Terminal) -> Result<Vec<Document>, Failure> {
    let is_folder = path.is_dir();
    let is_needed: fn(&Value) -> bool = match is_folder {
        true => |value| has_type(value) || is_incomplete_manifest(value),
        false => |_| true,
    };
    let needed = Needed { is_needed, words: &["apiVersion"] };
    let (texts, unread) = files::needed(&[path.to_owned()], false, needed, terminal)?;
    if let Some(unread) = unread.first() {
        return Err(Failure::new(format!("could not read {unread}")).hint("correct the file, or move it"));
    }
    let documents = texts.into_iter().map(|text| text.document);
    let (objects, foreign): (Vec<_>, Vec<_>) =
        documents.partition(|document| !is_folder || document.value.get("metadata").is_some());
    for document in foreign {
        terminal.note(&format!("skipped {}: it has no name", document.shown()))?;
    }
    Ok(objects)
}

/// Returns true if a file looks like suites: it has `tests`, or it is no API object and has other fields of a suite.
fn holds_suites(text: &str) -> bool {
    let is_suite = |document: &Value| {
        let has = |field: &str| document.get(field).is_some();
        has("tests") || (!has("apiVersion") && !has("kind") && (has("rules") || has("objects") || has("overrides")))
    };
    // A file that can't be read counts as a suite if it may be one, so that its error is reported.
    yaml::read_all::<Value>(text).map_or(text.contains("tests"), |documents| documents.iter().any(is_suite))
}

/// Checks an object. One that can't be placed would be missing among the dependents, and a deletion would wrongly pass.
fn check(document: &Document) -> Result<(), Failure> {
    for pointer in ["/apiVersion", "/kind", "/metadata/name"] {
        if field(&document.value, pointer).is_empty() {
            let field = pointer.trim_start_matches('/').replace('/', ".");
            return Err(Failure::new(format!("{}: the object has no {field}", document.origin)).hint("add it"));
        }
    }
    let (api_version, kind) = (field(&document.value, "/apiVersion"), field(&document.value, "/kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if Group::parse(group).is_err() || Version::parse(version).is_err() || guess_resource(kind).is_none() {
        return Err(Failure::new(format!("{}: `{kind}` of `{api_version}` is not a valid kind", document.origin))
            .hint("correct its apiVersion or kind"));
    }
    Ok(())
}

/// Returns a text of an object; empty if there is none.
fn field<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
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
