//! Roll-outs whose ConfigMap and Secret have a revision in their names, beside the rules of all packs: the tools delete
//! those of the former revision while its Pods run.

use std::fs;
use std::sync::Arc;

use depguard_controller::manifests;
use depguard_controller::packs::RulePack;
use depguard_core::ControlPlane;
use depguard_e2e::played::{attend_all, run_pod};
use depguard_e2e::tools::Tools;
use depguard_e2e::{Consumer, Depguard, Outcome, Stop, World, ensure, eventually};
use kubectl_depguard::ExitStatus;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::gitops::run;
use crate::kubectl::User;
use crate::local::until_refused;

const UPGRADES: u64 = 10;
/// Revision to which Helm goes back.
const FORMER: u64 = 5;
const REPLICAS: u64 = 2;

/// Objects that keep what they name, whatever rolls out beside them.
const OTHERS: [(&str, &str); 3] =
    [("configmaps/of-db", "StatefulSet/db"), ("secrets/of-import", "Job/import"), ("configmaps/of-lone", "Pod/lone")];

/// Namespace with the rules of all packs, in which a Deployment rolls out.
struct Scene {
    world: Arc<World>,
    consumer: Consumer,
    user: User,
    /// Folder with a chart and a kubeconfig.
    folder: TempDir,
    _depguard: Depguard,
}

pub(crate) async fn by_helm(world: Arc<World>) -> Outcome {
    let tools = Tools::find().map_err(Stop::Skipped)?;
    let scene = Scene::start(&world).await?;
    let helm = async |words: &[&str]| {
        let command = [&["helm"], words, &["-n", &scene.consumer.namespace]].concat();
        run(&tools, scene.folder.path(), &command).await
    };
    let upgrade = async |revision: u64, more: &[&str]| {
        let set = format!("revision={revision}");
        helm(&[&["upgrade", "--install", "shop", "chart", "--set", &set], more].concat()).await
    };
    upgrade(0, &[]).await?.map_err(Stop::failed)?;
    scene.until_kept(0).await?;
    scene.until_rolled_out().await?;
    for revision in 1..=UPGRADES {
        if revision % 2 == 0 {
            scene.played(upgrade(revision, &["--wait"])).await?.map_err(Stop::failed)?;
        } else {
            upgrade(revision, &[]).await?.map_err(Stop::failed)?;
            scene.has_running_pod_of(revision - 1).await?;
        }
        scene.has_moved(revision - 1, revision).await?;
        scene.until_rolled_out().await?;
    }
    // Helm counts from 1.
    let back = (FORMER + 1).to_string();
    scene.played(helm(&["rollback", "shop", &back, "--wait"])).await?.map_err(Stop::failed)?;
    scene.has_moved(UPGRADES, FORMER).await?;

    apply_packs(&scene.user, &["--strict"]).await?;
    let settings = scene.at(&format!("configmaps/settings-{FORMER}"));
    until_refused(&world, &scene.consumer.api, &settings, "Pod/shop-").await?;
    let refused = upgrade(UPGRADES + 1, &[]).await?;
    let is_refusal = |said: &String| said.contains("still referenced by") && said.contains("Pod/shop-");
    ensure(refused.as_ref().is_err_and(is_refusal), || format!("by strict rules: {refused:?}"))?;

    let told = apply_packs(&scene.user, &[]).await?;
    let names = "kubernetes-workloads-pods refuses in fewer cases than before deletions of secrets in ";
    ensure(told.contains(names), || format!("no `{names}`: {told}"))?;
    eventually("the default rules are in force", world.patience(), async || {
        let reply = scene.consumer.api.dry_run_delete(&settings).await?;
        if reply.status == 403 { Err(reply.unexpected("no refusal")) } else { Ok(()) }
    })
    .await?;
    upgrade(UPGRADES + 2, &[]).await?.map_err(Stop::failed)?;
    scene.until_rolled_out().await?;
    helm(&["uninstall", "shop"]).await?.map_err(Stop::failed)?;
    scene.is_gone(UPGRADES + 2).await?;
    scene.others_are_kept().await
}

