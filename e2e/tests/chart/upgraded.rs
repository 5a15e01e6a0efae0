//! `helm upgrade` from a former chart and `helm rollback` to the former chart, on a real kube-apiserver, while objects are
//! deleted.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use depguard_e2e::tools::{Tools, binary};
use depguard_e2e::{Api, Authority, Outcome, Ring, Stop, ensure, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::chart::{Chart, NAMESPACE, parse};
use crate::deleter::Deleter;
use crate::lifecycle;
use crate::node::{Images, Node};

/// Environment variables that name the chart's folder of another version, and the folder of its binaries.
const OTHER_CHART: &str = "DEPGUARD_OTHER_CHART";
const OTHER_BIN: &str = "DEPGUARD_OTHER_BIN";

const IMAGE: &str = "registry.example.com/depguard";
const FORMER_TAG: &str = "former";
const VALUES: &str = "image: {repository: registry.example.com/depguard}\ntls: {secretName: depguard-tls}\n";
const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/dependencyrules.dependencies.opendefense.cloud";

/// Place of an edge's fields in the definition of rules. The former chart of [`Former::of_this_version`] lacks `message`.
const EDGE_FIELDS: &str = "/versions/0/schema/openAPIV3Schema/properties/spec/properties/dependencies/items/properties";

/// Chart and binaries that the upgrade replaces.
struct Former {
    chart: PathBuf,
    binaries: PathBuf,
    lacks_the_field: bool,
}

impl Former {
    /// Returns the other version that the environment names, or else an older look of this one in `folder`,
    /// with the binaries that are `here`.
    fn find(chart: &Chart, folder: &Path, here: &Path) -> Outcome<Former> {
        match (std::env::var_os(OTHER_CHART), std::env::var_os(OTHER_BIN)) {
            (Some(chart), Some(binaries)) => {
                Ok(Former { chart: chart.into(), binaries: binaries.into(), lacks_the_field: false })
            }
            (None, _) => Former::of_this_version(chart, folder, here.to_owned()),
            (Some(_), None) => Err(Stop::Failed(format!("{OTHER_CHART} is set, but {OTHER_BIN} is not"))),
        }
    }

    /// Copies the chart, and takes `message` out of the definition of rules, as if an older version did not know the
    /// field.
    fn of_this_version(chart: &Chart, folder: &Path, binaries: PathBuf) -> Outcome<Former> {
        let copy = folder.join("former");
        copy_folder(&chart.folder, &copy)?;
        let crd = copy.join("files/crd.yaml");
        let mut objects = parse(&fs::read_to_string(&crd)?)?;
        let fields = objects.first_mut().and_then(|crd| crd["spec"].pointer_mut(EDGE_FIELDS));
        let taken = fields.and_then(Value::as_object_mut).and_then(|fields| fields.remove("message"));
        ensure(taken.is_some(), || "the definition has no `message`".to_owned())?;
        let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
        fs::write(crd, texts.join("\n---\n"))?;
        Ok(Former { chart: copy, binaries, lacks_the_field: true })
    }
}

fn copy_folder(from: &Path, to: &Path) -> Outcome {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let path = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &path)?;
        } else {
            fs::copy(entry.path(), path)?;
        }
    }
    Ok(())
}

/// Release of helm on one cluster.
struct Release<'a> {
    tools: &'a Tools,
    api: Api,
    ring: &'a Ring,
    folder: TempDir,
}

