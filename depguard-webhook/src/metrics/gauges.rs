//! Gauges of a service and its server, as they are when the metrics are read.

use std::sync::Arc;

use depguard_kcp::{Gauges, Series};
use prometheus_client::registry::Registry;

use crate::limits::gauged_semaphore::GaugedSemaphore;
use crate::rules::active_rules::{Loaded, Rules, RulesState};
use crate::server::tls::Certificates;

/// Queue for places, and for room.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    /// Word of a closed set, fit for a metric's label.
    pub(crate) name: &'static str,
    pub(crate) places: GaugedSemaphore,
    pub(crate) bytes: GaugedSemaphore,
}

/// Adds the gauges of the rules and the queues to a registry.
pub(crate) fn of_service(registry: &mut Registry, rules: Rules, queues: &[Queue]) {
    let loaded = rules.clone();
    let help = "State of the rules: 1, or 0 while the webhook has not loaded them and refuses each review";
    registry.gauge("depguard_rules_loaded", help, move || Some(f64::from(u8::from(loaded.not_loaded().is_none()))));
    let doubted = rules.clone();
    let help = "Doubt about the rules: 1 while the webhook can't follow all of them and decides only by rules that are \
                proved current, else 0";
    registry.gauge("depguard_rules_in_doubt", help, move || Some(f64::from(u8::from(doubted.doubt().is_some()))));
    let help = "Rules by which the webhook decides; a broken rule refuses in places where it applies";
    registry.gauges("depguard_rules", help, move || by_state(&rules));

    let look = |amount: fn(&Queue) -> usize| {
        let queues = queues.to_vec();
        move || queues.iter().map(|queue| ([("queue", queue.name)], amount(queue) as f64)).collect::<Vec<Series<1>>>()
    };
    let help = "Places in use, by reviews that wait for API servers and by reads of small answers and of pages";
    registry.gauges("depguard_queue_places", help, look(|queue| queue.places.taken()));
    let help = "Existing places: further reviews are refused, further reads wait";
    registry.gauges("depguard_queue_places_limit", help, look(|queue| queue.places.all()));
    let help = "Bytes of memory in use by reviews and reads";
    registry.gauges("depguard_queue_bytes", help, look(|queue| queue.bytes.taken()));
    let help = "Bytes that reviews and reads may use: further ones wait";
    registry.gauges("depguard_queue_bytes_limit", help, look(|queue| queue.bytes.all()));
}

/// Adds the gauges of a server to a registry.
pub(crate) fn of_server(registry: &mut Registry, certificates: Arc<Certificates>, connections: GaugedSemaphore) {
    let help = "End of the first certificate of the served chain, in seconds since 1970";
    let expiry = move || certificates.expiry().map(|expiry| expiry as f64);
    registry.gauge("depguard_certificate_expiry_timestamp_seconds", help, expiry);
    let help = "Maximum of connections: further ones wait";
    let limit = connections.all() as f64;
    registry.gauge("depguard_connections_limit", help, move || Some(limit));
    let help = "Connections of API servers";
    registry.gauge("depguard_connections", help, move || Some(connections.taken() as f64));
}

/// Returns the number of rules by state; none if the rules are not loaded: former rules say nothing about the present
/// ones.
fn by_state(rules: &Rules) -> Vec<Series<1>> {
    match &*rules.snapshot() {
        RulesState::Loaded(Loaded { rules, .. }) => {
            let (all, broken) = (rules.rules(), rules.broken());
            let states = [("usable", all.saturating_sub(broken)), ("broken", broken)];
            states.map(|(state, count)| ([("state", state)], count as f64)).to_vec()
        }
        RulesState::NotLoaded { .. } => Vec::new(),
    }
}
