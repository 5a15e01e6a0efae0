//! `helm upgrade` from a former chart and `helm rollback` to the former chart, on a real kube-apiserver, while objects are
//! deleted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use depguard_e2e::tools::run;
use depguard_e2e::{Api, Authority, Outcome, Ring, Stop, ensure, eventually};
use serde_json::{Value, json};

use crate::chart::{Chart, NAMESPACE, WEBHOOK_HOST, parse};
use crate::deleter::Deleter;
use crate::lifecycle;
use crate::node::{Images, Node, webhooks};

/// Environment variables that name the chart's folder of another version, and the folder of its binaries.
const OTHER_CHART: &str = "DEPGUARD_OTHER_CHART";
const OTHER_BIN: &str = "DEPGUARD_OTHER_BIN";

const VALUES: &str = "image: {repository: registry.example.com/depguard}\ntls: {secretName: depguard-tls}\n";
const FORMER_IMAGE: &str = "registry.example.com/depguard:former";
const NEW_IMAGE: &str = concat!("registry.example.com/depguard:", env!("CARGO_PKG_VERSION"));
const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/dependencyrules.dependencies.opendefense.cloud";

/// Place of an edge's fields in the definition of rules. The former chart of [`Former::of_this_version`] lacks `message`.
const EDGE_FIELDS: &str = "/versions/0/schema/openAPIV3Schema/properties/spec/properties/dependencies/items/properties";

/// Chart and binaries that the upgrade replaces.
struct Former {
    chart: Chart,
    binaries: PathBuf,
    has_the_field: bool,
}

impl Former {
    /// Returns the other version that the environment names, or else an older look of this one in `folder`, with the
    /// binaries that are `here`.
    fn find(chart: &Chart, folder: &Path, here: &Path) -> Outcome<Former> {
        let [other, binaries] = [OTHER_CHART, OTHER_BIN].map(|name| std::env::var_os(name).map(PathBuf::from));
        match (other, binaries) {
            (Some(folder), Some(binaries)) => {
                Ok(Former { chart: Chart { tools: chart.tools.clone(), folder }, binaries, has_the_field: true })
            }
            (None, _) => Former::of_this_version(chart, folder, here),
            (Some(_), None) => Err(Stop::Failed(format!("{OTHER_CHART} is set, but {OTHER_BIN} is not"))),
        }
    }

    /// Copies the chart, and takes `message` out of the definition of rules, as if an older version did not know the
    /// field.
    fn of_this_version(chart: &Chart, folder: &Path, binaries: &Path) -> Outcome<Former> {
        let copy = folder.join("former");
        run(Command::new("cp").arg("-r").args([&chart.folder, &copy]))?;
        let crd = copy.join("files/crd.yaml");
        let mut objects = parse(&fs::read_to_string(&crd)?)?;
        let fields = objects.first_mut().and_then(|crd| crd["spec"].pointer_mut(EDGE_FIELDS));
        let taken = fields.and_then(Value::as_object_mut).and_then(|fields| fields.remove("message"));
        ensure(taken.is_some(), || "the definition has no `message`".to_owned())?;
        let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
        fs::write(crd, texts.join("\n---\n"))?;
        let chart = Chart { tools: chart.tools.clone(), folder: copy };
        Ok(Former { chart, binaries: binaries.to_owned(), has_the_field: false })
    }
}

/// Runs `change` and waits until only webhooks of this image are left; deletions go on meanwhile.
async fn while_deleting(ring: &Ring, image: &str, change: impl FnOnce() -> Outcome<String>) -> Outcome {
    let api = ring.admin().await?;
    let deleter = Deleter::start(ring.admin().await?, "shop", "settings");
    change()?;
    eventually("all webhooks are of the new image", ring.patience(), async || {
        let pods = webhooks(&api).await?;
        let images: Vec<&Value> = pods.iter().map(|pod| &pod["spec"]["containers"][0]["image"]).collect();
        ensure(images == [image, image], || format!("{images:?}"))
    })
    .await?;
    let gone = deleter.stop().await?;
    println!("chart:      {gone} deletions while helm made the webhooks {image}, each decided rightly");
    Ok(())
}

/// Returns the number of rules; fails if the definition of rules has or lacks `message` against expectation.
async fn rules(api: &Api, has_the_field: bool) -> Outcome<usize> {
    let definition = api.get(DEFINITION).await?.ok()?;
    let field = definition["spec"].pointer(&format!("{EDGE_FIELDS}/message"));
    ensure(field.is_some() == has_the_field, || format!("the definition's `message` is {field:?}"))?;
    let rules = api.get(lifecycle::RULES).await?.ok()?;
    Ok(rules["items"].as_array().map_or(0, Vec::len))
}

/// Installs the former chart, upgrades to this one, and rolls back.
pub(crate) async fn there_and_back(ring: Arc<Ring>, chart: &Chart) -> Outcome {
    let folder = tempfile::tempdir()?;
    let mut images = Images::built()?;
    let former = Former::find(chart, folder.path(), &images.usual)?;
    images.special.insert(FORMER_IMAGE.to_owned(), former.binaries);
    let _node = Node::start(&ring, NAMESPACE, images).await?;
    let api = ring.admin().await?;
    write_secret(&api).await?;

    let kubeconfig = folder.path().join("kubeconfig");
    ring.write_kubeconfig("", &kubeconfig)?;
    let kubeconfig = kubeconfig.to_string_lossy();
    let waiting = ["--wait", "--kubeconfig", &kubeconfig];
    let command = |name| [&[name, "depguard"], &waiting[..]].concat();
    former.chart.helm(&command("install"), NAMESPACE, VALUES, &[r#"image.tag="former""#])?;
    lifecycle::fill(&api).await?;
    eventually("what is used is not deleted", ring.patience(), async || {
        let reply = api.delete(&format!("{}?dryRun=All", lifecycle::SETTINGS)).await?;
        ensure(reply.status == 403, || format!("{} {}", reply.status, reply.message()))
    })
    .await?;
    let before = rules(&api, former.has_the_field).await?;

    while_deleting(&ring, NEW_IMAGE, || chart.helm(&command("upgrade"), NAMESPACE, VALUES, &[])).await?;
    let after = rules(&api, true).await?;
    ensure(after == before, || format!("of {before} rules {after} are left after the upgrade"))?;
    let rollback = [&command("rollback")[..], &["1", "--namespace", NAMESPACE]].concat();
    while_deleting(&ring, FORMER_IMAGE, || chart.tools.helm(&rollback)).await?;
    let after = rules(&api, former.has_the_field).await?;
    ensure(after == before, || format!("of {before} rules {after} are left after the rollback"))
}

/// Creates the namespace of the release, and the Secret with the webhook's certificate.
async fn write_secret(api: &Api) -> Outcome {
    let files = tempfile::tempdir()?;
    Authority::new("depguard")?.issue_for(&[WEBHOOK_HOST], files.path())?;
    let mut data = json!({});
    for name in ["tls.crt", "tls.key", "ca.crt"] {
        data[name] = json!(fs::read_to_string(files.path().join(name))?);
    }
    api.post("/api/v1/namespaces", &json!({"metadata": {"name": NAMESPACE}})).await?.ok()?;
    let secret = json!({"metadata": {"name": "depguard-tls"}, "stringData": data});
    api.post(&format!("/api/v1/namespaces/{NAMESPACE}/secrets"), &secret).await?.ok().map(drop)
}
