//! Where a command looks: manifests, or an API server.

use std::sync::Arc;

use depguard_core::{GroupResource, Namespace};
use serde_json::Value;

use crate::cli::Global;
use crate::disk::Disk;
use crate::files::FileArgs;
use crate::kinds::{KindInfo, Kinds};
use crate::live::Live;
use crate::outcome::Failure;
use crate::rules::{Rules, Unread};
use crate::terminal::Terminal;

/// What answers a command's questions.
#[derive(Debug)]
pub(crate) enum Source {
    Disk(Disk),
    Live(Box<Live>),
}

/// The namespace that is looked in where a file's object names none.
const DEFAULT_NAMESPACE: &str = "default";

impl Source {
    /// The files, where any are named; else the API server of the kubeconfig.
    pub(crate) async fn open(global: &Global, files: &FileArgs, terminal: &mut Terminal) -> Result<Self, Failure> {
        if files.is_empty() {
            return Ok(Self::Live(Box::new(Live::open(global).await?)));
        }
        let fallback = match &global.namespace {
            Some(namespace) => namespace.clone(),
            None => Namespace::parse(DEFAULT_NAMESPACE).map_err(Failure::new)?,
        };
        for (flag, is_given) in [("--kubeconfig", global.kubeconfig.is_some()), ("--context", global.context.is_some())]
        {
            if is_given {
                terminal.note(&format!("{flag} is passed over: the files are looked at, and no API server"))?;
            }
        }
        let disk = Disk::of_files(files.manifests(terminal)?, &fallback);
        disk.remarks().iter().try_for_each(|remark| terminal.note(remark))?;
        Ok(Self::Disk(disk))
    }

    /// The rules, and what of them could not be looked at.
    pub(crate) async fn rules(&self) -> Result<Rules, Failure> {
        match self {
            Self::Disk(disk) => Ok(disk.rules()),
            Self::Live(live) => live.rules().await,
        }
    }

    /// All kinds that are known.
    pub(crate) async fn kinds(&self) -> Result<&Kinds, Failure> {
        match self {
            Self::Disk(disk) => Ok(disk.kinds()),
            Self::Live(live) => live.kinds().await,
        }
    }

    /// What somebody means by `vpc`.
    pub(crate) async fn kind(&self, named: &str) -> Result<KindInfo, Failure> {
        Ok(self.kinds().await?.find(named)?.clone())
    }

    /// The namespace to look in: the one that was asked for, else that of the context; `None`: in all.
    pub(crate) fn namespace(&self, global: &Global) -> Result<Option<Namespace>, Failure> {
        if global.all_namespaces {
            return Ok(None);
        }
        if let Some(namespace) = &global.namespace {
            return Ok(Some(namespace.clone()));
        }
        let default = match self {
            Self::Disk(_) => DEFAULT_NAMESPACE,
            Self::Live(live) => live.default_namespace(),
        };
        Namespace::parse(default).map(Some).map_err(|why| {
            Failure::new(format!("the namespace of the kubeconfig's context {why}")).hint("name one with --namespace")
        })
    }

    /// The namespace whose objects are looked at: of files, all of them unless one was asked for; `None`: all.
    pub(crate) fn scope(&self, global: &Global) -> Result<Option<Namespace>, Failure> {
        match self {
            Self::Disk(_) => Ok(global.namespace.clone()),
            Self::Live(_) => self.namespace(global),
        }
    }

    /// Hands each object of a kind to `each`, of one namespace or of all; objects without a namespace count in every one.
    /// What must not be read is no failure: it is handed back.
    pub(crate) async fn objects(
        &self,
        kind: &KindInfo,
        namespace: Option<&Namespace>,
        terminal: &Terminal,
        mut each: impl FnMut(Value),
    ) -> Result<Option<Unread>, Failure> {
        match self {
            Self::Disk(disk) => {
                let wanted = namespace.map(Namespace::as_str);
                let of_kind =
                    disk.objects().iter().filter(|object| object.gvr.group_resource() == kind.gvr.group_resource());
                for object in of_kind {
                    let own = object.value.pointer("/metadata/namespace").and_then(Value::as_str);
                    if own.is_none() || wanted.is_none() || own == wanted {
                        each(Value::clone(&object.value));
                    }
                }
                Ok(None)
            }
            Self::Live(live) => live.objects(kind, namespace, terminal, each).await,
        }
    }

    /// Whether it is known that a namespace is not there: of files, where nothing lies in it.
    pub(crate) async fn lacks(&self, namespace: &Namespace) -> Result<bool, Failure> {
        match self {
            Self::Disk(disk) => {
                let own = |object: &Value| {
                    object.pointer("/metadata/namespace").and_then(Value::as_str) == Some(namespace.as_str())
                };
                Ok(!disk.objects().iter().any(|object| own(&object.value)))
            }
            Self::Live(live) => live.lacks(namespace).await,
        }
    }

    /// One object; `None`: there is none.
    pub(crate) async fn object(
        &self,
        kind: &KindInfo,
        namespace: Option<&Namespace>,
        name: &str,
    ) -> Result<Option<Arc<Value>>, Failure> {
        match self {
            Self::Disk(disk) => {
                let text =
                    |object: &Value, field: &str| object.pointer(field).and_then(Value::as_str).map(str::to_owned);
                let found = disk.objects().iter().find(|object| {
                    let own = text(&object.value, "/metadata/namespace");
                    object.gvr.group_resource() == kind.gvr.group_resource()
                        && text(&object.value, "/metadata/name").as_deref() == Some(name)
                        && (own.is_none() || own.as_deref() == namespace.map(Namespace::as_str))
                });
                Ok(found.map(|object| Arc::clone(&object.value)))
            }
            Self::Live(live) => live.object(kind, namespace, name).await,
        }
    }

    /// The kind of that group and resource, where it is known.
    pub(crate) async fn kind_of(&self, kind: &GroupResource) -> Result<Option<KindInfo>, Failure> {
        Ok(self.kinds().await?.of(kind).cloned())
    }
}
