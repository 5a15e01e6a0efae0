//! Own writes of configurations that the watch does not show yet: what the watch shows meanwhile is older than they are.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::model::install_outcome::Outcome;
use crate::model::webhook_configuration::{Step, step};

/// Configurations that were written or read, until the watch shows them so.
#[derive(Debug)]
pub(crate) struct OwnWrites<K>(BTreeMap<K, Last>);

/// Last that is known of a configuration.
#[derive(Debug)]
enum Last {
    /// The configuration is as desired; `None`: it is absent.
    As(Option<Value>),
    /// A request failed, after which nobody knows.
    Unknown,
}

impl<K: Ord> OwnWrites<K> {
    pub(crate) fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Returns true if what the watch shows of a configuration is not older than the last own write.
    pub(crate) fn are_seen(&mut self, key: &K, shown: Option<&Value>) -> bool {
        let seen = match self.0.get(key) {
            None => true,
            Some(Last::As(last)) => step(shown, last.as_ref()) == Step::Nothing,
            Some(Last::Unknown) => false,
        };
        if seen {
            self.0.remove(key);
        }
        seen
    }

    /// Notes the outcome of reading a configuration and making it as desired.
    pub(crate) fn note(&mut self, key: K, desired: Option<&Value>, outcome: &Outcome) {
        let last = match outcome {
            Outcome::Installed => Last::As(desired.cloned()),
            Outcome::Pending(_) | Outcome::Failed(_) => Last::Unknown,
            Outcome::Foreign | Outcome::Newer { .. } | Outcome::ClaimNotAccepted => {
                self.0.remove(&key);
                return;
            }
        };
        self.0.insert(key, last);
    }

    /// Forgets all keys that are no longer needed.
    pub(crate) fn keep(&mut self, needed: impl Fn(&K) -> bool) {
        self.0.retain(|key, _| needed(key));
    }
}
