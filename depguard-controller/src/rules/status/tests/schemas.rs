//! Statuses of rules, by the kinds that the rules name.

use super::*;
use crate::testing::{kind, looking};

#[test]
fn a_path_that_leads_nowhere_is_named_and_one_in_an_open_schema_is_noted() {
    let with_path = |path: &str| {
        let mut rule = vm_to_vpc();
        rule["spec"]["dependencies"][0]["fieldRef"]["path"] = json!(path);
        Setting::from_rule(rule)
    };
    assert_eq!(
        with_path(".spec.vpcRef.nam").condition("Accepted"),
        "False FieldNotFound: spec.dependencies[0].fieldRef.path does not fit virtualmachines.compute.example.com \
         v1alpha1: `.spec.vpcRef` has no field `nam`: it has `name`, `port`"
    );
    assert!(with_path(".spec.vpcRef.port").condition("Accepted").starts_with("False FieldNotFound: "));
    let said = with_path(".spec.open.vpc").condition("Accepted");
    assert!(
        said.starts_with("True Accepted: the rule is well formed; spec.dependencies[0].fieldRef.path could not"),
        "{said}"
    );
    // The rule is in force all the same.
    assert!(with_path(".spec.vpcRef.nam").condition("Programmed").starts_with("True "));
    assert_eq!(
        with_path(".spec.vpcRef.nam").condition("Enforced"),
        "False NotEnforceable: spec.dependencies[0] can't find the dependents that it means: see the condition Accepted"
    );
    let target = &with_path(".spec.open.vpc").changed()[0]["status"]["targets"][0];
    assert_eq!((&target["lookup"], target.get("hint")), (&json!("NamespaceScan"), None));

    let mut rule = vm_to_vpc();
    rule["spec"]["dependencies"][0]["fieldRef"]["uidPath"] = json!(".spec.vpcRef.uid");
    let said = Setting::from_rule(rule).condition("Accepted");
    assert!(said.contains("spec.dependencies[0].fieldRef.uidPath does not fit"), "{said}");
}

#[test]
fn a_default_kind_that_is_another_than_the_schemas_is_no_well_formed_rule() {
    let accepted = |default: &str, kind: &str| {
        let mut rule = vm_to_vpc();
        rule["spec"]["dependencies"][0]["kind"] = json!(kind);
        rule["spec"]["dependencies"][0]["fieldRef"] =
            json!({"path": ".spec.peer.name", "kindPath": ".spec.peer.kind", "defaultKind": default});
        Setting::from_rule(rule).condition("Accepted")
    };
    let said = accepted("VPC", "VPC");
    assert!(
        said.starts_with("False OtherDefaultKind: spec.dependencies[0].fieldRef.defaultKind is VPC, but"),
        "{said}"
    );
    assert!(said.ends_with("write `defaultKind: Peer`"), "{said}");
    // The kind of the dependency itself may well be another one.
    assert!(accepted("Peer", "VPC").starts_with("True Accepted"));
}

#[test]
fn fields_that_a_selector_may_have_and_the_rule_does_not_name_are_noted() {
    let accepted = |narrowed_by: &[&str]| {
        let mut rule = vm_to_vpc();
        let dependency = rule["spec"]["dependencies"][0].as_object_mut().unwrap();
        dependency.remove("fieldRef");
        dependency.insert("selectorRef".to_owned(), json!({"path": ".spec.peer", "narrowedBy": narrowed_by}));
        Setting::from_rule(rule).condition("Accepted")
    };
    let said = accepted(&["kind"]);
    assert!(
        said.starts_with("True Accepted: the rule is well formed; a selector at `.spec.peer` may have `name`: "),
        "{said}"
    );
    assert_eq!(accepted(&["kind", "name"]), "True Accepted: the rule is well formed");
}

