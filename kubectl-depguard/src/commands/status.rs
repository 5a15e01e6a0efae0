//! `status`: how the rules are, what runs, until when the certificate is good, and what was refused lately.

mod handshake;
mod parts;
mod refusals;
pub(super) mod rules;

use depguard_core::Home;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use self::parts::{Certificate, Process};
use self::refusals::Refusal;
use self::rules::RuleStatus;
use super::install::{connect, own_namespace};
use crate::cli::Global;
use crate::live::Live;
use crate::outcome::{Failure, Outcome};
use crate::output::{Format, OutputArgs, Table, print_json, print_yaml};
use crate::terminal::Terminal;

/// Show how the rules are, what runs, until when the certificate is good, and what was refused lately
///
/// Exit code 1 where a condition of a rule is not true, nothing is installed, no process is ready, or the controller has
/// stopped. A rule that was enforced is not any more where no webhook configuration has deletions of its targets reviewed.
/// What could not be looked at is counted, with the right that it needs; exit code 2 where all else is well, but in home
/// kubernetes the configurations or the processes could not be looked at.
///
/// The last refusals are those in the logs of the webhook's pods: depguard records them nowhere else, so they go with the
/// pods, and logs below level `info` have none. How many there were since a pod began is in its metrics.
///
/// In home kcp the rules are those of the kubeconfig's workspace, and those of the workspaces whose exports it has bound, as
/// far as they protect something there; of depguard's own workspace, those of all that have bound it. The processes are looked at where --pods-kubeconfig leads, in the namespace that what is installed names, in
/// depguard-system, or in the one of -n.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Home kcp: kubeconfig of the cluster in which the processes run
    #[arg(long, value_name = "FILE")]
    pods_kubeconfig: Option<std::path::PathBuf>,

    /// How many of the last refusals to show
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    refusals: usize,

    #[command(flatten)]
    output: OutputArgs,
}

/// All that is shown.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    /// Whether anything of depguard's was found.
    installed: bool,
    rules: Vec<RuleStatus>,
    processes: Vec<Process>,
    certificates: Vec<Certificate>,
    /// How many ObjectLocks and ClusterObjectLocks there are.
    locks: usize,
    /// What is wrong besides the rules' conditions.
    problems: Vec<String>,
    /// `None`: they could not be looked at.
    refusals: Option<Vec<Refusal>>,
    unread: Vec<Unread>,
}

/// What could not be looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Unread {
    pub(super) what: String,
    pub(super) why: String,
    /// Whether nobody can say without it that rules are enforced.
    #[serde(skip)]
    pub(super) is_vital: bool,
}

pub(crate) async fn run(args: Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let live = Live::open(global).await?;
    let mut report = Report::default();
    let mut found = rules::read(&live, &mut report.unread).await?;
    found.hold_against_configurations(live.home());
    report.installed = !found.configurations.is_empty() || found.is_elsewhere;
    report.rules = std::mem::take(&mut found.rules);
    report.locks = rules::locks(&live, &mut report.unread).await;
    let cluster = match (live.home(), &args.pods_kubeconfig) {
        (Home::Kubernetes, _) => Some(live.endpoint()),
        (Home::Kcp, Some(kubeconfig)) => Some(connect(kubeconfig, Home::Kubernetes).await?.home()),
        (Home::Kcp, None) => {
            report.unread.push(Unread {
                what: "the processes".to_owned(),
                why: "they run in a Kubernetes cluster: name it by --pods-kubeconfig".to_owned(),
                is_vital: false,
            });
            None
        }
    };
    if let Some(cluster) = cluster {
        let namespace = match (&global.namespace, parts::namespace(&found.configurations)) {
            (None, Some(installed)) => installed,
            _ => own_namespace(global),
        };
        parts::lease(&cluster, &namespace, &mut report).await;
        if let Some(secret) = parts::processes(&cluster, &namespace, &mut report).await {
            parts::certificate(&cluster, &namespace, &secret, &mut report).await;
            report.refusals = refusals::read(&cluster, &namespace, args.refusals, &mut report.unread).await;
        }
    }
    parts::handshakes(&found.configurations, &mut report).await;
    print(&report, args.output.output, terminal)?;
    report.outcome(live.home())
}

