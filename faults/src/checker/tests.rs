//! Tests of the checker: it must see each violation, and nothing else.

use std::sync::Arc;

use depguard_testbed::Event;
use serde_json::{Value, json};

use super::*;
use crate::kinds::{COMPUTE, NETWORK, OTHER_REF, Pair, REF};

/// Journal of a store, written by hand. Each event comes a tenth of a second after the one before, unless time passes.
struct Journal {
    events: Vec<Event>,
    at: Instant,
}

impl Journal {
    /// Returns a journal with an endpoint and a rule.
    fn new() -> Self {
        let mut journal = Self { events: Vec::new(), at: Instant::now() };
        journal.slice(true).rule(REF).pass(60);
        journal
    }

    fn add(&mut self, group: &str, resource: &str, name: &str, object: Option<Value>, reviewed_at: Option<u64>) {
        self.at += Duration::from_millis(100);
        self.events.push(Event {
            revision: self.revision() + 1,
            at: self.at,
            group: group.to_owned(),
            resource: resource.to_owned(),
            cluster: "c".to_owned(),
            namespace: "default".to_owned(),
            name: name.to_owned(),
            object: object.map(Arc::new),
            reviewed_at,
        });
    }

    fn revision(&self) -> u64 {
        self.events.len() as u64
    }

    fn slice(&mut self, endpoint: bool) -> &mut Self {
        let endpoints = if endpoint { json!([{"url": "https://any"}]) } else { json!([]) };
        let slice = json!({"status": {"endpoints": endpoints}});
        let name = "dependencies.opendefense.cloud";
        self.add("apis.kcp.io", "apiexportendpointslices", name, Some(slice), None);
        self
    }

    fn rule(&mut self, field: &str) -> &mut Self {
        let group = "dependencies.opendefense.cloud";
        self.add(group, "dependencyrules", "r", Some(Pair::Vpc.rule(field)), None);
        self
    }

    fn machine(&mut self, field: &str, target: &str) -> &mut Self {
        self.add(COMPUTE, "machines", "m", Some(Pair::Vpc.make_dependent("m", field, target)), None);
        self
    }

    fn no_machine(&mut self) -> &mut Self {
        self.add(COMPUTE, "machines", "m", None, None);
        self
    }

    fn delete(&mut self, target: &str, reviewed_at: u64) -> &mut Self {
        self.add(NETWORK, "vpcs", target, None, Some(reviewed_at));
        self
    }

    fn pass(&mut self, seconds: u64) -> &mut Self {
        self.at += Duration::from_secs(seconds);
        // Another object is written at this time.
        self.add("", "namespaces", "any", Some(json!({})), None);
        self
    }

    fn refuse(&self, target: &str) -> Attempt {
        let outcome = Outcome::Refused("no".to_owned());
        let object = Object::new("vpcs", "default", target);
        Attempt { object, sent: self.at, answered: self.at + Duration::from_millis(20), outcome }
    }

    fn check(&self, attempts: &[Attempt], spans: &[Span]) -> Verdict {
        check(&History::from_events(&self.events), attempts, spans)
    }
}

#[test]
fn what_was_referred_to_from_before_the_review_on_must_not_go() {
    let mut journal = Journal::new();
    let reviewed_at = journal.machine(REF, "a").revision();
    let verdict = journal.delete("a", reviewed_at).check(&[], &[]);
    assert_eq!(verdict.violations, ["vpcs/default/a was deleted although m referred to it"]);
    assert_eq!(verdict.referenced, 1);
}

#[test]
fn what_came_or_went_while_it_was_reviewed_may_go_either_way() {
    let mut journal = Journal::new();
    let before = journal.revision();
    journal.machine(REF, "a").delete("a", before);
    let reviewed_at = journal.machine(REF, "b").revision();
    journal.no_machine().delete("b", reviewed_at);
    let reviewed_at = journal.machine(REF, "c").revision();
    journal.machine(REF, "d").delete("c", reviewed_at);
    assert_eq!(journal.check(&[], &[]).violations, [""; 0]);
}

#[test]
fn another_object_or_another_field_is_no_reference() {
    let mut journal = Journal::new();
    let reviewed_at = journal.machine(REF, "b").revision();
    journal.delete("a", reviewed_at);
    let reviewed_at = journal.machine(OTHER_REF, "a").revision();
    journal.delete("a", reviewed_at);
    assert_eq!(journal.check(&[], &[]).violations, [""; 0]);
}

#[test]
fn a_changed_rule_counts_once_the_webhook_must_know_it() {
    for (seconds, violations) in [(1, 0), (6, 1)] {
        let mut journal = Journal::new();
        let reviewed_at = journal.machine(OTHER_REF, "a").rule(OTHER_REF).pass(seconds).revision();
        journal.delete("a", reviewed_at);
        assert_eq!(journal.check(&[], &[]).violations.len(), violations, "after {seconds} s");
    }
}

#[test]
fn without_an_endpoint_no_rule_is_in_force() {
    let mut journal = Journal::new();
    let reviewed_at = journal.machine(REF, "a").slice(false).revision();
    journal.delete("a", reviewed_at);
    let reviewed_at = journal.machine(REF, "b").slice(true).pass(6).revision();
    journal.delete("b", reviewed_at);
    assert_eq!(journal.check(&[], &[]).violations, ["vpcs/default/b was deleted although m referred to it"]);
}

#[test]
fn what_is_free_may_be_refused_for_ten_seconds_and_no_longer() {
    for (seconds, violations) in [(9, 0), (11, 1)] {
        let mut journal = Journal::new();
        let began = journal.machine(REF, "a").at;
        let ended = journal.no_machine().at;
        journal.pass(seconds);
        let span = Span { fault: Fault::Latency, began, ended };
        let refused = journal.refuse("a");
        assert_eq!(journal.check(&[refused], &[span]).violations.len(), violations, "after {seconds} s");
    }
}

#[test]
fn what_is_referred_to_may_be_refused_for_ever_and_while_a_fault_is_on_so_may_all() {
    let mut journal = Journal::new();
    let began = journal.machine(REF, "a").at;
    let refused = journal.pass(60).refuse("a");
    let verdict = journal.check(&[refused], &[]);
    assert_eq!((verdict.violations.len(), verdict.referenced), (0, 1));
    let refused = journal.no_machine().pass(60).refuse("a");
    let span = Span { fault: Fault::Latency, began, ended: refused.answered + Duration::from_secs(1) };
    assert_eq!(journal.check(std::slice::from_ref(&refused), &[span]).violations, [""; 0]);
    assert_eq!(
        journal.check(&[refused], &[]).violations,
        ["the deletion of vpcs/default/a was refused although nothing referred to it: no"]
    );
}

#[test]
fn what_changed_just_before_is_counted() {
    let mut journal = Journal::new();
    let refused = journal.machine(REF, "a").refuse("a");
    assert_eq!(journal.check(&[refused], &[]).just, 1);
    let refused = journal.pass(1).refuse("a");
    assert_eq!(journal.check(&[refused], &[]).just, 0);
}
