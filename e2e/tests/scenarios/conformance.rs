//! Kubernetes' own tests, bare and beside the rules of all packs, and the steps of those that need a kubelet.

use std::sync::Arc;

use depguard_e2e::played::{play_cluster, run_pod};
use depguard_e2e::rules::RULES;
use depguard_e2e::suite::Suite;
use depguard_e2e::{Depguard, Outcome, Ring, Stop, World, ensure, eventually};
use serde_json::{Value, json};

use crate::kubectl::User;
use crate::local::until_refused;
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

/// Plays Kubernetes' four tests "optional updates should be reflected in volume", which read a kubelet's logs.
pub(crate) async fn optional(world: Arc<World>) -> Outcome {
    // The rules apply to every world of a cluster; they are removed with this provider.
    world.compute().await?;
    grant_packs(&world).await?;
    let consumer = world.consumer("consumer", &[]).await?;
    let (api, user) = (&consumer.api, User::at(&world, &consumer.path, &consumer.namespace)?);
    let _depguard = Depguard::start(&world).await?;
    let at = |end: &str| format!("{}/{end}", consumer.namespace_path());
    let named = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    api.post(&at("serviceaccounts"), &named("ServiceAccount", "default")).await?.ok_or_there()?;
    api.post(&at("configmaps"), &named("ConfigMap", "required")).await?.ok()?;
    for strict in [false, true] {
        apply_packs(&user, if strict { &["--strict"] } else { &[] }).await?;
        for (kind, plural, name, is_projected) in [
            ("ConfigMap", "configmaps", "name", false),
            ("ConfigMap", "configmaps", "name", true),
            ("Secret", "secrets", "secretName", false),
            ("Secret", "secrets", "name", true),
        ] {
            let pod = format!("{plural}-{strict}-{is_projected}");
            let of = |step: &str| format!("{pod}-{step}");
            for step in ["deleted", "updated"] {
                api.post(&at(plural), &named(kind, &of(step))).await?.ok()?;
            }
            let field = plural.trim_end_matches('s').replace("configmap", "configMap");
            let volumes = ["deleted", "updated", "created"].map(|step| {
                let source = json!({&field: {name: of(step), "optional": true}});
                let projected = json!({"projected": {"sources": [source]}});
                let mut volume = if is_projected { projected } else { source };
                volume["name"] = json!(step);
                volume
            });
            let required = json!({"name": "required", "configMap": {"name": "required"}});
            let mut object = named("Pod", &pod);
            object["spec"] = json!({
                "containers": [{"name": "main", "image": "a"}],
                "volumes": volumes.into_iter().chain([required]).collect::<Vec<_>>(),
            });
            let created = api.post(&at("pods"), &object).await?.ok()?;
            run_pod(api, &created).await?;
            until_refused(&world, api, &at("configmaps/required"), "still referenced by Pod/").await?;

            let deleted = at(&format!("{plural}/{}", of("deleted")));
            if strict {
                until_refused(&world, api, &deleted, &format!("still referenced by Pod/{pod}")).await?;
                continue;
            }
            api.delete(&deleted).await?.ok()?;
            let change = json!({"metadata": {"labels": {"updated": "true"}}});
            api.merge(&at(&format!("{plural}/{}", of("updated"))), &change).await?.ok()?;
            api.post(&at(plural), &named(kind, &of("created"))).await?.ok()?;
        }
    }
    Ok(())
}
