//! Reads of depguard from an API server: it watches, and does not list repeatedly or read Secrets.

use std::sync::Arc;
use std::time::Duration;

use depguard_e2e::rules::{RULES, rule};
use depguard_e2e::{Depguard, Outcome, Resource, Stop, World, ensure, eventually, locks};
use serde_json::json;

use crate::deletion::{guarded, one_reference};
use crate::{beside, owners};

const ACCOUNTS: [&str; 2] = ["depguard-controller", "depguard-webhook"];

/// Kinds that both binaries watch, each with its group.
const FOLLOWED: [(&str, &str); 4] = [
    ("dependencies.opendefense.cloud", "dependencyrules"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("apis.kcp.io", "apiexportendpointslices"),
    ("apis.kcp.io", "apibindings"),
];

/// Longer than the first pauses of a broken watch before the next list.
const LONG_ENOUGH: Duration = Duration::from_millis(2500);
/// Time longer than the longest such pause, and the total time to wait, for servers that do not tell who lists. Such a
/// server's kinds that were never written are listed anew every 35 s, because no bookmark proves that the watch works.
/// So one of a few such times in a row must be free of lists.
const LONGER_THAN_EVER: (Duration, Duration) = (Duration::from_millis(9500), Duration::from_secs(70));

pub(crate) async fn watched(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    one_reference(&world, &cast).await?;
    world.condition(&cast.compute, "machines", "Programmed", "True").await?;
    not_listed_again(&world, &[]).await
}

pub(crate) async fn watched_for_locks(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = beside::with_locks(&world).await?;
    let lock = json!({"targets": [locks::named(&cast.vm, "m1")], "reason": "kept"});
    let lock = cast.consumer.lock("kept", lock).await?;
    cast.consumer.until_programmed(&world, &lock).await?;
    let group = "dependencies.opendefense.cloud";
    not_listed_again(&world, &[(group, "objectlocks"), (group, "clusterobjectlocks"), (group, "locktables")]).await
}

pub(crate) async fn watched_for_owners(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = owners::started(&world).await?;
    owners::pair(&world, &cast, false).await?;
    let group = "globalowner.metacontroller.io";
    not_listed_again(&world, &[(group, "globalowners"), (group, "groupowners")]).await
}

/// Checks that neither binary lists the [`FOLLOWED`] kinds or `more` (group and resource) again, and that no watch of
/// them was refused. A refused watch means lists again and again, but with pauses that grow.
async fn not_listed_again(world: &World, more: &[(&str, &str)]) -> Outcome {
    let resources: Vec<_> = FOLLOWED.iter().chain(more).copied().collect();
    let count = async || {
        let mut counts = Vec::new();
        for account in ACCOUNTS {
            let lists = world.lists(account, &resources).await?;
            let lists = lists.ok_or_else(|| Stop::Skipped("the server does not say who lists what".to_owned()))?;
            counts.extend(resources.iter().zip(lists).map(|((_, resource), lists)| (account, *resource, lists)));
        }
        Ok::<_, Stop>(counts)
    };
    let is_told_apart = world.ring().kind().is_testbed();
    let (long_enough, patience) = if is_told_apart { (LONG_ENOUGH, world.patience()) } else { LONGER_THAN_EVER };
    eventually("nothing is listed again", patience, async || {
        let before = count().await?;
        ensure(before.iter().any(|(.., lists)| *lists > 0), || "not even one list is counted".to_owned())?;
        tokio::time::sleep(long_enough).await;
        let after = count().await?;
        // For each deletion, the webhook asks which exports a workspace has bound; here no deletion happened.
        ensure(after == before, || format!("it lists again and again: {before:?}, then {after:?}"))?;
        for account in ACCOUNTS {
            let refused = world.refused_watches(account, &resources).await?;
            ensure(refused.is_empty(), || format!("{account} may not watch {refused:?}"))?;
        }
        Ok(())
    })
    .await
}

pub(crate) async fn secrets(world: Arc<World>) -> Outcome {
    let compute = world.compute().await?;
    let machine = compute.kind("VirtualMachine")?;
    let secret = Resource { group: String::new(), versions: &["v1"], ..Resource::namespaced("Secret") };
    world.add_rule(&compute, &rule("keys", &machine, &[(&secret, ".spec.keyRef.name")])).await?;
    let consumer = world.consumer("consumer", &[&compute]).await?;
    for name in ["used", "free"] {
        let object =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"key": "c2VjcmV0"}});
        consumer.api.post(&secret.collection(&consumer.namespace), &object).await?.ok()?;
    }
    consumer.create(&machine, "m1", json!({"keyRef": {"name": "used"}})).await?;
    let _depguard = Depguard::start(&world).await?;
    consumer.until_protected(&world, &secret, "used").await?;
    consumer
        .refused(&world, &secret, "used", &["cannot delete secrets/used: still referenced by VirtualMachine/m1"])
        .await?;
    consumer.delete(&world, &secret, "free").await?;
    // The runner checks, for all scenarios of a ring, that no Secret was read; the rights prove that none needs to be.
    eventually("the rule is enforced", world.patience(), async || {
        let rule = compute.api.get(&format!("{RULES}/keys")).await?.ok()?;
        let said = rule["status"]["conditions"].to_string();
        if said.contains("Enforced") { Ok(()) } else { Err(Stop::Failed(said)) }
    })
    .await
}
