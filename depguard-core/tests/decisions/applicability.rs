//! Tests of which rules apply to a deletion.

use depguard_core::decision::AllowReason::*;
use depguard_core::{ControlPlane, Rule, Workspaces};
use serde_json::{Value, json};

use crate::cast::*;
use crate::world::*;

/// Changes the bindings or the rule of a world where the rule about VMs and VPCs applies. After each single change, the
/// rule applies no longer.
#[test]
fn a_rule_bears_only_where_both_its_ends_are_bound_from_its_providers() {
    let applying = bound().with(vm("ns", "m1", "a"));
    applying.deletes(&vpc("ns", "a")).blocked_by(&["VirtualMachine/m1"]);
    for (at, pointer, value) in [
        // The target's binding has another provider, another export, or another kind.
        (2, "/status/apiExportClusterName", json!("an0ther")),
        (2, "/status/apiExportClusterName", json!(null)),
        (2, "/status/boundResources", json!([])),
        (2, "/status/boundResources", json!(null)),
        (2, "/status/boundResources/0/resource", json!("subnets")),
        (2, "/status/boundResources/0/group", json!("other.example.com")),
        (2, "/spec/reference/export/name", json!("other.example.com")),
        (2, "/status", json!({})),
        // The dependent's binding likewise.
        (0, "/status/apiExportClusterName", json!("an0ther")),
        (0, "/status/boundResources/0/resource", json!("disks")),
        (0, "/status/boundResources/0/group", json!("other.example.com")),
        (0, "/spec/reference/export/name", json!("other.example.com")),
    ] {
        let world = applying.but(|world| set(&mut world.bindings[at], pointer, value.clone()));
        world.deletes(&vpc("ns", "a")).asked(&[BINDINGS]).allowed(NotBound);
    }
    for (pointer, value) in [
        ("/metadata/annotations/kcp.io~1cluster", "an0ther"),
        ("/spec/dependent/apiExportName", "other.example.com"),
        ("/spec/dependencies/0/apiExportRef/name", "other.example.com"),
        ("/spec/dependencies/0/apiExportRef/path", "root:elsewhere"),
    ] {
        ruled(&applying, pointer, value).deletes(&vpc("ns", "a")).asked(&[BINDINGS]).allowed(NotBound);
    }
}

#[test]
fn bindings_count_on_whichever_page_they_stand() {
    let world = bound().with(vm("ns", "m1", "a")).but(|world| world.page = 1);
    let outcome = world.deletes(&vpc("ns", "a"));
    assert_eq!(outcome.asked.len(), 5);
    outcome.blocked_by(&["VirtualMachine/m1"]);
    world.but(|world| drop(world.bindings.remove(2))).deletes(&vpc("ns", "a")).allowed(NotBound);
}

#[test]
fn one_binding_may_bind_both_ends() {
    let applying = bound().with(vm("ns", "m1", "a")).but(|world| {
        world.rules = vec![rule(NETWORK, VM, ".spec.vpcRef.name", PROVIDER, VPC)];
        set(&mut world.rules[0], "/spec/dependent/apiExportName", NETWORK_GROUP.into());
        world.bindings.drain(..2);
    });
    applying.deletes(&vpc("ns", "a")).allowed(NotBound);
    let both = json!([
        {"group": NETWORK_GROUP, "resource": "vpcs"}, {"group": COMPUTE_GROUP, "resource": "virtualmachines"},
    ]);
    applying
        .but(|world| set(&mut world.bindings[0], "/status/boundResources", both))
        .deletes(&vpc("ns", "a"))
        .blocked_by(&["VirtualMachine/m1"]);
}

