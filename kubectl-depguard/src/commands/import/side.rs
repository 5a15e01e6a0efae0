//! Kinds on the side that the rules are for.

use std::collections::BTreeMap;

use clap::ValueEnum;
use depguard_core::api::{ExportRef, PATH_ANNOTATION};
use depguard_core::{ControlPlane, ExportName};
use serde_json::Value;

use super::written::{Published, Related, RelatedOrigin, Spec};
use crate::cluster::built_in_kinds;
use crate::cluster::kinds::{KindInfo, Kinds, guess_resource, resource_name};
use crate::engine::rule_draft::ExportAt;
use crate::engine::synced_names::Agent;

/// Side on which the rules will be applied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Side {
    /// Service cluster, which has the copies; rules can protect every related kind
    #[default]
    ServiceCluster,
    /// Workspace of the APIExport, for its consumers' workspaces; rules can protect only kinds of APIExports
    Kcp,
}

/// Known APIExports.
#[derive(Debug, Default)]
pub(super) struct Exports {
    /// The APIExport that serves the published kinds.
    own: Option<ExportAt>,
    /// Other APIExports, by their identity hashes.
    others: BTreeMap<String, ExportRef>,
}

/// Kind on a side, with the assumptions that were needed to find it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SideKind {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) resource: String,
    pub(super) kind: Option<String>,
    pub(super) namespaced: Option<bool>,
    /// Field and assumption.
    pub(super) assumed: Vec<(&'static str, String)>,
}

/// Reason why no rule contains a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KindError {
    Unknown(&'static str, String),
    NotEnforceable(String),
}

impl Side {
    pub(super) fn control_plane(self) -> ControlPlane {
        match self {
            Self::ServiceCluster => ControlPlane::Kubernetes,
            Self::Kcp => ControlPlane::Kcp,
        }
    }

    /// Returns true if this side has the originals of such related objects; otherwise it has their copies.
    pub(super) fn has_originals(self, origin: RelatedOrigin) -> bool {
        (self == Self::Kcp) == (origin == RelatedOrigin::Kcp)
    }

    /// Returns the published kind on this side.
    pub(super) fn primary(
        self,
        published: &Published<'_>,
        spec: &Spec,
        kinds: &Kinds,
        exports: &Exports,
    ) -> Result<SideKind, KindError> {
        let source = &spec.resource;
        let same = |known: &&KindInfo| known.gvr.group.as_str() == source.api_group && known.kind == source.kind;
        let known: Vec<_> = kinds.iter().filter(same).collect();
        // Kubernetes' own kinds tell the resource and the scope, but not which version a cluster stores.
        let named = known.first().copied().or(built_in_kinds::of_kind(&source.api_group, &source.kind));
        let mut assumed = Vec::new();
        let mut assume = |field, what: String| assumed.push((field, what));
        let chosen = source.version.clone().into_iter().chain(source.versions.iter().flatten().cloned());
        let chosen: Vec<_> = chosen.filter(|version| !version.is_empty()).collect();

        // The agent reads copies in the stored version. It reads originals in the stored version, too, if that is
        // chosen; otherwise in the last chosen version.
        let stored = known.first().map(|known| known.gvr.version.to_string());
        let is_chosen =
            |version: &String| chosen.is_empty() || chosen.contains(version) || self == Self::ServiceCluster;
        let version = match (stored.filter(is_chosen), chosen.as_slice()) {
            (Some(stored), _) => stored,
            (None, [only]) => only.clone(),
            (None, [.., last]) => {
                assume("spec.resource.versions", format!("reads objects in `{last}`, the last of several versions"));
                last.clone()
            }
            (None, []) => {
                let why = "has no version: add the kind's CustomResourceDefinition to the files";
                return Err(KindError::Unknown("spec.resource", why.to_owned()));
            }
        };
        let projection = spec.projection.clone().unwrap_or_default();
        let nonempty = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
        let renamed = nonempty(&projection.kind).filter(|_| self == Self::Kcp);
        let resource = match (nonempty(&projection.plural).filter(|_| self == Self::Kcp), &renamed, named) {
            (Some(plural), ..) => plural,
            (None, Some(kind), _) => format!("{}s", kind.to_lowercase()),
            (None, None, Some(known)) => known.gvr.resource.to_string(),
            (None, None, None) => {
                let guess = guess_resource(&source.kind).map(|guess| guess.to_string()).unwrap_or_default();
                assume(
                    "spec.resource.kind",
                    format!(
                        "the plural of {} is probably `{guess}`: add the kind's CustomResourceDefinition to the files \
                         to be sure",
                        source.kind
                    ),
                );
                guess
            }
        };
        let scope = named.and_then(|named| named.namespaced);
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
        let group = match (nonempty(&projection.group), published.agent) {
            (Some(group), _) => group,
            (None, Agent::SyncAgent) => source.api_group.clone(),
            (None, Agent::Servlet) => {
                let export = exports.own.as_ref().map(|own| own.name.to_string()).unwrap_or_default();
                assume("spec.projection", format!("the API group in kcp is probably the APIExport's name, `{export}`"));
                export
            }
        };
        let projected = projection.versions.as_ref().and_then(|versions| versions.get(&version)).cloned();
        Ok(SideKind {
            group,
            version: nonempty(&projection.version).or(nonempty(&projected)).unwrap_or(version),
            resource,
            kind: renamed.or(Some(source.kind.clone())),
            namespaced: nonempty(&projection.scope).map(|scope| scope == "Namespaced").or(scope),
            assumed,
        })
    }

