//! `status`: shows the state of the rules and processes, the end of the certificate, and the latest refusals.

mod handshake;
pub(super) mod parts;
mod refusals;
pub(super) mod rules;

use std::collections::BTreeSet;
use std::path::Path;

use depguard_core::ControlPlane;
use depguard_kcp::Endpoint;
use k8s_openapi::jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use self::parts::{Certificate, Process};
use self::refusals::Refusal;
use self::rules::RuleStatus;
use crate::cluster::api_server::ApiServer;
use crate::commands::install::{connect, own_namespace};
use crate::io::exit::{Failure, Outcome};
use crate::io::output::{Format, OutputArgs, some_of};
use crate::io::report::{CommandReport, print_json, print_yaml};
use crate::io::terminal::Terminal;
use crate::options::Global;

/// Show rules, processes, certificates and recent refusals
///
/// Exit code: 1 if a condition of a rule is not true (other than TargetsExist, Interlocked while it waits or where a rule can't have it, and those of a rule that sleeps, which is Dormant), nothing
/// is installed, no process is ready, the controller has stopped, a webhook configuration is not as the controller writes
/// it, or a certificate has expired; 2 if everything else is well, but the processes, the controller's Lease or
/// the webhook configurations could not be read, if nothing shows that the controller and the webhook run, or if nothing
/// was found and something could not be read. A Lease that is renewed or a pod that is ready shows that the controller
/// runs; a pod that is ready, an answer at the webhook's address, or a rule that a running controller calls enforced shows
/// that the webhook does. In kcp, only the configurations of depguard's own workspace count for exit code 2: a tenant sees
/// no others. A rule is no longer
/// enforced if no webhook configuration covers deletions of its targets. If something could not be read, the command
/// names the right that it needs.
///
/// The refusals come from the logs of the webhook's pods. depguard records them nowhere else: they go with the pods,
/// and logs below level `info` have none. The webhook's metrics count the refusals since a pod began.
///
/// In kcp, the command shows the rules of the kubeconfig's workspace, and the rules of workspaces whose exports it has
/// bound, if they protect something there. In depguard's own workspace, it shows the rules of all workspaces that have
/// bound depguard. It reads the processes in the cluster of --pods-kubeconfig, in the namespace of -n, or in the one
/// that the webhook configurations name, or in depguard-system.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// kcp only: kubeconfig of the cluster in which the processes run
    #[arg(long, value_name = "FILE")]
    pods_kubeconfig: Option<std::path::PathBuf>,

    /// Number of refusals to show, the latest first
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    refusals: usize,

    #[command(flatten)]
    output: OutputArgs,
}

/// Beginning of the reason why a part could not be read, before the right.
const NEEDS: &str = "you need the right to ";

/// Content of the status.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    /// True if any part of depguard was found.
    installed: bool,
    rules: Vec<RuleStatus>,
    processes: Vec<Process>,
    certificates: Vec<Certificate>,
    /// Processes that were seen to run.
    running: Running,
    /// Kinds whose deletions the webhook configurations here have reviewed.
    reviewed: BTreeSet<String>,
    /// Number of ObjectLocks and ClusterObjectLocks.
    locks: usize,
    /// Problems beside the rules' conditions.
    problems: Vec<String>,
    /// `None` if the refusals could not be read.
    refusals: Option<Vec<Refusal>>,
    unread: Vec<StatusReadFailure>,
}

/// Processes that something shows to run.
#[derive(Debug, Default, Serialize, JsonSchema)]
struct Running {
    controller: bool,
    webhook: bool,
}

/// Something that could not be read, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct StatusReadFailure {
    pub(super) what: String,
    pub(super) why: String,
    /// True if it is unknown without this part whether rules are enforced.
    #[serde(skip)]
    pub(super) is_vital: bool,
}

pub(crate) async fn run(args: Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let live = ApiServer::open(global).await?;
    let mut report = Report::default();
    let mut found = rules::read(&live, &mut report.unread).await?;
    found.correct_by_configurations(live.control_plane());
    report.installed = !found.configurations.is_empty() || found.is_elsewhere;
    report.problems.extend(found.drifts());
    report.reviewed = found.reviewed_kinds();
    report.rules = std::mem::take(&mut found.rules);
    report.locks = rules::locks(&live, &mut report.unread).await;
    let cluster = pods_cluster(&live, args.pods_kubeconfig.as_deref(), global).await?;
    if cluster.is_none() {
        report.unread.push(StatusReadFailure {
            what: "the processes".to_owned(),
            why: "they run in a Kubernetes cluster: name it with --pods-kubeconfig".to_owned(),
            is_vital: false,
        });
    }
    if let Some(cluster) = cluster {
        let namespace = match (&global.namespace, parts::namespace(&found.configurations)) {
            (None, Some(installed)) => installed,
            _ => own_namespace(global),
        };
        parts::lease(&cluster, &namespace, &mut report).await;
        if let Some(secret) = parts::processes(&cluster, &namespace, &found.configurations, &mut report).await {
            parts::certificate(&cluster, &namespace, &secret, &mut report).await;
            report.refusals = refusals::read(&cluster, &namespace, args.refusals, &mut report.unread).await;
        }
    }
    parts::handshakes(&found.configurations, &mut report).await;
    print(&report, args.output.output, terminal)?;
    report.outcome()
}