impl Report {
    fn outcome(&self, home: Home) -> Result<Outcome, Failure> {
        if !self.installed || !self.problems.is_empty() || !self.rules.iter().all(RuleStatus::is_well) {
            return Ok(Outcome::Finding);
        }
        match home == Home::Kubernetes && self.unread.iter().any(|unread| unread.is_vital) {
            false => Ok(Outcome::Well),
            true => Err(Failure::new("nothing is wrong with what could be looked at, but not all could be")
                .hint("get the rights that are named above")),
        }
    }
}

fn print(report: &Report, format: Option<Format>, terminal: &mut Terminal) -> Result<(), Failure> {
    match format {
        Some(Format::Json) => return print_json(report, terminal),
        Some(Format::Yaml) => return print_yaml(report, terminal),
        Some(Format::Name) => {
            for rule in &report.rules {
                let line = format!("dependencyrule.dependencies.opendefense.cloud/{}\n", rule.name);
                terminal.out().write_all(line.as_bytes())?;
            }
            return Ok(());
        }
        Some(Format::Wide) | None => {}
    }
    let now = Timestamp::now();
    let mut tables =
        vec![if format.is_some() { rules::wide(&report.rules, now) } else { rules::table(&report.rules, now) }];
    tables.extend(parts::tables(report, now));
    tables.extend(report.refusals.as_ref().map(|refusals| refusals::table(refusals, now)));
    let tables: Vec<_> = tables.iter().filter(|table| !table.is_empty()).map(Table::render).collect();
    terminal.out().write_all(tables.join("\n").as_bytes())?;
    let mut said = Vec::new();
    match (report.installed, report.rules.is_empty()) {
        (false, true) => {
            said.push("depguard is not installed here: `kubectl depguard install`, or the Helm chart".to_owned());
        }
        (false, false) => said.push(
            "no webhook configuration and no process of depguard's was found, so that nothing is refused: \
             `kubectl depguard install`, or the Helm chart"
                .to_owned(),
        ),
        (true, true) => said.push("there are no rules, so nothing is refused for a reference".to_owned()),
        (true, false) => {}
    }
    match report.locks {
        0 => {}
        1 => said.push("there is 1 lock: `kubectl get objectlocks,clusterobjectlocks -A`".to_owned()),
        many => said.push(format!("there are {many} locks: `kubectl get objectlocks,clusterobjectlocks -A`")),
    }
    match report.rules.iter().filter(|rule| rule.conditions.is_empty()).count() {
        0 => {}
        1 => said.push("no controller has looked at 1 rule yet: run it again in some seconds".to_owned()),
        many => said.push(format!("no controller has looked at {many} rules yet: run it again in some seconds")),
    }
    said.extend(report.problems.iter().cloned());
    if report.refusals.as_ref().is_some_and(Vec::is_empty) {
        said.push("no refusal is in the logs of the webhook's pods".to_owned());
    }
    said.extend(report.unread.iter().map(|unread| format!("could not look at {}: {}", unread.what, unread.why)));
    for line in said {
        terminal.err().write_all(format!("{}\n", crate::output::one_line(&line)).as_bytes())?;
    }
    Ok(())
}

/// How long ago, or how far ahead, as kubectl says it: `45s`, `12m`, `5h`, `3d`, `2y`.
fn span(seconds: i64) -> String {
    let seconds = seconds.max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        172_800..63_072_000 => format!("{}d", seconds / 86_400),
        _ => format!("{}y", seconds / 31_536_000),
    }
}

/// The same of a time such as `2026-01-01T00:00:00Z`; empty where it can't be read.
fn since(time: &str, now: Timestamp) -> String {
    let then: Option<Timestamp> = time.parse().ok();
    then.map(|then| span(now.as_second().saturating_sub(then.as_second()))).unwrap_or_default()
}

/// What is not to be had, and by which right it would be.
fn unread(what: impl Into<String>, right: &str, why: &depguard_kcp::ApiError) -> Unread {
    let why = match why.status() {
        Some(401 | 403) => format!("it needs the right to {right}"),
        _ => why.to_string(),
    };
    Unread { what: what.into(), why, is_vital: false }
}

impl Unread {
    fn vital(self) -> Self {
        Self { is_vital: true, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_as_kubectl_has_them() {
        for (seconds, expected) in
            [(-5, "0s"), (119, "119s"), (120, "2m"), (7200, "2h"), (172_800, "2d"), (63_072_000, "2y")]
        {
            assert_eq!(span(seconds), expected);
        }
        let now = "2026-01-01T00:10:00Z".parse().unwrap();
        assert_eq!(since("2026-01-01T00:00:00Z", now), "10m");
        assert_eq!(since("yesterday", now), "");
    }
}
