//! Read of one kind that a spec names.

use serde_json::Value;

use super::MAX_KINDS;
use crate::model::names::{ExportName, GroupResource, GroupVersionResource, LogicalCluster, Version};
use crate::model::percent_encoding::percent_encode;
use crate::protocol::request::{Accept, Query, QueryId};
use crate::protocol::response::Answer;
use crate::schema::{KindFacts, KindState};

/// Maximum number of versions of a group in which a kind is looked for.
const MAX_VERSIONS: usize = 8;

/// Kind that is being read.
#[derive(Debug)]
pub(super) struct KindRead {
    kind: GroupResource,
    /// Version in which the spec names the kind; `None`: in any.
    version: Option<Version>,
    /// Workspace in which the kind is read; `None` on plain Kubernetes.
    workspace: Option<LogicalCluster>,
    /// APIExport of the workspace that is to serve the kind; `None`: the kind is the workspace's own.
    export: Option<ExportName>,
    /// APIExport of the workspace that serves the kind, although it is to be the workspace's own.
    left_out: Option<String>,
    /// True if its fields matter.
    with_schema: bool,
    /// Versions of its group in which it is still to be looked for; the next one is the last.
    versions: Vec<Version>,
    step: Step,
    is_asked: bool,
}

#[derive(Debug)]
enum Step {
    Exports,
    Schema(String),
    Definition,
    Versions,
    Discovery(GroupVersionResource),
    Published(GroupVersionResource, KindFacts),
    Done(KindState),
}

/// Returns the reads of kinds, each once.
pub(super) fn reads(named: impl IntoIterator<Item = (GroupResource, Option<Version>)>) -> Vec<KindRead> {
    let mut reads: Vec<KindRead> = Vec::new();
    for (kind, version) in named {
        let is_read = reads.iter().any(|read| read.kind == kind && read.version == version);
        if reads.len() < MAX_KINDS && !is_read {
            reads.push(KindRead::new(kind, version));
        }
    }
    reads
}

/// Returns the read of a kind, which is named in this version; `None` if it is not read.
pub(super) fn read_of<'r>(
    reads: &'r [KindRead],
    kind: &GroupResource,
    version: Option<&Version>,
) -> Option<&'r KindRead> {
    reads.iter().find(|read| read.kind == *kind && read.version.as_ref() == version)
}

impl KindRead {
    fn new(kind: GroupResource, version: Option<Version>) -> Self {
        let mut read = Self {
            kind,
            version,
            workspace: None,
            export: None,
            left_out: None,
            with_schema: false,
            versions: Vec::new(),
            step: Step::Definition,
            is_asked: false,
        };
        read.step = read.of_api_server();
        read
    }

    /// Has the kind read in a workspace of kcp, as this APIExport serves it; `None`: as the workspace's own.
    pub(super) fn within(self, workspace: LogicalCluster, export: Option<ExportName>) -> Self {
        Self { workspace: Some(workspace), export, step: Step::Exports, ..self }
    }

    /// Has the kind's fields read, too.
    pub(super) fn with_schema(mut self) -> Self {
        self.with_schema = true;
        self
    }

    /// Returns what was read; `None` while that goes on.
    pub(super) fn state(&self) -> Option<&KindState> {
        if let Step::Done(state) = &self.step { Some(state) } else { None }
    }

    /// Returns the name of an APIExport that serves the kind, if the spec names none.
    pub(super) fn left_out(&self) -> Option<&str> {
        self.left_out.as_deref()
    }

