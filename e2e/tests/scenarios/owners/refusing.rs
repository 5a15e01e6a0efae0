//! Deletions that would let the garbage collector remove everything at once: depguard refuses them.

use std::sync::Arc;

use depguard_e2e::owners::GROUP_OWNERS;
use depguard_e2e::{Cast, Outcome, Stop, World, eventually};
use serde_json::{Value, json};

use super::{pair, spec, started};

/// Waits until a deletion with these options would be refused with words that say what to do instead, and then expects
/// the refusal.
async fn refused(world: &World, cast: &Cast, path: &str, options: &Value, words: &str) -> Outcome {
    let api = &cast.consumer.api;
    let mut dry = options.clone();
    dry["dryRun"] = json!(["All"]);
    eventually("the deletion is refused", world.patience(), async || {
        let reply = api.delete_with(path, &dry).await?;
        let refused = reply.status == 403 && reply.message().contains(words);
        if refused { Ok(()) } else { Err(reply.unexpected(words)) }
    })
    .await?;
    let reply = api.delete_with(path, options).await?;
    if reply.status == 403 { Ok(()) } else { Err(reply.unexpected("403")) }
}

pub(crate) async fn foreground(world: Arc<World>) -> Outcome {
    let (cast, options) = (world.cast().await?, json!({"propagationPolicy": "Foreground"}));
    if world.is_control() {
        let owner = world.own("alone", spec(&world, &[&cast.vm])).await?;
        cast.consumer.api.delete_with(owner.path(), &options).await?.ok()?;
        cast.consumer.gone(&world, owner.path()).await?;
        return Err(Stop::ControlSeen);
    }
    let _depguard = depguard_e2e::Depguard::start(&world).await?;
    let (owner, machine, vpc) = pair(&world, &cast, false).await?;
    refused(&world, &cast, owner.path(), &options, "--cascade=background").await?;
    cast.consumer.untouched(&cast.vm, "m1").await?;
    cast.consumer.untouched(&cast.vpc, "a").await?;
    // The message suggests this option instead.
    cast.consumer.api.delete_with(owner.path(), &json!({"propagationPolicy": "Background"})).await?.ok()?;
    cast.consumer.gone(&world, &machine).await?;
    cast.consumer.gone(&world, &vpc).await?;
    owner.until_gone(&world).await
}

pub(crate) async fn group_owner(world: Arc<World>) -> Outcome {
    if world.is_control() {
        let owner = json!({
            "apiVersion": "globalowner.metacontroller.io/v1alpha1", "kind": "GroupOwner",
            "metadata": {"name": format!("{}-alone", world.id())},
            "spec": {"childResource": {"apiVersion": "v1", "resource": "configmaps"}},
        });
        world.own_cluster().post(GROUP_OWNERS, &owner).await?.ok()?;
        world.own_cluster().delete(&format!("{GROUP_OWNERS}/{}-alone", world.id())).await?.ok()?;
        return Err(Stop::ControlSeen);
    }
    let (cast, _depguard) = started(&world).await?;
    let (owner, ..) = pair(&world, &cast, false).await?;
    for group in owner.groups().await? {
        let name = group["metadata"]["name"].as_str().unwrap_or_default();
        refused(&world, &cast, &format!("{GROUP_OWNERS}/{name}"), &json!({}), "GlobalOwner").await?;
    }
    cast.consumer.untouched(&cast.vm, "m1").await?;
    cast.consumer.untouched(&cast.vpc, "a").await
}
