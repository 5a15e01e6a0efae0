//! Tools that delete many objects, one pass after the other, until nothing is left. Each loop here deletes as its tool
//! does; docs/gitops.md has the sources, and the table that these scenarios measure.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use depguard_e2e::rules::rule;
use depguard_e2e::tools::Tools;
use depguard_e2e::{Consumer, Depguard, Outcome, Resource, Stop, Watch, World, ensure};
use futures::future::try_join_all;
use serde_json::{Value, json};
use tokio::process::Command;

/// References: the dependent's kind, the target's kind, and the field of the dependent's `spec`.
const REFERENCES: [(&str, &str, &str); 4] = [
    ("VirtualMachine", "Subnet", "subnetRef"),
    ("VirtualMachine", "Secret", "secretRef"),
    ("VirtualMachine", "ConfigMap", "configMapRef"),
    ("Subnet", "Network", "networkRef"),
];

/// Number of objects in the longest chain of references: a machine, its subnet, the subnet's network.
const MAX_PASSES: usize = 3;

/// All kinds, in the order in which a user creates their objects.
const CREATED: [&str; 5] = ["Network", "Subnet", "Secret", "ConfigMap", "VirtualMachine"];

/// Name of each object.
const NAME: &str = "a";

/// Kinds in the steps of a pass. The objects of one step are deleted side by side.
type Steps = &'static [&'static [&'static str]];

const DEPENDENTS_FIRST: Steps = &[&["VirtualMachine"], &["Subnet", "Secret", "ConfigMap"], &["Network"]];
const SIDE_BY_SIDE: Steps = &[&CREATED];

/// Tool, and an order in which it deletes.
struct Case {
    tool: &'static str,
    /// Rule by which the tool orders deletions.
    by: &'static str,
    steps: Steps,
    /// Set if a refusal ends the pass after its step, so that later steps wait for the next pass.
    stops: bool,
    passes: Passes,
}

/// Number of passes with depguard until nothing is left.
#[derive(Clone, Copy)]
enum Passes {
    Exactly(usize),
    /// As few or as many as it happens: the deletions of a step run side by side.
    UpTo(usize),
    /// No number is enough: a pass begins with refusals, and they end it.
    Endless,
}

const FLUX: &str = "Flux";
const ARGO: &str = "Argo CD";
const HELM: &str = "`helm uninstall`";
const KUBECTL: &str = "`kubectl delete -f DIR`";
const TERRAFORM: &str = "`terraform destroy`";

const CASES: [Case; 10] = [
    Case {
        tool: FLUX,
        by: "the order of applying, reversed",
        steps: &[&["Subnet"], &["Network"], &["VirtualMachine"], &["Secret"], &["ConfigMap"]],
        stops: false,
        passes: Passes::Exactly(2),
    },
    Case { tool: ARGO, by: "no waves", steps: SIDE_BY_SIDE, stops: true, passes: Passes::UpTo(MAX_PASSES) },
    Case {
        tool: ARGO,
        by: "waves: targets are created first",
        steps: DEPENDENTS_FIRST,
        stops: true,
        passes: Passes::Exactly(1),
    },
    Case {
        tool: ARGO,
        by: "waves: targets are created last",
        steps: &[&["Network"], &["Subnet", "Secret", "ConfigMap"], &["VirtualMachine"]],
        stops: true,
        passes: Passes::Endless,
    },
    Case {
        tool: HELM,
        by: "a list of kinds, then the alphabet",
        steps: &[&["ConfigMap"], &["Secret"], &["Network"], &["Subnet"], &["VirtualMachine"]],
        stops: false,
        passes: Passes::Exactly(MAX_PASSES),
    },
    Case {
        tool: KUBECTL,
        by: "files in the order of creation",
        steps: &[&["Network"], &["Subnet"], &["Secret"], &["ConfigMap"], &["VirtualMachine"]],
        stops: false,
        passes: Passes::Exactly(MAX_PASSES),
    },
    Case {
        tool: KUBECTL,
        by: "files with dependents first",
        steps: &[&["VirtualMachine"], &["ConfigMap"], &["Secret"], &["Subnet"], &["Network"]],
        stops: false,
        passes: Passes::Exactly(1),
    },
    Case {
        tool: TERRAFORM,
        by: "no references between resources",
        steps: SIDE_BY_SIDE,
        stops: false,
        passes: Passes::UpTo(MAX_PASSES),
    },
    Case {
        tool: TERRAFORM,
        by: "references between resources",
        steps: DEPENDENTS_FIRST,
        stops: false,
        passes: Passes::Exactly(1),
    },
    Case {
        tool: "`kubectl depguard order --delete`",
        by: "the rules",
        steps: DEPENDENTS_FIRST,
        stops: true,
        passes: Passes::Exactly(1),
    },
];

pub(crate) async fn flux(world: Arc<World>) -> Outcome {
    played(&world, FLUX).await
}

pub(crate) async fn argo(world: Arc<World>) -> Outcome {
    played(&world, ARGO).await
}

pub(crate) async fn helm(world: Arc<World>) -> Outcome {
    played(&world, HELM).await
}

pub(crate) async fn kubectl(world: Arc<World>) -> Outcome {
    played(&world, KUBECTL).await
}

pub(crate) async fn terraform(world: Arc<World>) -> Outcome {
    played(&world, TERRAFORM).await
}

pub(crate) async fn order(world: Arc<World>) -> Outcome {
    played(&world, "`kubectl depguard order --delete`").await
}

/// Plays all cases of a tool. With depguard, the order of all deletions must be right and the number of passes that of
/// docs/gitops.md. A control needs one pass for each case, and deletes targets before their dependents if the tool's
/// order says so.
async fn played(world: &Arc<World>, tool: &str) -> Outcome {
    let scene = Scene::start(world).await?;
    let page = page()?;
    for case in CASES.iter().filter(|case| case.tool == tool) {
        scene.create(world).await?;
        let journal = Journal::open(&scene).await?;
        let passes = scene.passes(world, case).await?;
        let disorder = journal.disorder().await?;
        let said = || format!("{tool}, {}: {passes:?} passes, in disorder: {disorder:?}", case.by);
        if world.is_control() {
            let right = matches!(case.passes, Passes::Exactly(1) | Passes::UpTo(_));
            ensure(passes == Some(1) && (right || !disorder.is_empty()), said)?;
            continue;
        }
        let is_as_said = match case.passes {
            Passes::Exactly(number) => passes == Some(number),
            Passes::UpTo(most) => passes.is_some_and(|passes| passes <= most),
            Passes::Endless => passes.is_none(),
        };
        ensure(is_as_said && disorder.is_empty() && passes.unwrap_or_default() <= MAX_PASSES, said)?;
        let row = case.row();
        ensure(page.lines().any(|line| line == row), || format!("docs/gitops.md lacks\n{row}"))?;
    }
    let rows = page.lines().filter(|line| line.starts_with("| ") && line.ends_with(" |") && line.contains(" | 1 | "));
    ensure(rows.count() == CASES.len(), || "docs/gitops.md has rows of no case".to_owned())?;
    if world.is_control() { Err(Stop::ControlSeen) } else { Ok(()) }
}

fn page() -> Outcome<String> {
    Ok(fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/gitops.md"))?)
}

impl Case {
    /// Returns the case's row in docs/gitops.md.
    fn row(&self) -> String {
        let steps: Vec<_> = self.steps.iter().map(|step| step.join(" + ")).collect();
        let passes = match self.passes {
            Passes::Exactly(number) => number.to_string(),
            Passes::UpTo(most) => format!("1 to {most}"),
            Passes::Endless => "never ends".to_owned(),
        };
        format!("| {} | {} | {} | 1 | {passes} |", self.tool, self.by, steps.join(", "))
    }
}

/// Kinds, rules, and a consumer whose objects the tools delete.
struct Scene {
    consumer: Consumer,
    kinds: BTreeMap<&'static str, Resource>,
    _depguard: Depguard,
}

/// Result of one deletion.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Deleted,
    Refused,
    Absent,
}

impl Scene {
    async fn start(world: &Arc<World>) -> Outcome<Scene> {
        let mut offered = vec![Resource::namespaced("Network"), Resource::namespaced("Subnet")];
        let core = ["Secret", "ConfigMap"].map(Resource::namespaced);
        if world.is_kcp() {
            // A rule protects core kinds in its own workspace only, so a provider offers kinds of the same names.
            offered.extend(core.clone());
        }
        let network = world.provider("providers:network", "network.example.com", offered).await?;
        let compute = world.compute().await?;
        tokio::try_join!(world.bind_depguard(&network), world.bind_depguard(&compute))?;
        let mut kinds = BTreeMap::new();
        for kind in CREATED {
            let resource = match core.iter().find(|core| core.kind == kind) {
                Some(core) if !world.is_kcp() => Resource { versions: &["v1"], ..core.clone() },
                _ if kind == "VirtualMachine" => compute.kind(kind)?,
                _ => network.kind(kind)?,
            };
            kinds.insert(kind, resource);
        }
        for (dependent, target, field) in REFERENCES {
            let provider = if dependent == "Subnet" { &network } else { &compute };
            let path = format!(".spec.{field}.name");
            let name = format!("{}-{}", kinds[dependent].plural, kinds[target].plural);
            world.add_rule(provider, &rule(&name, &kinds[dependent], &[(&kinds[target], &path)])).await?;
        }
        let consumer = world.consumer("consumer", &[&network, &compute]).await?;
        let _depguard = Depguard::start(world).await?;
        Ok(Scene { consumer, kinds, _depguard })
    }

    /// Returns the object of a kind.
    fn object(&self, kind: &str) -> Value {
        let mut object = json!({
            "apiVersion": self.kinds[kind].api_version(), "kind": kind,
            "metadata": {"name": NAME, "namespace": self.consumer.namespace},
        });
        for (_, _, field) in REFERENCES.iter().filter(|(dependent, ..)| *dependent == kind) {
            object["spec"][field] = json!({"name": NAME});
        }
        object
    }

    /// Creates one object of each kind, and waits until each target is protected.
    async fn create(&self, world: &World) -> Outcome {
        for kind in CREATED {
            let collection = self.kinds[kind].collection(&self.consumer.namespace);
            self.consumer.api.post(&collection, &self.object(kind)).await?.ok()?;
        }
        self.until_protected(world).await
    }

    async fn until_protected(&self, world: &World) -> Outcome {
        for (_, target, _) in REFERENCES {
            self.consumer.until_protected(world, &self.kinds[target], NAME).await?;
        }
        Ok(())
    }

    /// Makes one pass after the other until nothing is left, and returns their number; `None` if a pass deletes nothing
    /// and leaves something. Each further pass would do the same; the objects are then deleted in order.
    async fn passes(&self, world: &World, case: &Case) -> Outcome<Option<usize>> {
        for number in 1.. {
            let answers = self.pass(world, case.steps, case.stops).await?;
            if !answers.contains(&Answer::Refused) {
                return Ok(Some(number));
            }
            if !answers.contains(&Answer::Deleted) {
                break;
            }
        }
        self.pass(world, DEPENDENTS_FIRST, true).await?;
        Ok(None)
    }

    async fn pass(&self, world: &World, steps: Steps, stops: bool) -> Outcome<Vec<Answer>> {
        let mut answers = Vec::new();
        for step in steps {
            answers.extend(try_join_all(step.iter().map(|kind| self.delete(world, kind))).await?);
            if stops && answers.contains(&Answer::Refused) {
                break;
            }
        }
        Ok(answers)
    }

    async fn delete(&self, world: &World, kind: &str) -> Outcome<Answer> {
        let path = self.consumer.object(&self.kinds[kind], NAME);
        let reply = self.consumer.api.delete(&path).await?;
        if reply.is_gone() {
            return Ok(Answer::Absent);
        }
        if reply.status == 403 && reply.message().contains("still referenced by") {
            self.consumer.untouched(&self.kinds[kind], NAME).await?;
            return Ok(Answer::Refused);
        }
        reply.ok()?;
        self.consumer.gone(world, &path).await?;
        Ok(Answer::Deleted)
    }
}

/// Watches of all kinds, which tell the revision at which an object was deleted. One store has all kinds, so their
/// revisions have one order.
struct Journal {
    watches: Vec<(&'static str, Watch)>,
}

impl Journal {
    async fn open(scene: &Scene) -> Outcome<Journal> {
        let mut watches = Vec::new();
        for kind in CREATED {
            let collection = scene.kinds[kind].collection(&scene.consumer.namespace);
            let list = scene.consumer.api.get(&collection).await?.ok()?;
            let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
            watches.push((kind, scene.consumer.api.watch(&collection, version).await?));
        }
        Ok(Journal { watches })
    }

    /// Waits until all objects have been deleted, and returns the references whose target was deleted first.
    async fn disorder(self) -> Outcome<Vec<String>> {
        let mut deleted = BTreeMap::new();
        for (kind, mut watch) in self.watches {
            loop {
                let Some(event) = watch.next().await? else {
                    return Err(Stop::Failed(format!("the watch of {kind} ended")));
                };
                let metadata = &event["object"]["metadata"];
                if event["type"] == "DELETED" && metadata["name"] == NAME {
                    let revision: u64 = metadata["resourceVersion"].as_str().unwrap_or_default().parse()?;
                    deleted.insert(kind, revision);
                    break;
                }
            }
        }
        let wrong = REFERENCES.iter().filter(|(dependent, target, _)| deleted[dependent] > deleted[target]);
        Ok(wrong.map(|(dependent, target, _)| format!("{target} before {dependent}")).collect())
    }
}

/// Plays the cases of kubectl and helm with the programs themselves, whose order and exit code are then their own.
pub(crate) async fn programs(world: Arc<World>) -> Outcome {
    let tools = Tools::find().map_err(Stop::Skipped)?;
    let scene = Scene::start(&world).await?;
    let folder = tempfile::tempdir()?;
    let files = [("made", CREATED.to_vec()), ("reversed", CREATED.into_iter().rev().collect())];
    for (name, kinds) in &files {
        fs::create_dir(folder.path().join(name))?;
        for (number, kind) in kinds.iter().enumerate() {
            fs::write(folder.path().join(format!("{name}/{number}.json")), scene.object(kind).to_string())?;
        }
    }
    let chart = folder.path().join("chart");
    fs::create_dir_all(chart.join("templates"))?;
    fs::write(chart.join("Chart.yaml"), "{apiVersion: v2, name: shop, version: 1.0.0}")?;
    for kind in CREATED {
        fs::write(chart.join(format!("templates/{kind}.yaml")), scene.object(kind).to_string())?;
    }
    world.ring().write_kubeconfig(&scene.consumer.path, &folder.path().join("kubeconfig"))?;

    let namespace = scene.consumer.namespace.as_str();
    let plays: [(&str, &str, &[&str], &[&str]); 3] = [
        (KUBECTL, "files in the order of creation", &[], &["kubectl", "delete", "--ignore-not-found", "-f", "made"]),
        (KUBECTL, "files with dependents first", &[], &["kubectl", "delete", "--ignore-not-found", "-f", "reversed"]),
        (
            HELM,
            "a list of kinds, then the alphabet",
            &["helm", "install", "shop", "chart", "-n", namespace],
            &["helm", "uninstall", "shop", "-n", namespace],
        ),
    ];
    for (tool, by, before, command) in plays {
        if let Some(case) = CASES.iter().find(|case| case.tool == tool && case.by == by) {
            if before.is_empty() {
                scene.create(&world).await?;
            } else {
                let printed = run(&tools, folder.path(), before).await?;
                ensure(printed.is_ok(), || format!("{before:?}: {printed:?}"))?;
                scene.until_protected(&world).await?;
            }
            let journal = Journal::open(&scene).await?;
            let mut passes = 1;
            while let Err(printed) = run(&tools, folder.path(), command).await? {
                let is_refusal = printed.contains("still referenced by") || tool == HELM;
                ensure(is_refusal && passes <= MAX_PASSES, || format!("pass {passes} of {command:?}: {printed}"))?;
                passes += 1;
            }
            let disorder = journal.disorder().await?;
            let said = || format!("{command:?}: {passes} passes, in disorder: {disorder:?}");
            let expected = if world.is_control() { 1 } else { case.expected() };
            ensure(passes == expected, said)?;
            ensure(disorder.is_empty() != (world.is_control() && case.expected() > 1), said)?;
        }
    }
    if world.is_control() { Err(Stop::ControlSeen) } else { Ok(()) }
}

impl Case {
    /// Returns the number of passes with depguard, if it is always the same.
    fn expected(&self) -> usize {
        if let Passes::Exactly(number) = self.passes { number } else { 0 }
    }
}

/// Runs a program in the folder and returns its output, as an error if the program failed.
pub(crate) async fn run(tools: &Tools, folder: &Path, command: &[&str]) -> Outcome<Result<String, String>> {
    let (program, arguments) = command.split_first().ok_or_else(|| Stop::failed("no program"))?;
    let output = Command::new(tools.folder().join(program))
        .args(arguments)
        .current_dir(folder)
        .env("HOME", folder)
        .env("KUBECONFIG", folder.join("kubeconfig"))
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await?;
    let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    Ok(if output.status.success() { Ok(printed) } else { Err(printed) })
}
