//! What is known of a service and its server, as it is when the metrics are read.

use std::sync::Arc;

use depguard_kcp::{Gauges, Series};
use prometheus_client::registry::Registry;

use crate::rules::{Loaded, Rules, Snapshot};
use crate::taken::Taken;
use crate::tls::Certificates;

/// What waits for its turn, and for room.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    /// One word of a closed set, fit for a metric's label.
    pub(crate) name: &'static str,
    pub(crate) places: Taken,
    pub(crate) bytes: Taken,
}

/// Adds what is known of the rules and the queues to a registry.
pub(crate) fn of_service(registry: &mut Registry, rules: Rules, queues: &[Queue; 3]) {
    let loaded = rules.clone();
    let help = "Whether all rules are loaded: 1, or 0 where every review is refused";
    registry.gauge("depguard_rules_loaded", help, move || Some(f64::from(u8::from(loaded.not_loaded().is_none()))));
    let doubted = rules.clone();
    let help =
        "Whether not all rules can be followed: 1 where a review is decided only by rules that are proved current";
    registry.gauge("depguard_rules_in_doubt", help, move || Some(f64::from(u8::from(doubted.doubt().is_some()))));
    let help = "Rules that are decided by; one that is broken refuses where it bears";
    registry.gauges("depguard_rules", help, move || by_state(&rules));

    let look = |amount: fn(&Queue) -> usize| {
        let queues = queues.clone();
        move || queues.iter().map(|queue| ([("queue", queue.name)], amount(queue) as f64)).collect::<Vec<Series<1>>>()
    };
    let help = "Places that are taken: by reviews that wait for API servers, by reads, by reads of long pages";
    registry.gauges("depguard_queue_places", help, look(|queue| queue.places.taken()));
    let help = "Places that there are; further reviews are refused, further reads wait";
    registry.gauges("depguard_queue_places_limit", help, look(|queue| queue.places.all()));
    let help = "Bytes that are taken up by what is in memory of them";
    registry.gauges("depguard_queue_bytes", help, look(|queue| queue.bytes.taken()));
    let help = "Bytes that may be taken up; what is beyond waits";
    registry.gauges("depguard_queue_bytes_limit", help, look(|queue| queue.bytes.all()));
}

/// Adds what is known of a server to a registry.
pub(crate) fn of_server(registry: &mut Registry, certificates: Arc<Certificates>, connections: Taken) {
    let help = "When the first certificate of the served chain ends, in seconds since 1970";
    let expiry = move || certificates.expiry().map(|expiry| expiry as f64);
    registry.gauge("depguard_certificate_expiry_timestamp_seconds", help, expiry);
    let help = "Connections that there may be; further ones wait";
    let limit = connections.all() as f64;
    registry.gauge("depguard_connections_limit", help, move || Some(limit));
    let help = "Connections of API servers";
    registry.gauge("depguard_connections", help, move || Some(connections.taken() as f64));
}

/// None where they are not loaded: what was in force before says nothing of what is.
fn by_state(rules: &Rules) -> Vec<Series<1>> {
    match &*rules.snapshot() {
        Snapshot::Loaded(Loaded { rules, .. }) => {
            let (all, broken) = (rules.rules(), rules.broken());
            let states = [("usable", all.saturating_sub(broken)), ("broken", broken)];
            states.map(|(state, count)| ([("state", state)], count as f64)).to_vec()
        }
        Snapshot::NotLoaded { .. } => Vec::new(),
    }
}
