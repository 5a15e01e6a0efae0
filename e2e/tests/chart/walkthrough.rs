//! docs/operations.md, walked through on a real kube-apiserver: a shell runs its commands, and the chart's pods run as
//! processes of this machine.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use depguard_e2e::document::{self, Step, missing};
use depguard_e2e::rules::CONFIGURATION;
use depguard_e2e::tools::Tools;
use depguard_e2e::{Api, Authority, Outcome, Ring, Stop, ensure, eventually};
use serde_json::json;
use tempfile::TempDir;

use crate::chart::{NAMESPACE, WEBHOOK_HOST};
use crate::deleter::Deleter;
use crate::node::{Images, Node, webhooks};

/// Sections of the document, in the order of the walkthrough.
const SECTIONS: [&str; 6] = ["Install", "Certificates", "Upgrade", "Backup", "Break-glass", "Uninstall"];

/// Time limit of a command; one that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(180);

struct Walkthrough {
    ring: Arc<Ring>,
    api: Api,
    folder: TempDir,
    path: std::ffi::OsString,
    _node: Node,
    authority: Authority,
    deleter: Option<Deleter>,
}

/// Takes all steps of the document.
pub(crate) async fn through(ring: Arc<Ring>, tools: &Tools, document: &str) -> Outcome {
    let mut walkthrough = Walkthrough::begin(ring, tools).await?;
    for section in SECTIONS {
        let start = Instant::now();
        for step in document::steps(document::section(document, section)?)? {
            walkthrough.step(&step).await.map_err(|stop| Stop::Failed(format!("{section}: {step:?}: {stop}")))?;
        }
        println!("chart:      walked through {section} ({:.1} s)", start.elapsed().as_secs_f32());
    }
    Ok(())
}

impl Walkthrough {
    async fn begin(ring: Arc<Ring>, tools: &Tools) -> Outcome<Walkthrough> {
        let images = Images::built()?;
        let folder = tempfile::tempdir()?;
        let sources = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
        for name in ["charts", "config"] {
            std::os::unix::fs::symlink(sources.join(name), folder.path().join(name))?;
        }
        ring.write_kubeconfig("", &folder.path().join("kubeconfig"))?;
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        let own = [tools.folder().to_owned(), images.usual.clone()];
        let path = std::env::join_paths(own.into_iter().chain(std::env::split_paths(&inherited)))?;
        let node = Node::start(&ring, NAMESPACE, images).await?;
        let (api, authority) = (ring.admin().await?, Authority::new("depguard")?);
        Ok(Walkthrough { ring, api, folder, path, _node: node, authority, deleter: None })
    }

    async fn step(&mut self, step: &Step) -> Outcome {
        match step {
            Step::Test(what) => self.test(what).await,
            Step::File { name, text } => Ok(std::fs::write(self.folder.path().join(name), text)?),
            Step::Command(command) => self.command(&command.line, &command.prints).await,
        }
    }

    async fn command(&self, line: &str, prints: &[String]) -> Outcome {
        let mut command = tokio::process::Command::new("bash");
        command.args(["-c", line]).current_dir(self.folder.path()).kill_on_drop(true);
        command.env("PATH", &self.path).env("HOME", self.folder.path());
        command.env("KUBECONFIG", self.folder.path().join("kubeconfig"));
        let output = tokio::time::timeout(PATIENCE, command.stdin(Stdio::null()).output()).await??;
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        let fails = prints.iter().any(|line| line.starts_with("Error"));
        ensure(output.status.success() != fails, || format!("{}: {text}", output.status))?;
        match missing(prints, &text) {
            Some(line) => Err(Stop::Failed(format!("it does not print `{line}` but: {text}"))),
            None => Ok(()),
        }
    }

    /// Takes a step that the document leaves to the test.
    async fn test(&mut self, what: &str) -> Outcome {
        match what {
            "there is a certificate" => self.issue("."),
            "a certificate of the same CA is made" => self.issue("renewed"),
            "a certificate of a new CA is made" => {
                self.authority = Authority::new("another depguard")?;
                self.issue("renewed")
            }
            "deletions go on" => {
                self.deleter = Some(Deleter::start(self.ring.admin().await?, "shop", "settings"));
                Ok(())
            }
            "each was decided rightly" => {
                let deleter = self.deleter.take().ok_or_else(|| Stop::failed("no deletions go on"))?;
                let gone = deleter.stop().await?;
                println!("chart:      {gone} deletions meanwhile, each decided rightly");
                Ok(())
            }
            "the webhook is dead" => {
                let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/depguard-webhook");
                self.api.merge(&path, &json!({"spec": {"replicas": 0}})).await?.ok()?;
                self.until_webhooks_are(0).await
            }
            "the old webhooks are gone" => self.until_webhooks_are(2).await,
            "nothing refuses any more" => {
                ensure(self.api.get(CONFIGURATION).await?.is_gone(), || "a configuration is left".to_owned())?;
                let path = "/api/v1/namespaces/shop/configmaps/settings?dryRun=All";
                self.api.delete(path).await?.ok().map(drop)
            }
            "the rule refuses again" => {
                let path = "/api/v1/namespaces/shop/configmaps/settings?dryRun=All";
                eventually("the rule refuses again", self.ring.patience(), async || {
                    let reply = self.api.delete(path).await?;
                    ensure(reply.status == 403, || format!("{} {}", reply.status, reply.message()))
                })
                .await
            }
            _ => Err(Stop::failed("the test does not know how")),
        }
    }

    async fn until_webhooks_are(&self, number: usize) -> Outcome {
        eventually("the webhook's pods are as many as should be", self.ring.patience(), async || {
            let found = webhooks(&self.api).await?.len();
            ensure(found == number, || format!("there are {found}"))
        })
        .await
    }

    /// Writes a certificate and a key for the webhook's Service, and the CA, into this folder.
    fn issue(&self, folder: &str) -> Outcome {
        let folder = self.folder.path().join(folder);
        std::fs::create_dir_all(&folder)?;
        self.authority.issue_for(&[WEBHOOK_HOST], &folder)
    }
}
