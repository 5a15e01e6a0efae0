//! The core's corpus of cases, against the stock webhook: rules and objects are written to an API server, and the API
//! server has the deletion, the creation or the update reviewed over HTTPS. On both control planes.

mod bed;
mod case;
mod lane;

use depguard_core::ControlPlane;
use futures::future::join_all;

use case::{Case, Expected};
use lane::{Answer, Lane};

/// Number of API servers, each with a webhook, among which the cases of a control plane are dealt out.
const LANES: usize = 8;

#[tokio::test(flavor = "multi_thread")]
async fn every_case_is_decided_as_it_says_in_a_plain_cluster() {
    run(ControlPlane::Kubernetes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_case_is_decided_as_it_says_in_a_kcp() {
    run(ControlPlane::Kcp).await;
}

async fn run(control_plane: ControlPlane) {
    let cases = case::all();
    let lanes = (0..LANES).map(async |number| {
        let mut lane = Lane::start(control_plane).await;
        let (mut decided, mut wrong, mut left_out) = (0, Vec::new(), Vec::new());
        for case in cases.iter().skip(number).step_by(LANES) {
            match lane.ask(case).await {
                Ok(answer) => {
                    decided += 1;
                    let what = differs(control_plane, case, &answer);
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
    assert!(wrong.is_empty(), "{} of {decided} are wrong on {control_plane:?}:\n{}", wrong.len(), wrong.join("\n"));
    println!("{decided} cases decided on {control_plane:?}; {} left out:\n{}", left_out.len(), left_out.join("\n"));
    // Only few cases can't be played on an API server.
    assert!(decided >= 100 && left_out.len() * 10 <= decided, "{left_out:?}");
}

/// Returns the part of the answer that differs from the case; `None` if there is none.
fn differs(control_plane: ControlPlane, case: &Case, answer: &Answer) -> Option<&'static str> {
    let Expected { denied, missing, undecided, allowed, warned, message } = &case.expect;
    let refused = denied.is_some() || missing.is_some() || undecided.is_some();
    let is_expected = if refused { answer.code == 403 } else { [200, 201].contains(&answer.code) };
    if !is_expected {
        return Some("the decision");
    }
    if !missing.iter().flatten().all(|target| answer.misses(target)) {
        return Some("the missing targets");
    }
    let blockers = denied.iter().flatten();
    if denied.as_ref().is_some_and(|denied| answer.causes.len() != denied.len())
        || !blockers.clone().all(|b| answer.says(b))
    {
        return Some("the blockers");
    }
    if undecided.as_ref().is_some_and(|part| !answer.message.contains(part)) {
        return Some("what could not be found out");
    }
    let is_warned = |blocker: &String| answer.warnings.iter().any(|warning| warning.contains(blocker));
    // A failure to find something out shows as a warning, too.
    let is_silent = warned.is_empty() && allowed.is_none();
    if !warned.iter().all(is_warned) || (is_silent && !answer.warnings.is_empty()) {
        return Some("the warnings");
    }
    // In kcp a rule's name is shown behind its logical cluster.
    let mut said = answer.warnings.iter().chain([&answer.message]);
    let is_said = |message: &String| said.any(|said| said.ends_with(message.as_str()));
    (control_plane == ControlPlane::Kubernetes && !message.as_ref().is_none_or(is_said)).then_some("the message")
}
