//! Deletions of every sort: the options of a DELETE, and objects that are being deleted already.

use std::sync::Arc;

use depguard_e2e::{Outcome, World, ensure};
use serde_json::{Value, json};

use crate::deletion::{guarded, one_reference};

/// Options of a deletion, and the expected status for a referenced object and for a free one.
struct Case {
    options: Value,
    referenced: u16,
    free: u16,
    /// Set if the free object is deleted then.
    deletes: bool,
}

/// Returns all cases. A precondition on a UID holds for one of the objects; for the other one the API server answers
/// 409.
fn cases(uid_of_referenced: &Value, uid_of_free: &Value) -> [Case; 9] {
    let case = |options: Value, referenced, free, deletes| Case { options, referenced, free, deletes };
    [
        case(json!({}), 403, 200, true),
        case(json!({"propagationPolicy": "Background"}), 403, 200, true),
        case(json!({"propagationPolicy": "Foreground"}), 403, 200, true),
        case(json!({"propagationPolicy": "Orphan"}), 403, 200, true),
        case(json!({"gracePeriodSeconds": 0}), 403, 200, true),
        case(json!({"dryRun": ["All"]}), 403, 200, false),
        case(json!({"preconditions": {"uid": uid_of_referenced}}), 403, 409, false),
        case(json!({"preconditions": {"uid": uid_of_free}}), 409, 200, true),
        case(json!({"preconditions": {"resourceVersion": "1"}}), 409, 409, false),
    ]
}

pub(crate) async fn table(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    let consumer = &cast.consumer;
    one_reference(&world, &cast).await?;
    let message = "cannot delete vpcs/a: still referenced by VirtualMachine/m1";
    consumer.refused(&world, &cast.vpc, "a", &[message]).await?;

    let (referenced, free) = (consumer.object(&cast.vpc, "a"), consumer.object(&cast.vpc, "b"));
    let uid =
        async |path: &str| Ok::<_, depguard_e2e::Stop>(consumer.api.get(path).await?.ok()?["metadata"]["uid"].clone());
    let uid_of_referenced = uid(&referenced).await?;
    for number in 0.. {
        if consumer.api.get(&free).await?.is_gone() {
            consumer.create_target(&cast.vpc, "b").await?;
        }
        // The free object is a new one each time.
        let cases = cases(&uid_of_referenced, &uid(&free).await?);
        let Some(case) = cases.get(number) else { break };
        let options = &case.options;

        let reply = consumer.api.delete_with(&referenced, options).await?;
        if reply.status != case.referenced || (case.referenced == 403 && !reply.message().contains(message)) {
            return Err(reply.unexpected(&format!("{} for the referenced one with {options}", case.referenced)));
        }
        consumer.untouched(&cast.vpc, "a").await?;

        let reply = consumer.api.delete_with(&free, options).await?;
        if reply.status != case.free {
            return Err(reply.unexpected(&format!("{} for the free one with {options}", case.free)));
        }
        if case.deletes {
            consumer.gone(&world, &free).await?;
        } else {
            consumer.untouched(&cast.vpc, "b").await?;
        }
    }
    Ok(())
}

pub(crate) async fn terminating(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = guarded(&world).await?;
    let consumer = &cast.consumer;
    one_reference(&world, &cast).await?;
    consumer.refused(&world, &cast.vpc, "a", &["still referenced by VirtualMachine/m1"]).await?;

    let held = consumer.object(&cast.vpc, "held");
    consumer.create_with(&cast.vpc, json!({"name": "held", "finalizers": ["example.com/hold"]}), json!({})).await?;
    consumer.api.delete(&held).await?.ok()?;
    let marked = consumer.api.get(&held).await?.ok()?["metadata"]["deletionTimestamp"].clone();
    ensure(marked.is_string(), || "the finalizer did not hold it".to_owned())?;
    // The object is referenced from here on; but its deletion is already granted.
    consumer.create_dependent(&cast.vm, "late", "held").await?;
    for options in [json!({}), json!({"propagationPolicy": "Background"}), json!({"dryRun": ["All"]})] {
        consumer.api.delete_with(&held, &options).await?.ok()?;
    }
    let again = consumer.api.get(&held).await?.ok()?["metadata"]["deletionTimestamp"].clone();
    ensure(again == marked, || format!("deleted anew: {again}"))?;
    consumer.release(&cast.vpc, "held").await?;
    consumer.gone(&world, &held).await
}
