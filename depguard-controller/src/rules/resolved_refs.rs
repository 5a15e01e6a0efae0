//! Condition `ResolvedRefs`: the workspaces, APIExports and kinds that a rule names exist, and their providers accept
//! the rule.

use depguard_core::api::{ACCEPT_ANNOTATION, PATH_ANNOTATION};
use depguard_core::applicability::{Acceptance, RuleGrant};
use depguard_core::model::GroupResource;
use depguard_core::rule::{Dependent, RuleKey};
use depguard_core::schema::{left_out_export, local_targets};
use depguard_core::{ExportName, LogicalCluster, Rule, WorkspacePath};
use depguard_kcp::WorkspaceLookup;

use crate::model::api_bindings::{Claim, ClaimedResource, EXPORTS, SCHEMAS};
use crate::model::api_exports::Served;
use crate::model::condition::{Finding, Findings};
use crate::rules::named_kinds::{DORMANT, NamedKinds};
use crate::rules::plan::{PlanInput, RulePlan};

/// Returns the condition: true if the workspaces, exports and kinds exist, and the providers accept the rule. `exports`
/// has the [problems](export_problems) of the rule's APIExports.
pub(crate) fn resolved(
    input: &PlanInput<'_>,
    rule: &RulePlan,
    parsed: &Rule,
    named: &NamedKinds<'_>,
    exports: Vec<Finding>,
) -> Finding {
    let mut findings = Findings::default();
    findings.extend(exports);
    for target in &rule.targets {
        let Some(export) = &target.export else { continue };
        let field = format!("spec.dependencies[{}].apiExportRef", target.dependency);
        let clusters: Vec<_> = input.clusters(&export.path).collect();
        match (clusters.as_slice(), input.lookups.get(&export.path)) {
            ([], _) | (_, Some(WorkspaceLookup::NotFound)) => findings.push(not_bound(input, &export.path, &field)),
            ([cluster], lookup) => {
                check_rule_grant(input, &rule.key, cluster, &export.name, &mut findings);
                if let Some(WorkspaceLookup::Unknown { why }) = lookup {
                    let path = &export.path;
                    findings.note(format!("could not verify the path that workspace {path} claims ({why})"));
                }
            }
            _ => findings.push(ambiguous(&export.path)),
        }
    }
    named.check_served(&mut findings);
    for note in left_out_exports(input, rule, parsed) {
        findings.note(note);
    }
    let order = [
        "WorkspaceNotFound",
        "NotBound",
        "RefNotPermitted",
        "WorkspaceAmbiguous",
        "ExportNotFound",
        "KindNotFound",
        DORMANT,
        "ClaimNotAccepted",
        "Unknown",
    ];
    findings.sum_up(&order, "ResolvedRefs", "everything that the rule names exists")
}

/// Returns the findings about the APIExports that a rule names: the dependents', and the targets' whose workspace is
/// known, or known to be missing. A false one means that nobody can have bound the rule's kind from there.
pub(crate) fn export_problems(input: &PlanInput<'_>, rule: &RulePlan, parsed: &Rule) -> Vec<Finding> {
    let dependent = parsed.dependent();
    let of_dependent = rule.key.cluster.as_ref().zip(dependent.export.as_ref()).and_then(|(cluster, export)| {
        let kind = dependent.gvr.group_resource();
        check_export(input, cluster, export, &kind, "spec.dependent.apiExportName")
    });
    let of_targets = rule.targets.iter().filter_map(|target| {
        let export = target.export.as_ref()?;
        let field = format!("spec.dependencies[{}].apiExportRef", target.dependency);
        if input.lookups.get(&export.path) == Some(&WorkspaceLookup::NotFound) {
            return Some(not_bound(input, &export.path, &field));
        }
        let mut clusters = input.clusters(&export.path);
        let (Some(cluster), None) = (clusters.next(), clusters.next()) else { return None };
        check_export(input, cluster, &export.name, &target.kind, &format!("{field}.name"))
    });
    of_dependent.into_iter().chain(of_targets).collect()
}

/// Returns the notes about kinds that the rule takes for local ones, although an APIExport seems to be meant: one of its own
/// workspace serves the kind, or the dependents are of one.
fn left_out_exports(input: &PlanInput<'_>, rule: &RulePlan, parsed: &Rule) -> Vec<String> {
    let Some(own) = &rule.key.cluster else { return Vec::new() };
    let note = |field: &str, missing: &str, kind: &GroupResource| {
        let export = input.exports.serving(own, kind)?;
        Some(left_out_export(field, missing, kind, export))
    };
    let Dependent { export, gvr, .. } = parsed.dependent();
    let of_dependent = export.is_none().then(|| note("spec.dependent", "apiExportName", &gvr.group_resource()));
    let local = local_targets(parsed);
    let of_targets = parsed.edges().iter().filter(|edge| edge.target.export.is_none()).filter_map(|edge| {
        let field = format!("spec.dependencies[{}]", edge.index);
        let provided = note(&field, "apiExportRef", &edge.target.gvr.group_resource());
        provided.or_else(|| local.iter().find(|local| local.field == field).map(ToString::to_string))
    });
    of_dependent.flatten().into_iter().chain(of_targets).collect()
}

