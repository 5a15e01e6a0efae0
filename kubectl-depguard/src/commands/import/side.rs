//! Which kinds there are on the side that the rules are for.

use std::collections::BTreeMap;

use clap::ValueEnum;
use depguard_core::api::{ExportRef, PATH_ANNOTATION};
use depguard_core::naming::Agent;
use depguard_core::{ExportName, Home};
use serde_json::Value;

use super::written::{Published, Related, RelatedOrigin, Spec};
use crate::draft::ExportAt;
use crate::kinds::{KindInfo, Kinds, guess_resource, resource_name};

/// Where the rules are to be applied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Side {
    /// On the service cluster, where the copies are: every related kind can be protected
    #[default]
    ServiceCluster,
    /// In the workspace of the APIExport, for its consumers' workspaces: kinds of APIExports alone
    Kcp,
}

/// The APIExports that are known.
#[derive(Debug, Default)]
pub(super) struct Exports {
    /// The one that serves the published kinds.
    own: Option<ExportAt>,
    /// By their identity hashes.
    others: BTreeMap<String, ExportRef>,
}

/// A kind on a side, and what had to be taken for granted to tell it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SideKind {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) resource: String,
    pub(super) kind: Option<String>,
    pub(super) namespaced: Option<bool>,
    /// Field and what.
    pub(super) assumed: Vec<(&'static str, String)>,
}

/// Why a kind is in no rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoKind {
    Unknown(&'static str, String),
    NotEnforceable(String),
}

impl Side {
    pub(super) fn home(self) -> Home {
        match self {
            Self::ServiceCluster => Home::Kubernetes,
            Self::Kcp => Home::Kcp,
        }
    }

    /// Whether it has the originals of such related objects, or their copies.
    pub(super) fn has_originals(self, origin: RelatedOrigin) -> bool {
        (self == Self::Kcp) == (origin == RelatedOrigin::Kcp)
    }

    /// The published kind there.
    pub(super) fn primary(
        self,
        published: &Published<'_>,
        spec: &Spec,
        kinds: &Kinds,
        exports: &Exports,
    ) -> Result<SideKind, NoKind> {
        let source = &spec.resource;
        let same = |known: &&KindInfo| known.gvr.group.as_str() == source.api_group && known.kind == source.kind;
        let known: Vec<_> = kinds.iter().filter(same).collect();
        let mut assumed = Vec::new();
        let mut assume = |field, what: String| assumed.push((field, what));
        let chosen = source.version.clone().into_iter().chain(source.versions.iter().flatten().cloned());
        let chosen: Vec<_> = chosen.filter(|version| !version.is_empty()).collect();

        // The agent reads copies in the version that is stored; the originals in that, or else in the last chosen.
        let stored = known.first().map(|known| known.gvr.version.to_string());
        let is_chosen =
            |version: &String| chosen.is_empty() || chosen.contains(version) || self == Self::ServiceCluster;
        let version = match (stored.filter(is_chosen), chosen.as_slice()) {
            (Some(stored), _) => stored,
            (None, [only]) => only.clone(),
            (None, [.., last]) => {
                assume("spec.resource.versions", format!("of several versions, objects are read in `{last}`"));
                last.clone()
            }
            (None, []) => {
                let why = "no version is said: add the kind's CustomResourceDefinition to the files";
                return Err(NoKind::Unknown("spec.resource", why.to_owned()));
            }
        };
        let projection = spec.projection.clone().unwrap_or_default();
        let said = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
        let renamed = said(&projection.kind).filter(|_| self == Self::Kcp);
        let resource = match (said(&projection.plural).filter(|_| self == Self::Kcp), &renamed, known.first()) {
            (Some(plural), ..) => plural,
            (None, Some(kind), _) => format!("{}s", kind.to_lowercase()),
            (None, None, Some(known)) => known.gvr.resource.to_string(),
            (None, None, None) => {
                let guess = guess_resource(&source.kind).map(|guess| guess.to_string()).unwrap_or_default();
                assume(
                    "spec.resource.kind",
                    format!(
                        "the plural of {} is taken to be `{guess}`: add the kind's CustomResourceDefinition to the files \
                         to be sure",
                        source.kind
                    ),
                );
                guess
            }
        };
        let scope = known.first().and_then(|known| known.namespaced);
        if self == Self::ServiceCluster {
            let kind = Some(source.kind.clone());
            return Ok(SideKind {
                group: source.api_group.clone(),
                version,
                resource,
                kind,
                namespaced: scope,
                assumed,
            });
        }
        let group = match (said(&projection.group), published.agent) {
            (Some(group), _) => group,
            (None, Agent::SyncAgent) => source.api_group.clone(),
            (None, Agent::Servlet) => {
                let export = exports.own.as_ref().map(|own| own.name.to_string()).unwrap_or_default();
                assume(
                    "spec.projection",
                    format!("the API group in kcp is taken to be the APIExport's name, `{export}`"),
                );
                export
            }
        };
        let projected = projection.versions.as_ref().and_then(|versions| versions.get(&version)).cloned();
        Ok(SideKind {
            group,
            version: said(&projection.version).or(said(&projected)).unwrap_or(version),
            resource,
            kind: renamed.or(Some(source.kind.clone())),
            namespaced: said(&projection.scope).map(|scope| scope == "Namespaced").or(scope),
            assumed,
        })
    }