/// Applies a revision, and prunes the former one at the end, as Argo CD does with `PruneLast`: once the Deployment has
/// rolled out, or at once where nobody waits for its health.
pub(crate) async fn by_argo(world: Arc<World>) -> Outcome {
    let scene = Scene::start(&world).await?;
    let apply = async |revision: u64| {
        for (path, object) in objects(&revision.to_string()) {
            scene.consumer.api.apply(&scene.at(&path), &object).await?.ok()?;
        }
        Ok::<_, Stop>(())
    };
    apply(0).await?;
    scene.until_kept(0).await?;
    scene.until_rolled_out().await?;
    for (revision, waits) in [(1, true), (2, false), (3, false)] {
        apply(revision).await?;
        if waits {
            scene.until_rolled_out().await?;
        } else {
            scene.has_running_pod_of(revision - 1).await?;
        }
        for (path, _) in objects(&(revision - 1).to_string()).into_iter().take(2) {
            scene.consumer.api.delete(&scene.at(&path)).await?.ok()?;
        }
        scene.has_moved(revision - 1, revision).await?;
        scene.until_rolled_out().await?;
    }
    Ok(())
}

/// Returns the ConfigMap, the Secret and the Deployment of a revision, each with the end of its path.
fn objects(revision: &str) -> [(String, Value); 3] {
    let (settings, password) = (format!("settings-{revision}"), format!("password-{revision}"));
    let template = json!({
        "metadata": {"labels": {"app": "shop"}},
        "spec": {
            "containers": [{"name": "main", "image": "shop", "envFrom": [{"secretRef": {"name": password}}]}],
            "volumes": [{"name": "settings", "configMap": {"name": settings}}],
        },
    });
    // No Pod goes before the next one is ready.
    let strategy = json!({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "shop"},
        "spec": {
            "replicas": REPLICAS, "strategy": strategy, "selector": {"matchLabels": {"app": "shop"}},
            "template": template,
        },
    });
    let named = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    [
        (format!("configmaps/{settings}"), named("ConfigMap", &settings)),
        (format!("secrets/{password}"), named("Secret", &password)),
        ("deployments/shop".to_owned(), deployment),
    ]
}

impl Scene {
    async fn start(world: &Arc<World>) -> Outcome<Self> {
        // The rules apply to every world of a cluster; they are removed with this provider.
        world.compute().await?;
        grant_packs(world).await?;
        let consumer = world.consumer("consumer", &[]).await?;
        let folder = tempfile::tempdir()?;
        let templates = folder.path().join("chart/templates");
        fs::create_dir_all(&templates)?;
        fs::write(folder.path().join("chart/Chart.yaml"), "{apiVersion: v2, name: shop, version: 1.0.0}")?;
        let texts = objects("{{ .Values.revision }}").map(|(_, object)| object.to_string());
        fs::write(templates.join("shop.yaml"), texts.join("\n---\n"))?;
        world.ring().write_kubeconfig(&consumer.path, &folder.path().join("kubeconfig"))?;
        let user = User::at(world, &consumer.path, &consumer.namespace)?;
        let _depguard = Depguard::start(world).await?;
        apply_packs(&user, &[]).await?;
        let scene = Self { world: Arc::clone(world), consumer, user, folder, _depguard };
        scene.create_others().await?;
        Ok(scene)
    }

    async fn create_others(&self) -> Outcome {
        let named = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
        let template = |field: &str, value: Value| {
            let container = json!({"name": "main", "image": "a", "envFrom": [{field: {"name": value}}]});
            json!({"metadata": {"labels": {"app": "other"}}, "spec": {"restartPolicy": "Always", "containers": [container]}})
        };
        let mut of_job = template("secretRef", json!("of-import"));
        of_job["spec"]["restartPolicy"] = json!("Never");
        let mut lone = named("Pod", "lone");
        lone["spec"] = template("configMapRef", json!("of-lone"))["spec"].take();
        for object in [
            named("ServiceAccount", "default"),
            named("ConfigMap", "of-db"),
            named("Secret", "of-import"),
            named("ConfigMap", "of-lone"),
            lone,
            json!({
                "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
                "spec": {
                    "selector": {"matchLabels": {"app": "other"}},
                    "template": template("configMapRef", json!("of-db")),
                },
            }),
            json!({
                "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "import"}, "spec": {"template": of_job},
            }),
        ] {
            let plural = format!("{}s", object["kind"].as_str().unwrap_or_default().to_lowercase());
            self.consumer.api.post(&self.at(&plural), &object).await?.ok_or_there()?;
        }
        Ok(())
    }

    /// Returns the path of an object or a list in the namespace, by its end.
    fn at(&self, end: &str) -> String {
        let group = match end.split('/').next() {
            Some("deployments" | "statefulsets") => "/apis/apps/v1",
            Some("jobs") => "/apis/batch/v1",
            _ => "/api/v1",
        };
        format!("{group}/namespaces/{}/{end}", self.consumer.namespace)
    }

