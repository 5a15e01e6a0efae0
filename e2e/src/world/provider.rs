//! Providers: an APIExport in a workspace of its own, or CRDs on a plain cluster.

use serde_json::{Value, json};

use super::{Resource, World};
use crate::api::Api;
use crate::outcome::{Outcome, Stop, eventually};

/// Provider of kinds to consumers.
#[derive(Clone)]
pub struct Provider {
    /// The administrator in the provider's workspace, or in the one cluster.
    pub api: Api,
    /// The workspace's path; empty on a plain cluster.
    pub path: String,
    /// The APIExport's name, which is also the kinds' group.
    pub export: String,
    kinds: Vec<Resource>,
}

pub(super) const EXPORTS: &str = "/apis/apis.kcp.io/v1alpha2/apiexports";
pub(super) const SCHEMAS: &str = "/apis/apis.kcp.io/v1alpha1/apiresourceschemas";
pub(super) const BINDINGS: &str = "/apis/apis.kcp.io/v1alpha2/apibindings";
pub(super) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

impl Provider {
    /// Creates a provider. On kcp, its workspace is `path` below the world's own.
    pub async fn create(world: &World, path: &str, group: &str, kinds: Vec<Resource>) -> Outcome<Provider> {
        let mut group = group.to_owned();
        let mut workspace = String::new();
        if world.is_kcp() {
            workspace = world.workspace(path).await?;
        } else {
            // A plain cluster serves a group only once: each world has groups of its own.
            group = format!("{}.{group}", world.id());
        }
        let export = world.is_kcp().then(|| (workspace.clone(), group.clone()));
        let own = |kind: Resource| Resource { group: group.clone(), export: export.clone(), ..kind };
        let provider = Provider {
            api: world.admin(&workspace),
            path: workspace,
            kinds: kinds.into_iter().map(own).collect(),
            export: group,
        };
        if world.is_kcp() {
            provider.export_kinds(world).await?;
        } else {
            provider.define_kinds(world).await?;
        }
        world.grant_dependents(&provider).await?;
        Ok(provider)
    }

    /// Creates a provider in a workspace below the world's own, without its export.
    pub(super) async fn in_workspace(
        world: &World,
        path: &str,
        export: &str,
        kinds: Vec<Resource>,
    ) -> Outcome<Provider> {
        let path = world.workspace(path).await?;
        let provider = Provider { api: world.admin(&path), path, export: export.to_owned(), kinds };
        world.grant_dependents(&provider).await?;
        Ok(provider)
    }

    /// Returns all kinds of the provider.
    pub(super) fn kinds(&self) -> &[Resource] {
        &self.kinds
    }

    /// Returns a kind as this provider serves it.
    pub fn kind(&self, kind: &str) -> Outcome<Resource> {
        let found = self.kinds.iter().find(|resource| resource.kind == kind);
        found.cloned().ok_or_else(|| Stop::Failed(format!("provider {} has no {kind}", self.export)))
    }

    async fn export_kinds(&self, world: &World) -> Outcome {
        let mut resources = Vec::new();
        for kind in &self.kinds {
            eventually("the new workspace takes a schema", world.ring_patience(), async || {
                self.api.post(SCHEMAS, &kind.api_resource_schema()).await?.ok_or_there()
            })
            .await?;
            resources.push(json!({
                "group": kind.group, "name": kind.plural, "schema": kind.schema_name(), "storage": {"crd": {}},
            }));
        }
        let export = json!({
            "apiVersion": "apis.kcp.io/v1alpha2",
            "kind": "APIExport",
            "metadata": {"name": self.export},
            "spec": {"resources": resources},
        });
        self.api.post(EXPORTS, &export).await?.ok_or_there()
    }

    async fn define_kinds(&self, world: &World) -> Outcome {
        for kind in &self.kinds {
            self.api.post(CRDS, &kind.crd()).await?.ok()?;
        }
        for kind in &self.kinds {
            for version in kind.versions {
                let path = format!("/apis/{}/{version}/{}", kind.group, kind.plural);
                eventually("the new kind is served", world.ring_patience(), async || {
                    self.api.get(&path).await?.ok().map(drop)
                })
                .await?;
            }
        }
        Ok(())
    }

    /// Removes the provider's kinds from a plain cluster, so that the next world finds a quick server.
    pub(super) async fn remove(&self, admin: &Api) -> Outcome {
        for kind in &self.kinds {
            admin.delete(&format!("{CRDS}/{}.{}", kind.plural, kind.group)).await?;
        }
        Ok(())
    }
}

/// Binds an export into the workspace of `api`, and waits until its kinds are served there.
pub(super) async fn bind(world: &World, api: &Api, provider: &Provider) -> Outcome {
    let binding = json!({
        "apiVersion": "apis.kcp.io/v1alpha2",
        "kind": "APIBinding",
        "metadata": {"name": provider.export},
        "spec": {"reference": {"export": {"path": provider.path, "name": provider.export}}},
    });
    create_binding(world, api, &binding).await?;
    for kind in &provider.kinds {
        let path = format!("/apis/{}/{}", kind.api_version(), kind.plural);
        eventually("the bound kind is served", world.ring_patience(), async || api.get(&path).await?.ok().map(drop))
            .await?;
    }
    Ok(())
}

/// Creates an APIBinding and waits until it is bound.
pub(super) async fn create_binding(world: &World, api: &Api, binding: &Value) -> Outcome {
    eventually("the workspace takes a binding", world.ring_patience(), async || {
        api.post(BINDINGS, binding).await?.ok_or_there()
    })
    .await?;
    let name = binding["metadata"]["name"].as_str().unwrap_or_default();
    let path = format!("{BINDINGS}/{name}");
    eventually("the binding is bound", world.ring_patience(), async || {
        let binding = api.get(&path).await?.ok()?;
        let phase = &binding["status"]["phase"];
        if phase == "Bound" { Ok(()) } else { Err(Stop::Failed(format!("phase {phase}: {}", binding["status"]))) }
    })
    .await
}