    /// A related kind there, and in kcp the APIExport that serves it.
    pub(super) fn related(
        self,
        related: &Related,
        kinds: &Kinds,
        exports: &Exports,
    ) -> Result<(SideKind, Option<ExportRef>), NoKind> {
        let said = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
        let (mut group, mut version, mut resource) = match (said(&related.kind).as_deref(), said(&related.resource)) {
            (Some("Secret"), None) => (String::new(), "v1".to_owned(), "secrets".to_owned()),
            (Some("ConfigMap"), None) => (String::new(), "v1".to_owned(), "configmaps".to_owned()),
            (Some(kind), None) => {
                let why = format!("`{kind}` is neither Secret nor ConfigMap: say group, version and resource instead");
                return Err(NoKind::Unknown("kind", why));
            }
            (None, Some(resource)) => match said(&related.version) {
                Some(version) => (said(&related.group).unwrap_or_default(), version, resource),
                None => return Err(NoKind::Unknown("version", "no version is said: write it".to_owned())),
            },
            (None, None) => return Err(NoKind::Unknown("resource", "no resource is said: write it".to_owned())),
            (Some(_), Some(_)) => {
                return Err(NoKind::Unknown("kind", "stands beside resource: leave it out".to_owned()));
            }
        };
        if let Some(projection) = related.projection.as_ref().filter(|_| !self.has_originals(related.origin)) {
            group = said(&projection.group).unwrap_or(group);
            version = said(&projection.version).unwrap_or(version);
            resource = said(&projection.resource).unwrap_or(resource);
        }
        let known =
            kinds.iter().find(|known| known.gvr.group.as_str() == group && known.gvr.resource.as_str() == resource);
        let kind = match (group.as_str(), resource.as_str()) {
            ("", "secrets") => Some("Secret".to_owned()),
            ("", "configmaps") => Some("ConfigMap".to_owned()),
            _ => known.map(|known| known.kind.clone()),
        };
        let namespaced = known.and_then(|known| known.namespaced);
        let kind = SideKind { group, version, resource, kind, namespaced, assumed: Vec::new() };
        let export = match self {
            Self::ServiceCluster => None,
            Self::Kcp => Some(exports.serving(&kind, said(&related.identity_hash))?),
        };
        Ok((kind, export))
    }
}

impl Exports {
    /// The own one, and those among some objects.
    pub(super) fn new<'v>(own: Option<ExportAt>, objects: impl Iterator<Item = &'v Value>) -> Self {
        let exports = objects.filter(|object| object.get("kind").and_then(Value::as_str) == Some("APIExport"));
        let others = exports.filter_map(|export| {
            let text = |pointer: &str| export.pointer(pointer)?.as_str().map(str::to_owned);
            let path = export.pointer("/metadata/annotations")?.get(PATH_ANNOTATION)?.as_str()?.to_owned();
            Some((text("/status/identityHash")?, ExportRef { path, name: text("/metadata/name")? }))
        });
        Self { own, others: others.collect() }
    }

    pub(super) fn own(&self) -> Option<&ExportName> {
        self.own.as_ref().map(|own| &own.name)
    }

    fn serving(&self, kind: &SideKind, identity: Option<String>) -> Result<ExportRef, NoKind> {
        if let Some(identity) = identity {
            return self.others.get(&identity).cloned().ok_or_else(|| {
                let why = "no APIExport of this identity is among the files: add it, with its status and its annotation \
                           `kcp.io/path`";
                NoKind::Unknown("identityHash", why.to_owned())
            });
        }
        let SideKind { group, resource, .. } = kind;
        if !group.contains('.') || group.ends_with(".k8s.io") || group.ends_with(".kcp.io") {
            let named = resource_name(resource, group);
            return Err(NoKind::NotEnforceable(format!(
                "{named} are no kind of an APIExport, and kcp asks webhooks about local kinds only in the workspace of the \
                 object: what a consumer deletes there can't be refused; on the service cluster it can"
            )));
        }
        let own = self.own.as_ref().ok_or_else(|| {
            NoKind::Unknown("resource", "the APIExport that serves it isn't known: name it with --export".to_owned())
        })?;
        Ok(ExportRef { path: own.path.to_string(), name: own.name.to_string() })
    }
}
