//! Source of a command's objects: manifests, or an API server.

use std::sync::Arc;

use depguard_core::model::{GroupResource, Namespace};
use serde_json::Value;

use crate::cluster::api_server::{ApiServer, Lookup};
use crate::cluster::every_cluster;
use crate::cluster::files::{FileArgs, Files};
use crate::cluster::kinds::{KindInfo, Kinds};
use crate::cluster::manifests::{ManifestObject, Manifests, Surroundings};
use crate::cluster::rules::{ReadFailure, Rules};
use crate::cluster::selection::Selection;
use crate::io::exit::Failure;
use crate::io::terminal::Terminal;
use crate::options::Global;

/// Manifests or an API server, whichever answers a command's questions.
#[derive(Debug)]
pub(crate) enum Source {
    Manifests(Box<Manifests>),
    ApiServer(Box<ApiServer>),
}

/// Namespace of objects in files that name none, unless `--namespace` says otherwise.
const DEFAULT_NAMESPACE: &str = "default";
/// Reason why flags about an API server have no effect.
pub(crate) const READS_FILES: &str = "the command reads files, and no API server";

impl Source {
    /// Opens the files if any are named, otherwise the API server of the kubeconfig.
    pub(crate) async fn open(global: &Global, files: &FileArgs, terminal: &mut Terminal) -> Result<Self, Failure> {
        if files.is_empty() {
            return Ok(Self::ApiServer(Box::new(ApiServer::open(global).await?)));
        }
        let fallback = match &global.namespace {
            Some(namespace) => namespace.clone(),
            None => Namespace::parse(DEFAULT_NAMESPACE).map_err(Failure::new)?,
        };
        global.refuse_server_flags(READS_FILES)?;
        let files = files.manifests(terminal)?;
        Self::from_files(files, &fallback, Surroundings::default(), terminal)
    }

    /// Sorts what files hold. Objects that name no namespace are in `fallback`.
    pub(super) fn from_files(
        files: Files,
        fallback: &Namespace,
        surroundings: Surroundings,
        terminal: &mut Terminal,
    ) -> Result<Self, Failure> {
        let manifests = Manifests::from_files(files, fallback, surroundings)?;
        manifests.remarks().iter().try_for_each(|remark| terminal.note(remark))?;
        Ok(Self::Manifests(Box::new(manifests)))
    }

    /// Returns true if the objects are those of an API server.
    pub(crate) fn is_live(&self) -> bool {
        matches!(self, Self::ApiServer(_))
    }

    /// Returns true for an object that is in no file, and that every cluster has. Beside an API server, which tells of
    /// others, that is what each namespace has, even a namespace that is still in the files.
    pub(crate) fn every_cluster_has(&self, kind: &GroupResource, namespace: Option<&str>, name: &str) -> bool {
        match self {
            Self::Manifests(manifests) if manifests.are_beside_a_server() => {
                every_cluster::each_namespace_has(kind, name)
            }
            Self::Manifests(_) => every_cluster::has(kind, namespace, name),
            Self::ApiServer(_) => false,
        }
    }

    /// Returns the rules, and the parts that could not be read.
    pub(crate) async fn rules(&self) -> Result<Rules, Failure> {
        match self {
            Self::Manifests(manifests) => Ok(manifests.rules()),
            Self::ApiServer(live) => live.rules().await,
        }
    }

    /// Returns all known kinds.
    pub(crate) async fn kinds(&self) -> Result<&Kinds, Failure> {
        match self {
            Self::Manifests(manifests) => Ok(manifests.kinds()),
            Self::ApiServer(live) => live.kinds().await,
        }
    }

    /// Finds the kind that a user names, for example `vpc`.
    pub(crate) async fn kind(&self, named: &str) -> Result<KindInfo, Failure> {
        Ok(self.kinds().await?.find(named)?.clone())
    }

