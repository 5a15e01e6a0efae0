//! docs/install-kcp.md, walked through in a shell on a real kcp. The chart's two programs run as processes of this
//! machine.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use depguard_e2e::document::{Command, Execution, Step, missing, steps};
use depguard_e2e::tools::Tools;
use depguard_e2e::{Authority, Outcome, Provider, Ring, Stop, World, ensure};
use depguard_testbed::lasting_port;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Child;

use crate::Programs;
use crate::shell::{CommandOutput, Shell, environment};
use crate::walkthrough::way_to;

pub(crate) const DOCUMENT: &str = "docs/install-kcp.md";

/// The choice that the page makes, and the other choice.
const CHOICES: [&str; 2] = ["--read-through front-proxy", "--read-through export"];

/// A walkthrough through the page on a kcp of its own.
struct Installation<'a> {
    programs: &'a Programs,
    tools: &'a Tools,
    world: World,
    providers: Vec<Provider>,
    folder: TempDir,
    shell: Shell,
    /// The page's texts that stand for a reader's own values, and the values here.
    own: Vec<(&'static str, String)>,
    exports: bool,
    port: u16,
    pods: Vec<Child>,
}

/// Walks through the page with the choice that the page makes, or, if `exports`, with the other choice.
pub(crate) async fn through(programs: &Programs, document: &str, exports: bool) -> Outcome {
    let tools = Tools::find().map_err(Stop::Skipped)?;
    let ring = Ring::chosen_kcp().await.map_err(Stop::Skipped)??;
    let mut installation = Installation::begin(programs, &tools, ring, exports).await?;
    for step in steps(document)? {
        installation.step(&step).await.map_err(|stop| Stop::Failed(format!("{step:?}: {stop}")))?;
    }
    Ok(())
}

