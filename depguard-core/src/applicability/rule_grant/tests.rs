use serde_json::json;

use super::*;

fn export(accept: Option<&str>) -> Value {
    let mut object = json!({"metadata": {"name": "network.example.com", "annotations": {"kcp.io/cluster": "network"}}});
    if let Some(accept) = accept {
        object["metadata"]["annotations"]["dependencies.opendefense.cloud/accept-rules-from"] = json!(accept);
    }
    object
}

fn binding(cluster: &str, path: &str) -> Value {
    json!({"metadata": {"annotations": {"kcp.io/cluster": cluster, "kcp.io/path": path}}})
}

#[test]
fn a_path_is_accepted_by_its_own_entry_or_one_above_it() {
    for (accept, path, accepted) in [
        (None, "root:compute", true),
        (Some("root:compute"), "root:compute", true),
        (Some("root:compute"), "root:compute:a", false),
        (Some("root:compute"), "root:computer", false),
        (Some(" root:a ,\n root:compute,"), "root:compute", true),
        (Some("root:a,root:b"), "root:compute", false),
        (Some("root:team:*"), "root:team:a", true),
        (Some("root:team:*"), "root:team:a:b", true),
        (Some("root:team:*"), "root:team", false),
        (Some("root:team:*"), "root:teams:a", false),
        (Some("*"), "root:compute", true),
        (Some(""), "root:compute", false),
        (Some(" , "), "root:compute", false),
        // An unreadable entry may have been meant for anybody.
        (Some("root:a, Root Compute"), "root:compute", true),
        (Some("root:*:a"), "root:compute", true),
        (Some("root:team*"), "root:compute", true),
        (Some("clusters/Compute!"), "root:compute", true),
        (Some("clusters/"), "root:compute", true),
        (Some("clusters/compute"), "root:compute", false),
    ] {
        let path = WorkspacePath::parse(path).unwrap();
        assert_eq!(RuleGrant::read(&export(accept)).accepts(&path), accepted, "{accept:?} {path}");
    }
    assert_eq!(RuleGrant::read(&export(Some("root:a, x y"))), RuleGrant::Unreadable("x y".to_owned()));
}

#[test]
fn what_is_not_known_is_accepted() {
    let accept = |exports: &[Value], bindings: &[Value], of: &str| {
        let name = ExportName::parse("network.example.com").unwrap();
        let [of, provider] = [of, "network"].map(|id| LogicalCluster::parse(id).unwrap());
        RuleGrants::read(exports, bindings).grants(&of, &provider, &name)
    };
    let closed = [export(Some("root:else"))];
    let bound = [binding("compute", "root:compute")];
    assert!(!accept(&closed, &bound, "compute"));
    // The provider's own rules; a rule whose workspace claims no path; an unknown export.
    assert!(accept(&closed, &bound, "network"));
    assert!(accept(&closed, &[], "compute"));
    assert!(accept(&[], &bound, "compute"));
    // A path that two workspaces claim is confirmed for neither of them.
    assert!(accept(&closed, &[binding("compute", "root:compute"), binding("liar", "root:compute")], "compute"));
    assert!(!accept(&closed, &[binding("compute", "root:compute"), bound[0].clone()], "compute"));
    // Nobody is accepted, whatever the path is.
    assert!(!accept(&[export(Some(""))], &[], "compute"));
}

