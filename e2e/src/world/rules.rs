//! Rules, and depguard's own kinds.

use depguard_controller::manifests;
use depguard_controller::packs::RulePack;
use depguard_kcp::{Feature, RegisterKeySecret};
use depguard_testbed::{Fault, When};
use serde_json::{Value, json};

use super::provider::{BINDINGS, CRDS, EXPORTS, SCHEMAS, create_binding};
use super::{Consumer, Provider, Resource, World};
use crate::api::{Api, collection_of};
use crate::outcome::{Outcome, Stop, ensure, eventually};

/// Path of all rules, in any workspace that has bound depguard or in the one cluster.
pub const RULES: &str = "/apis/dependencies.opendefense.cloud/v1alpha1/dependencyrules";
/// Path of all webhook configurations.
pub const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
/// Path of the configuration that depguard installs.
pub const CONFIGURATION: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/dependency-controller";
/// Path of the configuration that has references reviewed.
pub const REFERENCES_CONFIGURATION: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/dependency-references";

/// Path of the configuration that has rules reviewed before they are stored.
pub const SPEC_ADMISSION_CONFIGURATION: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/depguard-rules";

/// Path of the Lease by which one of several controllers is elected.
pub const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/depguard-system/leases/depguard-controller";

/// Deletes webhook configurations; fails if one was still there. A request that a scenario's controller sent last may
/// write a configuration again, so whoever cleans up deletes until none is there.
pub(super) async fn remove_configurations(place: &Api, configurations: &[&str]) -> Outcome {
    for configuration in configurations {
        let reply = place.delete(configuration).await?;
        ensure(reply.is_gone(), || format!("{configuration} was still there: {}", reply.status))?;
    }
    Ok(())
}

/// Returns a pack of ready-made rules.
pub fn pack(name: &str) -> Outcome<&'static RulePack> {
    RulePack::by_name(name).ok_or_else(|| Stop::failed(format!("no pack {name}")))
}

/// Builds a rule about `dependent`. Each of `edges` is a target and the path of the field that names the target.
pub fn rule(name: &str, dependent: &Resource, edges: &[(&Resource, &str)]) -> Value {
    let mut about = json!({
        "group": dependent.group, "version": dependent.versions[0],
        "kind": dependent.kind, "resource": dependent.plural,
    });
    if let Some((_, export)) = &dependent.export {
        about["apiExportName"] = json!(export);
    }
    let dependencies = edges.iter().map(|(target, path)| {
        let mut dependency = json!({
            "group": target.group, "version": target.versions[0], "resource": target.plural,
            "fieldRef": {"path": path},
        });
        if let Some((path, name)) = &target.export {
            dependency["apiExportRef"] = json!({"path": path, "name": name});
        }
        dependency
    });
    json!({
        "apiVersion": "dependencies.opendefense.cloud/v1alpha1",
        "kind": "DependencyRule",
        "metadata": {"name": name},
        "spec": {"dependent": about, "dependencies": dependencies.collect::<Vec<_>>()},
    })
}

/// Returns the path of the Secret with the key of the reference registers.
pub fn register_key() -> String {
    format!("/api/v1/namespaces/{}/secrets/{}", manifests::NAMESPACE, RegisterKeySecret::NAME)
}

impl World {
    /// Installs depguard's own API: its export in a workspace of its own, or its CRDs.
    pub(super) async fn set_up_depguard(&self) -> Outcome {
        if self.is_kcp() {
            self.workspace("dep-ctrl").await?;
            eventually("depguard's workspace takes a schema", self.ring_patience(), async || {
                self.own_cluster().post(SCHEMAS, &manifests::api_resource_schema()).await?.ok_or_there()
            })
            .await?;
            self.own_cluster().post(EXPORTS, &manifests::api_export()).await?.ok_or_there()?;
            if self.has(Feature::Locks) {
                for schema in manifests::lock_schemas() {
                    self.own_cluster().post(SCHEMAS, &schema).await?.ok_or_there()?;
                }
                self.own_cluster().post(EXPORTS, &manifests::lock_export()).await?.ok_or_there()?;
            }
            self.own_cluster().post("/api/v1/namespaces", &own_namespace()).await?.ok_or_there()?;
            let registers = self.features().registers.map(|_| manifests::register_crd());
            return self.serve(registers.as_slice()).await;
        }
        self.own_cluster().post("/api/v1/namespaces", &own_namespace()).await?.ok_or_there()?;
        let canaries = format!("/api/v1/namespaces/{}/configmaps", manifests::NAMESPACE);
        self.own_cluster().post(&canaries, &manifests::canary()).await?.ok_or_there()?;
        self.serve(&self.crds()).await?;
        // A testbed knows no such policies.
        if self.features().registers.is_none() || self.ring.kind().is_testbed() {
            return Ok(());
        }
        for object in manifests::register_policy() {
            self.own_cluster().post(&collection_of(&object), &object).await?.ok_or_there()?;
        }
        Ok(())
    }

