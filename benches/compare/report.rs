//! Tables, and the document that contains them.

mod targets;

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use crate::floods::Flood;
use crate::measure::Measured;

use crate::rounds::Figures;
use crate::scene::{Amounts, Subject};
use crate::{Result, machine, plot, transport};

/// Measurements on one API server.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) server: &'static str,
    pub(crate) measured: Vec<Measured>,
    load: f64,
}

impl Report {
    pub(crate) fn begin(server: &'static str) -> Self {
        Self { server, measured: Vec::new(), load: machine::load() }
    }

    pub(crate) fn add(&mut self, measured: Measured) {
        self.measured.push(measured);
    }

    /// Returns all tables.
    pub(crate) fn print(&self) -> String {
        let mut text = self.deletes(|_| true);
        if self.measured.iter().any(|measured| !measured.floods.is_empty()) {
            let _ = write!(text, "\n**Many DELETEs at once**\n\n{MANY}");
            self.measured.iter().for_each(|measured| many(measured, &measured.floods, &mut text));
        }
        for measured in self.measured.iter().filter(|measured| !measured.collections.is_empty()) {
            let _ = write!(text, "\n**200 free targets deleted as a collection**\n\n{MANY}");
            many(measured, &measured.collections, &mut text);
        }
        failures(self, &mut text);
        text
    }

    /// Returns what was reached, and the table of one DELETE for the cases that count.
    fn deletes(&self, counts: impl Fn(&Amounts) -> bool) -> String {
        let mut text = format!("{}; {:.1} before it.\n\n", machine(), self.load);
        targets::print(self, &mut text);
        let _ = write!(text, "\n**One DELETE**\n\n{ONE}");
        let measured = self.measured.iter().filter(|measured| counts(&measured.case.amounts));
        measured.for_each(|measured| one(measured, &mut text));
        text
    }
}

const ONE: &str = "\
| dependents | bytes each | DELETE | by | time | over the bare LIST | CPU | peak memory | LISTs | requests | fetched | rounds |
|---:|---:|---|---|---:|---:|---:|---:|---:|---:|---:|---:|
";

const MANY: &str = "\
| dependents | by | DELETEs | total time | failures | LISTs | requests | fetched | webhook CPU | peak memory |
|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|
";

fn machine() -> String {
    let profile = if cfg!(debug_assertions) { " (without optimization: these times say nothing)" } else { "" };
    let (commit, described, load) = (machine::commit(), machine::describe(), machine::load());
    format!("Built from {commit}. Machine: {described}{profile}; its load was {load:.1} after the run")
}

/// Returns the table of the ways to read a list.
pub(crate) fn transports(figures: &[transport::Figures]) -> String {
    let mut text = format!("{}.\n\n{TRANSPORT}", machine());
    for way in figures {
        let (time, cpu, wire) = (time(way.time), time(way.cpu), bytes(way.wire));
        let _ = writeln!(text, "| {} | {time} | {cpu} | {wire} | {} |", way.name, bytes(way.bytes));
    }
    text
}

const TRANSPORT: &str = "\
| way | time | client's CPU | on the wire | of JSON |
|---|---:|---:|---:|---:|
";

fn one(measured: &Measured, text: &mut String) {
    let amounts = &measured.case.amounts;
    let floor = measured.floor();
    for figures in &measured.figures {
        let is_floor = figures.subject == Subject::Floor;
        let what = match (is_floor, figures.allowed) {
            (true, _) => "–",
            (_, true) => "allowed",
            (_, false) => "denied",
        };
        let of_webhook = |shown: String| if is_floor { "–".to_owned() } else { shown };
        let _ = writeln!(
            text,
            "| {} | {} | {what} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            thousands(amounts.dependents),
            thousands(amounts.bytes),
            figures.subject.name(),
            time(figures.time),
            floor.map_or("–".to_owned(), |floor| ratio(figures.time, floor.time)),
            time(figures.cpu),
            of_webhook(bytes(figures.peak)),
            measured.lists_of(figures),
            figures.requests,
            bytes(figures.bytes),
            match figures.failures {
                0 => figures.rounds.to_string(),
                failed => format!("{}, {failed} failed", figures.rounds),
            },
        );
    }
}

