//! Whether what a rule refers to is there: workspaces, and the APIExports in them.

use std::collections::BTreeMap;

use depguard_core::{ExportName, GroupResource, LogicalCluster, Rule, WorkspacePath};

use crate::bindings::{Claim, EXPORTS};
use crate::exports::Served;
use crate::plan::{RulePlan, World};

/// What is known of the workspaces that have not bound depguard.
pub(crate) type Lookups = BTreeMap<WorkspacePath, Lookup>;

/// Whether a workspace that has not bound depguard exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lookup {
    Exists,
    NotFound,
    /// It could not be found out, and why.
    Unknown(String),
}

/// A condition without its type and times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// `True`, `False` or `Unknown`.
    pub(crate) status: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// What was found about the parts of a rule: only what is not well.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<Finding>);

/// The messages that are repeated, of one condition.
const MAX_MESSAGES: usize = 5;
/// The longest message, in characters.
const MAX_MESSAGE: usize = 4000;

/// Whether the workspaces and exports that a rule names are there.
pub(crate) fn resolved(world: &World<'_>, lookups: &Lookups, rule: &RulePlan<'_>, parsed: &Rule) -> Finding {
    let mut findings = Findings::default();
    let dependent = parsed.dependent();
    if let (Some(cluster), Some(export)) = (&rule.key.cluster, &dependent.export) {
        let kind = dependent.gvr.group_resource();
        findings.extend(check_export(world, cluster, export, &kind, "spec.dependent.apiExportName"));
    }
    for target in &rule.targets {
        let Some(export) = &target.export else { continue };
        let field = format!("spec.dependencies[{}].apiExportRef", target.dependency);
        match target.places.as_slice() {
            [] => findings.push(not_bound(world, lookups.get(&export.path), &export.path, &field)),
            [Some(cluster)] => {
                findings.extend(check_export(world, cluster, &export.name, &target.kind, &format!("{field}.name")));
            }
            [None] => {}
            _ => findings.push(ambiguous(&export.path)),
        }
    }
    let order =
        ["WorkspaceNotFound", "NotBound", "WorkspaceAmbiguous", "ExportNotFound", "ClaimNotAccepted", "Unknown"];
    findings.sum_up(&order, "ResolvedRefs", "every workspace and APIExport that the rule names is there")
}

fn not_bound(world: &World<'_>, lookup: Option<&Lookup>, path: &WorkspacePath, field: &str) -> Finding {
    let export = world.export_name;
    let bind = format!("create an APIBinding of {export} there that accepts its claims");
    match lookup {
        Some(Lookup::NotFound) => {
            Finding::no("WorkspaceNotFound", format!("workspace {path} not found: create it, or correct {field}.path"))
        }
        Some(Lookup::Exists) => Finding::no("NotBound", format!("workspace {path} has not bound {export}: {bind}")),
        Some(Lookup::Unknown(why)) => Finding::no(
            "NotBound",
            format!("workspace {path} has not bound {export}, or does not exist ({why}): {bind}"),
        ),
        None => Finding::no("NotBound", format!("workspace {path} has not bound {export}, or does not exist: {bind}")),
    }
}

/// Whoever administers a workspace can write another's path into it, and one that was made anew has its path twice for
/// a while.
fn ambiguous(path: &WorkspacePath) -> Finding {
    Finding::no(
        "WorkspaceAmbiguous",
        format!(
            "more than one workspace says that its path is {path}, so it is not known which is meant: see whether one \
             is being deleted, or whose LogicalCluster has a wrong annotation kcp.io/path"
        ),
    )
}

/// What is not well with an export that should serve a kind.
fn check_export(
    world: &World<'_>,
    cluster: &LogicalCluster,
    export: &ExportName,
    kind: &GroupResource,
    field: &str,
) -> Option<Finding> {
    let workspace = world.bindings.display(cluster);
    let binding = world.bindings.of(cluster)?;
    let why = match binding.claim(EXPORTS) {
        Claim::NotAccepted => Some("not accepted"),
        Claim::Accepted => Some("accepted, but not in force"),
        Claim::Applied => None,
    };
    if let Some(why) = why {
        return Some(Finding::unknown(
            "ClaimNotAccepted",
            format!(
                "claim on apiexports {why} in workspace {workspace}, so it is not known whether its APIExport {export} \
                 serves {kind}: to have that checked, accept the claim in the APIBinding {} there",
                binding.name
            ),
        ));
    }
    match world.exports.serves(cluster, export, kind) {
        Ok(Served::Yes) => None,
        Ok(Served::NoExport) => Some(Finding::no(
            "ExportNotFound",
            format!("APIExport {export} not found in workspace {workspace}: create it, or correct {field}"),
        )),
        Ok(Served::OtherKinds) => Some(Finding::no(
            "ExportNotFound",
            format!(
                "APIExport {export} in workspace {workspace} does not serve {kind}: correct {field}, or the group and \
                 resource beside it"
            ),
        )),
        Err(why) => Some(Finding::unknown("Unknown", format!("it is not known whether {export} serves {kind}: {why}"))),
    }
}

impl Finding {
    pub(crate) fn yes(reason: &'static str, message: impl Into<String>) -> Self {
        Self { status: "True", reason, message: message.into() }
    }

    pub(crate) fn no(reason: &'static str, message: impl Into<String>) -> Self {
        Self { status: "False", reason, message: message.into() }
    }

    pub(crate) fn unknown(reason: &'static str, message: impl Into<String>) -> Self {
        Self { status: "Unknown", reason, message: message.into() }
    }
}

impl Findings {
    pub(crate) fn push(&mut self, finding: Finding) {
        if !self.0.contains(&finding) {
            self.0.push(finding);
        }
    }

    fn extend(&mut self, finding: Option<Finding>) {
        if let Some(finding) = finding {
            self.push(finding);
        }
    }

    /// One condition of them all: what is wrong before what is unknown, then in `order` of the reasons. Without any,
    /// the condition is true, with this reason and message.
    pub(crate) fn sum_up(mut self, order: &[&str], well: &'static str, message: &str) -> Finding {
        let rank = |finding: &Finding| {
            let reason = order.iter().position(|reason| *reason == finding.reason).unwrap_or(order.len());
            (finding.status != "False", reason)
        };
        self.0.sort_by_key(rank);
        let Some(first) = self.0.first() else { return Finding::yes(well, message) };
        let mut messages: Vec<_> = self.0.iter().take(MAX_MESSAGES).map(|finding| finding.message.as_str()).collect();
        let more = self.0.len().saturating_sub(MAX_MESSAGES);
        let more = format!("and {more} more");
        if self.0.len() > MAX_MESSAGES {
            messages.push(&more);
        }
        let message = messages.join("; ").chars().take(MAX_MESSAGE).collect();
        Finding { status: first.status, reason: first.reason, message }
    }
}
