use depguard_core::api::FailurePolicy;
use depguard_core::probe::LoadedRule;
use depguard_core::rule::{RuleKey, RuleVersion};
use depguard_core::{ControlPlane, LogicalCluster};
use depguard_kcp::{ConnectOptions, Connection, Endpoint};
use serde_json::json;

use super::*;
use crate::model::condition::Finding;
use crate::model::configuration_key::Side;
use crate::probe::job::Probe;
use crate::probe::result::{ExpectedRule, NOT_ASKED, NOT_DISPATCHED, WEBHOOK_UNKNOWN, WEBHOOK_UNREACHABLE};

/// Returns an endpoint at which no API server listens.
async fn nowhere() -> Endpoint {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "a", "user": {"token": "t"}}],
    });
    std::fs::write(&file, kubeconfig.to_string()).unwrap();
    let options = ConnectOptions::new(ControlPlane::Kubernetes).kubeconfig(file);
    Connection::open(&options).await.unwrap().own_endpoint()
}

/// Returns the job of one place, the cluster, for a rule of this name.
fn jobs(endpoint: &Endpoint, rule: &str) -> Jobs {
    jobs_of_uid(endpoint, rule, "1")
}

fn jobs_of_uid(endpoint: &Endpoint, rule: &str, uid: &str) -> Jobs {
    let key = RuleKey { cluster: None, name: rule.to_owned() };
    let version = RuleVersion { uid: Some(uid.to_owned()), generation: 1 };
    let job = Job::new(Probe {
        side: Side::Targets,
        desired: json!({}),
        was_found: true,
        endpoint: endpoint.clone(),
        rules: BTreeMap::from([(key, ExpectedRule { policy: FailurePolicy::Fail, version })]),
        own_namespace: None,
        canaries: BTreeMap::new(),
        instead: None,
        identity: None,
    });
    Jobs::from([(ConfigurationKey::new(None, Side::Targets), Arc::new(job))])
}

/// Returns what a webhook says of the first generation of a rule if it is too old to tell UIDs.
fn of_an_older_webhook() -> RuleVersion {
    RuleVersion { uid: None, generation: 1 }
}

#[tokio::test(start_paused = true)]
async fn what_is_never_well_is_probed_for_hours() {
    let endpoint = nowhere().await;
    let (prober, mut handle) = prober(Duration::from_secs(60));
    let running = tokio::spawn(prober.run());
    assert_eq!(handle.probe(jobs(&endpoint, "a")).await.0.len(), 1);
    sleep(Duration::from_secs(6 * 3600)).await;
    assert!(!running.is_finished(), "the task is gone");
    // The task still takes new jobs.
    assert_eq!(handle.probe(jobs(&endpoint, "b")).await.0.len(), 1);
    drop(handle);
    running.await.unwrap();
}

#[tokio::test]
async fn what_changed_and_what_is_not_well_is_probed_at_once() {
    let endpoint = nowhere().await;
    let key = |provider: &str| ConfigurationKey::new(Some(LogicalCluster::parse(provider).unwrap()), Side::Targets);
    let places = |rule_of_c: &str| -> Jobs {
        let of = |provider: &str, rule: &str| (key(provider), jobs(&endpoint, rule).into_values().next().unwrap());
        [of("a", "r"), of("b", "r"), of("c", rule_of_c)].into()
    };
    let rule = RuleKey { cluster: None, name: "r".to_owned() };
    let loaded = BTreeMap::from([(rule, LoadedRule::new(RuleVersion { uid: Some("1".to_owned()), generation: 1 }))]);
    let well = || ProbeResult {
        loaded: BTreeMap::from([(FailurePolicy::Fail, Ok(vec![loaded.clone()]))]),
        ..ProbeResult::default()
    };
    let all_well: ProbeResults = ["a", "b", "c"].map(|provider| (key(provider), Arc::new(well()))).into();
    let due = |jobs: &Jobs, results: &ProbeResults| due(jobs, &places("r"), results).into_keys().collect::<Vec<_>>();
    assert_eq!(due(&places("r"), &all_well), []);
    assert_eq!(due(&places("s"), &all_well), [key("c")]);
    let mut one_away = all_well.clone();
    one_away.insert(key("b"), Arc::new(ProbeResult::of_problem(Finding::no(NOT_DISPATCHED, "away"))));
    assert_eq!(due(&places("r"), &one_away), [key("b")]);
    one_away.remove(&key("b"));
    assert_eq!(due(&places("s"), &one_away), [key("b"), key("c")]);
}