#[test]
fn a_condition_that_can_never_hold_keeps_a_rule_from_being_enforced() {
    let with = |field: fn(&mut Value) -> &mut Value, path: &str| {
        let mut setting = super::interlocked::in_order_for(super::interlocked::SETTLING);
        *field(&mut setting.rules[0]["spec"]["dependencies"]) = json!(path);
        ["Accepted", "Enforced", "Interlocked"].map(|type_| setting.condition(type_))
    };
    let when = |path: &str| {
        with(
            |dependencies| {
                dependencies[0]["when"] = json!({"in": ["true"]});
                &mut dependencies[0]["when"]["path"]
            },
            path,
        )
    };
    let namespace = |path: &str| with(|dependencies| &mut dependencies[0]["fieldRef"]["namespacePath"], path);
    for conditions in [when(".spec.vpcRef.nmae"), when(".spec.vpcRef.port"), namespace(".spec.vpcRef.nmae")] {
        let [accepted, enforced, interlocked] = conditions;
        assert!(accepted.starts_with("False FieldNotFound: "), "{accepted}");
        let blind = "spec.dependencies[0] can't find the dependents that it means: see the condition Accepted";
        assert_eq!(enforced, format!("False NotEnforceable: {blind}"));
        assert_eq!(interlocked, format!("False NotEnforced: the rule is not enforced: {blind}"));
    }
    // What a schema leaves open can't be known.
    for conditions in [when(".spec.vpcRef.name"), when(".spec.open.state"), namespace(".spec.vpcRef.name")] {
        for condition in conditions {
            assert!(condition.starts_with("True "), "{condition}");
        }
    }
    // One blind dependency beside another is enough: the rule doesn't do what it says.
    let mut setting = Setting::from_rule(vm_to_vpc());
    let mut second = setting.rules[0]["spec"]["dependencies"][0].clone();
    second["when"] = json!({"path": ".spec.vpcRef.port", "in": ["80"]});
    setting.rules[0]["spec"]["dependencies"].as_array_mut().unwrap().push(second);
    let said = setting.condition("Enforced");
    assert!(said.starts_with("False NotEnforceable: spec.dependencies[1] can't find"), "{said}");
    setting.rules[0]["spec"]["dependencies"][1]["when"]["path"] = json!(".spec.vpcRef.name");
    assert!(setting.condition("Enforced").starts_with("True "));
}