/// Returns the endpoint of the cluster in which the processes run; `None` in kcp if the user named no kubeconfig of it.
pub(super) async fn pods_cluster(
    live: &ApiServer,
    kubeconfig: Option<&Path>,
    global: &Global,
) -> Result<Option<Endpoint>, Failure> {
    match (live.control_plane(), kubeconfig) {
        (ControlPlane::Kubernetes, _) => Ok(Some(live.endpoint())),
        (ControlPlane::Kcp, Some(kubeconfig)) => Ok(Some(connect(kubeconfig, global).await?.own_endpoint())),
        (ControlPlane::Kcp, None) => Ok(None),
    }
}

impl CommandReport for Report {
    const KIND: &'static str = "StatusReport";
}

impl Report {
    fn outcome(&self) -> Result<Outcome, Failure> {
        let is_untold = self.unread.iter().any(|unread| unread.is_vital);
        if !self.problems.is_empty() || !self.rules.iter().all(RuleStatus::is_well) {
            return Ok(Outcome::Finding);
        }
        match (self.installed, is_untold) {
            (true, false) => self.running.outcome(),
            (false, false) => Ok(Outcome::Finding),
            (_, true) => Err(Failure::new("incomplete: found no problem, but some parts could not be read")
                .hint("get the rights that are named above")),
        }
    }
}

impl Running {
    fn outcome(&self) -> Result<Outcome, Failure> {
        let unseen = match (self.controller, self.webhook) {
            (true, true) => return Ok(Outcome::Well),
            (false, true) => "the controller runs",
            (true, false) => "the webhook runs",
            (false, false) => "the controller and the webhook run",
        };
        Err(Failure::new(format!("found no problem, but nothing shows that {unseen}")).hint(
            "name the namespace of their pods with -n, in kcp their cluster with --pods-kubeconfig; controllers renew a \
             Lease with --leader-elect",
        ))
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
    let tables: Vec<_> = tables.iter().filter(|table| !table.is_empty()).map(|table| table.render(terminal)).collect();
    terminal.out().write_all(tables.join("\n").as_bytes())?;
    let mut lines = Vec::new();
    match (report.installed, report.rules.is_empty()) {
        (false, true) if report.unread.iter().any(|unread| unread.is_vital) => {
            lines
                .push("could not find out whether depguard is installed here: some parts could not be read".to_owned());
        }
        (false, true) => {
            lines.push(
                "depguard is not installed here: install it with `kubectl depguard install` or the Helm chart"
                    .to_owned(),
            );
        }
        (false, false) => lines.push(
            "found no webhook configuration and no process of depguard, so nothing is refused: install it with \
             `kubectl depguard install` or the Helm chart"
                .to_owned(),
        ),
        // What the rules are is unknown.
        (true, true) if report.unread.iter().any(|unread| unread.is_vital) => {}
        (true, true) if report.reviewed.is_empty() => {
            lines.push("there are no rules, so depguard refuses no deletion for a reference".to_owned());
        }
        (true, true) => lines.push(format!(
            "there are no rules here, but a webhook configuration has deletions reviewed by rules of elsewhere: of {}",
            some_of(report.reviewed.iter().cloned(), ", ")
        )),
        (true, false) => {}
    }
    match report.locks {
        0 => {}
        1 => lines.push("there is 1 lock: `kubectl get objectlocks,clusterobjectlocks -A`".to_owned()),
        many => lines.push(format!("there are {many} locks: `kubectl get objectlocks,clusterobjectlocks -A`")),
    }
    match report.rules.iter().filter(|rule| rule.conditions.is_empty()).count() {
        0 => {}
        1 => lines.push("no controller has checked 1 rule yet: run it again in a few seconds".to_owned()),
        many => lines.push(format!("no controller has checked {many} rules yet: run it again in a few seconds")),
    }
    match report.rules.iter().filter(|rule| rule.sleeps()).count() {
        0 => {}
        1 => lines.push("1 rule sleeps until its kinds are installed".to_owned()),
        many => lines.push(format!("{many} rules sleep until their kinds are installed")),
    }
    lines.extend(report.problems.iter().cloned());
    if report.refusals.as_ref().is_some_and(Vec::is_empty) {
        lines.push(format!("no refusal in the last {} lines of the readable logs", refusals::MAX_LINES));
    }
    lines.extend(lines_of_unread(&report.unread));
    for line in lines {
        terminal.err().write_all(format!("{}\n", crate::io::output::one_line(&line)).as_bytes())?;
    }
    Ok(())
}

/// Returns a line for each part that could not be read, and one for those for which a right is missing.
fn lines_of_unread(unread: &[StatusReadFailure]) -> Vec<String> {
    let (mut lines, mut forbidden, mut rights) = (Vec::new(), Vec::new(), BTreeSet::new());
    for StatusReadFailure { what, why, .. } in unread {
        match why.strip_prefix(NEEDS) {
            Some(right) => {
                forbidden.push(what.as_str());
                rights.insert(right);
            }
            None => lines.push(format!("could not read {what}: {why}")),
        }
    }
    if !forbidden.is_empty() {
        let rights: Vec<_> = rights.into_iter().collect();
        lines.push(format!("could not read {}: {NEEDS}{}", forbidden.join(", "), rights.join(", to ")));
    }
    lines
}

/// Builds the report of an unreadable part. If a right is missing, the reason names it.
fn unread(what: impl Into<String>, right: &str, why: &depguard_kcp::ApiError) -> StatusReadFailure {
    let why = match why.status() {
        Some(401 | 403) => format!("{NEEDS}{right}"),
        _ => why.to_string(),
    };
    StatusReadFailure { what: what.into(), why, is_vital: false }
}

impl StatusReadFailure {
    fn vital(self) -> Self {
        Self { is_vital: true, ..self }
    }
}