fn many(measured: &Measured, floods: &[Flood], text: &mut String) {
    for flood in floods {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            thousands(measured.case.amounts.dependents),
            flood.subject.name(),
            thousands(flood.at_once),
            time(flood.cost.time),
            flood.cost.failures,
            measured.lists_of_flood(flood),
            flood.lists.requests,
            bytes(flood.lists.bytes),
            time(flood.cost.cpu),
            bytes(flood.cost.peak),
        );
    }
}

/// Appends the failures, in the server's words.
fn failures(report: &Report, text: &mut String) {
    let mut said: Vec<String> = Vec::new();
    for measured in &report.measured {
        let ones = measured.figures.iter().map(|figures| (figures.subject, &figures.failure));
        let floods = measured.floods.iter().chain(&measured.collections);
        for (subject, failure) in ones.chain(floods.map(|flood| (flood.subject, &flood.cost.failure))) {
            if !failure.is_empty() {
                let mut words: String = failure.chars().take(200).collect();
                words = words.replace(|letter: char| letter.is_ascii_digit(), "0");
                let line = format!("- {}: {words}\n", subject.name());
                if !said.contains(&line) {
                    said.push(line);
                }
            }
        }
    }
    if !said.is_empty() {
        let _ = write!(text, "\n**What the failures said** (with 0 for every digit)\n\n{}", said.concat());
    }
}

impl Measured {
    pub(crate) fn floor(&self) -> Option<&Figures> {
        self.figures.iter().find(|figures| figures.subject == Subject::Floor)
    }

    pub(crate) fn figures(&self, subject: Subject, allowed: bool) -> Option<&Figures> {
        self.figures.iter().find(|figures| figures.subject == subject && figures.allowed == allowed)
    }

    fn lists_of(&self, figures: &Figures) -> String {
        figures.begun.map_or_else(|| "–".to_owned(), |begun| begun.to_string())
    }

    pub(crate) fn lists_of_flood(&self, flood: &Flood) -> String {
        self.lists(flood).to_string()
    }

    /// Returns the number of lists begun. A real server counts only requests, so the requests are divided by those of
    /// one list.
    pub(crate) fn lists(&self, flood: &Flood) -> u64 {
        let a_list = self.figures(flood.subject, true).map_or(1, |figures| figures.requests.max(1));
        flood.lists.begun.unwrap_or_else(|| flood.lists.requests.div_ceil(a_list))
    }
}

/// Writes the tables of one case into the document, between the server's marks, and the plot beside the document.
pub(crate) fn write(document: &Path, report: &Report) -> Result {
    let server = report.server;
    let name = document.file_stem().unwrap_or_default().to_string_lossy();
    plot::draw(report, &document.with_file_name(format!("{name}-{server}.svg")))?;
    let (begin, end) = (format!("<!-- {server}: begin -->"), format!("<!-- {server}: end -->"));
    let whole = std::fs::read_to_string(document)?;
    let (before, rest) = whole.split_once(&begin).ok_or("the document has no mark where the tables begin")?;
    let (_, after) = rest.split_once(&end).ok_or("the document has no mark where the tables end")?;
    let text = report.deletes(|amounts| (amounts.dependents, amounts.bytes) == (10_000, 2_000));
    Ok(std::fs::write(document, format!("{before}{begin}\n\n{text}\n{end}{after}"))?)
}

pub(crate) fn time(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1e3;
    match milliseconds {
        ..10.0 => format!("{milliseconds:.1} ms"),
        10.0..1_000.0 => format!("{milliseconds:.0} ms"),
        _ => format!("{:.2} s", milliseconds / 1e3),
    }
}

pub(crate) fn bytes(bytes: u64) -> String {
    let kibibytes = bytes as f64 / 1024.0;
    match kibibytes {
        ..1024.0 => format!("{kibibytes:.0} KiB"),
        _ => format!("{:.1} MiB", kibibytes / 1024.0),
    }
}

pub(crate) fn ratio(one: Duration, other: Duration) -> String {
    let ratio = one.as_secs_f64() / other.as_secs_f64().max(1e-9);
    if ratio < 0.1 { format!("{ratio:.3}×") } else { format!("{ratio:.2}×") }
}

pub(crate) fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
