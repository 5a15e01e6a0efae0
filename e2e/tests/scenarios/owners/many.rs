//! Removal of many objects in three groups, all held by finalizers, as a watch sees it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use depguard_e2e::{Api, Depguard, Outcome, Resource, Stop, World, ensure, eventually};
use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::json;

use super::{create, spec};

/// Environment variable with the number of objects in a group.
const VARIABLE: &str = "DEPGUARD_TEARDOWN_OBJECTS";
/// Number of the test's own requests that run at once.
const MAX_CONCURRENT_REQUESTS: usize = 16;

/// Resource versions at which an object was marked for deletion and was gone.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    marked: Option<u64>,
    gone: Option<u64>,
}

pub(crate) async fn three_groups(world: Arc<World>) -> Outcome {
    let count = match std::env::var(VARIABLE) {
        Ok(count) => count.parse()?,
        Err(_) if world.ring().kind().is_testbed() => 40,
        Err(_) => 200,
    };
    let cast = world.cast().await?;
    let groups = [&cast.vm, &cast.vpc, &cast.region];
    let _depguard = Depguard::start(&world).await?;
    let mut begun = Instant::now();
    let mut took = |what: &str| {
        let seconds = begun.elapsed().as_secs_f32();
        begun = Instant::now();
        format!("{what} {seconds:.1} s")
    };
    for kind in groups {
        futures::stream::iter(0..count)
            .map(|number| {
                let (world, cast) = (&world, &cast);
                async move {
                    create(world, cast, kind, &format!("{}-{number}", world.id()), true, json!({})).await.map(drop)
                }
            })
            .buffer_unordered(MAX_CONCURRENT_REQUESTS)
            .try_collect::<()>()
            .await?;
    }
    let created = took("created in");
    let before = requests(&world).await?;
    let owner = world.own("many", spec(&world, &groups)).await?;
    owner
        .until(&world, "all are adopted", |status| {
            status["remaining"].as_u64() == u64::try_from(3 * count).ok() || status["phase"] == "Removing"
        })
        .await?;
    for kind in groups {
        eventually("all are owned", world.patience(), async || {
            let all = cast.consumer.api.get(&kind.collection(&cast.consumer.namespace)).await?.ok()?;
            let all = all["items"].as_array().cloned().unwrap_or_default();
            let owned = all.iter().filter(|one| one["metadata"]["ownerReferences"][0]["kind"] == "GroupOwner").count();
            ensure(owned == count, || format!("{owned} of {count} {}", kind.plural))
        })
        .await?;
    }
    let adopted = took("adopted in");
    println!("3 groups of {count}: {created}, {adopted}");

    let follow = async |kind: &Resource| {
        let collection = kind.collection(&cast.consumer.namespace);
        let list = cast.consumer.api.get(&collection).await?.ok()?;
        let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        Ok::<_, Stop>((collection, version.parse()?))
    };
    let [one, two, three] = [follow(groups[0]).await?, follow(groups[1]).await?, follow(groups[2]).await?];
    owner.delete().await?;
    let ends = |(collection, since)| watched(&cast.consumer.api, collection, since, count);
    let (first, second, third) = tokio::try_join!(ends(one), ends(two), ends(three))?;
    owner.until_gone(&world).await?;
    let removed = took("removed in");

    for (one, other) in [(&first, &second), (&second, &third)] {
        let last = one.values().filter_map(|end| end.gone).max();
        let early: Vec<_> = other.iter().filter(|(_, end)| end.marked < last).take(3).collect();
        ensure(early.is_empty(), || {
            format!("deleted before all of the former group were gone at {last:?}: {early:?}")
        })?;
    }
    let mut figures = format!("3 groups of {count}: {removed}");
    if let (Some(before), Some(after)) = (before, requests(&world).await?) {
        let own = u64::try_from(3 * count)?;
        for (verb, took) in after {
            let took = took - before.get(&verb).copied().unwrap_or_default();
            // The test itself has released each object by a patch.
            let took = if verb == "PATCH" { took.saturating_sub(own) } else { took };
            figures = format!("{figures}, {verb} {took}");
        }
        figures = format!("{figures} (requests for {own} objects' kinds, without the test's releasing patches)");
    }
    println!("{figures}");
    Ok(())
}

/// Watches a group until all its objects are gone, and releases each object as soon as it is marked for deletion.
async fn watched(api: &Api, collection: String, mut since: u64, count: usize) -> Outcome<BTreeMap<String, End>> {
    let mut watch = api.watch(&collection, &since.to_string()).await?;
    let mut ends = BTreeMap::<String, End>::new();
    let mut releasing = futures::stream::FuturesUnordered::new();
    while ends.values().filter(|end| end.gone.is_some()).count() < count {
        let event = tokio::select! {
            event = watch.next() => event?,
            Some(released) = releasing.next(), if !releasing.is_empty() => { released?; continue; }
        };
        let Some(event) = event else {
            // A server ends the watches of a new kind, and watches that have been quiet for long.
            watch = api.watch(&collection, &since.to_string()).await?;
            continue;
        };
        ensure(event["type"] != "ERROR", || format!("the watch of {collection}: {event}"))?;
        let object = &event["object"];
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let version: u64 = object["metadata"]["resourceVersion"].as_str().unwrap_or_default().parse()?;
        since = version;
        let end = ends.entry(name.clone()).or_default();
        if event["type"] == "DELETED" {
            end.gone = Some(version);
        } else if end.marked.is_none() && object["metadata"].get("deletionTimestamp").is_some() {
            end.marked = Some(version);
            releasing.push(released(api, format!("{collection}/{name}")));
        }
    }
    Ok(ends)
}

async fn released(api: &Api, path: String) -> Outcome {
    let reply = api.merge(&path, &json!({"metadata": {"finalizers": null}})).await?;
    if reply.is_gone() { Err(Stop::Failed(format!("{path} went while it was held"))) } else { reply.ok().map(drop) }
}

/// Counts the requests about the world's kinds, by verb; returns `None` if the server does not count them.
async fn requests(world: &World) -> Outcome<Option<BTreeMap<String, u64>>> {
    let page = world.own_cluster().get("/metrics").await?;
    let Some(page) = page.body.as_str().filter(|_| page.status == 200) else { return Ok(None) };
    let mut counts = BTreeMap::new();
    let of_world = format!("group=\"{}.", world.id());
    for line in page.lines().filter(|line| line.starts_with("apiserver_request_total{") && line.contains(&of_world)) {
        let verb = line.split_once("verb=\"").and_then(|(_, rest)| rest.split('"').next()).unwrap_or_default();
        let count: u64 = line.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or_default();
        *counts.entry(verb.to_owned()).or_default() += count;
    }
    Ok(Some(counts))
}