#[test]
fn a_kind_that_is_not_served_so_is_named() {
    let said = |resource: &'static str, seen: KindState| {
        let setting = Setting { seen: vec![(resource, seen)], ..Setting::from_rule(vm_to_vpc()) };
        setting.condition("ResolvedRefs")
    };
    assert_eq!(
        said("virtualmachines", KindState::NotServed),
        "False KindNotFound: there is no virtualmachines.compute.example.com v1alpha1: correct the group, version and \
         resource of spec.dependent"
    );
    assert_eq!(
        said("vpcs", facts("vpcs", |facts| facts.served = vec!["v1".to_owned(), "v2".to_owned()])),
        "False KindNotFound: vpcs.network.example.com is not served in version v1alpha1, but in v1, v2: correct \
         spec.dependencies[0].version"
    );
    assert_eq!(
        said("virtualmachines", facts("virtualmachines", |facts| facts.kind = "Machine".to_owned())),
        "False KindNotFound: the kind of virtualmachines.compute.example.com v1alpha1 is Machine: correct \
         spec.dependent.kind"
    );
    assert!(
        said("vpcs", KindState::Unknown("500".to_owned()))
            .starts_with("Unknown Unknown: could not find out whether the API server serves vpcs")
    );
    let said_of_dependents =
        said("virtualmachines", facts("virtualmachines", |facts| facts.served = vec!["v1".to_owned()]));
    assert!(said_of_dependents.ends_with("until then, deletions of its targets are refused"), "{said_of_dependents}");
    let enforced = |resource: &'static str, seen: KindState| {
        Setting { seen: vec![(resource, seen)], ..Setting::from_rule(vm_to_vpc()) }.condition("Enforced")
    };
    let gone = "there is no vpcs.network.example.com v1alpha1: correct the group, version and resource of spec.dependencies[0]";
    assert_eq!(enforced("vpcs", KindState::NotServed), format!("False KindNotFound: {gone}"));
    assert!(
        enforced("virtualmachines", KindState::NotServed)
            .starts_with("False KindNotFound: there is no virtualmachines")
    );
    let older = |facts: &mut KindFacts| facts.served = vec!["v1".to_owned()];
    let said = enforced("virtualmachines", facts("virtualmachines", older));
    assert!(said.starts_with("False KindNotFound: virtualmachines.compute.example.com is not served in"), "{said}");
    // Each served version of a target is protected, and the kind's name is only for messages.
    assert!(enforced("vpcs", facts("vpcs", older)).starts_with("True Enforced"));
    let renamed = facts("virtualmachines", |facts| facts.kind = "Machine".to_owned());
    assert!(enforced("virtualmachines", renamed).starts_with("True Enforced"));
    assert!(enforced("vpcs", KindState::Unknown("500".to_owned())).starts_with("True Enforced"));
    let setting = Setting { seen: vec![("vpcs", KindState::NotServed)], ..Setting::from_rule(vm_to_vpc()) };
    assert!(setting.condition("Programmed").starts_with("True Programmed"), "a kind may come later");
    // Its paths are not checked either.
    let blind = Setting {
        seen: vec![("virtualmachines", KindState::Unknown("500".to_owned()))],
        ..Setting::from_rule(vm_to_vpc())
    };
    assert!(
        blind.condition("Accepted").starts_with("True Accepted: the rule is well formed; the paths were not checked")
    );

    let mut setting = Setting::from_rule(vm_to_vpc());
    setting.bindings[0]["spec"]["permissionClaims"][2]["state"] = json!("Rejected");
    let said = setting.condition("ResolvedRefs");
    assert!(
        said.starts_with(
            "Unknown ClaimNotAccepted: workspace root:compute has not accepted the claim on apiresourceschemas"
        ),
        "{said}"
    );
}

