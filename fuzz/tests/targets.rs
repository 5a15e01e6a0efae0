//! Feeds the targets. `BOLERO_RANDOM_TEST_TIME_MS` says for how long each is tried.

use bolero::generator::produce;
use depguard_fuzz::{Edit, edited, service, targets};

/// Edits one of the documents, a few times at most, and hands it to the target.
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

/// Else the edits would only ever be made to what is refused anyway.
#[test]
fn the_documents_are_good() {
    for path in targets::GOOD_PATHS {
        depguard_core::FieldPath::parse(path).unwrap();
    }
    for rule in targets::GOOD_RULES {
        let rule: serde_json::Value = serde_json::from_str(rule).unwrap();
        let kcp = depguard_core::Rule::parse(depguard_core::Home::Kcp, &rule);
        kcp.or_else(|_| depguard_core::Rule::parse(depguard_core::Home::Kubernetes, &rule)).unwrap();
    }
    for review in targets::GOOD_REVIEWS {
        depguard_core::Review::parse(review.as_bytes()).unwrap();
    }
    for page in targets::GOOD_PAGES {
        serde_json::from_str::<serde_json::Value>(page).unwrap();
    }
}
