//! docs/openssf.md and SECURITY-INSIGHTS.yml claim only what files show.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::chart::is_in_the_repository;

const PAGE: &str = include_str!("../../../docs/openssf.md");
const INSIGHTS: &str = include_str!("../../../SECURITY-INSIGHTS.yml");
/// Number of criteria for the badge "passing".
const CRITERIA: usize = 67;

/// Returns the rows with an answer: criterion, answer, and what shows it.
fn rows(page: &str) -> Vec<[&str; 3]> {
    let cells = page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "));
    let rows = cells.filter_map(|(criterion, rest)| Some((criterion, rest.split_once(" | ")?)));
    rows.map(|(criterion, (answer, shown))| [criterion, answer, shown]).skip(1).collect()
}

/// Returns the criteria that are open, with the reason of each.
fn open(page: &str) -> Vec<(&str, &str)> {
    let list = page.split_once("\n## Open\n").map_or("", |(_, list)| list);
    let reasons = list.split("\n- ").skip(1).filter_map(|item| item.split_once(": "));
    reasons.flat_map(|(why, names)| names.split('`').skip(1).step_by(2).map(move |name| (name, why))).collect()
}

/// Returns the texts of the files to which a cell links, or the first link that leads nowhere.
fn linked(cell: &str) -> Result<Vec<String>, String> {
    let links = cell.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let read = |link: &str| {
        let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(path);
        let text = fs::read_to_string(file).map_err(|_| format!("there is no {path}"))?;
        let heading =
            |line: &str| line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-").replace('`', "");
        let has_anchor = anchor.is_empty() || text.lines().any(|line| line.starts_with('#') && heading(line) == anchor);
        if has_anchor { Ok(text) } else { Err(format!("there is no {link}")) }
    };
    links.map(read).collect()
}

/// Returns the claims of the page that no file shows.
fn unfounded(page: &str) -> Vec<String> {
    let rows = rows(page);
    let mut faults = Vec::new();
    for (at, [criterion, answer, shown]) in rows.iter().enumerate() {
        // "The same" speaks of the row before.
        let shown = if *shown == "the same" { rows[at - 1][2] } else { shown };
        let texts = match linked(shown) {
            Ok(texts) => texts,
            Err(why) => {
                faults.push(format!("{criterion}: {why}"));
                continue;
            }
        };
        let quoted = shown.split('`').skip(1).step_by(2);
        let missing = quoted.filter(|quoted| !texts.iter().any(|text| text.contains(quoted)));
        faults.extend(missing.map(|quoted| format!("{criterion}: no file says {quoted}")));
        let is_founded = match *answer {
            "Met" => !texts.is_empty(),
            "Not applicable" => shown.len() > 10,
            _ => false,
        };
        if !is_founded {
            faults.push(format!("{criterion}: {answer}"));
        }
    }
    faults
}

#[test]
fn the_self_assessment_claims_only_what_files_show() {
    let rows = rows(PAGE);
    let open = open(PAGE);
    let names: BTreeSet<_> =
        rows.iter().map(|[criterion, ..]| *criterion).chain(open.iter().map(|open| open.0)).collect();
    assert_eq!((names.len(), rows.len() + open.len()), (CRITERIA, CRITERIA));
    assert!(open.iter().all(|(_, why)| why.len() > 10), "{open:?}");
    assert_eq!(unfounded(PAGE), [""; 0]);
    // Each of these is seen.
    for (from, to) in [
        ("](../LICENSE)", "](../LICENCE)"),
        ("#stability", "#promises"),
        ("`-D warnings`", "`-D every warning`"),
        ("| release_notes_vulns | Not applicable |", "| release_notes_vulns | Met |"),
        (
            "| release_notes_vulns | Not applicable | there is no release |",
            "| release_notes_vulns | Not applicable | ? |",
        ),
        ("| english | Met |", "| english | Of course |"),
    ] {
        assert!(PAGE.contains(from), "{from}");
        assert_eq!(unfounded(&PAGE.replacen(from, to, 1)).len(), 1, "{from} → {to}");
    }
}