#[test]
fn a_rule_about_kinds_that_are_not_installed_sleeps() {
    let reasons = |seen: &[(&'static str, KindState)]| {
        let targets = [(NETWORK, "vpcs.network.example.com"), (NETWORK, "lans.network.example.com")];
        let mut rule = local(rule("ignored", "a", &targets));
        rule["spec"]["dependencies"][0]["kind"] = json!("VPC");
        let control_plane = ControlPlane::Kubernetes;
        let setting = Setting { control_plane, seen: seen.to_vec(), ..Setting::from_rule(rule) };
        ["ResolvedRefs", "Enforced"].map(|type_| {
            let said = setting.condition(type_);
            said.split_once(':').map(|(reason, _)| reason.to_owned()).unwrap()
        })
    };
    let (absent, missing) = (KindState::NotInstalled, KindState::NotServed);
    let other = facts("vpcs", |facts| facts.kind = "VirtualPrivateCloud".to_owned());
    let (dormant, wrong) = (["False Dormant"; 2], ["False KindNotFound"; 2]);
    assert_eq!(reasons(&[]), ["True ResolvedRefs", "True Enforced"]);
    assert_eq!(reasons(&[("virtualmachines", absent.clone())]), dormant);
    assert_eq!(reasons(&[("virtualmachines", absent.clone()), ("vpcs", absent.clone())]), dormant);
    assert_eq!(reasons(&[("vpcs", absent.clone()), ("lans", absent.clone())]), dormant);
    // What is left of it would have to protect something.
    assert_eq!(reasons(&[("vpcs", absent.clone())]), wrong);
    // A mistake beside it is one.
    assert_eq!(reasons(&[("virtualmachines", absent.clone()), ("lans", missing.clone())]), wrong);
    assert_eq!(reasons(&[("virtualmachines", absent.clone()), ("vpcs", other)]), wrong);
    assert_eq!(reasons(&[("virtualmachines", missing), ("vpcs", absent.clone()), ("lans", absent.clone())]), wrong);
    let unknown = KindState::Unknown("500".to_owned());
    assert_eq!(reasons(&[("virtualmachines", absent), ("vpcs", unknown)])[1], "False KindNotFound");
}

#[test]
fn what_lookups_cost_is_told() {
    let target = |edit: fn(&mut Value), of: &'static str, kind: fn(&mut KindFacts)| {
        let mut rule = vm_to_vpc();
        edit(&mut rule["spec"]["dependencies"][0]["fieldRef"]);
        let setting = Setting { seen: vec![(of, facts(of, kind))], ..Setting::from_rule(rule) };
        let target = setting.changed()[0]["status"]["targets"][0].clone();
        (target["lookup"].as_str().unwrap().to_owned(), target.get("hint").is_some())
    };
    let (scan, all) = ("NamespaceScan".to_owned(), "ClusterScan".to_owned());
    let selectable: fn(&mut KindFacts) =
        |kind| kind.selectable = vec![depguard_core::FieldPath::parse(".spec.vpcRef.name").unwrap()];
    let printed: fn(&mut KindFacts) =
        |kind| kind.printed = vec![depguard_core::FieldPath::parse(".spec.vpcRef.name").unwrap()];
    assert_eq!(target(|_| (), "virtualmachines", printed), ("Table".to_owned(), true));
    assert_eq!(target(|field| field["pattern"] = json!("a"), "virtualmachines", printed), (scan.clone(), false));
    let label: fn(&mut Value) = |field| field["path"] = json!(".metadata.labels.vpc");
    assert_eq!(target(label, "virtualmachines", printed), ("Metadata".to_owned(), false));
    assert_eq!(target(|_| (), "virtualmachines", selectable), ("FieldSelector".to_owned(), false));
    assert_eq!(target(|_| (), "vpcs", |kind| kind.namespaced = false), (all.clone(), true));
    assert_eq!(target(|_| (), "virtualmachines", |kind| kind.namespaced = false), (all.clone(), true));
    assert_eq!(target(|_| (), "virtualmachines", |kind| kind.is_custom = false), (scan.clone(), false));
    assert_eq!(target(|field| field["namespace"] = json!("a"), "vpcs", |_| ()), (all.clone(), true));
    assert_eq!(target(|field| field["namespacePath"] = json!(".spec.vpcRef.name"), "vpcs", |_| ()), (all, true));
    assert_eq!(target(|field| field["pattern"] = json!("a"), "virtualmachines", selectable), (scan, false));
}