    /// Waits for a change, while a kubelet is played: each Pod runs and is ready as soon as it is there.
    async fn played<T>(&self, change: impl Future<Output = Outcome<T>>) -> Outcome<T> {
        let (api, pods) = (&self.consumer.api, self.at("pods"));
        tokio::select! {
            changed = change => changed,
            stopped = attend_all(api, &pods, async |pod| run_pod(api, pod).await) => match stopped? {},
        }
    }

    /// Waits until all Pods are of the present revision.
    async fn until_rolled_out(&self) -> Outcome {
        self.played(eventually("the Deployment has rolled out", self.world.patience(), async || {
            let deployment = self.consumer.api.get(&self.at("deployments/shop")).await?.ok()?;
            let status = &deployment["status"];
            let counts = ["replicas", "updatedReplicas", "availableReplicas"].map(|field| &status[field]);
            let is_seen = status["observedGeneration"] == deployment["metadata"]["generation"];
            ensure(is_seen && counts.iter().all(|count| **count == REPLICAS), || status.to_string())
        }))
        .await
    }

    /// Checks that what follows happens while Pods of the former revision run.
    async fn has_running_pod_of(&self, revision: u64) -> Outcome {
        let list = self.consumer.api.get(&self.at("pods")).await?.ok()?;
        let used = format!("password-{revision}");
        let is_of_revision = |pod: &Value| {
            pod["status"]["phase"] == "Running"
                && pod["spec"]["containers"][0]["envFrom"][0]["secretRef"]["name"] == used
        };
        let mut pods = list["items"].as_array().into_iter().flatten();
        ensure(pods.any(is_of_revision), || format!("no Pod runs with {used}"))
    }

    /// Waits until what the present revision uses is kept.
    async fn until_kept(&self, revision: u64) -> Outcome {
        for (path, _) in objects(&revision.to_string()).iter().take(2) {
            until_refused(&self.world, &self.consumer.api, &self.at(path), "still referenced by Deployment/shop")
                .await?;
        }
        self.others_are_kept().await
    }

    /// Checks that the former revision's objects are gone, and those of the present one are kept.
    async fn has_moved(&self, former: u64, present: u64) -> Outcome {
        self.is_gone(former).await?;
        for (path, _) in objects(&present.to_string()).iter().take(2) {
            self.is_kept(path, "Deployment/shop").await?;
        }
        self.others_are_kept().await
    }

    async fn is_gone(&self, revision: u64) -> Outcome {
        for (path, _) in objects(&revision.to_string()).iter().take(2) {
            let reply = self.consumer.api.get(&self.at(path)).await?;
            ensure(reply.is_gone(), || format!("{path} is still there"))?;
        }
        Ok(())
    }

    async fn others_are_kept(&self) -> Outcome {
        for (path, by) in OTHERS {
            self.is_kept(path, by).await?;
        }
        Ok(())
    }

    async fn is_kept(&self, path: &str, by: &str) -> Outcome {
        let reply = self.consumer.api.dry_run_delete(&self.at(path)).await?;
        let is_refused = reply.status == 403 && reply.message().contains(&format!("still referenced by {by}"));
        if is_refused { Ok(()) } else { Err(reply.unexpected(&format!("a refusal, since {by} uses {path}"))) }
    }
}

/// Gives the webhook the rights of all packs about Kubernetes.
pub(crate) async fn grant_packs(world: &World) -> Outcome {
    for pack in packs() {
        let is_role = |object: &Value| object["kind"] == "ClusterRole";
        for role in manifests::pack_objects(pack).iter().filter(|object| is_role(object)) {
            world.grant_reading(role).await?;
        }
    }
    Ok(())
}

/// Applies the rules of all packs about Kubernetes, and returns what the user is told about them.
pub(crate) async fn apply_packs(user: &User, more: &[&str]) -> Outcome<String> {
    let names: Vec<_> = packs().map(|pack| pack.name).collect();
    let applied = user.run(&[&["rules", "apply"], &names[..], more].concat()).await;
    applied.is(ExitStatus::Well, &[])?;
    Ok(applied.err)
}

fn packs() -> impl Iterator<Item = &'static RulePack> {
    RulePack::all().iter().filter(|pack| pack.control_plane == ControlPlane::Kubernetes)
}