#[test]
fn an_export_deleted_while_its_binding_stands_still_protects() {
    // Nobody knows the export's workspace any more: the path in the binding decides.
    let forgotten = bound().with(vm("ns", "m1", "a")).but(|world| world.workspaces = Workspaces::new());
    forgotten.deletes(&vpc("ns", "a")).blocked_by(&["VirtualMachine/m1"]);
    let says = |path: Value| forgotten.but(|world| set(&mut world.bindings[2], "/spec/reference/export/path", path));
    says(json!("root:elsewhere")).deletes(&vpc("ns", "a")).allowed(NotBound);
    says(json!(NETWORK)).deletes(&vpc("ns", "a")).blocked_by(&["VirtualMachine/m1"]);
    says(json!(null)).deletes(&vpc("ns", "a")).blocked_by(&["VirtualMachine/m1"]);
}

#[test]
fn a_rule_of_an_unrelated_workspace_changes_nothing() {
    // The path is `.metadata.name` of the target itself. Only its UID and the foreign workspace keep a VPC from being
    // its own dependent.
    let stranger = rule("strang3r", VPC, ".metadata.name", PROVIDER, VPC);
    let world = bound().with(vpc("ns", "a").set("/metadata/uid", "namesake")).but(|world| world.rules = vec![stranger]);
    world.deletes(&vpc("ns", "a")).asked(&[BINDINGS]).allowed(NotBound);
    let own = rule(NETWORK, VPC, ".metadata.name", PROVIDER, VPC);
    world.but(|world| world.rules = vec![own]).deletes(&vpc("ns", "a")).blocked_by(&["VPC/a"]);
}

#[test]
fn a_local_rule_bears_in_its_own_workspace_alone() {
    let own = local(CONSUMER).with(pod("ns", "p", "a"));
    own.deletes(&config("ns", "a")).asked(&[PODS]).blocked_by(&["Pod/p"]);
    own.deletes(&config("ns", "b")).allowed(Unreferenced);
    local("an0ther").with(pod("ns", "p", "a")).deletes(&config("ns", "a")).asked(&[]).allowed(NotBound);
}

#[test]
fn a_rule_with_one_local_end_bears_in_its_own_workspace_alone() {
    let on_local_target = |cluster| {
        let mut rule = local_rule(cluster, VM, ".spec.configRef", CONFIG);
        rule["spec"]["dependent"]["apiExportName"] = COMPUTE_GROUP.into();
        let object = Object::new(VM, "ns", "m1").set("/spec/configRef", "a");
        bound().with(object).but(|world| {
            world.rules = vec![rule];
            world.bindings[0]["status"]["apiExportClusterName"] = cluster.into();
        })
    };
    on_local_target(CONSUMER).deletes(&config("ns", "a")).blocked_by(&["VirtualMachine/m1"]);
    on_local_target(CONSUMER).deletes(&config("ns", "b")).allowed(Unreferenced);
    on_local_target("an0ther").deletes(&config("ns", "a")).allowed(NotBound);

    let on_local_dependent = |cluster| {
        let mut rule = rule(cluster, POD, ".spec.configRef", PROVIDER, VPC);
        rule["spec"]["dependent"].as_object_mut().unwrap().remove("apiExportName");
        bound().with(pod("ns", "p", "a")).but(|world| world.rules = vec![rule])
    };
    on_local_dependent(CONSUMER).deletes(&vpc("ns", "a")).asked(&[BINDINGS, PODS]).blocked_by(&["Pod/p"]);
    on_local_dependent(CONSUMER).deletes(&vpc("ns", "b")).allowed(Unreferenced);
    on_local_dependent("an0ther").deletes(&vpc("ns", "a")).allowed(NotBound);
}