    /// Returns the namespace that the user asked for, otherwise the context's; `None` for all namespaces.
    pub(crate) fn namespace(&self, global: &Global) -> Result<Option<Namespace>, Failure> {
        if global.all_namespaces {
            return Ok(None);
        }
        if let Some(namespace) = &global.namespace {
            return Ok(Some(namespace.clone()));
        }
        match self {
            Self::Manifests(_) => Namespace::parse(DEFAULT_NAMESPACE).map(Some).map_err(Failure::new),
            Self::ApiServer(live) => live.context_namespace().map(Some),
        }
    }

    /// Returns the namespace to search; `None` for all. In files, that is all unless the user asked for one.
    pub(crate) fn scope(&self, global: &Global) -> Result<Option<Namespace>, Failure> {
        match self {
            Self::Manifests(_) => Ok(global.namespace.clone()),
            Self::ApiServer(_) => self.namespace(global),
        }
    }

    /// Passes each object of a kind to `each`, from one namespace or from all. Objects without a namespace belong to
    /// every namespace. Missing rights are no failure: the part that could not be read is returned.
    pub(crate) async fn objects(
        &self,
        kind: &KindInfo,
        namespace: Option<&Namespace>,
        terminal: &Terminal,
        each: impl FnMut(Value),
    ) -> Result<Option<ReadFailure>, Failure> {
        self.selected(kind, namespace, &Selection::default(), terminal, each).await
    }

    /// Passes each selected object of a kind to `each`, as [`Self::objects`] does. An API server selects by itself.
    pub(crate) async fn selected(
        &self,
        kind: &KindInfo,
        namespace: Option<&Namespace>,
        selection: &Selection,
        terminal: &Terminal,
        mut each: impl FnMut(Value),
    ) -> Result<Option<ReadFailure>, Failure> {
        match self {
            Self::Manifests(manifests) => {
                let asked = namespace.map(Namespace::as_str);
                for object in manifests.objects_of(&kind.gvr.group_resource()) {
                    let own = object.namespace();
                    if own.is_none() || asked.is_none() || own == asked {
                        let value = object.to_value()?;
                        if selection.matches(&value) {
                            each(Arc::unwrap_or_clone(value));
                        }
                    }
                }
                Ok(None)
            }
            Self::ApiServer(live) => live.objects(kind, namespace, selection, terminal, each).await,
        }
    }

    /// Returns true if a namespace is known not to exist; in manifests, if no object is in it.
    pub(crate) async fn lacks(&self, namespace: &Namespace) -> Result<bool, Failure> {
        match self {
            Self::Manifests(manifests) => {
                Ok(!manifests.objects().iter().any(|object| object.namespace() == Some(namespace.as_str())))
            }
            Self::ApiServer(live) => live.lacks(namespace).await,
        }
    }

    /// Returns one object; `None` if it does not exist.
    pub(crate) async fn object(
        &self,
        kind: &KindInfo,
        namespace: Option<&Namespace>,
        name: &str,
    ) -> Result<Option<Arc<Value>>, Failure> {
        match self {
            Self::Manifests(manifests) => {
                let found = manifests.objects_of(&kind.gvr.group_resource()).find(|object| {
                    let own = object.namespace();
                    object.name() == name && (own.is_none() || own == namespace.map(Namespace::as_str))
                });
                found.map(ManifestObject::to_value).transpose()
            }
            Self::ApiServer(live) => live.object(kind, namespace, name).await,
        }
    }

    /// Looks an object up. Missing rights are no failure.
    pub(crate) async fn look_up(
        &self,
        kind: &KindInfo,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Lookup, Failure> {
        let within = match namespace.map(Namespace::parse) {
            None => None,
            Some(Ok(namespace)) => Some(namespace),
            // A name that no namespace can have holds nothing.
            Some(Err(_)) => return Ok(Lookup::Missing),
        };
        match self {
            Self::Manifests(_) => {
                let found = self.object(kind, within.as_ref(), name).await?;
                Ok(found.map_or(Lookup::Missing, Lookup::Found))
            }
            Self::ApiServer(live) => live.look_up(kind, within.as_ref(), name).await,
        }
    }

    /// Returns the kind of that group and resource, if it is known.
    pub(crate) async fn kind_of(&self, kind: &GroupResource) -> Result<Option<KindInfo>, Failure> {
        Ok(self.kinds().await?.of(kind).cloned())
    }
}
