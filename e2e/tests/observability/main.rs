//! Operator's view of depguard: the metrics of both binaries, the alerts and the dashboard on these metrics, and the guide
//! that explains them. The tests compare each with the others.

mod alerts;
mod dashboard;
mod documented;
mod exposed;
mod promql;
mod queries;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use depguard_e2e::rules::rule;
use depguard_e2e::{Depguard, Mode, Outcome, Ring, RingKind, Stop, World, ensure, eventually};

use alerts::Alert;
use exposed::{Metrics, scrape};

const ALERTS: &str = include_str!("../../../charts/depguard/alerts.yaml");
const GUIDE: &str = include_str!("../../../docs/operations.md");

/// Page with a heading for each alert, where whoever gets the alert finds it.
const RUNBOOK: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/operations.md#");

/// Returns the metrics of both binaries after one deletion was refused, one was allowed, and the rule's status was
/// reported.
async fn shown(kind: RingKind) -> Outcome<[Metrics; 2]> {
    let ring = Arc::new(Ring::testbed(kind).await?);
    let world = Arc::new(World::create(ring, Mode::Guarded, "observed", "observed").await?);
    let cast = world.cast().await?;
    let consumer = &cast.consumer;
    consumer.create_target(&cast.vpc, "a").await?;
    consumer.create_target(&cast.vpc, "b").await?;
    consumer.create_dependent(&cast.vm, "m1", "a").await?;
    let mut machines = rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")]);
    if !world.is_kcp() {
        machines["spec"]["dependencies"][0]["onMissing"] = "Audit".into();
        world.grant_counting(&[&cast.vm, &cast.vpc]).await?;
    }
    world.add_rule(&cast.compute, &machines).await?;
    let depguard = Depguard::start(&world).await?;
    consumer.until_protected(&world, &cast.vpc, "a").await?;
    consumer.until_free(&world, &cast.vpc, "b").await?;
    consumer.refused(&world, &cast.vpc, "a", &["still referenced by VirtualMachine/m1"]).await?;
    consumer.delete(&world, &cast.vpc, "b").await?;
    eventually("the rule's status is told", Duration::from_secs(30), async || {
        let [webhook, controller] = both(&depguard).await?;
        let enforced = value(&controller, "depguard_controller_rules", &["condition=\"Enforced\""]);
        let denied = value(&webhook, "depguard_refusals_total", &["cause=\"StillReferenced\""]);
        // The metrics about rules appear before the round has ended.
        let ended = value(&controller, "depguard_controller_last_round_timestamp_seconds", &[]);
        let counts = controller.get("depguard_controller_dangling_references").map_or(0, |metric| metric.series.len());
        let all = enforced > 0.0 && denied > 0.0 && ended > 0.0 && (counts > 0 || world.is_kcp());
        ensure(all, || format!("{enforced} rules, {denied} refusals, last round {ended}, {counts} counts"))?;
        Ok([webhook, controller])
    })
    .await
}

async fn both(depguard: &Depguard) -> Outcome<[Metrics; 2]> {
    let [Some(webhook), Some(controller)] = depguard.metrics() else { return Err(Stop::failed("no metrics")) };
    Ok([scrape(webhook).await?, scrape(controller).await?])
}

/// Returns the sum of all series with these labels.
fn value(metrics: &Metrics, name: &str, labels: &[&str]) -> f64 {
    let series = metrics.get(name).into_iter().flat_map(|metric| &metric.series);
    let selected = series.filter(|(series, _)| labels.iter().all(|label| series.contains(label)));
    selected.map(|(_, value)| value.parse::<f64>().unwrap()).sum()
}

/// Collects the metrics of both binaries on both kinds of testbed, with all labels and values.
async fn exposed() -> Metrics {
    let mut all = Metrics::new();
    for kind in [RingKind::TestbedKcp, RingKind::TestbedKubernetes] {
        let shown = shown(kind).await.unwrap_or_else(|why| panic!("{}: {why}", kind.name()));
        for (name, metric) in shown.into_iter().flatten() {
            let known = all.entry(name).or_default();
            known.kind = metric.kind;
            known.series.extend(metric.series);
            for (label, values) in metric.labels {
                known.labels.entry(label).or_default().extend(values);
            }
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_alerts_and_the_guide_tell_of_the_same() {
    let (exposed, rows) = (exposed().await, documented::metrics(GUIDE));
    let names = |names: Vec<&String>| names.into_iter().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(exposed.keys().collect()), names(rows.keys().collect()), "shown, and in docs/operations.md");
    for (name, metric) in &exposed {
        let row = &rows[name];
        assert_eq!(metric.kind, row.kind, "the type of {name}");
        for (label, values) in &metric.labels {
            let listed = row.labels.get(label).unwrap_or_else(|| panic!("{name}: no word of the label {label}"));
            assert!(
                listed.is_empty() || values.is_subset(listed),
                "{name}: {label} is one of {values:?}, not {listed:?}"
            );
        }
        assert!(
            !metric.series.is_empty(),
            "{name} has no series: whoever looks for it can't know that nothing happened"
        );
    }
    assert!(value(&exposed, "depguard_certificate_expiry_timestamp_seconds", &[]) > 1.7e9);
    assert!(value(&exposed, "depguard_controller_ca_expiry_timestamp_seconds", &[]) > 1.7e9);
    assert!(value(&exposed, "depguard_review_duration_seconds", &["_count", "decided_by=\"reads\""]) >= 2.0);

    let alerts = alerts::read(ALERTS);
    let faults: Vec<_> = alerts.iter().flat_map(|alert| queries::faults(&alert.alert, &alert.expr, &rows)).collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn each_alert_says_what_is_wrong_and_where_to_read_what_to_do() {
    let (alerts, anchors) = (alerts::read(ALERTS), documented::anchors(GUIDE));
    let names: BTreeSet<_> = alerts.iter().map(|alert| &alert.alert).collect();
    assert!(names.len() == alerts.len() && names.len() > 10, "{names:?}");
    for Alert { alert, labels, annotations, lasts, .. } in &alerts {
        assert!(["critical", "warning", "info"].contains(&labels["severity"].as_str()), "{alert}");
        assert!(annotations["summary"].len() > 20 && annotations["description"].len() > 20, "{alert}");
        let anchor = annotations["runbook_url"].strip_prefix(RUNBOOK).unwrap();
        assert!(anchor == alert.to_lowercase() && anchors.contains(anchor), "{alert}: there is no heading {anchor}");
        assert!(lasts.as_ref().is_none_or(|lasts| lasts.ends_with('m')), "{alert}");
    }
}