/// Returns edits that make a rule unusable, each with a part of the message that follows.
fn breaks() -> [(&'static str, Value, &'static str); 21] {
    [
        ("/spec/dependencies/0/onDelete", json!("Maybe"), "unknown variant `Maybe`"),
        ("/spec/failurePolicy", json!("ignore"), "unknown variant `ignore`"),
        // A broken part that would have narrowed the rule: the rule refuses as if it were not narrowed.
        ("/spec/dependent/selector", json!({"matchLabels": {"a b": "c"}}), "spec.dependent.selector"),
        ("/spec/dependencies/0/fieldRef/namespace", json!("No/Name"), "fieldRef.namespace"),
        (
            "/spec/dependencies/0/fieldRef/namespacePath",
            json!(".spec.all[*].namespace"),
            "lacks: each reference may have at most one value",
        ),
        (
            "/spec/dependencies/0/fieldRef/kindPath",
            json!(".spec.vpcRef.kind"),
            "depguard compares fieldRef.kindPath or fieldRef.kindPattern with it",
        ),
        ("/spec/dependencies/0/fieldRef/pattern", json!("("), "fieldRef.pattern"),
        ("/spec/dependencies/0/when", json!({"path": ".spec.state", "in": []}), "when.in is empty"),
        ("/spec/dependencies/0/when", json!({"path": ".spec.state", "notIn": []}), "when.notIn is empty"),
        ("/spec/dependencies/0/when", json!({"path": ".spec.state"}), "when.in is missing: write it or notIn"),
        (
            "/spec/dependencies/0/when",
            json!({"path": ".spec.state", "in": ["a"], "notIn": ["b"]}),
            "when.notIn can't be combined with in",
        ),
        (
            "/spec/dependencies/0/when",
            json!({"path": ".spec.state", "in": ["a"], "and": [{"path": ".spec.a"}]}),
            "when.and[0].in is missing",
        ),
        (
            "/spec/dependencies/0/when",
            json!({"path": ".spec.state", "in": ["a"], "and": vec![json!({"path": ".spec.a", "in": ["a"]}); 5]}),
            "when.and has more than 4 conditions",
        ),
        (
            "/spec/dependencies/0/when",
            json!({"path": ".spec.state", "in": [1.5]}),
            "expected a string, a boolean or an integer",
        ),
        ("/spec/dependencies/0/message", json!("{who}"), "`{who}`"),
        ("/spec/selector", json!({}), "selector"),
        ("/spec/dependencies/0/fieldRef/path", json!(".spec..name"), "at offset 6"),
        ("/spec/dependent/version", json!("latest"), "spec.dependent.version"),
        ("/spec/dependencies/1", json!({}), "spec.dependencies[1].group is missing: write it"),
        (
            "/spec/dependencies/1",
            json!({"group": "example.com", "version": "v1", "kind": "Zone", "fieldRef": {"path": ".spec.zone"}}),
            "spec.dependencies[1].resource is missing: write the plural name of Zone that `kubectl api-resources` prints",
        ),
        (
            "/spec/dependencies/1",
            json!({"group": "example.com", "version": "v1", "fieldRef": {"path": ".spec.zone"}}),
            "spec.dependencies[1].resource is missing: write the plural name of the kind that `kubectl api-resources`",
        ),
    ]
}

#[test]
fn a_broken_rule_refuses_where_it_would_bear_and_nowhere_else() {
    for (pointer, value, part) in breaks() {
        let broken = |world: World| {
            world.but(|world| {
                if pointer.ends_with("/1") {
                    world.rules[0]["spec"]["dependencies"].as_array_mut().unwrap().push(json!(null));
                }
                set(&mut world.rules[0], pointer, value.clone());
            })
        };
        let world = broken(bound());
        world.deletes(&vpc("ns", "a")).asked(&[BINDINGS]).undecided(part);
        world.deletes(&zone("a")).allowed(NoRule);
        world.but(|world| drop(world.bindings.remove(0))).deletes(&vpc("ns", "a")).allowed(NotBound);
        world.but(|world| drop(world.bindings.remove(2))).deletes(&vpc("ns", "a")).allowed(NotBound);

        broken(plain()).deletes(&vpc("ns", "a")).undecided(part);
        broken(local(CONSUMER)).deletes(&config("ns", "a")).undecided(part);
        broken(local("an0ther")).deletes(&config("ns", "a")).allowed(NotBound);
    }
}

