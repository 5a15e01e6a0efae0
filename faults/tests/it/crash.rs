//! Tests of ordered removals while the controller is killed at its writes. `DEPGUARD_CRASH_GRAPHS` and
//! `DEPGUARD_CRASH_SEED` draw other graphs.

use depguard_faults::crash::{Mistake, control, run};
use futures::future::try_join_all;

/// Number of graphs that a busy machine has time for.
const GRAPHS: usize = 9;

#[tokio::test(flavor = "multi_thread")]
async fn a_removal_keeps_its_order_wherever_its_controller_is_killed() {
    let number = |name, default| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let graphs = number("DEPGUARD_CRASH_GRAPHS", GRAPHS);
    let summary = run(number("DEPGUARD_CRASH_SEED", 1) as u64, graphs).await.unwrap();
    println!("{summary}");
    assert_eq!(summary.violations, [""; 0]);
    // The run must have been hard enough.
    assert!(summary.kills >= 10 * graphs, "{summary}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_judge_sees_each_removal_that_is_wrong() {
    let seen = try_join_all(Mistake::ALL.map(control)).await.unwrap();
    for (mistake, seen) in Mistake::ALL.iter().zip(seen) {
        assert!(!seen.is_empty(), "a {mistake:?} removal is not seen");
    }
}