#[test]
fn a_claim_counts_as_long_as_no_look_up_contradicts_it() {
    use Acceptance::{Accepted, Assumed, Refused};
    let honest = ("compute", "root:compute");
    for (accept, claims, found, of, expected) in [
        ("root:compute", &[honest][..], None, "compute", Assumed),
        ("root:compute", &[honest], Some(("root:compute", "compute")), "compute", Accepted),
        ("root:else", &[honest], Some(("root:compute", "compute")), "compute", Refused),
        // A lie, alone and beside the truth, and without any such workspace.
        ("root:compute", &[("evil", "root:compute")], None, "evil", Assumed),
        ("root:compute", &[("evil", "root:compute")], Some(("root:compute", "compute")), "evil", Refused),
        ("root:compute", &[("evil", "root:compute")], Some(("root:compute", "")), "evil", Refused),
        ("root:compute", &[honest, ("evil", "root:compute")], None, "evil", Assumed),
        ("root:compute", &[honest, ("evil", "root:compute")], None, "compute", Assumed),
        ("root:compute", &[honest, ("evil", "root:compute")], Some(("root:compute", "compute")), "evil", Refused),
        ("root:compute", &[honest, ("evil", "root:compute")], Some(("root:compute", "compute")), "compute", Accepted),
        // One path is confirmed, so the other one is wrong, although nobody looked it up.
        (
            "root:compute",
            &[("evil", "root:evil"), ("evil", "root:compute")],
            Some(("root:evil", "evil")),
            "evil",
            Refused,
        ),
        ("root:compute", &[("evil", "root:evil"), ("evil", "root:compute")], None, "evil", Assumed),
        // A lie about another path, which is not accepted.
        ("root:compute", &[("evil", "root:else"), ("else", "root:else")], None, "evil", Assumed),
        ("root:compute", &[("evil", "root:else"), ("else", "root:else")], Some(("root:else", "else")), "evil", Refused),
        // A logical cluster needs no look-up. If only logical clusters are named, paths don't matter.
        ("clusters/compute", &[], None, "compute", Accepted),
        ("clusters/compute", &[("evil", "root:compute")], None, "evil", Refused),
        ("clusters/compute", &[], None, "evil", Refused),
        ("clusters/compute, root:a", &[], None, "evil", Assumed),
        // Everybody is accepted, whatever they claim.
        ("*", &[("evil", "root:compute")], Some(("root:compute", "")), "evil", Accepted),
    ] {
        let bindings: Vec<_> = claims.iter().map(|(cluster, path)| binding(cluster, path)).collect();
        let found =
            found.map(|(path, cluster)| (WorkspacePath::parse(path).unwrap(), LogicalCluster::parse(cluster).ok()));
        let grants = RuleGrants::read([&export(Some(accept))], &bindings).looked_up(&found.into_iter().collect());
        let [of, provider] = [of, "network"].map(|id| LogicalCluster::parse(id).unwrap());
        let name = ExportName::parse("network.example.com").unwrap();
        assert_eq!(grants.acceptance(&of, &provider, &name), expected, "{accept} {claims:?}: {of}");
        assert_eq!(grants.grants(&of, &provider, &name), expected != Refused);
    }
}

/// The administrator of a workspace can write any annotation, also one that can't be a path.
#[test]
fn a_workspace_without_a_claim_is_accepted_only_while_it_may_be_at_an_accepted_path() {
    use Acceptance::{Accepted, Assumed, Refused};
    for (accept, found, expected) in [
        // No path was looked up, or not every one.
        ("root:compute", &[][..], Assumed),
        ("root:compute, root:b", &[("root:compute", "compute")], Assumed),
        // Every accepted path is another workspace's, or nobody's.
        ("root:compute", &[("root:compute", "compute")], Refused),
        ("root:compute, root:b", &[("root:compute", "compute"), ("root:b", "")], Refused),
        // One accepted path is that of the workspace.
        ("root:compute", &[("root:compute", "evil")], Accepted),
        ("root:compute, root:b", &[("root:b", "evil")], Accepted),
        // Any workspace may be below a path, unless nothing is there. No workspace is below itself.
        ("root:team:*", &[("root:team", "team")], Assumed),
        ("root:team:*", &[], Assumed),
        ("root:team:*", &[("root:team", "")], Refused),
        ("root:team:*", &[("root:team", "evil")], Refused),
        ("root:team:*, root:team:a", &[("root:team:a", "evil")], Accepted),
        // A path that another provider accepts shows as well where the workspace is.
        ("root:compute", &[("root:else", "evil")], Refused),
        ("root:team:*", &[("root:team:a:b", "evil")], Accepted),
        // Entries without a path.
        ("clusters/evil", &[], Accepted),
        ("clusters/compute", &[], Refused),
        ("clusters/compute, root:a", &[("root:a", "")], Refused),
        ("*", &[], Accepted),
        ("", &[], Refused),
    ] {
        let found = found
            .iter()
            .map(|(path, cluster)| (WorkspacePath::parse(path).unwrap(), LogicalCluster::parse(cluster).ok()));
        let found = found.collect();
        let mut unannotated = binding("evil", "");
        unannotated["metadata"]["annotations"].as_object_mut().unwrap().remove("kcp.io/path");
        for pathless in [unannotated, binding("evil", ""), binding("evil", "root/Compute!")] {
            let grants = RuleGrants::read([&export(Some(accept))], [&pathless]).looked_up(&found);
            let [of, provider] = ["evil", "network"].map(|id| LogicalCluster::parse(id).unwrap());
            let name = ExportName::parse("network.example.com").unwrap();
            assert_eq!(grants.acceptance(&of, &provider, &name), expected, "{accept} {found:?} {pathless}");
        }
    }
}

