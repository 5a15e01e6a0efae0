//! Metrics of files that are read again when they change.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Metrics of all such files at `/metrics`.
#[derive(Debug, Clone, Default)]
pub struct Reloads {
    failures: Family<[(&'static str, &'static str); 1], Counter>,
    failing: Family<[(&'static str, &'static str); 1], Gauge>,
}

/// Metrics of one file. By default no registry shows them.
#[derive(Debug, Clone, Default)]
pub struct Reload {
    failures: Counter,
    failing: Gauge,
}

impl Reloads {
    /// Adds the metrics to a registry.
    pub fn register(&self, registry: &mut Registry) {
        let help = "Changed files that depguard could not use; the previous content stays in force";
        registry.register("depguard_reload_failures", help, self.failures.clone());
        let help = "Failure of a file: 1 while depguard can't use the present content, else 0";
        registry.register("depguard_reload_failing", help, self.failing.clone());
    }

    /// Returns the metrics of one file. `file` is a word of a closed set, such as `certificate`.
    pub fn of(&self, file: &'static str) -> Reload {
        let labels = [("file", file)];
        Reload {
            failures: self.failures.get_or_create_owned(&labels),
            failing: self.failing.get_or_create_owned(&labels),
        }
    }
}

impl Reload {
    /// Notes that the file's present content is in force.
    pub fn succeeded(&self) {
        self.failing.set(0);
    }

    /// Notes that the file changed and its present content is unusable.
    pub fn failed(&self) {
        self.failures.inc();
        self.failing.set(1);
    }
}