impl<'a> Installation<'a> {
    async fn begin(programs: &'a Programs, tools: &'a Tools, ring: Ring, exports: bool) -> Outcome<Installation<'a>> {
        let folder = tempfile::tempdir()?;
        let file = |name: &str| folder.path().join(name);
        ring.write_kubeconfig("root", &file("admin.kubeconfig"))?;
        std::fs::copy(ring.shard_kubeconfig()?, file("shard-admin.kubeconfig"))?;
        std::fs::copy(ring.ca_file(), file("kcp-ca.crt"))?;
        let path = way_to(tools.folder(), programs)?;
        let mut shell = Shell::open(folder.path(), &path)?;
        shell.run("export KUBECONFIG=$PWD/admin.kubeconfig").await?;
        let port = lasting_port(Ipv4Addr::LOCALHOST)?;
        let own = vec![
            ("https://kcp.example.com", ring.url().to_owned()),
            ("https://depguard.example.com", format!("https://127.0.0.1:{port}")),
            (CHOICES[0], CHOICES[usize::from(exports)].to_owned()),
        ];
        let world = World::of_root(Arc::new(ring)).await?;
        let (providers, pods) = (Vec::new(), Vec::new());
        Ok(Installation { programs, tools, world, providers, folder, shell, own, exports, port, pods })
    }

    async fn step(&mut self, step: &Step) -> Outcome {
        match step {
            Step::File { name, text } => Ok(std::fs::write(self.folder.path().join(name), self.owned(text))?),
            Step::Command(command) => self.command(command).await,
            Step::Test(what) => match what.as_str() {
                "the pods run" => self.start_pods().await,
                "there are providers" => {
                    let (network, compute) =
                        tokio::try_join!(self.world.network("providers:network"), self.world.compute())?;
                    self.providers = vec![network, compute];
                    Ok(())
                }
                "there is a consumer" => {
                    let [network, compute] = self.providers.as_slice() else {
                        return Err(Stop::failed("there are no providers"));
                    };
                    let cast = self.world.consume(network.clone(), compute.clone()).await?;
                    cast.consumer.create_target(&cast.vpc, "a").await?;
                    cast.consumer.create_dependent(&cast.vm, "m1", "a").await
                }
                _ => Err(Stop::failed("the test does not know how")),
            },
        }
    }

    fn owned(&self, text: &str) -> String {
        self.own.iter().fold(text.to_owned(), |text, (theirs, own)| text.replace(theirs, own))
    }

    async fn command(&mut self, command: &Command) -> Outcome {
        let line = self.owned(&command.line);
        let wrong = |done: &CommandOutput, expected| match missing(&command.prints, &done.printed) {
            Some(line) => Some(format!("it does not print `{line}`")),
            None if done.code != expected => Some(format!("it ends with {} and not with {expected}", done.code)),
            None => None,
        };
        let (done, expected) = match command.how {
            Execution::Exits(code) => (self.shell.run(&line).await?, code),
            Execution::Once(code) => (self.shell.run_until(&line, |done| wrong(done, code).is_none()).await?, code),
            Execution::Aside => return Err(Stop::failed("nothing goes on beside the rest")),
        };
        match wrong(&done, expected) {
            Some(wrong) => Err(Stop::Failed(format!("{wrong}; it prints:\n{}", done.printed))),
            None => Ok(()),
        }
    }

    /// Starts the programs that `helm install` would run, with their arguments and the files that their pods would
    /// mount.
    async fn start_pods(&mut self) -> Outcome {
        let folder = self.folder.path();
        if self.exports {
            let done = self.shell.run("bash token-that-expires.sh").await?;
            ensure(done.code == 0, || done.printed)?;
        }
        let tls = folder.join("depguard-webhook-tls");
        std::fs::create_dir(&tls)?;
        Authority::new("depguard")?.issue(&tls)?;
        for program in ["controller", "webhook"] {
            let secret = folder.join(format!("{program}-kubeconfig"));
            std::fs::create_dir(&secret)?;
            std::fs::copy(folder.join(format!("{program}.kubeconfig")), secret.join("kubeconfig"))?;
            if self.exports && program == "webhook" {
                std::fs::copy(folder.join("token"), secret.join("token"))?;
            }
        }
        let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/depguard");
        let (chart, values) = (chart.to_string_lossy(), folder.join("values.yaml"));
        let way = if self.exports { "readThrough=export" } else { "readThrough=front-proxy" };
        let arguments = ["template", "depguard", &chart, "-n", "depguard-system", "--set", way, "-f"];
        let rendered = self.tools.helm(&[&arguments[..], &[&values.to_string_lossy()]].concat())?;
        let objects: Vec<Value> = serde_saphyr::from_multiple(&rendered)?;
        for deployment in objects.iter().filter(|object| object["kind"] == "Deployment") {
            let pod = self.pod(&deployment["spec"]["template"]["spec"])?;
            self.pods.push(pod);
        }
        ensure(self.pods.len() == 2, || format!("the chart has {} programs", self.pods.len()))
    }

    fn pod(&self, pod: &Value) -> Outcome<Child> {
        let container = &pod["containers"][0];
        let name = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let mounted = |mount: &Value| -> Outcome<(String, String)> {
            let volumes = list(&pod["volumes"]);
            let volume = volumes.into_iter().find(|volume| volume["name"] == mount["name"]).unwrap_or_default();
            let secret = self.folder.path().join(name(&volume["secret"]["secretName"]));
            let items = list(&volume["secret"]["items"]);
            let place = tempfile::tempdir_in(self.folder.path())?.keep();
            for file in std::fs::read_dir(secret)? {
                let file = file?;
                if items.is_empty() || items.iter().any(|item| item["key"] == *file.file_name().to_string_lossy()) {
                    std::fs::copy(file.path(), place.join(file.file_name()))?;
                }
            }
            Ok((name(&mount["mountPath"]), place.to_string_lossy().into_owned()))
        };
        let mounts = list(&container["volumeMounts"]);
        let mut here = mounts.iter().map(mounted).collect::<Outcome<Vec<_>>>()?;
        // A pod has ports of its own; the ports of this machine are shared.
        here.push(("-address=:8080".to_owned(), "-address=127.0.0.1:0".to_owned()));
        here.push(("-address=:8081".to_owned(), "-address=127.0.0.1:0".to_owned()));
        here.push(("--webhook-port=9443".to_owned(), format!("--webhook-port={}", self.port)));
        let arguments = list(&container["args"]);
        let arguments = arguments.iter().map(name).map(|argument| {
            here.iter().fold(argument, |argument, (there, here)| argument.replace(there.as_str(), here))
        });
        let program = self.programs.binaries.join(name(&container["command"][0]).trim_start_matches('/'));
        let mut command = tokio::process::Command::new(program);
        environment(&mut command, self.folder.path(), &std::ffi::OsString::new());
        Ok(command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
    }
}