    /// Returns a related kind on this side, and in kcp the APIExport that serves it.
    pub(super) fn related(
        self,
        related: &Related,
        kinds: &Kinds,
        exports: &Exports,
    ) -> Result<(SideKind, Option<ExportRef>), KindError> {
        let nonempty = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
        let (mut group, mut version, mut resource) =
            match (nonempty(&related.kind).as_deref(), nonempty(&related.resource)) {
                (Some("Secret"), None) => (String::new(), "v1".to_owned(), "secrets".to_owned()),
                (Some("ConfigMap"), None) => (String::new(), "v1".to_owned(), "configmaps".to_owned()),
                (Some(kind), None) => {
                    let why =
                        format!("`{kind}` is neither Secret nor ConfigMap: write group, version and resource instead");
                    return Err(KindError::Unknown("kind", why));
                }
                (None, Some(resource)) => match nonempty(&related.version) {
                    Some(version) => (nonempty(&related.group).unwrap_or_default(), version, resource),
                    None => return Err(KindError::Unknown("version", "is missing: write it".to_owned())),
                },
                (None, None) => return Err(KindError::Unknown("resource", "is missing: write it".to_owned())),
                (Some(_), Some(_)) => {
                    return Err(KindError::Unknown("kind", "resource is set, too: remove kind".to_owned()));
                }
            };
        if let Some(projection) = related.projection.as_ref().filter(|_| !self.has_originals(related.origin)) {
            group = nonempty(&projection.group).unwrap_or(group);
            version = nonempty(&projection.version).unwrap_or(version);
            resource = nonempty(&projection.resource).unwrap_or(resource);
        }
        let is_it = |known: &&KindInfo| known.gvr.group.as_str() == group && known.gvr.resource.as_str() == resource;
        let known = kinds.iter().find(is_it).or_else(|| built_in_kinds::all().iter().find(is_it));
        let kind = known.map(|known| known.kind.clone());
        let namespaced = known.and_then(|known| known.namespaced);
        let kind = SideKind { group, version, resource, kind, namespaced, assumed: Vec::new() };
        let export = match self {
            Self::ServiceCluster => None,
            Self::Kcp => Some(exports.serving(&kind, nonempty(&related.identity_hash))?),
        };
        Ok((kind, export))
    }
}

impl Exports {
    /// Collects the provider's own APIExport, and the APIExports among some objects.
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

    fn serving(&self, kind: &SideKind, identity: Option<String>) -> Result<ExportRef, KindError> {
        if let Some(identity) = identity {
            return self.others.get(&identity).cloned().ok_or_else(|| {
                let why = "the files have no APIExport of this identity: add it, with its status and its annotation \
                           `kcp.io/path`";
                KindError::Unknown("identityHash", why.to_owned())
            });
        }
        let SideKind { group, resource, .. } = kind;
        if !group.contains('.') || group.ends_with(".k8s.io") || group.ends_with(".kcp.io") {
            let named = resource_name(resource, group);
            return Err(KindError::NotEnforceable(format!(
                "no APIExport serves {named}, and kcp asks webhooks about such kinds only in the object's own \
                 workspace: depguard can't refuse what consumers delete; write the rule for the service cluster instead"
            )));
        }
        let own = self.own.as_ref().ok_or_else(|| {
            KindError::Unknown("resource", "the APIExport that serves it is unknown: name it with --export".to_owned())
        })?;
        Ok(ExportRef { path: own.path.to_string(), name: own.name.to_string() })
    }
}
