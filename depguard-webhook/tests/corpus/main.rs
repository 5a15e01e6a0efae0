//! The core's corpus of cases, against the stock webhook: rules and objects are written to an API server, and the
//! deletion is one that the API server has reviewed over HTTPS. In both homes.

mod bed;
mod case;
mod lane;

use depguard_core::Home;
use futures::future::join_all;

use case::{Case, Expected};
use lane::{Answer, Lane};

/// API servers, each with a webhook, among which the cases of a home are dealt out.
const LANES: usize = 8;

#[tokio::test(flavor = "multi_thread")]
async fn every_case_is_decided_as_it_says_in_a_plain_cluster() {
    run(Home::Kubernetes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_case_is_decided_as_it_says_in_a_kcp() {
    run(Home::Kcp).await;
}

async fn run(home: Home) {
    let cases = case::all();
    let lanes = (0..LANES).map(async |number| {
        let mut lane = Lane::start(home).await;
        let (mut decided, mut wrong, mut left_out) = (0, Vec::new(), Vec::new());
        for case in cases.iter().skip(number).step_by(LANES) {
            match lane.ask(case).await {
                Ok(answer) => {
                    decided += 1;
                    let what = differs(home, case, &answer);
                    wrong.extend(what.map(|what| format!("{what} of {}: {answer:?}\n{case:?}", case.name)));
                }
                Err(why) => left_out.push(format!("{}: {why}", case.name)),
            }
        }
        lane.stop().await;
        (decided, wrong, left_out)
    });
    let (mut decided, mut wrong, mut left_out) = (0, Vec::new(), Vec::new());
    for lane in join_all(lanes).await {
        decided += lane.0;
        wrong.extend(lane.1);
        left_out.extend(lane.2);
    }
    assert!(wrong.is_empty(), "{} of {decided} are wrong in home {home:?}:\n{}", wrong.len(), wrong.join("\n"));
    println!("{decided} cases decided in home {home:?}; {} left out:\n{}", left_out.len(), left_out.join("\n"));
    // Those that an API server can't be brought to are few.
    assert!(decided >= 100 && left_out.len() * 10 <= decided, "{left_out:?}");
}

/// What is not as the case says.
fn differs(home: Home, case: &Case, answer: &Answer) -> Option<&'static str> {
    let Expected { denied, undecided, allowed, warned, message } = &case.expect;
    let refused = denied.is_some() || undecided.is_some();
    if answer.code != if refused { 403 } else { 200 } {
        return Some("the decision");
    }
    let blockers = denied.iter().flatten();
    if denied.as_ref().is_some_and(|denied| answer.causes != denied.len()) || !blockers.clone().all(|b| answer.says(b))
    {
        return Some("the blockers");
    }
    if undecided.as_ref().is_some_and(|part| !answer.message.contains(part)) {
        return Some("what could not be found out");
    }
    let is_warned = |blocker: &String| answer.warnings.iter().any(|warning| warning.contains(blocker));
    // That something could not be found out is told as well.
    let is_silent = warned.is_empty() && allowed.is_none();
    if !warned.iter().all(is_warned) || (is_silent && !answer.warnings.is_empty()) {
        return Some("the warnings");
    }
    // In kcp a rule's name has its logical cluster before it.
    let mut said = answer.warnings.iter().chain([&answer.message]);
    let is_said = |message: &String| said.any(|said| said.ends_with(message.as_str()));
    (home == Home::Kubernetes && !message.as_ref().is_none_or(is_said)).then_some("the message")
}