#[test]
fn a_rule_about_what_nobody_is_asked_about_says_that_it_refuses_nothing() {
    let of = |kind: &str| {
        let rule = local(rule("ignored", "a", &[(NETWORK, kind)]));
        let group = kind.split_once('.').map_or("", |(_, group)| group);
        let mut rule = rule;
        rule["spec"]["dependencies"][0]["group"] = json!(group);
        Setting { control_plane: ControlPlane::Kubernetes, ..Setting::from_rule(rule) }
    };
    let setting = of("validatingwebhookconfigurations.admissionregistration.k8s.io");
    assert_eq!(
        setting.condition("Accepted"),
        "False NotReviewed: spec.dependencies[0] has no effect: \
         validatingwebhookconfigurations.admissionregistration.k8s.io configure admission, so API servers ask no webhook \
         about them"
    );
    let said = setting.condition("Enforced");
    assert!(
        said.starts_with("False NotEnforceable: the rule refuses no deletion: validatingwebhookconfigurations."),
        "{said}"
    );
    let said = of("tokenreviews.authentication.k8s.io").condition("Enforced");
    assert!(said.contains("are answers that are never stored"), "{said}");
    assert!(of("configmaps").condition("Enforced").starts_with("True "));
    // Kinds of mere answers can't refer to anything either; kinds that configure admission can.
    let mut answers = local(rule("ignored", "a", &[(NETWORK, "configmaps")]));
    for (group, resource, status) in [
        ("authentication.k8s.io", "tokenreviews", "False"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies", "True"),
    ] {
        answers["spec"]["dependent"]["group"] = json!(group);
        answers["spec"]["dependent"]["resource"] = json!(resource);
        let setting = Setting { control_plane: ControlPlane::Kubernetes, ..Setting::from_rule(answers.clone()) };
        assert!(setting.condition("Accepted").starts_with(status), "{resource}: {}", setting.condition("Accepted"));
    }
}

#[test]
fn a_kind_that_an_aggregated_server_serves_is_not_known_to_be_protected() {
    let said = |seen: &[(&'static str, Option<bool>)], on_missing: &str| {
        let mut setting = super::interlocked::in_order_for(super::interlocked::SETTLING);
        setting.control_plane = ControlPlane::Kubernetes;
        setting.rules =
            vec![looking(local(rule("ignored", "a", &[(NETWORK, "vpcs.network.example.com")])), on_missing)];
        setting.rules[0]["metadata"]["annotations"] = json!({});
        let of = |(resource, aggregated): &(&'static str, Option<bool>)| {
            (*resource, facts(resource, |facts| facts.is_aggregated = *aggregated))
        };
        setting.seen = seen.iter().map(of).collect();
        ["Enforced", "Interlocked"].map(|type_| setting.has(type_).then(|| setting.condition(type_)))
    };
    let is_true = |condition: &Option<String>| condition.as_ref().is_some_and(|said| said.starts_with("True "));
    let (vpcs, machines) = ("vpcs", "virtualmachines");
    let [enforced, interlocked] = said(&[(vpcs, Some(true))], "Deny");
    let why = "vpcs.network.example.com has no CustomResourceDefinition, so an aggregated API server serves it, which asks \
               webhooks only if it is set up to: try `kubectl delete --dry-run=server` of an object to which another one \
               refers, to which depguard answers if it is asked; for the controller to see it, create one of \
               vpcs.network.example.com named depguard-canary in namespace default with the label \
               dependencies.opendefense.cloud/canary: \"true\", and let the controller delete it (it only tries)";
    assert_eq!(enforced.unwrap(), format!("Unknown AggregatedServer: {why}"));
    assert_eq!(interlocked.unwrap(), format!("Unknown EnforcementUnknown: the rule is not enforced: {why}"));
    let [enforced, _] = said(&[(vpcs, None)], "Ignore");
    let enforced = enforced.unwrap();
    assert!(enforced.starts_with("Unknown AggregatedServer: an aggregated API server may serve vpcs."), "{enforced}");
    // References are checked when dependents are created and changed.
    for on_missing in ["Deny", "Warn", "Audit"] {
        let [enforced, interlocked] = said(&[(machines, Some(true))], on_missing);
        let enforced = enforced.unwrap();
        assert!(
            enforced.starts_with("Unknown AggregatedServer: virtualmachines.compute.example.com has no"),
            "{enforced}"
        );
        assert!(enforced.contains("kubectl create"), "{enforced}");
        assert!(!is_true(&interlocked), "{interlocked:?}");
    }
    // Dependents are only listed, which needs no review.
    assert!(is_true(&said(&[(machines, Some(true))], "Ignore")[0]));
    let well = said(&[(vpcs, Some(false)), (machines, Some(false))], "Deny");
    assert!(well.iter().all(is_true), "{well:?}");
    // What is known to be wrong comes first.
    let mut setting = Setting::from_rule(local(rule("ignored", "a", &[(NETWORK, "vpcs.network.example.com")])));
    setting.control_plane = ControlPlane::Kubernetes;
    setting.seen =
        vec![(vpcs, facts(vpcs, |facts| facts.is_aggregated = Some(true))), (machines, KindState::NotServed)];
    assert!(setting.condition("Enforced").starts_with("False KindNotFound: "));
}

#[test]
fn a_canary_shows_that_deletions_of_an_aggregated_servers_kind_are_reviewed() {
    let setting = |arriving: &[&str]| {
        let mut rule =
            rule("ignored", "a", &[(NETWORK, "vpcs.network.example.com"), (NETWORK, "lans.network.example.com")]);
        rule["metadata"]["annotations"] = json!({});
        let mut setting = Setting { control_plane: ControlPlane::Kubernetes, ..Setting::from_rule(local(rule)) };
        let aggregated = |resource| (resource, facts(resource, |facts| facts.is_aggregated = Some(true)));
        setting.seen = vec![aggregated("vpcs"), aggregated("lans")];
        setting.arriving = arriving.iter().map(|name| kind(name)).collect();
        setting
    };
    let both = ["vpcs.network.example.com", "lans.network.example.com"];
    for some in [&[][..], &both[..1], &both[1..], &["vms.compute.example.com"]] {
        let said = setting(some).condition("Enforced");
        assert!(said.starts_with("Unknown AggregatedServer: "), "{said}");
        for kind in both {
            assert_eq!(said.contains(&format!("{kind} has no")), !some.contains(&kind), "{said}");
        }
    }
    let well = setting(&both);
    assert!(well.condition("Enforced").starts_with("True Enforced: "));
    // A canary proves nothing of the creations by which dependents refer.
    let mut looking = setting(&both);
    looking.rules = looking.rules.into_iter().map(|rule| crate::testing::looking(rule, "Deny")).collect();
    looking.arriving.insert(kind("virtualmachines.compute.example.com"));
    assert!(looking.condition("Enforced").starts_with("True Enforced: "));
    looking.seen.push(("virtualmachines", facts("virtualmachines", |facts| facts.is_aggregated = Some(true))));
    assert!(looking.condition("Enforced").starts_with("Unknown AggregatedServer: virtualmachines."));
    // While no probe has a result, only what was said stays.
    let mut restarted = setting(&both);
    restarted.outstanding = Some(BTreeSet::new());
    assert!(restarted.condition("Enforced").starts_with("Unknown "));
    restarted.rules = well.changed();
    assert_eq!(restarted.changed(), Vec::<Value>::new());
}

#[test]
fn only_targets_of_aggregated_servers_have_canaries_beside_the_config_map() {
    let paths = |is_aggregated: Option<bool>, namespaced: bool| {
        let rule = local(rule("ignored", "a", &[(NETWORK, "vpcs.network.example.com")]));
        let mut setting = Setting { control_plane: ControlPlane::Kubernetes, ..Setting::from_rule(rule) };
        let of = |facts: &mut KindFacts| (facts.is_aggregated, facts.namespaced) = (is_aggregated, namespaced);
        setting.seen = vec![("vpcs", facts("vpcs", of)), ("virtualmachines", facts("virtualmachines", of))];
        setting.in_round(|input, plan, found| {
            let rule = &plan.rules[0];
            let named = NamedKinds::new(input, &found.kinds, rule, rule.rule().unwrap());
            named.canaries().into_iter().map(|(kind, path)| format!("{kind} {path}")).collect::<Vec<_>>()
        })
    };
    let api = "vpcs.network.example.com /apis/network.example.com/v1alpha1";
    assert_eq!(paths(Some(true), true), [format!("{api}/namespaces/default/vpcs/depguard-canary")]);
    assert_eq!(paths(Some(true), false), [format!("{api}/vpcs/depguard-canary")]);
    assert_eq!(paths(None, false), [format!("{api}/vpcs/depguard-canary")], "nobody can tell");
    assert_eq!(paths(Some(false), true), [""; 0]);
}
