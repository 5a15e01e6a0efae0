//! Model of a kcp whose shards come and go, and tests of the proofs about it.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::model::names::ExportName;

/// Number of logical clusters; `0` is the consumer.
const CLUSTERS: usize = 5;
/// depguard's own logical cluster, which holds its APIExport.
const OWN: usize = 4;
const SHARDS: usize = 3;
const RULES: usize = 2;

/// One logical cluster at some moment.
#[derive(Debug, Clone)]
struct Cluster {
    shard: usize,
    /// Set if the logical cluster has bound depguard's APIExport.
    bound: bool,
    /// The rules, each by generation and incarnation of the object; none of them exists without the binding.
    rules: [Option<(i64, u8)>; RULES],
    /// Providers of the APIs that the logical cluster has bound.
    providers: BTreeSet<usize>,
    /// Set if the front-proxy knows the logical cluster.
    known: bool,
}

#[derive(Debug, Clone)]
struct Kcp {
    clusters: Vec<Cluster>,
    /// Shards that answer.
    up: [bool; SHARDS],
    /// Set if depguard's user may do everything: kcp then shows an unknown id as an empty workspace.
    masters: bool,
}

impl Cluster {
    fn rules(&self) -> [Option<(i64, u8)>; RULES] {
        if self.bound { self.rules } else { [None; RULES] }
    }
}

impl Kcp {
    fn answer(&self, query: &Query) -> Result<(u16, Value), &'static str> {
        let id: usize = query.cluster.as_ref().unwrap().as_str().trim_start_matches('c').parse().unwrap();
        let cluster = &self.clusters[id];
        let list = |items: Vec<Value>| Ok((200, json!({"metadata": {"resourceVersion": "1"}, "items": items})));
        let is_list = !query.path.ends_with("/cluster");
        match cluster.known {
            false if self.masters && is_list => return list(Vec::new()),
            false => return Ok((if self.masters { 404 } else { 403 }, json!({}))),
            true if !self.up[cluster.shard] => return Err("the shard is down"),
            true => {}
        }
        if !is_list {
            return Ok((200, json!({"metadata": {"annotations": {"kcp.io/cluster": format!("c{id}")}}})));
        }
        if query.path.contains("apibindings") {
            let binding = |provider: &str, export: &str| {
                json!({
                    "spec": {"reference": {"export": {"name": export}}},
                    "status": {"apiExportClusterName": provider, "boundResources": [{"resource": "things"}]},
                })
            };
            let bound = cluster.providers.iter().map(|provider| binding(&format!("c{provider}"), "things"));
            let own = cluster.bound.then(|| binding(&format!("c{OWN}"), "depguard"));
            // An export of the same name from another provider proves nothing.
            let other = binding(&format!("c{id}"), "depguard");
            return list(bound.chain(own).chain((![0, OWN].contains(&id)).then_some(other)).collect());
        }
        if !cluster.bound {
            return Ok((404, json!({})));
        }
        list(rules(id, &cluster.rules()))
    }

    /// Returns the result of a proof while nothing changes.
    fn prove(&self, known: KnownRules) -> Result<(), String> {
        let mut currency = RuleCurrency::new(Arc::new(known), cluster(0));
        while !currency.is_settled() {
            let queries = currency.queries();
            if queries.is_empty() {
                break;
            }
            for query in queries {
                match self.answer(&query) {
                    Ok((status, body)) => {
                        let body = body.to_string();
                        currency.answer(query.id, Answer::Response { status, body: body.as_bytes() });
                    }
                    Err(why) => currency.answer(query.id, Answer::Failed(why)),
                }
            }
        }
        currency.outcome().map_err(|why| why.to_string())
    }

    /// Returns the logical clusters whose rules could apply to the consumer.
    fn relevant(&self) -> BTreeSet<usize> {
        let consumer = &self.clusters[0];
        consumer.providers.iter().copied().chain([0]).chain(consumer.bound.then_some(OWN)).collect()
    }
}

fn cluster(id: usize) -> LogicalCluster {
    LogicalCluster::parse(&format!("c{id}")).unwrap()
}

fn rules(id: usize, states: &[Option<(i64, u8)>; RULES]) -> Vec<Value> {
    let there = states.iter().enumerate().filter_map(|(rule, state)| Some((rule, (*state)?)));
    let each = there.map(|(rule, (generation, incarnation))| {
        json!({"metadata": {
            "name": format!("r{rule}"), "uid": format!("{id}-{rule}-{incarnation}"), "generation": generation,
            "annotations": {"kcp.io/cluster": format!("c{id}")},
        }})
    });
    each.collect()
}

