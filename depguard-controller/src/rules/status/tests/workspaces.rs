//! Statuses of rules, by what is known of the workspaces that they name.

use super::*;

pub(super) fn found(id: &str) -> WorkspaceLookup {
    WorkspaceLookup::Found { cluster: cluster(id), phase: "Ready".to_owned() }
}

#[test]
fn a_workspace_that_lies_about_its_path_is_named() {
    let mut setting = Setting::from_rule(vm_to_vpc());
    let mut said = |lookup| {
        setting.lookups = BTreeMap::from([(path(NETWORK), lookup)]);
        ["ResolvedRefs", "Programmed", "Enforced"].map(|type_| setting.condition(type_))
    };
    let lie = "; logical cluster network falsely claims this path";
    let [resolved, programmed, _] = said(found("other"));
    assert!(resolved.starts_with("False NotBound: ") && resolved.ends_with(lie), "{resolved}");
    assert!(programmed.starts_with("False Pending: depguard can install nothing in workspace"), "{programmed}");
    assert!(programmed.ends_with("delete ValidatingWebhookConfiguration dependency-controller there"), "{programmed}");
    let [resolved, programmed, enforced] = said(WorkspaceLookup::NotFound);
    assert!(resolved.starts_with("False WorkspaceNotFound: ") && resolved.ends_with(lie), "{resolved}");
    assert_eq!(programmed, "True Programmed: installed in workspace with logical cluster network");
    assert_eq!(enforced, resolved.replacen("WorkspaceNotFound", "ExportNotFound", 1), "it protects what nobody means");
    let [resolved, programmed, enforced] = said(WorkspaceLookup::Unknown { why: "403".to_owned() });
    assert!(enforced.starts_with("True "), "{enforced}");
    assert!(
        resolved.starts_with("True ")
            && resolved.contains("could not verify the path that workspace root:providers:network claims (403)"),
        "{resolved}"
    );
    assert_eq!(programmed, format!("True Programmed: installed in workspace {NETWORK}"));
    let [resolved, programmed, enforced] = said(found("network"));
    assert!(enforced.starts_with("True "), "{enforced}");
    assert_eq!(resolved, "True ResolvedRefs: everything that the rule names exists");
    assert_eq!(programmed, format!("True Programmed: installed in workspace {NETWORK}"));
}

#[test]
fn a_workspace_that_is_not_there_is_told_from_one_that_has_not_bound() {
    let mut setting = Setting::from_rule(vm_to_vpc());
    setting.bindings.pop();
    for (lookup, expected) in [
        (
            Some(WorkspaceLookup::NotFound),
            "False WorkspaceNotFound: workspace root:providers:network not found: create it, or correct \
             spec.dependencies[0].apiExportRef.path",
        ),
        (
            Some(found("other")),
            "False NotBound: workspace root:providers:network has not bound dependencies.opendefense.cloud: create",
        ),
        (
            Some(WorkspaceLookup::Unknown { why: "403".to_owned() }),
            "False NotBound: workspace root:providers:network has not bound dependencies.opendefense.cloud, or does \
             not exist (403): create",
        ),
        (None, "False NotBound: workspace root:providers:network has not bound"),
    ] {
        setting.lookups = lookup.into_iter().map(|lookup| (path(NETWORK), lookup)).collect();
        let said = setting.condition("ResolvedRefs");
        assert!(said.starts_with(expected), "{said}");
        assert!(setting.condition("Programmed").starts_with("False Pending: "));
        let target = &setting.changed()[0]["status"]["targets"][0];
        assert_eq!(target["workspace"], NETWORK);
        assert_eq!((target.get("logicalCluster"), target.get("lookup")), (None, None));
    }
}

