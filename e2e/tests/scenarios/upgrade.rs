//! Upgrades and rollbacks between two versions of depguard, part by part, while deletions and creations go on.

mod installation;
mod service;

use std::sync::Arc;

use depguard_e2e::rules::{CONFIGURATION, REFERENCES_CONFIGURATION, RULES};
use depguard_e2e::{Cast, Outcome, World, ensure, eventually};
use serde_json::json;

use self::installation::Part::{Controller, Manifests, Webhook};
use self::installation::{Installation, Part, Version, other_version};
use crate::binaries::Programs;
use crate::load::Load;
use crate::races::interlocked;

const ORDERS: [[Part; 3]; 6] = [
    [Manifests, Controller, Webhook],
    [Manifests, Webhook, Controller],
    [Controller, Manifests, Webhook],
    [Controller, Webhook, Manifests],
    [Webhook, Manifests, Controller],
    [Webhook, Controller, Manifests],
];
/// Number of reference registers of the newer version.
pub(crate) const REGISTERS: u16 = 4;

/// Time for which the newer version keeps marks, in seconds: the shortest that the controller takes.
const INTERLOCK_WAIT: u16 = 35;

/// Work of the newer version that the older one doesn't do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Addition {
    Nothing,
    Interlock,
    /// Both interlock references, the older one by registers without a key.
    Key,
}

/// Both versions only check references.
pub(crate) async fn of_checks(world: Arc<World>) -> Outcome {
    in_each_order(&world, Addition::Nothing).await
}

/// The newer version interlocks references.
pub(crate) async fn to_the_interlock(world: Arc<World>) -> Outcome {
    in_each_order(&world, Addition::Interlock).await
}

/// Both versions interlock references, by registers of their own.
pub(crate) async fn to_the_key(world: Arc<World>) -> Outcome {
    in_each_order(&world, Addition::Key).await
}

async fn in_each_order(world: &Arc<World>, addition: Addition) -> Outcome {
    let registers = [format!("--reference-registers={REGISTERS}")];
    let flags = |interlocks: bool| if interlocks { &registers[..] } else { &[] };
    let mut old = Version::new("old", other_version()?, flags(addition == Addition::Key))?;
    if addition == Addition::Key {
        old = old.keeping_marks_for(INTERLOCK_WAIT);
    }
    let new = Version::new("new", Programs::of_this_version()?, flags(addition != Addition::Nothing))?;
    let new = new.keeping_marks_for(INTERLOCK_WAIT).allowing_a_short_wait();
    let cast = world.cast().await?;
    world.add_rule(&cast.compute, &interlocked(&cast)).await?;
    let mut installation = Installation::start(world, &old).await?;
    world.condition(&cast.compute, "machines", "Enforced", "True").await?;
    cast.consumer.until_checked(world, &cast.vm, json!({"vpcRef": {"name": "nowhere"}})).await?;
    let load = Load::new(world, &cast).await?;
    // From one version that interlocks to another, no pair may pass between them.
    let load = if addition == Addition::Key { load.racing() } else { load };
    cast.consumer.until_protected(world, &cast.vpc, "referenced-0").await?;
    let steps = async {
        let mut changes = 0;
        let (mut controller, mut webhook) = (old.name, old.name);
        // An upgrade that interlocks begins with the rights, which the controller needs for the key, and a rollback ends
        // with them.
        let orders = if addition == Addition::Nothing { &ORDERS[..] } else { &ORDERS[..2] };
        for order in orders {
            let mut back = *order;
            if addition != Addition::Nothing {
                back.reverse();
            }
            for (from, to, order) in [(&old, &new, *order), (&new, &old, back)] {
                for (number, part) in (1..).zip(order) {
                    let when = format!("{part:?} became {}, in the order {order:?}", to.name);
                    // A webhook that interlocks puts references off until the controller has opened all registers.
                    let all_pass = addition == Addition::Nothing || number == order.len();
                    let mixed = async || load.goes_on(&format!("while {when}"), all_pass).await;
                    installation.change(part, from, to, mixed).await?;
                    match part {
                        Controller => controller = to.name,
                        Webhook => webhook = to.name,
                        Manifests => {}
                    }
                    if part == Controller && addition != Addition::Nothing {
                        until_told(world, &cast, to.name == new.name || addition == Addition::Key).await?;
                    }
                    // The older webhook answers no path that names registers.
                    if addition != Addition::Nothing && (controller, webhook) == (new.name, old.name) {
                        load.is_put_off(&format!("after {when}")).await?;
                    } else {
                        load.goes_on(&format!("after {when}"), all_pass).await?;
                    }
                    load.check()?;
                    changes += 1;
                }
            }
        }
        world.print(format_args!("{changes} changes of version: {load}"));
        let _webhook = installation.end_controller().await?;
        control(world, &cast, &load).await?;
        load.stop();
        Ok(())
    };
    futures::try_join!(load.run(), steps).map(drop)
}

/// Waits until the rule's status tells if the rule is interlocked, or no longer tells so. It must not say so yet: this
/// takes longer than the requests of this scenario go on in one state.
async fn until_told(world: &World, cast: &Cast, is_told: bool) -> Outcome {
    eventually("the status is the acting controller's", world.patience(), async || {
        let rule = cast.compute.api.get(&format!("{RULES}/machines")).await?.ok()?;
        let conditions = rule["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let told = conditions.iter().find(|condition| condition["type"] == "Interlocked");
        let is_right = told.is_some() == is_told && told.is_none_or(|told| told["status"] != "True");
        ensure(is_right, || format!("{told:?}"))
    })
    .await
}

/// Takes the webhook configurations away, which no upgrade may do: the checker must notice.
async fn control(world: &World, cast: &Cast, load: &Load<'_>) -> Outcome {
    for configuration in [CONFIGURATION, REFERENCES_CONFIGURATION] {
        cast.network.api.delete(configuration).await?.ok()?;
    }
    eventually("the checker notices", world.patience(), async || {
        ensure(load.check().is_err(), || "it notices nothing".to_owned())
    })
    .await
}
