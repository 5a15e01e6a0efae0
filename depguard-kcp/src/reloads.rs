//! How it stands with files that are read again as they change.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// What of it can be seen at `/metrics`.
#[derive(Debug, Clone, Default)]
pub struct Reloads {
    failures: Family<[(&'static str, &'static str); 1], Counter>,
    failing: Family<[(&'static str, &'static str); 1], Gauge>,
}

/// The same of one file. By default it is seen nowhere.
#[derive(Debug, Clone, Default)]
pub struct Reload {
    failures: Counter,
    failing: Gauge,
}

impl Reloads {
    /// Adds it to a registry.
    pub fn register(&self, registry: &mut Registry) {
        let help = "Changed files that could not be taken up, where what was there before stays in force";
        registry.register("depguard_reload_failures", help, self.failures.clone());
        let help = "Whether a file can't be taken up as it is now";
        registry.register("depguard_reload_failing", help, self.failing.clone());
    }

    /// One file's; `file` is a word of a closed set, such as `certificate`.
    pub fn of(&self, file: &'static str) -> Reload {
        let labels = [("file", file)];
        Reload {
            failures: self.failures.get_or_create_owned(&labels),
            failing: self.failing.get_or_create_owned(&labels),
        }
    }
}

impl Reload {
    /// The file is in force as it is now.
    pub fn succeeded(&self) {
        self.failing.set(0);
    }

    /// It changed, and what is there now can't be used.
    pub fn failed(&self) {
        self.failures.inc();
        self.failing.set(1);
    }
}
