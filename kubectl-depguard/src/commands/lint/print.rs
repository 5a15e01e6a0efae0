//! Output of findings.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::checks;
use super::code::Severity;
use super::excerpt;
use super::finding::{Finding, Report};
use super::patches::Patch;
use crate::io::ci_formats;
use crate::io::exit::Failure;
use crate::io::output::{CheckFormat, one_line};
use crate::io::report::{CommandReport, print_json, print_yaml};
use crate::io::table::Table;
use crate::io::terminal::{Terminal, Tone};

/// Report for programs.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LintReport<'r> {
    findings: &'r [Finding],
    patches: &'r [Patch],
    summary: Summary,
}

/// Number of rules, and of findings by severity.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "LintSummary")]
struct Summary {
    rules: usize,
    error: usize,
    warning: usize,
    info: usize,
    /// Number of findings beyond the limit, which are not listed.
    not_listed: usize,
}

impl CommandReport for LintReport<'_> {
    const KIND: &'static str = "LintReport";
}

impl<'r> LintReport<'r> {
    fn new(report: &'r Report) -> Self {
        let summary = Summary {
            rules: report.rules.len(),
            error: report.count(Severity::Error),
            warning: report.count(Severity::Warning),
            info: report.count(Severity::Info),
            not_listed: report.more,
        };
        Self { findings: &report.findings, patches: &report.patches, summary }
    }
}

/// Choices of the user about the output.
pub(super) struct Options {
    pub(super) format: Option<CheckFormat>,
    pub(super) fail_on: Severity,
    /// Reasons why findings may be missing.
    pub(super) gaps: Vec<String>,
}

/// Prints the report.
pub(super) fn report(report: &Report, options: &Options, terminal: &mut Terminal) -> Result<(), Failure> {
    if let Some(format) = options.format.and_then(CheckFormat::ci) {
        ci_formats::print(format, &checks::list(report, options), terminal)?;
        return summary(report, terminal);
    }
    match options.format {
        Some(CheckFormat::Json) => print_json(&LintReport::new(report), terminal),
        Some(CheckFormat::Yaml) => print_yaml(&LintReport::new(report), terminal),
        Some(CheckFormat::Name) => {
            let mut names: Vec<_> = report.findings.iter().map(|finding| one_line(&finding.object) + "\n").collect();
            names.dedup();
            Ok(terminal.out().write_all(names.concat().as_bytes())?)
        }
        Some(_) => table(report, terminal),
        None => {
            let text: String = report.findings.iter().map(|finding| excerpt::print(finding, terminal)).collect();
            terminal.out().write_all(text.as_bytes())?;
            summary(report, terminal)
        }
    }
}

/// Prints the patches as a script that a person reads before they run it.
pub(super) fn patches(patches: &[Patch], terminal: &mut Terminal) -> Result<(), Failure> {
    let mut text = String::new();
    for Patch { kind, name, immutable, patch } in patches {
        let patch = json!(patch).to_string().replace('\'', r"'\''");
        let (kind, name) = (one_line(&kind.to_lowercase()), one_line(name).replace('\'', r"'\''"));
        if *immutable {
            text.push_str(&format!(
                "# An APIResourceSchema can't be changed. Give this command's output another metadata.name, remove \
                 uid,\n# resourceVersion and creationTimestamp, create it, and name it in spec.resources[].schema of the \
                 APIExport.\n\
                 kubectl get {kind} '{name}' -o yaml | kubectl patch --local -f - --type json -p '{patch}' -o yaml\n"
            ));
        } else {
            text.push_str(&format!("kubectl patch {kind} '{name}' --type json -p '{patch}'\n"));
        }
    }
    if patches.is_empty() {
        terminal.err().write_all(b"no field to make selectable\n")?;
    }
    Ok(terminal.out().write_all(text.as_bytes())?)
}

fn table(report: &Report, terminal: &mut Terminal) -> Result<(), Failure> {
    let headings = ["WHERE", "SEVERITY", "CODE", "FIELD", "MESSAGE"];
    let mut table = Table::new(headings).painted(&["SEVERITY"], tone_of_severity);
    for finding in &report.findings {
        let place = match (&finding.file, finding.line) {
            (Some(file), Some(line)) => format!("{file}:{line}"),
            _ => finding.object.clone(),
        };
        let severity = format!("{:?}", finding.severity).to_lowercase();
        let code = finding.code.as_str().to_owned();
        // The field has a column of its own.
        let rest = finding.message.strip_prefix(&finding.field).filter(|rest| rest.starts_with([' ', ':']));
        let message = rest.map_or(finding.message.as_str(), |rest| rest.trim_start_matches([' ', ':']));
        table.push([place, severity, code, finding.field.clone(), message.to_owned()]);
    }
    if !table.is_empty() {
        table.print(terminal)?;
    }
    summary(report, terminal)
}

fn tone_of_severity(severity: &str) -> Option<Tone> {
    match severity {
        "error" => Some(Tone::Bad),
        "warning" => Some(Tone::Warning),
        _ => None,
    }
}

fn summary(report: &Report, terminal: &mut Terminal) -> Result<(), Failure> {
    let count = |severity, what: &str| match report.count(severity) {
        1 => format!("1 {what}"),
        many => format!("{many} {what}s"),
    };
    let (errors, warnings) = (count(Severity::Error, "error"), count(Severity::Warning, "warning"));
    let notes = count(Severity::Info, "note");
    let tone = match (report.count(Severity::Error), report.count(Severity::Warning)) {
        (0, 0) => Tone::Good,
        (0, _) => Tone::Warning,
        _ => Tone::Bad,
    };
    let rules = match report.rules.len() {
        1 => "1 rule".to_owned(),
        many => format!("{many} rules"),
    };
    let more = if report.more == 0 { String::new() } else { format!(", and {} more findings", report.more) };
    let text = terminal.paint(tone, &format!("{rules}: {errors}, {warnings}, {notes}{more}"));
    Ok(terminal.err().write_all(format!("{text}\n").as_bytes())?)
}
