//! Tests of short runs through every usual fault, like `cargo run -p depguard-faults -- --deletes 380`.

use depguard_faults::{Fault, Options, ReadThrough, Summary};
use futures::future::try_join_all;

/// Number of deletions under each fault.
const DELETES: usize = 20;
/// Number of faults of one run. The runs go side by side, because most of each run is waiting.
const FAULTS: usize = 2;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_is_referenced_is_deleted_and_nothing_free_is_refused_for_long() {
    let options = Fault::USUAL.chunks(FAULTS).zip(1..).map(|(faults, seed)| Options {
        seed,
        deletes: DELETES * faults.len(),
        only: faults.to_vec(),
        ..Options::default()
    });
    let options: Vec<_> = options.collect();
    let summaries = try_join_all(options.iter().map(depguard_faults::run)).await.unwrap();
    for summary in &summaries {
        println!("{summary}");
        assert_eq!(summary.violations, [""; 0], "seed {}", summary.seed);
    }
    // The runs must have been hard enough.
    let sum = |count: fn(&Summary) -> usize| summaries.iter().map(count).sum::<usize>();
    let deletes = sum(|summary| summary.deletes);
    assert_eq!(deletes, DELETES * Fault::USUAL.len());
    assert!(sum(|summary| summary.referenced) * 100 >= deletes * 40);
    assert!(sum(|summary| summary.just) * 10 >= deletes);
    for fault in Fault::USUAL {
        let hits = summaries.iter().find_map(|summary| summary.faults.get(&fault));
        let hits = hits.unwrap_or_else(|| panic!("never {}", fault.name()));
        assert!(!fault.hits_requests() || hits.iter().all(|hits| *hits > 0), "{} hit nothing", fault.name());
    }
}

/// Reads dependents through their own exports. Other answers may be mistaken for an empty list there.
#[tokio::test(flavor = "multi_thread")]
async fn nor_where_dependents_are_read_through_exports() {
    let only = vec![Fault::NotFound, Fault::BareList, Fault::CutMidPage, Fault::EndpointsUnreadable];
    let read_through = ReadThrough::Export;
    let options = Options { seed: 6, deletes: 80, only, read_through, ..Options::default() };
    let summary = depguard_faults::run(&options).await.unwrap();
    println!("{summary}");
    assert_eq!(summary.violations, [""; 0]);
    assert!(summary.referenced * 100 >= summary.deletes * 40, "{summary}");
}
