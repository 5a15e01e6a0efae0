//! The examples that the reference publishes, applied as they stand, and the switch from there to depguard.
//!
//! Its text is not depguard's, so the scenario reads a copy of its repository from a folder.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use depguard_controller::manifests;
use depguard_core::{ControlPlane, Rule};
use depguard_e2e::rules::RULES;
use depguard_e2e::{Api, Depguard, Outcome, Provider, Resource, Stop, World, ensure, eventually};
use serde_json::{Value, json};

use crate::switching::{EXPORT, SCHEMAS};

/// Environment variable that names the folder.
const FOLDER: &str = "DEPGUARD_REFERENCE";
const GUIDE: &str = "docs/getting-started.md";
/// The groups of the guide's objects in kcp; it has others in the cluster of its pods.
const GROUPS: [&str; 5] = [
    "apis.kcp.io",
    "compute.test.io",
    "dependencies.opendefense.cloud",
    "network.test.io",
    "rbac.authorization.k8s.io",
];
const RULE: &str = "vm-dependencies";
const VPC: &str = "/apis/network.test.io/v1/namespaces/default/vpcs/my-vpc";
const VM: &str = "/apis/compute.test.io/v1/namespaces/default/virtualmachines/my-vm";

/// Object of the guide, with the path of the workspace in which the guide applies it.
struct PublishedObject {
    workspace: String,
    object: Value,
}

/// Copy of the reference's repository.
struct Repository(PathBuf);

impl Repository {
    fn open() -> Outcome<Repository> {
        let folder = std::env::var_os(FOLDER).ok_or_else(|| {
            Stop::Skipped(format!("{FOLDER} names no folder with the reference's repository (docs/testing.md)"))
        })?;
        Ok(Repository(folder.into()))
    }

    fn text(&self, file: &str) -> Outcome<String> {
        let path = self.0.join(file);
        std::fs::read_to_string(&path).map_err(|why| Stop::Failed(format!("{}: {why}", path.display())))
    }

    /// Returns the guide's objects, in its order.
    fn guide(&self) -> Outcome<Vec<PublishedObject>> {
        let guide = self.text(GUIDE)?;
        let (mut workspace, mut published) = (None, Vec::new());
        let mut lines = guide.lines();
        while let Some(line) = lines.next() {
            let words: Vec<_> = line.split_whitespace().collect();
            let text = match words.as_slice() {
                ["kubectl", "ws", "create", name, "--enter"] => {
                    workspace = workspace.map(|parent: String| format!("{parent}:{name}"));
                    continue;
                }
                ["kubectl", "ws", path] => {
                    workspace = Some((*path).to_owned());
                    continue;
                }
                ["kubectl", "apply", "-f", "-", ..] => {
                    lines.by_ref().take_while(|line| *line != "EOF").collect::<Vec<_>>().join("\n")
                }
                ["kubectl", "apply", "-f", file] if !file.contains("://") => self.text(file)?,
                _ => continue,
            };
            let Some(workspace) = &workspace else { continue };
            for object in documents(&text)? {
                published.push(PublishedObject { workspace: workspace.clone(), object });
            }
        }
        published.retain(|published| GROUPS.contains(&group(&published.object)));
        ensure(published.len() > 10, || format!("{GUIDE} has only {} objects", published.len()))?;
        Ok(published)
    }

    /// Returns the rules that the README shows.
    fn rules_of_readme(&self) -> Outcome<Vec<Value>> {
        let readme = self.text("README.md")?;
        let blocks = readme.split("```yaml\n").skip(1).filter_map(|block| block.split("```").next());
        let objects = blocks.map(documents).collect::<Outcome<Vec<_>>>()?.concat();
        Ok(objects.into_iter().filter(|object| object["kind"] == "DependencyRule").collect())
    }
}

fn documents(text: &str) -> Outcome<Vec<Value>> {
    serde_saphyr::from_multiple(text).map_err(|why| Stop::Failed(format!("{text}: {why}")))
}

fn group(object: &Value) -> &str {
    object["apiVersion"].as_str().unwrap_or_default().split('/').next().unwrap_or_default()
}