fn known(states: &[[Option<(i64, u8)>; RULES]]) -> KnownRules {
    let all: Vec<_> = states.iter().enumerate().flat_map(|(id, states)| rules(id, states)).collect();
    KnownRules::read((cluster(OWN), ExportName::parse("depguard").unwrap()), &all)
}

prop_compose! {
    fn any_cluster()(
        shard in 0..SHARDS,
        bound: bool,
        rules in [proptest::option::of((1..3i64, 0..2u8)), proptest::option::of((1..3i64, 0..2u8))],
        providers in proptest::collection::btree_set(0..CLUSTERS, 0..3),
        known in proptest::bool::weighted(0.9),
    ) -> Cluster {
        Cluster { shard, bound, rules, providers, known }
    }
}

prop_compose! {
    fn any_kcp()(
        clusters in vec(any_cluster(), CLUSTERS),
        up in [proptest::bool::weighted(0.8), proptest::bool::weighted(0.8), proptest::bool::weighted(0.8)],
        masters: bool,
    ) -> Kcp {
        Kcp { clusters, up, masters }
    }
}

proptest! {
    /// Any changes of shards and workspaces since the rules were loaded: rules were written, changed, replaced or
    /// deleted, workspaces were moved, bound, unbound or deleted. `then` holds the loaded state of the changed
    /// workspaces.
    #[test]
    fn what_is_proved_is_true_and_what_can_be_seen_to_be_true_is_proved(
        now in any_kcp(),
        then in vec(any_cluster(), CLUSTERS),
        changed in vec(proptest::bool::weighted(0.2), CLUSTERS),
    ) {
        let loaded: Vec<_> = (0..CLUSTERS)
            .map(|id| if changed[id] { then[id].rules() } else { now.clusters[id].rules() })
            .collect();
        let proved = now.prove(known(&loaded));
        let is_loaded = now.relevant().into_iter().all(|id| loaded[id] == now.clusters[id].rules());
        let is_seen = now.relevant().into_iter().all(|id| {
            let cluster = &now.clusters[id];
            cluster.known && now.up[cluster.shard]
        });
        prop_assert_eq!(proved.is_ok(), is_loaded && is_seen, "{:?}", proved);
    }
}

/// A consumer and its one provider with a rule, each on its own shard.
fn small() -> Kcp {
    let cluster = |shard, providers: &[usize]| Cluster {
        shard,
        bound: shard == 1,
        rules: [Some((1, 0)), None],
        providers: providers.iter().copied().collect(),
        known: true,
    };
    Kcp { clusters: vec![cluster(0, &[1]), cluster(1, &[]), cluster(2, &[])], up: [true; SHARDS], masters: false }
}

#[test]
fn a_refusal_names_the_logical_cluster_and_what_failed() {
    let loaded = [[None; RULES], [Some((1, 0)), None], [None; RULES]];
    let mut kcp = small();
    kcp.prove(known(&loaded)).unwrap();
    kcp.up[2] = false;
    kcp.prove(known(&loaded)).expect("nothing of it is bound");
    kcp.up[1] = false;
    let why = kcp.prove(known(&loaded)).unwrap_err();
    assert!(why.ends_with(" of logical cluster c1 failed: the shard is down; retry later"), "{why}");
    kcp.up[1] = true;
    kcp.clusters[1].rules[1] = Some((1, 0));
    let why = kcp.prove(known(&loaded)).unwrap_err();
    assert_eq!(why, "the rules of logical cluster c1 differ from the loaded rules; retry later");
}

#[test]
fn what_was_not_answered_in_time_is_named() {
    let mut currency = RuleCurrency::new(Arc::new(known(&[])), cluster(0));
    assert!(!currency.queries().is_empty() && !currency.is_settled());
    let why = currency.outcome().unwrap_err();
    assert_eq!(why.to_string(), "the list of apibindings of logical cluster c0 was not answered in time; retry later");
}

/// kcp shows an unknown id as an empty workspace to a user who may do everything.
#[test]
fn an_empty_workspace_that_does_not_say_that_it_is_there_proves_nothing() {
    let mut kcp = small();
    (kcp.masters, kcp.clusters[1].known) = (true, false);
    let why = kcp.prove(known(&[])).unwrap_err();
    assert!(why.contains("the object of logical cluster c1 failed with HTTP 404"), "{why}");
}
