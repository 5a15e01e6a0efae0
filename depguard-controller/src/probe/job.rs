//! Probe of one configuration: what should be in force there, and how that is found out.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use depguard_core::model::GroupResource;
use depguard_core::probe::dispatch_canary;
use depguard_core::rule::RuleKey;
use depguard_kcp::Endpoint;
use futures::future::join_all;
use serde_json::Value;

use crate::model::condition::Finding;
use crate::model::configuration_key::{ConfigurationKey, Side};
use crate::model::webhook_configuration;
use crate::probe::result::{
    CONFIGURATION_CHANGED, DISPATCH_UNKNOWN, ExpectedRules, NOT_ASKED, NOT_DISPATCHED, ProbeResult,
};
use crate::probe::webhook_probe::{self, Address};
use crate::runtime::apply;

/// Time limit of one request to an API server.
const REQUEST: Duration = Duration::from_secs(10);
/// Time limit of the requests that aggregated API servers answer: no other result waits longer for them.
const OF_AGGREGATED: Duration = Duration::from_secs(3);

/// Probes to run, by configuration.
pub(crate) type Jobs = BTreeMap<ConfigurationKey, Arc<Job>>;

/// Probe to run, and the mark by which its result is recognized.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) probe: Probe,
    /// Hash of the configuration without signatures, and of its API server.
    pub(crate) configuration: u64,
    /// Hash of the probe: another probe has another hash. A probe by which only signatures are renewed has the same, so
    /// that what is known stays known.
    pub(crate) hash: u64,
}

/// Probe of a configuration: the desired configuration, and the way to check it.
#[derive(Debug)]
pub(crate) struct Probe {
    /// Side that the configuration has reviewed.
    pub(crate) side: Side,
    /// Configuration that should be installed.
    pub(crate) desired: Value,
    /// True if the configuration was found as desired.
    pub(crate) was_found: bool,
    /// API server on which it is installed.
    pub(crate) endpoint: Endpoint,
    /// Rules that the configuration is for.
    pub(crate) rules: ExpectedRules,
    /// Namespace of the canary.
    pub(crate) own_namespace: Option<String>,
    /// Canaries of kinds of aggregated API servers, by their paths.
    pub(crate) canaries: BTreeMap<GroupResource, String>,
    /// Address to connect to instead of the configuration's.
    pub(crate) instead: Option<String>,
    /// Folder with the certificate by which the webhook recognizes the controller.
    pub(crate) identity: Option<PathBuf>,
}

impl Job {
    pub(crate) fn new(probe: Probe) -> Self {
        let desired = webhook_configuration::without_signatures(&probe.desired).to_string();
        let configuration = hash_of((desired, probe.endpoint.url()));
        let hash = hash_of((configuration, &probe.rules, &probe.own_namespace, &probe.canaries));
        Self { probe, configuration, hash }
    }

    /// Returns true if both probe the same configuration, with the same signatures.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.hash == other.hash && self.probe.desired == other.probe.desired
    }

    pub(crate) fn is_well(&self, result: &ProbeResult) -> bool {
        self.not_in_force(result).next().is_none()
    }

    /// Returns the rules that this result does not find in force.
    pub(crate) fn not_in_force(&self, result: &ProbeResult) -> impl Iterator<Item = &RuleKey> {
        let rules = self.probe.rules.iter();
        rules.filter(|(key, expected)| result.of_rule(key, expected).is_some()).map(|(key, _)| key)
    }
}

fn hash_of(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

impl Probe {
    pub(crate) async fn run(&self) -> ProbeResult {
        let endpoint = self.endpoint.within(REQUEST);
        let changed = match apply::read(&endpoint, self.side.configuration()).await {
            Ok(Some(found)) if webhook_configuration::is_in_force(&found, &self.desired) => None,
            Ok(Some(_)) => Some("somebody changed the webhook configuration; depguard is restoring it"),
            Ok(None) => Some("the webhook configuration is gone; depguard is installing it again"),
            Err(why) => {
                let is_unanswered = why.status().is_none_or(|status| status == 429 || status >= 500);
                let why = format!("could not read the webhook configuration back: {why}");
                return ProbeResult { is_unanswered, ..ProbeResult::of_problem(Finding::unknown(NOT_ASKED, why)) };
            }
        };
        if let Some(why) = changed {
            return ProbeResult::of_problem(Finding::no(CONFIGURATION_CHANGED, why));
        }
        let mut loaded = BTreeMap::new();
        for webhook in self.desired.get("webhooks").and_then(Value::as_array).into_iter().flatten() {
            let Some(policy) = webhook_configuration::policy_of(webhook) else { continue };
            // All webhooks of a policy have the same address.
            if loaded.contains_key(&policy) {
                continue;
            }
            let rules = self.rules.iter().filter(|(_, rule)| rule.policy == policy);
            let rules: Vec<_> = rules.map(|(key, _)| key).collect();
            let answer = match Address::from_webhook(webhook, self.instead.as_deref()) {
                Some(address) => webhook_probe::ask(&address, self.identity.as_deref(), &rules).await,
                None => {
                    Err(Finding::unknown(NOT_ASKED, "the webhook configuration has no usable address of the webhook"))
                }
            };
            loaded.insert(policy, answer);
        }
        let answered = loaded.values().all(Result::is_ok);
        let dispatch = match self.own_namespace.as_ref().filter(|_| answered) {
            Some(namespace) => try_canary(&endpoint, namespace).await.err(),
            None => None,
        };
        let endpoint = self.endpoint.within(OF_AGGREGATED);
        let tries = self.canaries.iter().filter(|_| answered).map(async |(kind, path)| {
            let refusal = endpoint.delete_dry_run(path).await.err()?;
            refusal.to_string().contains(dispatch_canary::MESSAGE).then(|| kind.clone())
        });
        let arriving = join_all(tries).await.into_iter().flatten().collect();
        ProbeResult { loaded, dispatch, arriving, ..ProbeResult::default() }
    }
}

/// Tries whether the API server asks the webhook: the webhook always refuses this deletion, so it must be refused.
async fn try_canary(endpoint: &Endpoint, namespace: &str) -> Result<(), Finding> {
    let name = dispatch_canary::NAME;
    let unknown = |why: String| {
        let why = format!("could not test whether the API server calls the webhook: {why}");
        Err(Finding::unknown(DISPATCH_UNKNOWN, why))
    };
    match endpoint.delete_dry_run(&format!("/api/v1/namespaces/{namespace}/configmaps/{name}")).await {
        Ok(_) => Err(Finding::no(
            NOT_DISPATCHED,
            format!(
                "the API server did not call the webhook about ConfigMap {namespace}/{name}: check that it reaches \
                 the webhook, and that the ConfigMap has the label {}",
                dispatch_canary::LABEL
            ),
        )),
        Err(error) if error.to_string().contains(dispatch_canary::MESSAGE) => Ok(()),
        Err(error) if error.is_not_found() => unknown(format!(
            "namespace {namespace} has no ConfigMap {name}: create it as `depguard-controller manifests \
             --control-plane kubernetes` prints it"
        )),
        Err(error) => unknown(error.to_string()),
    }
}