/// Fields of Security Insights 2.0 that depguard fills in; the schema requires all that are not optional here.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Insights {
    header: Header,
    project: Project,
    repository: Repository,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Header {
    schema_version: String,
    last_updated: String,
    last_reviewed: String,
    url: String,
    #[serde(rename = "comment")]
    _comment: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Project {
    name: String,
    homepage: String,
    administrators: Vec<Contact>,
    repositories: Vec<ProjectRepository>,
    vulnerability_reporting: Reporting,
    documentation: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contact {
    name: String,
    primary: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProjectRepository {
    name: String,
    url: String,
    comment: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Reporting {
    reports_accepted: bool,
    bug_bounty_available: bool,
    security_policy: String,
    #[serde(rename = "comment")]
    _comment: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Repository {
    url: String,
    status: String,
    accepts_change_request: bool,
    #[serde(rename = "accepts-automated-change-request")]
    _accepts_automated_change_request: bool,
    core_team: Vec<Contact>,
    license: License,
    documentation: BTreeMap<String, String>,
    security: Security,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct License {
    url: String,
    expression: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Security {
    assessments: BTreeMap<String, Assessment>,
    tools: Vec<Tool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Assessment {
    comment: String,
    evidence: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tool {
    name: String,
    r#type: String,
    #[serde(rename = "comment")]
    _comment: Option<String>,
    rulesets: Vec<String>,
    integration: BTreeMap<String, bool>,
    #[serde(rename = "results")]
    _results: BTreeMap<String, Value>,
}

/// Returns what is wrong with the file by the schema, and by the files of this repository.
fn faults(text: &str) -> Vec<String> {
    let insights: Insights = match serde_saphyr::from_str(text) {
        Ok(insights) => insights,
        Err(why) => return vec![why.to_string()],
    };
    let Insights { header, project, repository } = &insights;
    let mut faults = Vec::new();
    let mut must = |holds: bool, what: &str| {
        if !holds {
            faults.push(what.to_owned());
        }
    };
    must(header.schema_version == "2.0.0", "schema-version");
    let is_date = |text: &String| {
        let parts: Vec<_> = text.split('-').map(|part| (part.len(), part.parse::<u32>().is_ok())).collect();
        parts == [(4, true), (2, true), (2, true)]
    };
    must(is_date(&header.last_updated) && header.last_reviewed >= header.last_updated, "dates");
    let reporting = &project.vulnerability_reporting;
    must(reporting.reports_accepted && !reporting.bug_bounty_available, "vulnerability-reporting");
    must(project.name == "depguard" && project.repositories.iter().all(|one| !one.comment.is_empty()), "project");
    let home = env!("CARGO_PKG_REPOSITORY");
    let own = |url: &String| url == home;
    must(own(&project.homepage) && own(&repository.url) && project.repositories.iter().all(|one| own(&one.url)), "url");
    must(project.repositories.iter().any(|one| one.name == "depguard"), "repositories");
    for people in [&project.administrators, &repository.core_team] {
        let primary = people.iter().filter(|contact| contact.primary && !contact.name.is_empty()).count();
        must(primary == 1, "one primary contact");
    }
    let known = ["active", "abandoned", "concept", "inactive", "moved", "suspended", "unsupported", "WIP"];
    must(known.contains(&repository.status.as_str()) && repository.accepts_change_request, "status");
    must(repository.license.expression == env!("CARGO_PKG_LICENSE"), "license");
    let assessed = repository.security.assessments.get("self");
    must(assessed.is_some_and(|assessment| !assessment.comment.is_empty()), "a self-assessment");
    let evidence = repository.security.assessments.values().map(|assessment| &assessment.evidence);
    let pages = project.documentation.values().chain(repository.documentation.values()).chain(evidence);
    for url in pages.chain([&header.url, &reporting.security_policy, &repository.license.url]) {
        must(is_in_the_repository(url, "/blob/main/"), url);
    }
    for tool in &repository.security.tools {
        let kinds = ["fuzzing", "container", "secret", "SCA", "SAST", "other"];
        let when: Vec<_> = tool.integration.keys().map(String::as_str).collect();
        let is_whole = kinds.contains(&tool.r#type.as_str()) && when == ["adhoc", "ci", "release"];
        let is_configured = tool
            .rulesets
            .iter()
            .all(|file| file == "default" || is_in_the_repository(&format!("{home}/blob/main/{file}"), "/blob/main/"));
        must(is_whole && is_configured && !tool.rulesets.is_empty(), &tool.name);
    }
    faults
}

#[test]
fn security_insights_have_all_that_their_schema_requires() {
    assert_eq!(faults(INSIGHTS), [""; 0]);
    // Each of these is seen.
    for (from, to) in [
        ("  schema-version: 2.0.0\n", ""),
        ("2026-11-25", "25.11.2026"),
        ("    reports-accepted: true\n", ""),
        ("bug-bounty-available", "bug-bounty"),
        ("status: WIP", "status: stable"),
        ("primary: true", "primary: false"),
        ("expression: Apache-2.0", "expression: MIT"),
        ("/docs/releasing.md", "/docs/release.md"),
        ("type: SCA", "type: licences"),
        ("rulesets: [deny.toml]", "rulesets: [allow.toml]"),
        ("ci: true, ", ""),
        ("      self:\n", "      other:\n"),
    ] {
        assert!(INSIGHTS.contains(from), "{from}");
        assert_eq!(faults(&INSIGHTS.replacen(from, to, 1)).len(), 1, "{from} → {to}");
    }
}
