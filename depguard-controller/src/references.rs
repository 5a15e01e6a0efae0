//! Whether what a rule refers to is there: workspaces, and the APIExports in them.

use depguard_core::api::ACCEPT_ANNOTATION;
use depguard_core::{Acceptance, Consent, ExportName, GroupResource, LogicalCluster, Rule, RuleKey, WorkspacePath};
use depguard_kcp::WorkspaceLookup;

use crate::bindings::{Claim, ClaimedResource, EXPORTS, SCHEMAS};
use crate::checks::{self, Kinds};
use crate::exports::Served;
use crate::findings::{Finding, Findings};
use crate::plan::{RulePlan, World};

/// Whether the workspaces and exports that a rule names are there.
pub(crate) fn resolved(world: &World<'_>, kinds: &Kinds, rule: &RulePlan<'_>, parsed: &Rule) -> Finding {
    let mut findings = Findings::default();
    let dependent = parsed.dependent();
    if let (Some(cluster), Some(export)) = (&rule.key.cluster, &dependent.export) {
        let kind = dependent.gvr.group_resource();
        findings.extend(check_export(world, cluster, export, &kind, "spec.dependent.apiExportName"));
    }
    for target in &rule.targets {
        let Some(export) = &target.export else { continue };
        let field = format!("spec.dependencies[{}].apiExportRef", target.dependency);
        let clusters: Vec<_> = world.clusters(&export.path).collect();
        match (clusters.as_slice(), world.lookups.get(&export.path)) {
            ([], _) | (_, Some(WorkspaceLookup::NotFound)) => findings.push(not_bound(world, &export.path, &field)),
            ([cluster], lookup) => {
                findings.extend(check_export(world, cluster, &export.name, &target.kind, &format!("{field}.name")));
                check_consent(world, &rule.key, cluster, &export.name, &mut findings);
                if let Some(WorkspaceLookup::Unknown { why }) = lookup {
                    let path = &export.path;
                    findings.note(format!("that {path} is where it says to be could not be checked ({why})"));
                }
            }
            _ => findings.push(ambiguous(&export.path)),
        }
    }
    checks::served(world, kinds, rule, parsed, &mut findings);
    let order = [
        "WorkspaceNotFound",
        "NotBound",
        "RefNotPermitted",
        "WorkspaceAmbiguous",
        "ExportNotFound",
        "KindNotFound",
        "ClaimNotAccepted",
        "Unknown",
    ];
    findings.sum_up(&order, "ResolvedRefs", "everything that the rule names is there")
}

fn not_bound(world: &World<'_>, path: &WorkspacePath, field: &str) -> Finding {
    let export = world.export_name;
    let bind = format!("create an APIBinding of {export} there that accepts its claims");
    let liars: Vec<_> = world.bindings.at(path).iter().map(LogicalCluster::as_str).collect();
    let liars = match liars.as_slice() {
        [] => String::new(),
        liars => format!("; logical cluster {} falsely says that this is its path", liars.join(", ")),
    };
    match world.lookups.get(path) {
        Some(WorkspaceLookup::NotFound) => Finding::no(
            "WorkspaceNotFound",
            format!("workspace {path} not found: create it, or correct {field}.path{liars}"),
        ),
        Some(WorkspaceLookup::Found { .. }) => {
            Finding::no("NotBound", format!("workspace {path} has not bound {export}: {bind}{liars}"))
        }
        Some(WorkspaceLookup::Unknown { why }) => Finding::no(
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
    let workspace = world.display(cluster);
    let binding = world.bindings.of(cluster)?;
    let not_known = |claimed: ClaimedResource, what: &str| {
        let why = match binding.claim(claimed) {
            Claim::NotAccepted => "not accepted",
            Claim::Accepted => "accepted, but not in force",
            Claim::Applied => return None,
        };
        Some(Finding::unknown(
            "ClaimNotAccepted",
            format!(
                "claim on {} {why} in workspace {workspace}, so it is not known {what}: to have that checked, accept \
                 the claim in the APIBinding {} there",
                claimed.resource, binding.name
            ),
        ))
    };
    if let Some(finding) = not_known(EXPORTS, &format!("whether its APIExport {export} serves {kind}")) {
        return Some(finding);
    }
    match world.exports.serves(cluster, export, kind) {
        Ok(Served::Yes) => not_known(SCHEMAS, &format!("in which versions {kind} is served, and with which fields")),
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

/// Whether the provider of a target accepts the rule.
fn check_consent(
    world: &World<'_>,
    rule: &RuleKey,
    provider: &LogicalCluster,
    export: &ExportName,
    findings: &mut Findings,
) {
    let Some(own) = &rule.cluster else { return };
    let workspace = world.display(provider);
    let acceptance = world.consents.acceptance(own, provider, export);
    if acceptance == Acceptance::Refused {
        let (entry, shown) = (world.believed_path(own).map(ToString::to_string), world.display(own));
        let entry = entry.unwrap_or_else(|| format!("clusters/{own}"));
        findings.push(Finding::no(
            "RefNotPermitted",
            format!(
                "workspace {workspace} does not accept rules of workspace {shown} about what its APIExport {export} \
                 serves, so they are not protected: have {entry} added to the annotation {ACCEPT_ANNOTATION} there"
            ),
        ));
    } else if acceptance == Acceptance::Assumed {
        let shown = world.display(own);
        findings.note(format!(
            "workspace {workspace} accepts the rule only as long as it can't be checked that {shown} is where it says \
             to be: name clusters/{own} in the annotation {ACCEPT_ANNOTATION} there, which needs no check"
        ));
    } else if let Some(Consent::Unreadable(entry)) = world.consents.of(provider, export) {
        findings.note(format!(
            "the annotation {ACCEPT_ANNOTATION} of APIExport {export} in workspace {workspace} restricts nobody, as \
             `{entry}` in it is no workspace path"
        ));
    }
}
