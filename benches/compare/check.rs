//! Checks that hold on every machine: the number of requests, the fetched bytes and the memory.

use crate::Result;
use crate::floods::flood;
use crate::plan::Case;
use crate::report::bytes;
use crate::scene::{Amounts, Scene, Stage, Subject};
use crate::server::{Lists, Server};

/// Number of dependents: enough for a list of many pages, few enough for a build without optimization.
const DEPENDENTS: usize = 5_000;
/// Maximum of memory: 10 MB are listed, and two pages of 1 MB are held, in buffers that grow as they are filled.
const MAX_HELD: u64 = 10 << 20;
/// Number of concurrent DELETEs that a build without optimization answers in time. Each has a connection with its own
/// buffers.
const MAX_CONCURRENT_DELETIONS: usize = 50;
const MAX_HELD_AT_ONCE: u64 = 32 << 20;
/// Maximum of bytes that a selector's list fetches: ten objects of 2 kB.
const MAX_SELECTED: u64 = 64 << 10;
/// Maximum of LISTs for a burst, instead of one for each DELETE. A burst doesn't arrive all at once: a review that
/// comes after a LIST has begun needs the next one.
const MAX_LISTS: u64 = 10;

pub(crate) async fn run() -> Result {
    let amounts = Amounts { dependents: DEPENDENTS, bytes: 2_000, free: 200, set: 200, stand_in: false, prints: false };
    let case = Case { amounts, rounds: 0, floods: Vec::new(), sets: 0 };
    let mut stage = Stage::new(Server::testbed().await?, 30).await?;
    let mut scene = stage.scene("consumer", case.amounts.clone()).await?;
    let mut broken = Vec::new();
    let mut hold = |what: String, holds: bool| {
        println!("{} {what}", if holds { "ok  " } else { "LOST" });
        if !holds {
            broken.push(what);
        }
    };

    let (drained, _) = scene.drain().await?;
    let whole = drained.bytes;
    for (subject, allowed) in
        [(Subject::Lists, true), (Subject::Lists, false), (Subject::Selects, true), (Subject::Selects, false)]
    {
        let (lists, peak, failure) = one(&mut scene, subject, allowed).await?;
        let what = format!("{}, {}", subject.name(), if allowed { "allowed" } else { "denied" });
        hold(format!("{what}: decided as it should be {failure}"), failure.is_empty());
        let begun = lists.begun.map_or_else(|| "not counted".to_owned(), |begun| begun.to_string());
        hold(format!("{what}: LISTs begun: {begun}, exactly 1"), lists.begun == Some(1));
        let most = if subject == Subject::Selects { MAX_SELECTED } else { whole + whole / 10 };
        hold(
            format!("{what}: {} fetched of {}, at most {}", bytes(lists.bytes), bytes(whole), bytes(most)),
            lists.bytes <= most,
        );
        hold(format!("{what}: {} held, at most {}", bytes(peak), bytes(MAX_HELD)), peak <= MAX_HELD);
    }

    let at_once = flood(&mut scene, Subject::Lists, MAX_CONCURRENT_DELETIONS).await?;
    let (lists, cost) = (at_once.lists.begun.unwrap_or(u64::MAX), at_once.cost);
    let what = format!("{MAX_CONCURRENT_DELETIONS} at once");
    hold(format!("{what}: {} failures {}", cost.failures, cost.failure), cost.failures == 0);
    hold(format!("{what}: {lists} LISTs, at most {MAX_LISTS}"), lists <= MAX_LISTS);
    let (peak, most) = (bytes(cost.peak), bytes(MAX_HELD_AT_ONCE));
    hold(format!("{what}: {peak} held, at most {most}"), cost.peak <= MAX_HELD_AT_ONCE);
    let selected = flood(&mut scene, Subject::Selects, 24).await?;
    hold(
        format!("24 at once with push-down: {} failures {}", selected.cost.failures, selected.cost.failure),
        selected.cost.failures == 0,
    );

    if broken.is_empty() { Ok(()) } else { Err(format!("{} properties are lost", broken.len()).into()) }
}

async fn one(scene: &mut Scene<'_>, subject: Subject, allowed: bool) -> Result<(Lists, u64, String)> {
    let mut line = scene.lines(1).await?.pop().ok_or("no connection")?;
    let before = scene.lists(subject).await?;
    let cost = scene.delete(subject, &mut line, allowed).await?;
    Ok((scene.lists(subject).await? - before, cost.peak, cost.failure))
}