    /// Applies CRDs in depguard's own place, and waits until they are served.
    async fn serve(&self, crds: &[Value]) -> Outcome {
        for crd in crds {
            self.own_cluster().post(CRDS, crd).await?.ok_or_there()?;
        }
        for crd in crds {
            let text = |pointer| crd.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let (group, version) = (text("/spec/group"), text("/spec/versions/0/name"));
            let path = format!("/apis/{group}/{version}/{}", text("/spec/names/plural"));
            eventually("depguard's kinds are served", self.ring_patience(), async || {
                self.own_cluster().get(&path).await?.ok().map(drop)
            })
            .await?;
        }
        Ok(())
    }

    /// Returns the CRDs that depguard needs in a plain cluster.
    fn crds(&self) -> Vec<Value> {
        let mut crds = vec![manifests::crd()];
        if self.has(Feature::Locks) {
            crds.extend(manifests::lock_crds());
            crds.push(manifests::compat_crd());
        }
        if self.has(Feature::Owners) {
            crds.extend(manifests::owner_crds());
        }
        crds.extend(self.features().registers.map(|_| manifests::register_crd()));
        crds
    }

    /// Binds depguard's locks in a consumer's workspace and accepts their claim. On a plain cluster there is nothing to
    /// bind.
    pub async fn bind_locks(&self, consumer: &Consumer) -> Outcome {
        if !self.is_kcp() {
            return Ok(());
        }
        create_binding(self, &consumer.api, &manifests::tenant_binding(&self.own_path())).await?;
        eventually("locks are served", self.ring_patience(), async || {
            consumer.api.get(&consumer.locks()).await?.ok().map(drop)
        })
        .await
    }

    /// Binds depguard in a provider's workspace and accepts depguard's claims. On a plain cluster there is nothing to
    /// bind.
    pub async fn bind_depguard(&self, provider: &Provider) -> Outcome {
        self.bind_depguard_as(provider, |_| ()).await
    }

    /// Binds depguard as [`World::bind_depguard`] does, with an APIBinding that `change` has altered.
    pub async fn bind_depguard_as(&self, provider: &Provider, change: impl FnOnce(&mut Value)) -> Outcome {
        if !self.is_kcp() {
            return Ok(());
        }
        let mut binding = manifests::provider_binding(&self.own_path());
        change(&mut binding);
        create_binding(self, &provider.api, &binding).await?;
        eventually("rules are served", self.ring_patience(), async || provider.api.get(RULES).await?.ok().map(drop))
            .await
    }

    /// Accepts depguard's claims in a workspace that had bound depguard without accepting them.
    pub async fn accept_claims(&self, provider: &Provider) -> Outcome {
        let binding = manifests::provider_binding(&self.own_path());
        let path = format!("{BINDINGS}/{}", binding["metadata"]["name"].as_str().unwrap_or_default());
        let patch = json!({"spec": {"permissionClaims": binding["spec"]["permissionClaims"]}});
        provider.api.merge(&path, &patch).await?.ok().map(drop)
    }

    /// Creates a rule in the workspace of the provider of its dependents.
    pub async fn add_rule(&self, provider: &Provider, rule: &Value) -> Outcome {
        provider.api.post(RULES, rule).await?.ok().map(drop)
    }

    /// Hides the definition of a kind, as if an aggregated API server served the kind. Only a testbed can.
    pub fn hide_definition(&self, kind: &Resource) -> Outcome {
        let cannot = || Stop::Skipped("a real server hides no definition".to_owned());
        let testbed = self.ring.in_process().ok_or_else(cannot)?;
        let definition = format!("{CRDS}/{}.{}", kind.plural, kind.group);
        testbed.faults().inject(Fault::NotFound, When::always().path(&definition));
        Ok(())
    }

