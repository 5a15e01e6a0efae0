//! Runs the targets. `BOLERO_RANDOM_TEST_TIME_MS` is the time for each.

use bolero::generator::produce;
use depguard_fuzz::{
    Edit, GOOD_CHANGES, GOOD_LOCKS, GOOD_OWNERS, GOOD_TARGETS, change, edited, lock, owner, service, target, targets,
};

/// Edits one of the documents, at most a few times, and passes it to the target.
macro_rules! fuzz {
    ($target:path, $documents:expr) => {
        bolero::check!()
            .with_generator((0..$documents.len(), produce::<Vec<Edit>>().with().len(0_usize..5)))
            .for_each(|(document, edits)| $target(&edited($documents[*document].as_bytes(), edits)))
    };
}

#[test]
fn path() {
    fuzz!(targets::path, targets::GOOD_PATHS);
}

#[test]
fn rule() {
    fuzz!(targets::rule, targets::GOOD_RULES);
}

#[test]
fn review() {
    fuzz!(targets::review, targets::GOOD_REVIEWS);
}

#[test]
fn page() {
    fuzz!(targets::page, targets::GOOD_PAGES);
}

#[test]
fn search() {
    fuzz!(targets::search, targets::GOOD_PAGES);
}

#[test]
fn answers() {
    fuzz!(service, targets::GOOD_REVIEWS);
}

#[test]
fn changes() {
    fuzz!(change, GOOD_CHANGES);
}

#[test]
fn references() {
    fuzz!(target, GOOD_TARGETS);
}

#[test]
fn locks() {
    fuzz!(lock, GOOD_LOCKS);
}

#[test]
fn owners() {
    fuzz!(owner, GOOD_OWNERS);
}

/// Checks that the documents are good. Otherwise all edits would start from refused documents.
#[test]
fn the_documents_are_good() {
    for path in targets::GOOD_PATHS {
        depguard_core::FieldPath::parse(path).unwrap();
    }
    for rule in targets::GOOD_RULES {
        let rule: serde_json::Value = serde_json::from_str(rule).unwrap();
        let kcp = depguard_core::Rule::parse(depguard_core::ControlPlane::Kcp, &rule);
        kcp.or_else(|_| depguard_core::Rule::parse(depguard_core::ControlPlane::Kubernetes, &rule)).unwrap();
    }
    for review in targets::GOOD_REVIEWS {
        depguard_core::Review::parse(review.as_bytes()).unwrap();
    }
    for (at, document) in GOOD_LOCKS.iter().enumerate() {
        let (review, object) = document.split_once("\n\n").unwrap();
        depguard_core::protocol::ObjectReview::parse(review.as_bytes()).unwrap();
        let object: serde_json::Value = serde_json::from_str(object).unwrap();
        let lock = depguard_core::locks::Lock::parse(depguard_core::locks::LockKind::ObjectLock, &object);
        let table = depguard_core::locks::LockTable::from_value(&object);
        assert!(lock.is_ok() != table.is_ok(), "{at}: {lock:?} {table:?}");
    }
    for change in GOOD_CHANGES {
        depguard_core::protocol::ObjectReview::parse(change.as_bytes()).unwrap();
    }
    for page in GOOD_TARGETS.iter().chain(&targets::GOOD_PAGES) {
        serde_json::from_str::<serde_json::Value>(page).unwrap();
    }
}
