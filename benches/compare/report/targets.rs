//! Performance targets, each with its measurement.

use std::fmt::Write as _;
use std::time::Duration;

use super::{Report, bytes, ratio, time};
use crate::measure::Measured;
use crate::scene::Subject;

const SMALL: usize = 2_000;

/// Performance target on one server.
struct Line {
    what: &'static str,
    target: &'static str,
    got: String,
    reached: bool,
}

pub(super) fn print(report: &Report, text: &mut String) {
    let lines = lines(report);
    if lines.is_empty() {
        return;
    }
    text.push_str("| target | at most | measured | |\n|---|---|---|---|\n");
    for Line { what, target, got, reached } in lines {
        let reached = if reached { "reached" } else { "**not reached**" };
        let _ = writeln!(text, "| {what} | {target} | {got} | {reached} |");
    }
}

fn lines(report: &Report) -> Vec<Line> {
    let at = |dependents: usize| {
        let all = &mut report.measured.iter();
        all.find(|one| one.case.amounts.dependents == dependents && one.case.amounts.bytes == SMALL)
    };
    let mut lines = Vec::new();
    if let Some(measured) = at(10_000) {
        lines.extend(over_the_floor(measured));
        lines.extend(cpu(measured));
        lines.extend(push_down(measured));
        lines.extend(collection(measured));
        lines.extend(flood(measured));
    }
    lines.extend(flat(at(1_000), at(100_000)));
    for (what, measured) in
        [("peak memory, 100,000 dependents", at(100_000)), ("peak memory, 1,000,000", at(1_000_000))]
    {
        lines.extend(measured.and_then(|measured| memory(what, measured)));
    }
    lines.extend(at(100_000).and_then(large_flood));
    lines
}

fn over_the_floor(measured: &Measured) -> Option<Line> {
    let (ours, floor) = (measured.figures(Subject::Lists, true)?, measured.floor()?);
    Some(Line {
        what: "allowed DELETE without push-down, over the bare LIST, 10,000 dependents",
        target: "1.10×",
        got: format!("{} ({} over {})", ratio(ours.time, floor.time), time(ours.time), time(floor.time)),
        reached: ours.time <= floor.time.mul_f64(1.10),
    })
}

fn cpu(measured: &Measured) -> Option<Line> {
    let (ours, theirs) = (measured.figures(Subject::Lists, true)?, measured.figures(Subject::StandIn, true)?);
    Some(Line {
        what: "webhook CPU of it, against the stand-in",
        target: "1/8",
        got: format!("{} ({} against {})", fraction(ours.cpu, theirs.cpu), time(ours.cpu), time(theirs.cpu)),
        reached: ours.cpu * 8 <= theirs.cpu,
    })
}

fn push_down(measured: &Measured) -> Option<Line> {
    let (with, without) = (measured.figures(Subject::Selects, true)?, measured.figures(Subject::Lists, true)?);
    Some(Line {
        what: "with push-down, against without, 10,000 dependents",
        target: "1/20",
        got: format!("{} ({} against {})", fraction(with.time, without.time), time(with.time), time(without.time)),
        reached: with.time * 20 <= without.time,
    })
}

fn flat(few: Option<&Measured>, many: Option<&Measured>) -> Option<Line> {
    let (few, many) = (few?.figures(Subject::Selects, true)?, many?.figures(Subject::Selects, true)?);
    Some(Line {
        what: "with push-down, 100,000 dependents against 1,000",
        target: "2×",
        got: format!("{} ({} against {})", ratio(many.time, few.time), time(many.time), time(few.time)),
        reached: many.time <= few.time * 2,
    })
}

fn collection(measured: &Measured) -> Option<Line> {
    let of = |subject| measured.collections.iter().find(|flood| flood.subject == subject);
    let (with, without) = (of(Subject::Selects)?, of(Subject::Lists)?);
    let failures = with.cost.failures + without.cost.failures;
    let (with, without) = (with.cost.time, without.cost.time);
    Some(Line {
        what: "collection delete of 200 free targets with push-down, against without",
        target: "1/10",
        got: format!("{} ({} against {}), {failures} failures", fraction(with, without), time(with), time(without)),
        reached: with * 10 <= without && failures == 0,
    })
}

fn flood(measured: &Measured) -> Option<Line> {
    let of = |count| measured.floods.iter().find(|flood| flood.subject == Subject::Lists && flood.at_once == count);
    let (one, many) = (of(1)?, of(200)?);
    let lists = measured.lists(many);
    Some(Line {
        what: "200 DELETEs at once without push-down, 10,000 dependents",
        target: "6 LISTs, 3× the time of one, 0 failures",
        got: format!(
            "{lists} LISTs, {} ({} against {}), {} failures",
            ratio(many.cost.time, one.cost.time),
            time(many.cost.time),
            time(one.cost.time),
            many.cost.failures
        ),
        reached: lists <= 6 && many.cost.time <= one.cost.time * 3 && many.cost.failures == 0,
    })
}

fn large_flood(measured: &Measured) -> Option<Line> {
    let is_it = |subject, count| subject == Subject::Lists && count == 1_000;
    let flood = measured.floods.iter().find(|flood| is_it(flood.subject, flood.at_once))?;
    let lists = measured.lists(flood);
    Some(Line {
        what: "1,000 DELETEs at once without push-down, 100,000 dependents",
        target: "10 LISTs, 0 failures",
        got: format!("{lists} LISTs, {} failures, {}", flood.cost.failures, time(flood.cost.time)),
        reached: lists <= 10 && flood.cost.failures == 0,
    })
}

fn memory(what: &'static str, measured: &Measured) -> Option<Line> {
    let of = |allowed| measured.figures(Subject::Lists, allowed).map(|figures| figures.peak);
    let peak = of(true)?.max(of(false)?);
    let got = format!("{} above idle", bytes(peak));
    Some(Line { what, target: "32 MiB", got, reached: peak <= 32 << 20 })
}

fn fraction(one: Duration, other: Duration) -> String {
    format!("1/{:.1}", other.as_secs_f64() / one.as_secs_f64().max(1e-9))
}
