//! Rules of a pack that get other names: what they protect stays protected meanwhile.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use depguard_controller::manifests;
use depguard_e2e::rules::{RULES, pack};
use depguard_e2e::tools::Tools;
use depguard_e2e::{Consumer, Depguard, Outcome, Provider, Stop, World, ensure};
use kubectl_depguard::ExitStatus;
use serde_json::{Value, json};

use crate::gitops::run;
use crate::kubectl::User;
use crate::local::{refused, until_refused};

const PACK: &str = "kubernetes-workloads";
const REFUSED: &str = "still referenced by Pod/p1";

/// A Pod, and the ConfigMap that it uses.
struct Scene {
    place: Provider,
    consumer: Consumer,
    /// Path of the ConfigMap.
    used: String,
}

/// Applies the pack by `rules apply` over its rules of former names. The one that a user has changed stays.
pub(crate) async fn by_command(world: Arc<World>) -> Outcome {
    let scene = Scene::fill(&world).await?;
    let user = User::at(&world, &scene.consumer.path, &scene.consumer.namespace)?;
    for rule in former()? {
        let path = format!("{RULES}/{}", rule["metadata"]["name"].as_str().unwrap_or_default());
        user.apply(&path, &rule, "kubectl-depguard").await?;
    }
    world.change_rule(&scene.place, "cronjobs", &json!({"spec": {"failurePolicy": "Ignore"}})).await?;
    let _depguard = Depguard::start(&world).await?;
    refused(&world, &scene.consumer.api, &scene.used, REFUSED).await?;

    let said = scene.guarded(async { Ok(user.run(&["rules", "apply", PACK]).await) }).await?;
    said.is(ExitStatus::Well, &["/kubernetes-workloads-pods created"])?;
    for says in ["/pods deleted: its name is kubernetes-workloads-pods now", "/cronjobs stays beside "] {
        ensure(said.err.contains(says), || format!("no `{says}`: {}", said.err))?;
    }
    scene.is_left_with(&world, &["cronjobs"]).await
}

/// Upgrades a release of Helm that has the pack's rules to their new names.
pub(crate) async fn by_release(world: Arc<World>) -> Outcome {
    let tools = Tools::find().map_err(Stop::Skipped)?;
    let scene = Scene::fill(&world).await?;
    let folder = tempfile::tempdir()?;
    let templates = folder.path().join("chart/templates");
    fs::create_dir_all(&templates)?;
    fs::write(folder.path().join("chart/Chart.yaml"), "{apiVersion: v2, name: rules, version: 1.0.0}")?;
    world.ring().write_kubeconfig(&scene.consumer.path, &folder.path().join("kubeconfig"))?;
    let helm = async |verb: &str, rules: &[Value]| {
        write(&templates, rules)?;
        let printed =
            run(&tools, folder.path(), &["helm", verb, "rules", "chart", "-n", &scene.consumer.namespace]).await?;
        printed.map_err(Stop::failed)
    };
    helm("install", &former()?).await?;
    let _depguard = Depguard::start(&world).await?;
    refused(&world, &scene.consumer.api, &scene.used, REFUSED).await?;
    scene.guarded(helm("upgrade", &pack(PACK)?.rules())).await?;
    scene.is_left_with(&world, &[]).await
}

/// Returns the pack's rules under their former names.
fn former() -> Outcome<Vec<Value>> {
    let rules = pack(PACK)?.formerly().map(|(name, mut rule)| {
        rule["metadata"]["name"] = json!(name);
        rule
    });
    Ok(rules.collect())
}

fn write(templates: &Path, rules: &[Value]) -> Outcome {
    let texts: Vec<_> = rules.iter().map(Value::to_string).collect();
    Ok(fs::write(templates.join("rules.yaml"), texts.join("\n---\n"))?)
}

impl Scene {
    async fn fill(world: &World) -> Outcome<Self> {
        // The rules apply to every world of a cluster; they are removed with this provider.
        let place = world.compute().await?;
        let role = manifests::pack_objects(pack(PACK)?).into_iter().next();
        world.grant_reading(&role.ok_or_else(|| Stop::failed("an empty pack"))?).await?;
        let consumer = world.consumer("consumer", &[]).await?;
        let of = |resource: &str| format!("/api/v1/namespaces/{}/{resource}", consumer.namespace);
        let named = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
        consumer.api.post(&of("serviceaccounts"), &named("ServiceAccount", "default")).await?.ok_or_there()?;
        consumer.api.post(&of("configmaps"), &named("ConfigMap", "used")).await?.ok()?;
        let mut pod = named("Pod", "p1");
        let from = json!([{"configMapRef": {"name": "used"}}]);
        pod["spec"] = json!({"containers": [{"name": "one", "image": "a", "envFrom": from}]});
        consumer.api.post(&of("pods"), &pod).await?.ok()?;
        let used = format!("{}/used", of("configmaps"));
        Ok(Self { place, consumer, used })
    }

    /// Waits for a change of the rules, while the ConfigMap can't be deleted at any moment.
    async fn guarded<T>(&self, change: impl Future<Output = Outcome<T>>) -> Outcome<T> {
        let allowed = async {
            loop {
                let reply = self.consumer.api.dry_run_delete(&self.used).await?;
                if reply.status != 403 {
                    return Err(reply.unexpected("403"));
                }
            }
        };
        tokio::select! {
            changed = change => changed,
            allowed = allowed => allowed,
        }
    }

    /// Checks which rules of former names are left, and that the ConfigMap is protected without the others.
    async fn is_left_with(&self, world: &World, former: &[&str]) -> Outcome {
        let rules = self.consumer.api.get(RULES).await?.ok()?;
        let names =
            rules["items"].as_array().into_iter().flatten().filter_map(|rule| rule["metadata"]["name"].as_str());
        let (new, old): (Vec<_>, Vec<_>) = names.partition(|name| name.starts_with(PACK));
        ensure(new.len() == 7 && old == former, || format!("{new:?} and {old:?} are left"))?;
        until_refused(world, &self.consumer.api, &self.used, REFUSED).await
    }
}