fn not_bound(input: &PlanInput<'_>, path: &WorkspacePath, field: &str) -> Finding {
    let export = input.export_name;
    let bind = format!("create an APIBinding of {export} there that accepts its claims");
    let liars: Vec<_> = input.bindings.at(path).iter().map(LogicalCluster::as_str).collect();
    let liars = match liars.as_slice() {
        [] => String::new(),
        liars => format!("; logical cluster {} falsely claims this path", liars.join(", ")),
    };
    match input.lookups.get(path) {
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

/// Returns the finding about a path that several workspaces claim. An administrator of a workspace can write another
/// workspace's path into it, and a workspace that was made anew has its path twice for a while.
fn ambiguous(path: &WorkspacePath) -> Finding {
    Finding::no(
        "WorkspaceAmbiguous",
        format!(
            "several workspaces claim the path {path}, so depguard can't tell which one the rule means: check whether \
             one of them is being deleted, or whether a LogicalCluster has a wrong annotation kcp.io/path"
        ),
    )
}

/// Returns the finding about an export that should serve a kind; `None` if all is well.
fn check_export(
    input: &PlanInput<'_>,
    cluster: &LogicalCluster,
    export: &ExportName,
    kind: &GroupResource,
    field: &str,
) -> Option<Finding> {
    let workspace = input.display(cluster);
    let binding = input.bindings.of(cluster)?;
    let not_known = |claimed: ClaimedResource, what: &str| {
        let why = match binding.claim(claimed) {
            Claim::NotAccepted => "has not accepted the claim on",
            Claim::Accepted => "has accepted, but not yet applied, the claim on",
            Claim::Applied => return None,
        };
        Some(Finding::unknown(
            "ClaimNotAccepted",
            format!(
                "workspace {workspace} {why} {}, so depguard can't check {what}: accept the claim in the APIBinding \
                 {} there",
                claimed.resource, binding.name
            ),
        ))
    };
    if let Some(finding) = not_known(EXPORTS, &format!("whether its APIExport {export} serves {kind}")) {
        return Some(finding);
    }
    match input.exports.serves(cluster, export, kind) {
        Ok(Served::Yes) => not_known(SCHEMAS, &format!("the versions and fields of {kind}")),
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
        Err(why) => Some(Finding::unknown(
            "Unknown",
            format!("could not find out whether APIExport {export} serves {kind}: {why}"),
        )),
    }
}

/// Adds a finding if the provider of a target does not accept the rule, and a note if the acceptance is uncertain.
fn check_rule_grant(
    input: &PlanInput<'_>,
    rule: &RuleKey,
    provider: &LogicalCluster,
    export: &ExportName,
    findings: &mut Findings,
) {
    let Some(own) = &rule.cluster else { return };
    let workspace = input.display(provider);
    let acceptance = input.rule_grants.acceptance(own, provider, export);
    if acceptance == Acceptance::Refused {
        let (entry, shown) = (input.believed_path(own).map(ToString::to_string), input.display(own));
        let entry = entry.unwrap_or_else(|| format!("clusters/{own}"));
        findings.push(Finding::no(
            "RefNotPermitted",
            format!(
                "workspace {workspace} does not accept rules of workspace {shown} about the kinds of its APIExport \
                 {export}, so the rule does not protect them: ask its owner to add {entry} to the annotation \
                 {ACCEPT_ANNOTATION} of the APIExport"
            ),
        ));
    } else if acceptance == Acceptance::Assumed {
        let doubt = if input.rule_grants.claims_no_path(own) {
            format!(
                "find out where the rule's workspace is, because the APIBinding of logical cluster {own} has no \
                 annotation {PATH_ANNOTATION} that is a path"
            )
        } else {
            format!("verify that the rule's workspace is {}", input.display(own))
        };
        findings.note(format!(
            "workspace {workspace} accepts the rule only while depguard can't {doubt}: add clusters/{own} to the \
             annotation {ACCEPT_ANNOTATION} there, which needs no verification"
        ));
    } else if let Some(RuleGrant::Unreadable(entry)) = input.rule_grants.get(provider, export) {
        findings.note(format!(
            "depguard ignores the annotation {ACCEPT_ANNOTATION} of APIExport {export} in workspace {workspace} and \
             accepts all rules: `{entry}` in it is not a workspace path"
        ));
    }
}
