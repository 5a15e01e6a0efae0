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
        ["ResolvedRefs", "Programmed"].map(|type_| setting.condition(type_))
    };
    let lie = "; logical cluster network falsely claims this path";
    let [resolved, programmed] = said(found("other"));
    assert!(resolved.starts_with("False NotBound: ") && resolved.ends_with(lie), "{resolved}");
    assert!(programmed.starts_with("False Pending: depguard can install nothing in workspace"), "{programmed}");
    assert!(programmed.ends_with("delete ValidatingWebhookConfiguration dependency-controller there"), "{programmed}");
    let [resolved, programmed] = said(WorkspaceLookup::NotFound);
    assert!(resolved.starts_with("False WorkspaceNotFound: ") && resolved.ends_with(lie), "{resolved}");
    assert_eq!(programmed, "True Programmed: installed in workspace with logical cluster network");
    let [resolved, programmed] = said(WorkspaceLookup::Unknown { why: "403".to_owned() });
    assert!(
        resolved.starts_with("True ")
            && resolved.contains("could not verify the path that workspace root:providers:network claims (403)"),
        "{resolved}"
    );
    assert_eq!(programmed, format!("True Programmed: installed in workspace {NETWORK}"));
    let [resolved, programmed] = said(found("network"));
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

/// With any of these slips, the rule finds nothing, and the targets can be deleted.
#[test]
fn a_rule_whose_exports_are_not_there_is_not_enforced() {
    let right = vm_to_vpc();
    assert!(Setting::from_rule(right.clone()).condition("Enforced").starts_with("True "));
    let slips = [
        "/spec/dependent/apiExportName",
        "/spec/dependent/group",
        "/spec/dependent/resource",
        "/spec/dependencies/0/apiExportRef/name",
        "/spec/dependencies/0/group",
        "/spec/dependencies/0/resource",
    ];
    for field in slips {
        for slip in [|word: &str| format!("x{word}"), |word: &str| word[1..].to_owned()] {
            let mut wrong = right.clone();
            let word = wrong.pointer_mut(field).unwrap();
            *word = json!(slip(word.as_str().unwrap()));
            let setting = Setting::from_rule(wrong);
            let [resolved, enforced] = ["ResolvedRefs", "Enforced"].map(|type_| setting.condition(type_));
            assert!(enforced.starts_with("False ExportNotFound: "), "{field}: {enforced}");
            assert_eq!(resolved, enforced, "{field}");
        }
    }
    // What may not be seen may be in order.
    let unseen = Setting { exports: None, ..Setting::from_rule(right) };
    assert!(unseen.condition("Enforced").starts_with("True "));
}

#[test]
fn what_may_not_be_seen_is_unknown() {
    let mut setting = Setting::from_rule(vm_to_vpc());
    setting.exports = None;
    assert!(setting.condition("ResolvedRefs").starts_with("Unknown Unknown: "));
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
