//! Dry run: reports what a deletion would do.

use futures::stream::{self, StreamExt};

use super::plan::Plan;
use super::print::{line, print_remarks};
use super::request::{Answer, Requests};
use crate::io::exit::{Failure, Outcome};
use crate::io::output::one_line;
use crate::io::terminal::Terminal;

/// Limit on concurrent requests.
const MAX_CONCURRENT_DRY_RUNS: usize = 8;

/// Prints the objects that would be deleted. No request is sent.
pub(super) fn client(plan: &Plan, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    for (number, wave) in plan.waves.iter().enumerate() {
        for object in wave.iter().filter_map(|object| plan.object(*object)) {
            let wave = number.saturating_add(1);
            writeln!(terminal.out(), "wave {wave}: {} would be deleted", line(&object.identity()))?;
        }
    }
    print_remarks(plan, terminal)?;
    plan.outcome(true)
}

/// Asks the server to decide about the first wave. Nothing is deleted.
pub(super) async fn server(plan: &Plan, requests: &Requests, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let first = plan.waves.first().into_iter().flatten().filter_map(|object| plan.object(*object));
    let mut asked = stream::iter(first)
        .map(|object| async move { (object, requests.try_out(object).await) })
        .buffered(MAX_CONCURRENT_DRY_RUNS);
    let mut all_granted = true;
    while let Some((object, answer)) = asked.next().await {
        let name = line(&object.identity());
        match answer {
            Answer::Granted => writeln!(terminal.out(), "wave 1: {name} would be deleted (server dry run)")?,
            Answer::Refused(why) | Answer::Later(why) => {
                all_granted = false;
                writeln!(terminal.out(), "wave 1: {name} would be refused: {}", one_line(&why))?;
            }
        }
    }
    drop(asked);
    if plan.waves.len() > 1 {
        let rest: usize = plan.waves.iter().skip(1).map(Vec::len).sum();
        terminal.note(&format!(
            "{rest} objects of later waves were not tried: the server refuses them while earlier waves exist"
        ))?;
    }
    print_remarks(plan, terminal)?;
    plan.outcome(all_granted)
}
