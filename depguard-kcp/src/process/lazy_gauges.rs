//! Gauges whose values are looked up when they are read, so that no code has to update them.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelValue, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::watch::reflector::Watches;

/// Adds gauges of each resource's watches: the time since the last contact with a watch, and if it fails.
pub fn register_watches(registry: &mut Registry, watches: Watches) {
    let failing = watches.clone();
    let help =
        "Failure of a resource's watches: 1 while depguard can't list the resource at one of its endpoints, else 0";
    registry.gauges("depguard_watch_failing", help, move || {
        let failing = failing.failing().into_iter();
        failing
            .map(|(resource, fails)| ([("resource", resource)], f64::from(u8::from(fails))))
            .collect::<Vec<Series<1>>>()
    });
    let help = "Time since the last news of a resource, for the watch that has been silent the longest";
    registry.gauges("depguard_watch_age_seconds", help, move || {
        let ages = watches.ages().into_iter();
        ages.map(|(resource, age)| ([("resource", resource)], age.as_secs_f64())).collect::<Vec<Series<1>>>()
    });
}

/// Labels of a series, from closed sets of words, and its value.
pub type Series<const N: usize, V = &'static str> = ([(&'static str, V); N], f64);

/// Adds gauges to a registry.
pub trait Gauges {
    /// Adds a gauge with one value. Without a value, there is no series.
    fn gauge(&mut self, name: &'static str, help: &'static str, look: impl Fn() -> Option<f64> + Send + Sync + 'static);

    /// Adds a gauge with many series, which differ by labels.
    fn gauges<const N: usize, V: EncodeLabelValue + 'static>(
        &mut self,
        name: &'static str,
        help: &'static str,
        look: impl Fn() -> Vec<Series<N, V>> + Send + Sync + 'static,
    );
}

impl Gauges for Registry {
    fn gauge(
        &mut self,
        name: &'static str,
        help: &'static str,
        look: impl Fn() -> Option<f64> + Send + Sync + 'static,
    ) {
        self.gauges(name, help, move || look().map(|value| ([], value)).into_iter().collect::<Vec<Series<0>>>());
    }

    fn gauges<const N: usize, V: EncodeLabelValue + 'static>(
        &mut self,
        name: &'static str,
        help: &'static str,
        look: impl Fn() -> Vec<Series<N, V>> + Send + Sync + 'static,
    ) {
        self.register_collector(Box::new(LazyGauge { name, help, look }));
    }
}

struct LazyGauge<F> {
    name: &'static str,
    help: &'static str,
    look: F,
}

impl<const N: usize, V, F> Collector for LazyGauge<F>
where
    V: EncodeLabelValue + 'static,
    F: Fn() -> Vec<Series<N, V>> + Send + Sync + 'static,
{
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = format!("{}.", self.help);
        let mut metric = encoder.encode_descriptor(self.name, &help, None, MetricType::Gauge)?;
        for (labels, value) in (self.look)() {
            let gauge = ConstGauge::new(value);
            if labels.is_empty() {
                return gauge.encode(metric);
            }
            gauge.encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl<F> fmt::Debug for LazyGauge<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyGauge").field("name", &self.name).finish_non_exhaustive()
    }
}