impl Release<'_> {
    /// Runs helm and waits until only webhooks of this image are left; deletions go on meanwhile.
    async fn change(&self, arguments: &[&str], image: &str) -> Outcome {
        let deleter = Deleter::start(self.ring.admin().await?, "shop", "settings");
        self.helm(arguments)?;
        let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io%2Fcomponent%3Dwebhook");
        eventually("all webhooks are of the new image", self.ring.patience(), async || {
            let found = self.api.get(&pods).await?.ok()?;
            let images: Vec<&Value> = found["items"].as_array().into_iter().flatten().map(image_of).collect();
            ensure(images == [image, image], || format!("{images:?}"))
        })
        .await?;
        let gone = deleter.stop().await?;
        println!("chart:      {gone} deletions while helm made the webhooks {image}, each decided rightly");
        Ok(())
    }

    fn helm(&self, arguments: &[&str]) -> Outcome {
        let kubeconfig = self.folder.path().join("kubeconfig").to_string_lossy().into_owned();
        let values = self.folder.path().join("values.yaml").to_string_lossy().into_owned();
        let (command, rest) = arguments.split_first().ok_or_else(|| Stop::failed("helm needs a command"))?;
        let of_all = ["--namespace", NAMESPACE, "--kubeconfig", &kubeconfig, "--wait"];
        let given: &[&str] = if *command == "rollback" { &[] } else { &["--values", &values] };
        let line: Vec<&str> = [command, "depguard"].into_iter().chain(rest.iter().copied()).collect();
        self.tools.helm(&[&line[..], &of_all, given].concat()).map(drop)
    }

    /// Returns the number of rules; fails if the definition of rules has or lacks `message` against expectation.
    async fn rules(&self, has_the_field: bool) -> Outcome<usize> {
        let definition = self.api.get(DEFINITION).await?.ok()?;
        let field = definition["spec"].pointer(&format!("{EDGE_FIELDS}/message"));
        ensure(field.is_some() == has_the_field, || format!("the definition's `message` is {field:?}"))?;
        let rules = self.api.get(lifecycle::RULES).await?.ok()?;
        Ok(rules["items"].as_array().map_or(0, Vec::len))
    }
}

fn image_of(pod: &Value) -> &Value {
    &pod["spec"]["containers"][0]["image"]
}

/// Installs the former chart, upgrades to this one, and rolls back.
pub(crate) async fn there_and_back(ring: Arc<Ring>, chart: &Chart) -> Outcome {
    let folder = tempfile::tempdir()?;
    binary("depguard-webhook")?;
    let here = binary("depguard-controller")?.parent().map(PathBuf::from).unwrap_or_default();
    let former = Former::find(chart, folder.path(), &here)?;
    ring.write_kubeconfig("", &folder.path().join("kubeconfig"))?;
    fs::write(folder.path().join("values.yaml"), VALUES)?;
    let (old, new) = (format!("{IMAGE}:{FORMER_TAG}"), format!("{IMAGE}:{}", env!("CARGO_PKG_VERSION")));
    let images = Images { usual: here, special: [(old.clone(), former.binaries)].into() };
    let _node = Node::start(&ring, NAMESPACE, images).await?;
    let release = Release { tools: &chart.tools, api: ring.admin().await?, ring: &ring, folder };
    write_secret(&release.api).await?;

    let (former_chart, this_chart) = (former.chart.to_string_lossy(), chart.folder.to_string_lossy());
    release.helm(&["install", &former_chart, "--set", &format!("image.tag={FORMER_TAG}")])?;
    lifecycle::fill(&release.api).await?;
    eventually("what is used is not deleted", ring.patience(), async || {
        let reply = release.api.delete(&format!("{}?dryRun=All", lifecycle::SETTINGS)).await?;
        ensure(reply.status == 403, || format!("{} {}", reply.status, reply.message()))
    })
    .await?;
    let rules = release.rules(!former.lacks_the_field).await?;

    release.change(&["upgrade", &this_chart], &new).await?;
    let after = release.rules(true).await?;
    ensure(after == rules, || format!("of {rules} rules {after} are left after the upgrade"))?;
    release.change(&["rollback", "1"], &old).await?;
    let after = release.rules(!former.lacks_the_field).await?;
    ensure(after == rules, || format!("of {rules} rules {after} are left after the rollback"))
}

/// Creates the namespace of the release, and the Secret with the webhook's certificate.
async fn write_secret(api: &Api) -> Outcome {
    let files = tempfile::tempdir()?;
    Authority::new("depguard")?.issue_for(&[&format!("depguard-webhook.{NAMESPACE}.svc")], files.path())?;
    let mut data = json!({});
    for name in ["tls.crt", "tls.key", "ca.crt"] {
        data[name] = json!(fs::read_to_string(files.path().join(name))?);
    }
    api.post("/api/v1/namespaces", &json!({"metadata": {"name": NAMESPACE}})).await?.ok()?;
    let secret = json!({"metadata": {"name": "depguard-tls"}, "stringData": data});
    api.post(&format!("/api/v1/namespaces/{NAMESPACE}/secrets"), &secret).await?.ok().map(drop)
}