    pub(super) fn query(&mut self, id: QueryId) -> Option<Query> {
        let path = match &self.step {
            _ if self.is_asked => return None,
            Step::Exports => "/apis/apis.kcp.io/v1alpha2/apiexports".to_owned(),
            Step::Schema(name) => format!("/apis/apis.kcp.io/v1alpha1/apiresourceschemas/{}", percent_encode(name)),
            Step::Definition => format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}", self.kind),
            Step::Versions => format!("/apis/{}", self.kind.group),
            Step::Discovery(gvr) => gvr.root(),
            Step::Published(gvr, _) => format!("/openapi/v3{}", gvr.root()),
            Step::Done(_) => return None,
        };
        self.is_asked = true;
        Some(Query { id, cluster: self.workspace.clone(), export: None, path, accept: Accept::Json })
    }

    /// Takes the answer to the query of the present step.
    pub(super) fn answer(&mut self, answer: Answer<'_>) {
        let found = match answer {
            Answer::Response { status: 200, body } => serde_json::from_slice::<Value>(body).ok(),
            _ => None,
        };
        let is_missing = matches!(answer, Answer::Response { status: 404, .. });
        let unknown = || Step::Done(KindState::Unknown(String::new()));
        let step = std::mem::replace(&mut self.step, unknown());
        self.is_asked = false;
        self.step = match (step, found) {
            (Step::Exports, found) => self.beyond_exports(found.as_ref()).unwrap_or_else(unknown),
            (Step::Schema(_) | Step::Definition, Some(object)) => {
                let seen = KindState::from_definition(&object, self.version.as_ref().map_or("", Version::as_str));
                Step::Done(if self.with_schema { seen } else { seen.without_schema() })
            }
            (Step::Definition, None) if is_missing => self.beyond_definition(),
            (Step::Versions, Some(group)) => {
                self.versions = versions(&group);
                self.next_version().unwrap_or_else(unknown)
            }
            // The kinds of Kubernetes itself are always there, and others may be installed later.
            (Step::Discovery(_), None) if is_missing && self.kind.group.is_core() => Step::Done(KindState::NotServed),
            (Step::Versions | Step::Discovery(_), None) if is_missing => Step::Done(KindState::NotInstalled),
            (Step::Discovery(gvr), Some(list)) => match KindFacts::from_discovery(&list, &gvr) {
                Some(facts) if self.with_schema => Step::Published(gvr, facts),
                Some(facts) => Step::Done(KindState::from(facts)),
                None => self.next_version().unwrap_or(Step::Done(KindState::NotServed)),
            },
            (Step::Published(gvr, facts), Some(document)) => {
                Step::Done(KindState::from(facts.with_published(&document, &gvr)))
            }
            (Step::Published(_, facts), None) => Step::Done(KindState::from(facts)),
            (Step::Schema(_) | Step::Definition | Step::Versions | Step::Discovery(_), None) => unknown(),
            (done @ Step::Done(_), _) => done,
        };
    }

    /// Returns the step for a kind by the APIExports of its workspace, as far as they are known; `None` if it can't be
    /// read.
    fn beyond_exports(&mut self, list: Option<&Value>) -> Option<Step> {
        let serving = list.and_then(|list| serving(list, &self.kind, self.export.as_ref()));
        match (&self.export, serving) {
            (Some(_), Some((_, schema))) => Some(Step::Schema(schema)),
            (Some(_), None) => list.map(|_| Step::Done(KindState::NotServed)),
            (None, serving) => {
                self.left_out = serving.map(|(export, _)| export);
                Some(self.of_api_server())
            }
        }
    }

    /// Returns the step for a kind of the API server itself. A definition is read first: what an API server publishes lags
    /// behind it.
    fn of_api_server(&self) -> Step {
        if self.kind.group.is_core() { self.beyond_definition() } else { Step::Definition }
    }

    /// Returns the step for a kind that has no definition.
    fn beyond_definition(&self) -> Step {
        let version = match &self.version {
            None if self.kind.group.is_core() => Version::parse("v1").ok(),
            version => version.clone(),
        };
        version.map_or(Step::Versions, |version| self.discovery(version))
    }

    fn next_version(&mut self) -> Option<Step> {
        let version = self.versions.pop()?;
        Some(self.discovery(version))
    }

    fn discovery(&self, version: Version) -> Step {
        let GroupResource { group, resource } = self.kind.clone();
        Step::Discovery(GroupVersionResource { group, version, resource })
    }
}

/// Returns the name of an APIExport that serves a kind, with the name of its APIResourceSchema. `export` is the only one
/// that counts, if it is given.
fn serving(list: &Value, kind: &GroupResource, export: Option<&ExportName>) -> Option<(String, String)> {
    let text = |value: &Value, pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    list.get("items")?.as_array()?.iter().find_map(|found| {
        let name = text(found, "/metadata/name").filter(|name| export.is_none_or(|export| export.as_str() == name))?;
        let resources = found.pointer("/spec/resources")?.as_array()?;
        let resource = resources.iter().find(|resource| {
            text(resource, "/group").unwrap_or_default() == kind.group.as_str()
                && text(resource, "/name").as_deref() == Some(kind.resource.as_str())
        });
        Some((name, text(resource?, "/schema")?))
    })
}

/// Returns the versions of an APIGroup, the first one last.
fn versions(group: &Value) -> Vec<Version> {
    let versions = group.get("versions").and_then(Value::as_array);
    let names = versions.into_iter().flatten().filter_map(|version| version.get("version")?.as_str());
    let mut versions: Vec<_> = names.filter_map(|name| Version::parse(name).ok()).take(MAX_VERSIONS).collect();
    versions.reverse();
    versions
}
