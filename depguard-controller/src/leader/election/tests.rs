use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use serde_json::json;

use super::*;
use crate::leader::lease;

const TIMING: Timing =
    Timing { duration: Duration::from_secs(15), deadline: Duration::from_secs(10), retry: Duration::from_secs(2) };

fn held(version: u64, holder: &str) -> HeldLease {
    lease::testing::held(&json!({
        "metadata": {"resourceVersion": version.to_string()},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15},
    }))
}

#[test]
fn a_lease_is_taken_when_it_did_not_change_for_as_long_as_it_lasts() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let mut candidate = Candidate::new("b".to_owned(), TIMING);
    assert!(candidate.may_write(None, start));
    assert!(!candidate.may_write(Some(&held(1, "a")), at(0)));
    assert!(!candidate.may_write(Some(&held(1, "a")), at(14)));
    // A renewal begins a new period, whatever times the Lease holds.
    assert!(!candidate.may_write(Some(&held(2, "a")), at(16)));
    assert!(!candidate.may_write(Some(&held(2, "a")), at(30)));
    assert!(candidate.may_write(Some(&held(2, "a")), at(31)));
    assert!(candidate.may_write(Some(&held(3, "")), at(32)));
    assert!(candidate.may_write(Some(&held(4, "b")), at(33)));
}

#[test]
fn who_could_not_renew_it_stops_before_another_can_take_it() {
    let start = Instant::now();
    let mut candidate = Candidate::new("a".to_owned(), TIMING);
    assert_eq!(candidate.acts_until(), None);
    candidate.wrote(start);
    assert_eq!(candidate.acts_until(), Some(start + TIMING.deadline));
    candidate.lost();
    assert_eq!(candidate.acts_until(), None);
    assert!(TIMING.deadline < TIMING.duration);
    for seconds in [1, 2, 15, 60] {
        let timing = Timing::new(Duration::from_secs(seconds));
        assert!(timing.deadline < timing.duration && timing.retry * 4 < timing.deadline);
    }
}

/// Runs three candidates for one Lease, with answers that are late or never come: no two of them ever act at once.
#[test]
fn no_two_ever_act_at_once() {
    let start = Instant::now();
    let mut acted = 0;
    let mut changes = 0;
    for seed in 0..300_u64 {
        let mut number = 0_u64;
        let mut random = |below: u64| {
            number += 1;
            let mut hasher = DefaultHasher::new();
            (seed, number).hash(&mut hasher);
            hasher.finish() % below
        };
        let mut stored = None;
        let mut version = 0;
        let mut candidates: Vec<_> = ["a", "b", "c"].map(|id| Candidate::new(id.to_owned(), TIMING)).into();
        // For each candidate, the request under way: the time of sending, and the version that the candidate knew.
        let mut sent: Vec<Option<(u64, Option<u64>)>> = vec![None; 3];
        let mut cut_off = [0_u64; 3];
        let mut last = None;
        // `now` counts tenths of a second.
        for now in 0..3000_u64 {
            let at = |tenths: u64| start + Duration::from_millis(100 * tenths);
            for index in 0..3 {
                if random(400) == 0 {
                    cut_off[index] = now + random(300);
                }
                // A request arrives after a while, or never.
                if let Some((when, known)) = sent[index]
                    && (random(4) == 0 || now > when + 30)
                {
                    sent[index] = None;
                    let current = stored.as_ref().map(|(version, _)| *version);
                    if now < cut_off[index] || known != current {
                        continue;
                    }
                    version += 1;
                    stored = Some((version, index));
                    // The answer may be lost on its way back.
                    if random(5) != 0 {
                        candidates[index].wrote(at(when));
                    }
                } else if sent[index].is_none() && now >= cut_off[index] && random(15) == 0 {
                    let known = stored.as_ref().map(|(version, holder)| held(*version, ["a", "b", "c"][*holder]));
                    let ours = known.as_ref().is_some_and(|known| known.holder == candidates[index].identity());
                    if candidates[index].may_write(known.as_ref(), at(now)) {
                        sent[index] = Some((now, stored.as_ref().map(|(version, _)| *version)));
                    } else if !ours {
                        candidates[index].lost();
                    }
                }
            }
            let acting: Vec<_> =
                (0..3).filter(|index| candidates[*index].acts_until().is_some_and(|until| at(now) < until)).collect();
            assert!(acting.len() <= 1, "seed {seed}, at {now}: {acting:?}");
            if let Some(acting) = acting.first() {
                acted += 1;
                changes += u64::from(last.is_some_and(|last| last != *acting));
                last = Some(*acting);
            }
        }
    }
    assert!(acted > 300 * 1000 && changes > 300, "they did nothing: {acted}, {changes}");
}
