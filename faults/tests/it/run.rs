//! Test of a short run through every usual fault, like `cargo run -p depguard-faults -- --deletes 380`.

use depguard_faults::{Fault, Options, ReadThrough};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_is_referenced_is_deleted_and_nothing_free_is_refused_for_long() {
    let summary = depguard_faults::run(&Options { seed: 1, deletes: 380, ..Options::default() }).await.unwrap();
    println!("{summary}");
    assert_eq!(summary.violations, [""; 0]);
    // The run must have been hard enough.
    assert_eq!(summary.deletes, 380);
    assert!(summary.referenced * 100 >= summary.deletes * 40, "{summary}");
    assert!(summary.just * 10 >= summary.deletes, "{summary}");
    for fault in Fault::USUAL {
        let hits = summary.faults.get(&fault).unwrap_or_else(|| panic!("never {}: {summary}", fault.name()));
        assert!(!fault.hits_requests() || hits.iter().all(|hits| *hits > 0), "{} hit nothing: {summary}", fault.name());
    }
}

/// Reads dependents through their own exports. Other answers may be mistaken for an empty list there.
#[tokio::test(flavor = "multi_thread")]
async fn nor_where_dependents_are_read_through_exports() {
    let only = vec![Fault::NotFound, Fault::BareList, Fault::CutMidPage, Fault::EndpointsUnreadable];
    let read_through = ReadThrough::Export;
    let options = Options { seed: 2, deletes: 80, only, read_through, ..Options::default() };
    let summary = depguard_faults::run(&options).await.unwrap();
    println!("{summary}");
    assert_eq!(summary.violations, [""; 0]);
    assert!(summary.referenced * 100 >= summary.deletes * 40, "{summary}");
}