    /// Changes a rule by a merge patch.
    pub async fn change_rule(&self, provider: &Provider, name: &str, patch: &Value) -> Outcome {
        provider.api.merge(&format!("{RULES}/{name}"), patch).await?.ok().map(drop)
    }

    /// Deletes a rule.
    pub async fn remove_rule(&self, provider: &Provider, name: &str) -> Outcome {
        provider.api.delete(&format!("{RULES}/{name}")).await?.ok().map(drop)
    }

    /// Waits until a condition of a rule has this status, for the rule's present generation. A control waits for
    /// nothing.
    pub async fn condition(&self, provider: &Provider, rule: &str, condition: &str, status: &str) -> Outcome {
        self.condition_says(provider, rule, condition, status, |_| true).await
    }

    /// Waits until a condition of a rule has this status for the rule's present generation, and `says` accepts its
    /// message: the controller may write a first message before it has seen everything.
    pub async fn condition_says(
        &self,
        provider: &Provider,
        rule: &str,
        condition: &str,
        status: &str,
        says: impl Fn(&str) -> bool,
    ) -> Outcome {
        if self.is_control() {
            return Ok(());
        }
        let what = format!("rule {rule} has {condition}={status} with the right message");
        eventually(&what, self.patience(), async || {
            let rule = provider.api.get(&format!("{RULES}/{rule}")).await?.ok()?;
            let conditions = rule["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let is = |one: &Value| {
                one["type"] == condition
                    && one["status"] == status
                    && one["observedGeneration"] == rule["metadata"]["generation"]
                    && says(one["message"].as_str().unwrap_or_default())
            };
            if conditions.iter().any(is) { Ok(()) } else { Err(Stop::Failed(format!("status is {}", rule["status"]))) }
        })
        .await
    }

    /// Waits until a condition of a rule has this reason.
    pub async fn reason(&self, provider: &Provider, rule: &str, condition: &str, reason: &str) -> Outcome {
        eventually(&format!("rule {rule} has {condition} by {reason}"), self.patience(), async || {
            let rule = provider.api.get(&format!("{RULES}/{rule}")).await?.ok()?;
            let conditions = rule["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let is = |one: &Value| one["type"] == condition && one["reason"] == reason;
            if conditions.iter().any(is) { Ok(()) } else { Err(Stop::Failed(format!("status is {}", rule["status"]))) }
        })
        .await
    }

    /// Returns the installed configuration; `None` if there is none.
    pub async fn configuration(&self, place: &Api) -> Outcome<Option<Value>> {
        let reply = place.get(CONFIGURATION).await?;
        if reply.is_gone() { Ok(None) } else { reply.ok().map(Some) }
    }

    /// Waits until `check` accepts the installed configuration.
    pub async fn until_configured(&self, place: &Api, what: &str, check: impl Fn(&Value) -> bool) -> Outcome<Value> {
        eventually(what, self.patience(), async || match self.configuration(place).await? {
            Some(configuration) if check(&configuration) => Ok(configuration),
            found => Err(Stop::Failed(format!("found {}", found.unwrap_or_default()))),
        })
        .await
    }

    /// Waits until no configuration is installed.
    pub async fn until_unconfigured(&self, place: &Api) -> Outcome {
        eventually("the configuration is removed", self.patience(), async || match self.configuration(place).await? {
            None => Ok(()),
            Some(found) => Err(Stop::Failed(format!("found {found}"))),
        })
        .await
    }
}

fn own_namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": manifests::NAMESPACE}})
}

/// Returns the webhooks of a configuration that decide by rules: all but the canary's.
pub fn deciding(configuration: &Value) -> impl Iterator<Item = &Value> {
    let webhooks = configuration["webhooks"].as_array().into_iter().flatten();
    webhooks.filter(|webhook| !webhook["name"].as_str().unwrap_or_default().starts_with("canary."))
}

/// Returns the kinds whose deletion a configuration reviews, as `group/resource`, sorted.
pub fn reviewed_kinds(configuration: &Value) -> Vec<String> {
    let mut kinds = Vec::new();
    for webhook in deciding(configuration) {
        for rule in webhook["rules"].as_array().into_iter().flatten() {
            for group in rule["apiGroups"].as_array().into_iter().flatten() {
                for resource in rule["resources"].as_array().into_iter().flatten() {
                    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                    kinds.push(format!("{}/{}", text(group), text(resource)));
                }
            }
        }
    }
    kinds.sort();
    kinds.dedup();
    kinds
}