#[test]
fn an_export_that_is_not_there_or_serves_other_kinds_is_named() {
    let mut setting = Setting::from_rule(vm_to_vpc());
    setting.exports = Some(vec![export("compute", "virtualmachines.compute.example.com")]);
    assert_eq!(
        setting.condition("ResolvedRefs"),
        "False ExportNotFound: APIExport network.example.com not found in workspace root:providers:network: create \
         it, or correct spec.dependencies[0].apiExportRef.name"
    );
    // An export of the same name in another workspace is another export.
    setting.exports = Some(vec![
        export("network", "virtualmachines.compute.example.com"),
        export("network", "lans.network.example.com"),
    ]);
    let said = setting.condition("ResolvedRefs");
    assert!(said.contains("APIExport compute.example.com not found in workspace root:compute"), "{said}");
    assert!(
        said.contains("APIExport network.example.com in workspace root:providers:network does not serve"),
        "{said}"
    );
    // The rule is installed all the same: consumers' bindings outlive an export.
    assert!(setting.condition("Programmed").starts_with("True "));
}

#[test]
fn a_kind_without_the_export_that_serves_it_is_noted() {
    let mut setting = Setting::from_rule(vm_to_vpc());
    let without = |setting: &mut Setting, pointer: &str, field: &str| {
        setting.rules[0].pointer_mut(pointer).and_then(Value::as_object_mut).unwrap().remove(field);
    };
    let whole = "True ResolvedRefs: everything that the rule names exists";
    assert_eq!(setting.condition("ResolvedRefs"), whole);
    without(&mut setting, "/spec/dependent", "apiExportName");
    let machines = "spec.dependent has no apiExportName, so it means virtualmachines.compute.example.com of the rule's own \
                    workspace only, and not where consumers bind APIExport compute.example.com, which serves \
                    virtualmachines.compute.example.com from there: if you mean that, write it in \
                    spec.dependent.apiExportName";
    assert_eq!(setting.condition("ResolvedRefs"), format!("{whole}; {machines}"));
    // Here nobody exports VPCs.
    without(&mut setting, "/spec/dependencies/0", "apiExportRef");
    assert_eq!(setting.condition("ResolvedRefs"), format!("{whole}; {machines}"));
    let mut of_network = export("compute", "vpcs.network.example.com");
    of_network["metadata"]["name"] = json!("all.example.com");
    setting.exports.as_mut().unwrap()[1] = of_network;
    let said = setting.condition("ResolvedRefs");
    let vpcs =
        "spec.dependencies[0] has no apiExportRef, so it means vpcs.network.example.com of the rule's own workspace";
    assert!(said.starts_with(&format!("{whole}; {machines}; {vpcs}")) && said.contains("all.example.com"), "{said}");
    // A note about each field is enough.
    setting.rules[0]["spec"]["dependent"]["apiExportName"] = json!("compute.example.com");
    let said = setting.condition("ResolvedRefs");
    assert!(
        said.starts_with(&format!("{whole}; {vpcs}")) && said.matches("has no apiExportRef").count() == 1,
        "{said}"
    );
    // Nor is anything noted about what nobody lets depguard see.
    setting.rules[0] = local(vm_to_vpc());
    setting.exports = None;
    assert_eq!(setting.condition("ResolvedRefs"), whole);
}

#[test]
fn what_may_not_be_seen_is_unknown() {
    let mut setting = Setting::from_rule(vm_to_vpc());
    setting.exports = None;
    assert!(setting.condition("ResolvedRefs").starts_with("Unknown Unknown: "));
    assert!(setting.condition("Enforced").starts_with("True "), "it may be in order");
    setting.bindings[0]["spec"]["permissionClaims"][1]["state"] = json!("Rejected");
    let said = setting.condition("ResolvedRefs");
    assert!(
        said.starts_with("Unknown ClaimNotAccepted: workspace root:compute has not accepted the claim on apiexports"),
        "{said}"
    );
    // A known problem comes before an unknown.
    setting.bindings.pop();
    assert!(setting.condition("ResolvedRefs").starts_with("False NotBound: "));
}

#[test]
fn a_path_that_two_workspaces_have_is_not_resolved() {
    let mut setting = Setting::from_rule(vm_to_vpc());
    setting.bindings.push(binding("liar", NETWORK));
    assert!(setting.condition("ResolvedRefs").starts_with("False WorkspaceAmbiguous: several workspaces"));
}
