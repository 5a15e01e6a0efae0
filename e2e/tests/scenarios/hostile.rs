//! Configurations of others' webhooks that let nothing pass: commands that remove something end all the same, in time, and
//! say what is left.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use depguard_e2e::rules::CONFIGURATIONS;
use depguard_e2e::{Api, Outcome, Stop, World, ensure};
use kubectl_depguard::ExitStatus;
use serde_json::json;
use tokio::net::TcpListener;

use crate::deletion::{guarded, one_reference};
use crate::kubectl::administrator;
use crate::races::start;

/// Webhook that takes connections and answers nothing, and its configuration.
struct SilentWebhook {
    api: Api,
    path: String,
    holds: tokio::task::JoinHandle<()>,
}

impl SilentWebhook {
    /// Has the API server ask the webhook about each request to a group, and wait for it for so many seconds.
    async fn install(world: &World, group: &str, seconds: u8) -> Outcome<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("https://{}/", listener.local_addr()?);
        let authority = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        let client = json!({"url": url, "caBundle": STANDARD.encode(authority.cert.pem())});
        let holds = tokio::spawn(async move {
            let mut held = Vec::new();
            while let Ok((connection, _)) = listener.accept().await {
                held.push(connection);
            }
        });
        let name = format!("silent-{}", world.id());
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [{
                "name": "silent.example.com", "clientConfig": client, "failurePolicy": "Fail",
                "rules": [{"apiGroups": [group], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"], "scope": "*"}],
                "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": seconds,
            }],
        });
        let (api, path) = (world.own_cluster(), format!("{CONFIGURATIONS}/{name}"));
        api.post(CONFIGURATIONS, &configuration).await?.ok()?;
        Ok(Self { api, path, holds })
    }

    async fn remove(self) -> Outcome {
        self.holds.abort();
        self.api.delete(&self.path).await?.ok().map(drop)
    }
}

/// Uninstalls depguard while nothing can be written but configurations: at first beside a controller that is not told to
/// stop, then without one.
pub(crate) async fn uninstall(world: Arc<World>) -> Outcome {
    let (cast, mut depguard) = start(&world).await?;
    cast.consumer.create_target(&cast.vpc, "free").await?;
    let silent = SilentWebhook::install(&world, "*", 3).await?;
    let ended = async {
        let Err(Stop::Failed(why)) = depguard.uninstall().await else {
            return Err(Stop::failed("it was uninstalled beside a controller that goes on"));
        };
        ensure(why.contains("stop the controller"), || format!("it said {why}"))?;
        depguard.stop_controller().await;
        let uninstalled = depguard.uninstall().await?;
        let noted = |what: &str| uninstalled.notes.iter().any(|note| note.contains(what));
        ensure(noted("could not tell running controllers") && noted("ReferenceRegisters are left"), || {
            format!("it noted {:?}", uninstalled.notes)
        })?;
        ensure(world.configuration(&world.own_cluster()).await?.is_none(), || "it is there".to_owned())
    };
    let ended = ended.await;
    silent.remove().await?;
    ended?;
    let uninstalled = depguard.uninstall().await?;
    ensure(uninstalled.registers > 0, || format!("no register was left to remove: {uninstalled:?}"))?;
    cast.consumer.until_free(&world, &cast.vpc, "free").await
}

/// Deletes in order while another webhook lets no dependent go.
pub(crate) async fn order(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    let consumer = &cast.consumer;
    one_reference(&world, &cast).await?;
    for n in 2..30 {
        consumer.create_dependent(&cast.vm, &format!("m{n}"), "a").await?;
    }
    let silent = SilentWebhook::install(&world, &cast.vm.group, 2).await?;
    let user = administrator(&world, &cast)?;
    let said = user.run(&["order", "--delete", "--yes", "--timeout", "3s"]).await;
    silent.remove().await?;
    said.is(ExitStatus::Finding, &["0 objects are gone, 30 are left"])?;
    for part in ["silent.example.com", "virtualmachines", "were not tried"] {
        ensure(said.err.contains(part), || format!("it said {}", said.err))?;
    }
    ensure(consumer.api.get(&consumer.object(&cast.vpc, "a")).await?.status == 200, || {
        "the target is gone".to_owned()
    })?;
    user.run(&["order", "--delete", "--yes"]).await.is(ExitStatus::Well, &["30 objects are gone"])
}