#[test]
fn a_rule_of_the_older_form_refuses_and_says_what_to_write() {
    let old = bound().but(|world| {
        let dependent = world.rules[0]["spec"]["dependent"].as_object_mut().unwrap();
        dependent.remove("apiExportName");
        dependent.insert("apiExportRef".into(), json!({"path": "root:providers:compute", "name": COMPUTE_GROUP}));
    });
    old.deletes(&vpc("ns", "a")).undecided("write `apiExportName: compute.example.com` instead");
    old.but(|world| drop(world.bindings.remove(0))).deletes(&vpc("ns", "a")).allowed(NotBound);
}

#[test]
fn a_rule_without_a_resource_says_where_to_write_what() {
    let mut rule = bound().rules.remove(0);
    for resource in [None, Some(json!(null))] {
        let dependent = rule["spec"]["dependent"].as_object_mut().unwrap();
        dependent.remove("resource");
        dependent.extend(resource.map(|resource| ("resource".to_owned(), resource)));
        let error = Rule::parse(ControlPlane::Kcp, &rule).unwrap_err();
        assert_eq!(error.field(), Some("spec.dependent.resource"));
        assert_eq!(
            error.to_string(),
            "spec.dependent.resource is missing: write the plural name of VirtualMachine that `kubectl api-resources` \
             prints"
        );
    }
}

#[test]
fn a_broken_rule_does_not_hide_what_others_find() {
    let broken = rule(COMPUTE, VM, "spec..", PROVIDER, VPC);
    let world = bound().with(vm("ns", "m1", "a")).but(|world| world.rules.push(broken));
    let outcome = world.deletes(&vpc("ns", "a"));
    let denial = outcome.decision.denial().expect("denied");
    assert!(denial.message().contains("still referenced by VirtualMachine/m1; could not find out what else"));
    world.deletes(&vpc("ns", "b")).undecided("spec.dependencies[0].fieldRef.path");
}

#[test]
fn a_null_in_a_broken_rule_is_a_field_left_out() {
    // Both ends are local then, as in a rule that can be used.
    for pointer in
        ["/spec/dependent/apiExportName", "/spec/dependent/apiExportRef", "/spec/dependencies/0/apiExportRef"]
    {
        for cluster in [CONSUMER, "an0ther"] {
            let null = ruled(&local(cluster), pointer, json!(null)).with(pod("ns", "p", "a"));
            let broken = ruled(&null, "/spec/dependencies/0/fieldRef/path", "spec..");
            let (null, broken) = (null.deletes(&config("ns", "a")), broken.deletes(&config("ns", "a")));
            if cluster == CONSUMER {
                null.blocked_by(&["Pod/p"]);
                broken.undecided("at offset 5");
            } else {
                null.allowed(NotBound);
                broken.allowed(NotBound);
            }
        }
    }
}

#[test]
fn an_export_named_in_a_plain_cluster_refuses() {
    plain().deletes(&vpc("ns", "a")).allowed(Unreferenced);
    for (pointer, value, part) in [
        ("/spec/dependent/apiExportName", json!(COMPUTE_GROUP), "spec.dependent.apiExportName is set"),
        ("/spec/dependencies/0/apiExportRef", json!({"path": PROVIDER, "name": NETWORK_GROUP}), "has no APIExports"),
        ("/spec/dependencies/0/apiExportRef", json!({"path": "No/Path", "name": ""}), "has no APIExports"),
        ("/spec/dependent/apiExportRef", json!({"path": PROVIDER, "name": COMPUTE_GROUP}), "was replaced"),
    ] {
        let world = ruled(&plain(), pointer, value);
        world.deletes(&vpc("ns", "a")).asked(&[]).undecided(part);
        world.deletes(&zone("a")).allowed(NoRule);
    }
}