#[tokio::test(start_paused = true)]
async fn a_series_of_probes_is_broken_by_each_probe_that_finds_something_else() {
    let jobs = jobs(&nowhere().await, "a");
    let rule = RuleKey { cluster: None, name: "a".to_owned() };
    let key = ConfigurationKey::new(None, Side::Targets);
    let begun = Instant::now();
    let (mut series, mut since) = (Series::new(), Vec::new());
    let in_force = |registers| {
        let loaded = BTreeMap::from([(rule.clone(), LoadedRule::new(of_an_older_webhook()).interlocked_by(registers))]);
        ProbeResult { loaded: BTreeMap::from([(FailurePolicy::Fail, Ok(vec![loaded]))]), ..ProbeResult::default() }
    };
    let away = ProbeResult::of_problem(Finding::no(NOT_DISPATCHED, "away"));
    for (second, result) in [
        (0, in_force(4)),
        (1, in_force(4)),
        (2, away),
        (3, in_force(4)),
        // A replica with other registers, once.
        (4, in_force(5)),
        (5, in_force(4)),
        (6, in_force(4)),
    ] {
        let mut found = ProbeResults::from([(key.clone(), Arc::new(result))]);
        series = steady(&jobs, &mut found, &series, begun + Duration::from_secs(second));
        since.push(found[&key].steady.get(&rule).map(|(_, since)| (*since - begun).as_secs()));
    }
    assert_eq!(since, [Some(0), Some(0), None, Some(3), Some(4), Some(5), Some(5)]);
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_was_made_again_begins_a_series_of_its_own() {
    let endpoint = nowhere().await;
    let rule = RuleKey { cluster: None, name: "a".to_owned() };
    let key = ConfigurationKey::new(None, Side::Targets);
    let begun = Instant::now();
    let loaded = BTreeMap::from([(rule.clone(), LoadedRule::new(of_an_older_webhook()).interlocked_by(4))]);
    let result =
        ProbeResult { loaded: BTreeMap::from([(FailurePolicy::Fail, Ok(vec![loaded]))]), ..ProbeResult::default() };
    let (mut series, mut since) = (Series::new(), Vec::new());
    // Both have generation 1, and this webhook tells no UID.
    for (second, uid) in [(0, "1"), (1, "1"), (2, "2"), (3, "2")] {
        let jobs = jobs_of_uid(&endpoint, "a", uid);
        let mut found = ProbeResults::from([(key.clone(), Arc::new(result.clone()))]);
        series = steady(&jobs, &mut found, &series, begun + Duration::from_secs(second));
        since.push(found[&key].steady.get(&rule).map(|(_, since)| (*since - begun).as_secs()));
    }
    assert_eq!(since, [Some(0), Some(0), Some(2), Some(2)]);
}

#[tokio::test(start_paused = true)]
async fn a_series_goes_on_over_a_silence_that_is_short() {
    let jobs = jobs(&nowhere().await, "a");
    let (rule, key) = (RuleKey { cluster: None, name: "a".to_owned() }, ConfigurationKey::new(None, Side::Targets));
    let begun = Instant::now();
    let loaded = |registers| {
        let rule = BTreeMap::from([(rule.clone(), LoadedRule::new(of_an_older_webhook()).interlocked_by(registers))]);
        ProbeResult { loaded: BTreeMap::from([(FailurePolicy::Fail, Ok(vec![rule]))]), ..ProbeResult::default() }
    };
    let late = || Some(ProbeResult::of_problem(Finding::unknown(NOT_ASKED, "the API server did not answer in time")));
    let unreachable = || {
        let why = Err(Finding::no(WEBHOOK_UNREACHABLE, "timed out"));
        Some(ProbeResult { loaded: BTreeMap::from([(FailurePolicy::Fail, why)]), ..ProbeResult::default() })
    };
    let (mut series, mut since) = (Series::new(), Vec::new());
    for (second, result) in [
        (0, Some(loaded(4))),
        (10, late()),
        // The controller did not know if it may write, and asked nobody.
        (15, None),
        (20, unreachable()),
        (29, Some(loaded(4))),
        // 30 s later nobody knows what the webhook did meanwhile.
        (58, unreachable()),
        (59, late()),
        (60, Some(loaded(4))),
        // An answer that tells of something else is no silence.
        (61, Some(ProbeResult::of_problem(Finding::unknown(WEBHOOK_UNKNOWN, "an older version")))),
        (62, Some(loaded(4))),
    ] {
        let now = begun + Duration::from_secs(second);
        let found = result.map(|result| (key.clone(), Arc::new(result)));
        let jobs = if found.is_some() { jobs.clone() } else { Jobs::new() };
        let mut found = ProbeResults::from_iter(found);
        series = steady(&jobs, &mut found, &series, now);
        let steady = found.get(&key).and_then(|result| result.steady.get(&rule).cloned());
        since.push(steady.map(|(_, since)| (since - begun).as_secs()));
    }
    let first = Some(0);
    assert_eq!(since, [first, first, None, first, first, first, None, Some(60), None, Some(62)]);
}

#[tokio::test(start_paused = true)]
async fn what_was_in_force_is_borne_for_a_minute_without_a_result() {
    let jobs = jobs(&nowhere().await, "a");
    let (rule, key) = (RuleKey { cluster: None, name: "a".to_owned() }, ConfigurationKey::new(None, Side::Targets));
    let with = |edit: &dyn Fn(&mut Probe)| {
        let Probe { endpoint, rules, .. } = &jobs[&key].probe;
        let (endpoint, rules) = (endpoint.clone(), rules.clone());
        let (side, desired) = (Side::Targets, json!({}));
        let (own_namespace, instead, identity) = (None, None, None);
        let canaries = BTreeMap::new();
        let mut probe =
            Probe { side, desired, was_found: true, endpoint, rules, own_namespace, canaries, instead, identity };
        edit(&mut probe);
        Jobs::from([(key.clone(), Arc::new(Job::new(probe)))])
    };
    let (written, other) =
        (with(&|probe| probe.was_found = false), with(&|probe| probe.desired = json!({"webhooks": [1]})));
    let loaded = BTreeMap::from([(rule.clone(), LoadedRule::new(of_an_older_webhook()))]);
    let well =
        ProbeResult { loaded: BTreeMap::from([(FailurePolicy::Fail, Ok(vec![loaded]))]), ..ProbeResult::default() };
    let results = |result: ProbeResult| ProbeResults::from([(key.clone(), Arc::new(result))]);
    let (well, nothing) = (results(well), ProbeResults::new());
    let away = results(ProbeResult::of_problem(Finding::no(NOT_DISPATCHED, "away")));
    let unasked = results(ProbeResult::default());
    let unanswered = ProbeResult { is_unanswered: true, ..ProbeResult::of_problem(Finding::unknown(NOT_ASKED, "500")) };
    let unanswered = results(unanswered);
    let begun = Instant::now();
    let at = |seconds| begun + Duration::from_secs(seconds);
    let borne =
        |not_in_force: &[&RuleKey]| Outstanding::from([(key.clone(), not_in_force.iter().copied().cloned().collect())]);
    let mut last = LastResults::default();
    // This controller found the configuration as it should be, and nobody has probed it yet.
    assert_eq!(last.take(&jobs, &nothing, at(0)), borne(&[]));
    assert_eq!(last.take(&jobs, &unasked, at(59)), borne(&[]));
    assert_eq!(last.take(&jobs, &nothing, at(60)), Outstanding::new());
    assert_eq!(last.take(&jobs, &well, at(61)), Outstanding::new(), "there is a result");
    assert_eq!(last.take(&jobs, &unasked, at(100)), borne(&[]));
    assert_eq!(last.take(&other, &nothing, at(101)), Outstanding::new(), "another configuration");
    assert_eq!(last.take(&jobs, &nothing, at(159)), borne(&[]));
    assert_eq!(last.take(&jobs, &nothing, at(160)), Outstanding::new());
    // The API server is lost, and the controller may not write until it is there again.
    last.take(&jobs, &well, at(161));
    assert_eq!(last.take(&jobs, &unanswered, at(162)), borne(&[]));
    assert_eq!(last.take(&jobs, &unanswered, at(222)), Outstanding::new());
    last.resume();
    assert_eq!(last.take(&jobs, &unanswered, at(300)), borne(&[]));
    assert_eq!(last.take(&jobs, &unanswered, at(360)), Outstanding::new());
    last.take(&jobs, &away, at(361));
    assert_eq!(last.take(&jobs, &nothing, at(362)), borne(&[&rule]));
    last.clear();
    assert_eq!(last.take(&written, &nothing, at(363)), Outstanding::new());
    assert_eq!(last.take(&jobs, &nothing, at(364)), Outstanding::new(), "no probe has found what was written");
}

#[tokio::test(start_paused = true)]
async fn another_controllers_turn_ends_each_series_and_a_doubt_ends_none() {
    let (_prober, mut handle) = prober(Duration::from_secs(60));
    let mut work = handle.work.subscribe();
    for (takes_over, handovers) in [(false, 0), (true, 1), (false, 1), (true, 2)] {
        handle.stop(takes_over);
        assert_eq!(latest(&mut work).handovers, handovers);
    }
}

/// Conditions would be unknown for a moment, each hour.
#[tokio::test(start_paused = true)]
async fn a_renewed_signature_is_probed_and_what_is_known_stays_known() {
    let endpoint = nowhere().await;
    let signed = |digit: &str| {
        let url = format!("https://host/validate/registers-0000000a/control-plane.kubernetes/{}", digit.repeat(64));
        let mut jobs = jobs(&endpoint, "a");
        let (key, job) = jobs.pop_first().unwrap();
        let Job { probe: Probe { endpoint, rules, .. }, .. } = &*job;
        let job = Job::new(Probe {
            side: Side::Targets,
            desired: json!({"webhooks": [{"clientConfig": {"url": url}}]}),
            was_found: true,
            endpoint: endpoint.clone(),
            rules: rules.clone(),
            own_namespace: None,
            canaries: BTreeMap::new(),
            instead: None,
            identity: None,
        });
        Jobs::from([(key, Arc::new(job))])
    };
    let (prober, mut handle) = prober(Duration::from_secs(60));
    let mut work = handle.work.subscribe();
    let running = tokio::spawn(prober.run());
    assert_eq!(handle.probe(signed("a")).await.0.len(), 1);
    running.abort();
    latest(&mut work);
    // Nobody probes any more.
    assert_eq!(handle.probe(signed("b")).await.0.len(), 1);
    assert!(work.has_changed().unwrap());
    latest(&mut work);
    assert_eq!(handle.probe(signed("b")).await.0.len(), 1);
    assert!(!work.has_changed().unwrap());
}