#[test]
fn of_several_bindings_those_with_a_path_make_the_claim() {
    let bindings = [binding("evil", ""), binding("evil", "root:evil")];
    let grants = RuleGrants::read([&export(Some("root:compute"))], &bindings);
    let [of, provider] = ["evil", "network"].map(|id| LogicalCluster::parse(id).unwrap());
    let name = ExportName::parse("network.example.com").unwrap();
    assert_eq!(grants.acceptance(&of, &provider, &name), Acceptance::Refused);
}

#[test]
fn the_accepted_paths_are_looked_up_for_a_workspace_without_a_claim() {
    let bindings = [binding("evil", ""), binding("compute", "root:compute"), binding("liar", "root:compute")];
    let told = |accept: &str, of: &str| {
        let grants = RuleGrants::read([&export(Some(accept))], &bindings);
        let claims = grants.claims([&LogicalCluster::parse(of).unwrap()]);
        claims.into_iter().map(|(path, by)| (path.to_string(), by.len())).collect::<Vec<_>>()
    };
    let both = [("root:compute".to_owned(), 2), ("root:team".to_owned(), 0)];
    assert_eq!(told("root:compute, root:team:*, clusters/c, *", "evil"), both);
    assert_eq!(told("root:else", "compute"), both[..1]);
    assert_eq!(told("root:else", "unbound"), []);
    // No provider has depguard look up paths by the thousands.
    let many: Vec<_> = (0..=MAX_ACCEPTED_LOOKUPS).map(|number| format!("root:w{number}")).collect();
    assert_eq!(told(&many.join(","), "evil").len(), MAX_ACCEPTED_LOOKUPS);
}

#[test]
fn the_claims_of_a_workspace_are_told_with_all_who_share_them() {
    let bindings = [binding("a", "root:a"), binding("evil", "root:a"), binding("b", "root:b")];
    let grants = RuleGrants::read([], &bindings);
    let told = |of: &str| {
        let claims = grants.claims([&LogicalCluster::parse(of).unwrap()]).into_iter();
        claims.map(|(path, by)| format!("{path} {by:?}")).collect::<Vec<_>>()
    };
    assert_eq!(told("evil"), [r#"root:a {LogicalCluster("a"), LogicalCluster("evil")}"#]);
    assert_eq!(told("b"), [r#"root:b {LogicalCluster("b")}"#]);
    assert_eq!(told("c"), [""; 0]);
}

#[test]
fn an_edge_without_a_grant_is_not_in_the_set_and_the_others_are() {
    use crate::{ControlPlane, RuleSet};
    let target = |path: &str, resource: &str| {
        json!({
            "apiExportRef": {"path": path, "name": "network.example.com"}, "group": "network.example.com",
            "version": "v1", "resource": resource, "fieldRef": {"path": ".spec.ref"},
        })
    };
    let mut rule = json!({
        "metadata": {"name": "r", "annotations": {"kcp.io/cluster": "compute"}},
        "spec": {
            "dependent": {"group": "a.example.com", "version": "v1", "kind": "A", "resource": "as", "apiExportName": "a"},
            "dependencies": [target("root:closed", "vpcs"), target("root:open", "subnets")],
        },
    });
    for broken in [false, true] {
        if broken {
            rule["spec"]["novelty"] = json!(true);
        }
        let set = RuleSet::load(ControlPlane::Kcp, [&rule]).retain_accepted(|rule, export| {
            assert_eq!(rule.name, "r");
            export.path.as_str() != "root:closed"
        });
        assert!(!set.names("network.example.com", "vpcs"));
        assert!(set.names("network.example.com", "subnets"));
    }
}
