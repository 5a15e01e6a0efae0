//! Kubernetes' own tests, bare and beside the rules of all packs.

use std::sync::Arc;

use depguard_e2e::played::play_cluster;
use depguard_e2e::rules::RULES;
use depguard_e2e::suite::Suite;
use depguard_e2e::{Depguard, Outcome, Ring, Stop, World, ensure, eventually};
use serde_json::Value;

use crate::kubectl::User;
use crate::rollouts::{apply_packs, grant_packs};

/// Names of the tests, one in a line.
const TESTS: &str = include_str!("conformance.txt");
/// Test whose clean-up deletes a Secret that its running Pod mounts: the packs are for refusing just that.
const MOUNTED: &str = "[sig-storage] EmptyDir wrapper volumes should not conflict [Conformance]";
/// Tests that end as Kubernetes' own protection of volumes and claims in use lets them, which strict rules refuse.
const IN_USE: [&str; 2] = [
    "[sig-storage] PV Protection Verify that PV bound to a PVC is not removed immediately",
    "[sig-storage] PVC Protection Verify that PVC in active use by a pod is not removed immediately",
];

pub(crate) async fn beside_packs(world: Arc<World>) -> Outcome {
    let api = world.own_cluster();
    tokio::select! {
        done = bare_and_beside(&world) => done,
        stopped = play_cluster(&api) => match stopped? {},
    }
}

async fn bare_and_beside(world: &Arc<World>) -> Outcome {
    let tests: Vec<_> = TESTS.lines().filter(|line| !line.starts_with('#')).collect();
    let suite = Suite::new(&world.ring().kubeconfig_of(Ring::SUITE_TOKEN))?;
    suite.run(&tests).await?.check(&tests, &[]).map_err(|stop| Stop::Failed(format!("bare: {stop}")))?;

    grant_packs(world).await?;
    let user = User::at(world, "", "default")?;
    let _depguard = Depguard::start(world).await?;
    apply_packs(&user, &[]).await?;
    until_enforced(world).await?;
    let report = suite.run(&tests).await?;
    report.check(&tests, &[MOUNTED]).map_err(|stop| Stop::Failed(format!("beside the packs: {stop}")))?;
    // Tests may ignore the failure of a clean-up.
    let refusals = world.ring().refusals_of_suite()?;
    let is_known = matches!(&refusals[..], [one] if one.contains("cannot delete secrets/emptydir-wrapper-test-"));
    ensure(is_known, || format!("the suite met other refusals: {}", refusals.join("\n")))?;

    apply_packs(&user, &["--strict"]).await?;
    until_enforced(world).await?;
    let tests: Vec<_> = tests.into_iter().filter(|test| test.contains("Protection")).collect();
    let report = suite.run(&tests).await?;
    report.check(&tests, &IN_USE).map_err(|stop| Stop::Failed(format!("beside the strict rules: {stop}")))
}

/// Waits until all rules are enforced whose kinds are there.
async fn until_enforced(world: &World) -> Outcome {
    eventually("the rules are enforced", world.patience(), async || {
        let list = world.own_cluster().get(RULES).await?.ok()?;
        let mut rules = list["items"].as_array().into_iter().flatten();
        let is_enforced = |rule: &Value| {
            let mut conditions = rule["status"]["conditions"].as_array().into_iter().flatten();
            conditions.any(|one| {
                one["type"] == "Enforced"
                    && one["observedGeneration"] == rule["metadata"]["generation"]
                    && (one["status"] == "True" || one["reason"] == "Dormant")
            })
        };
        rules.find(|rule| !is_enforced(rule)).map_or(Ok(()), |rule| Err(Stop::Failed(rule["metadata"].to_string())))
    })
    .await
}