/// Applies the guide, switches to depguard, and deletes what the guide deletes.
pub(crate) async fn examples(world: Arc<World>) -> Outcome {
    let repository = Repository::open()?;
    repository.rules_of_readme()?.iter().try_for_each(is_accepted_or_told)?;
    let kinds = |kind: &str| vec![Resource::namespaced(kind).served_in(&["v1"])];
    world.adopt("network-provider", "network.test.io", kinds("VPC")).await?;
    let compute = world.adopt("compute-provider", "compute.test.io", kinds("VirtualMachine")).await?;
    // The guide's workspaces are right below `root`, and this world's are not.
    let own = world.own_path();
    let parent = own.strip_suffix(":dep-ctrl").ok_or_else(|| Stop::failed("depguard's workspace lies elsewhere"))?;
    let consumer = world.admin(&world.workspace("consumer1").await?);
    for PublishedObject { workspace, object } in repository.guide()? {
        let below = |text: &str| format!("{parent}{}", text.strip_prefix("root").unwrap_or_default());
        let object: Value = serde_json::from_str(&object.to_string().replace("\"root:", &format!("\"{parent}:")))?;
        apply(&world, &world.admin(&below(&workspace)), &object).await?;
    }

    let own = world.own_cluster();
    own.post(SCHEMAS, &manifests::api_resource_schema()).await?.ok_or_there()?;
    own.merge(EXPORT, &json!({"spec": manifests::api_export()["spec"]})).await?.ok()?;
    let _depguard = Depguard::start(&world).await?;
    correct(&world, &compute).await?;
    world.condition(&compute, RULE, "Accepted", "True").await?;
    world.condition(&compute, RULE, "Programmed", "True").await?;

    eventually("the network is protected", world.patience(), async || {
        let reply = consumer.dry_run_delete(VPC).await?;
        let refused = reply.message().contains("cannot delete vpcs/my-vpc: still referenced by VirtualMachine/my-vm");
        if world.is_control() || refused { Ok(()) } else { Err(reply.unexpected("a refusal")) }
    })
    .await?;
    let reply = consumer.delete(VPC).await?;
    if world.is_control() {
        reply.ok()?;
        return Err(Stop::ControlSeen);
    }
    ensure(reply.status == 403, || format!("{}", reply.unexpected("403")))?;
    consumer.delete(VM).await?.ok()?;
    consumer.delete(VPC).await?.ok().map(drop)
}

/// Checks that depguard accepts a rule, or names the field to correct.
fn is_accepted_or_told(rule: &Value) -> Outcome {
    let mut rule = rule.clone();
    rule["metadata"]["annotations"] = json!(BTreeMap::from([("kcp.io/cluster", "compute")]));
    match Rule::parse(ControlPlane::Kcp, &rule) {
        Ok(_) => Ok(()),
        Err(error) => ensure(error.field().is_some(), || format!("{error}: {rule}")),
    }
}

/// Corrects a rule of the older form as its status says.
async fn correct(world: &World, compute: &Provider) -> Outcome {
    let rule = compute.api.get(&format!("{RULES}/{RULE}")).await?.ok()?;
    let Some(name) = rule.pointer("/spec/dependent/apiExportRef/name") else { return Ok(()) };
    let told = |said: &str| name.as_str().is_some_and(|name| said.contains(&format!("write `apiExportName: {name}`")));
    world.condition_says(compute, RULE, "Accepted", "False", told).await?;
    world
        .change_rule(compute, RULE, &json!({"spec": {"dependent": {"apiExportRef": null, "apiExportName": name}}}))
        .await
}

/// Applies an object as `kubectl apply` does.
async fn apply(world: &World, api: &Api, object: &Value) -> Outcome {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let namespace = Some(text("/metadata/namespace")).filter(|namespace| !namespace.is_empty());
    let within = namespace.map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
    let collection = format!("/apis/{}{within}/{}s", text("/apiVersion"), text("/kind").to_lowercase());
    let what = format!("{} {} is applied", text("/kind"), text("/metadata/name"));
    eventually(&what, world.patience(), async || {
        let reply = api.post(&collection, object).await?;
        if reply.status != 409 {
            return reply.ok().map(drop);
        }
        let patch = json!({"spec": object["spec"], "rules": object["rules"]});
        api.merge(&format!("{collection}/{}", text("/metadata/name")), &patch).await?.ok().map(drop)
    })
    .await
}
