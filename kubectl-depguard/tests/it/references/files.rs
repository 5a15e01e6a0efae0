//! `dangling` and `impact` on manifests.

use kubectl_depguard::ExitStatus;
use serde_json::Value;

use crate::tool::{Ran, depguard, write};

pub(crate) const RULES: &str = r"
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: vms}
spec:
  dependent: {apiExportName: compute, group: compute.example.com, version: v1, kind: VirtualMachine, resource: virtualmachines}
  dependencies:
  - apiExportRef: {path: root:net, name: net}
    group: network.example.com
    version: v1
    resource: vpcs
    fieldRef: {path: .spec.vpc, namespacePath: .spec.vpcNamespace}
  - {group: compute.example.com, version: v1, resource: zones, onDelete: Warn, onMissing: Deny, fieldRef: {path: .spec.zone}}
  - {group: network.example.com, version: v1, resource: vpcs, selectorRef: {path: .spec.peers}}
---
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: backups}
spec:
  dependent: {group: backup.example.com, version: v1, kind: Backup, resource: backups}
  dependencies:
  - {group: compute.example.com, version: v1, resource: virtualmachines, fieldRef: {path: '.spec.vms[*]'}}
  - {group: backup.example.com, version: v1, resource: backups, fieldRef: {path: .spec.previous}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: zones.compute.example.com},
 spec: {group: compute.example.com, scope: Cluster, names: {kind: Zone, plural: zones}, versions: [{name: v1, served: true, storage: true}]}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: vpcs.network.example.com},
 spec: {group: network.example.com, scope: Namespaced, names: {kind: VPC, plural: vpcs}, versions: [{name: v1, served: true, storage: true}]}}
";

pub(crate) const OBJECTS: &str = r"
{apiVersion: network.example.com/v1, kind: VPC, metadata: {name: a, namespace: x, labels: {tier: prod}}}
---
{apiVersion: compute.example.com/v1, kind: VirtualMachine, metadata: {name: m1, namespace: x}, spec: {vpc: a, zone: z}}
---
{apiVersion: compute.example.com/v1, kind: VirtualMachine, metadata: {name: m2, namespace: yy}, spec: {vpc: a, vpcNamespace: x, peers: {tier: none}}}
---
{apiVersion: compute.example.com/v1, kind: Zone, metadata: {name: z}}
---
{apiVersion: backup.example.com/v1, kind: Backup, metadata: {name: b1, namespace: x}, spec: {vms: [m1], previous: b2}}
---
{apiVersion: backup.example.com/v1, kind: Backup, metadata: {name: b2, namespace: x}, spec: {vms: [m1, m1], previous: b1}}
";

pub(crate) const MISSING: &str = r"
---
{apiVersion: compute.example.com/v1, kind: VirtualMachine, metadata: {name: m3, namespace: yy}, spec: {vpc: a, zone: nowhere}}
---
{apiVersion: compute.example.com/v1, kind: VirtualMachine, metadata: {name: m4, namespace: x}, spec: {vpc: 7, peers: {tier: none}}}
";

pub(crate) async fn ran(objects: &str, args: &[&str]) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "rules.yaml", RULES);
    write(folder.path(), "objects.yaml", objects);
    let path = folder.path().to_str().unwrap();
    let ran = depguard(&[args, &["-f", path]].concat()).await;
    Ran { out: ran.out.replace(path, "DIR"), ..ran }
}

/// Rule about jobs, whose mounts and sources say by a boolean if they may point to nothing.
const OPTIONAL: &str = r"
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: jobs}
spec:
  dependent: {group: batch.example.com, version: v1, kind: Job, resource: jobs}
  dependencies:
  - group: ''
    version: v1
    resource: secrets
    fieldRef: {path: '.spec.mounts[*].secret'}
    when: {path: '.spec.mounts[*].optional', notIn: [true]}
  - group: ''
    version: v1
    resource: secrets
    fieldRef: {path: '.spec.mounts[*].secret'}
    when: {path: '.spec.mounts[*].optional', in: [true]}
    optional: true
    onDelete: Warn
";

#[tokio::test]
async fn an_optional_reference_never_dangles_and_holds_its_target_as_it_says() {
    let answers = async |command: &str, mounts: &str| {
        let job = format!(
            "{{apiVersion: batch.example.com/v1, kind: Job, metadata: {{name: j, namespace: a}}, spec: {{mounts: [{mounts}]}}}}"
        );
        let secret = "{apiVersion: v1, kind: Secret, metadata: {name: there, namespace: a}}";
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "all.yaml", &format!("{OPTIONAL}---\n{job}\n---\n{secret}\n"));
        let args = command.split(' ').chain(["-f", folder.path().to_str().unwrap()]);
        depguard(&args.collect::<Vec<_>>()).await
    };
    for (mounts, missing) in [
        ("{secret: gone, optional: true}", None),
        ("{secret: gone, optional: true}, {secret: there}", None),
        ("{secret: gone}", Some("Secret/gone")),
        ("{secret: gone, optional: false}", Some("Secret/gone")),
        ("{secret: gone, optional: 'true'}", Some("Secret/gone")),
        ("{secret: other, optional: true}, {secret: gone, optional: false}", Some("Secret/gone")),
    ] {
        let ran = answers("dangling -o json", mounts).await;
        let expected = if missing.is_some() { ExitStatus::Finding } else { ExitStatus::Well };
        assert_eq!(ran.status, expected, "{mounts}: {ran:?}");
        let report: Value = serde_json::from_str(&ran.out).unwrap();
        let dangling = report["dangling"].as_array().unwrap().iter();
        let shown = |one: &Value| format!("Secret/{}", one["target"]["name"].as_str().unwrap());
        assert_eq!(dangling.map(shown).collect::<Vec<_>>(), Vec::from_iter(missing.map(str::to_owned)), "{mounts}");
    }
    for (mounts, status, says) in [
        ("{secret: there}", ExitStatus::Finding, "blocks"),
        ("{secret: there, optional: true}", ExitStatus::Well, "warns"),
    ] {
        let ran = answers("why secret there -n a", mounts).await;
        assert_eq!(ran.status, status, "{mounts}: {ran:?}");
        assert!(ran.out.contains("Job/j"), "{says}: {ran:?}");
    }
}

#[tokio::test]
async fn a_reference_dangles_if_and_only_if_what_it_names_is_not_there() {
    let none = ran(OBJECTS, &["dangling"]).await;
    assert_eq!((none.status, none.out.as_str()), (ExitStatus::Well, ""), "{none:?}");
    // Two VPCs, a zone, two VMs, two backups: two paths to one object are one reference, and selectors don't count.
    assert_eq!(none.err, "no dangling reference: 7 references checked\n");

    let objects = format!("{OBJECTS}{MISSING}");
    let some = ran(&objects, &["dangling"]).await;
    assert_eq!(some.status, ExitStatus::Finding, "{some:?}");
    assert_eq!(
        some.out,
        "MISSING TARGET   REFERENCES   DEPENDENT              FIELD       RULE\n\
         VPC/yy/a         1            VirtualMachine/yy/m3   spec.vpc    vms\n\
         Zone/nowhere     1            VirtualMachine/yy/m3   spec.zone   vms\n"
    );
    // However many refer to it, a missing target has one row, and each reference one elsewhere.
    let twins = [5, 6, 7, 8].map(|number| MISSING.replace("m3", &format!("m{number}")).replace("m4", "n"));
    let many = ran(&format!("{objects}{}", twins.concat()), &["dangling"]).await;
    let row = "Zone/nowhere     5            VirtualMachine/yy/m3, VirtualMachine/yy/m5, VirtualMachine/yy/m6, and 2 \
               more (all by -o json)   spec.zone   vms\n";
    assert!(many.out.ends_with(row) && many.out.lines().count() == 3, "{many:?}");
    let many = ran(&format!("{objects}{}", twins.concat()), &["dangling", "-o", "json"]).await;
    let many: Value = serde_json::from_str(&many.out).unwrap();
    assert_eq!(many["dangling"].as_array().unwrap().len(), 10, "{many}");
    let elsewhere = ran(&objects, &["dangling", "-n", "x"]).await;
    assert_eq!(elsewhere.status, ExitStatus::Well, "{elsewhere:?}");
    let names = ran(&objects, &["dangling", "-o", "name"]).await;
    assert_eq!(names.out, "virtualmachines.compute.example.com/m3\n", "{names:?}");
    let wide = ran(&objects, &["dangling", "-o", "wide"]).await;
    assert!(wide.out.contains("Zone/nowhere     zones.compute.example.com   Warn        Deny\n"), "{wide:?}");
    // Whoever applies the object is refused, though the target may be deleted with a warning.
    let sarif: Value = serde_json::from_str(&ran(&objects, &["dangling", "-o", "sarif"]).await.out).unwrap();
    assert_eq!(sarif["runs"][0]["results"][1]["level"], "error", "{sarif}");
    let json: Value = serde_json::from_str(&ran(&objects, &["dangling", "-o", "json"]).await.out).unwrap();
    assert_eq!(json["dangling"][0]["target"]["namespace"], "yy", "{json}");
    assert_eq!(
        (&json["dangling"][1]["onDelete"], &json["dangling"][1]["onMissing"], &json["lookedAt"]),
        (&"Warn".into(), &"Deny".into(), &9.into()),
        "{json}"
    );
}

#[tokio::test]
async fn a_rule_that_can_not_be_used_keeps_it_from_being_told() {
    let broken = OBJECTS.to_owned()
        + "---\n{apiVersion: dependencies.opendefense.cloud/v1alpha1, kind: DependencyRule, metadata: {name: bad}, spec: {}}\n";
    let told = ran(&broken, &["dangling"]).await;
    assert_eq!(told.status, ExitStatus::Failure, "{told:?}");
    assert!(told.err.contains("note: could not read rule bad") && told.err.contains("error: "), "{told:?}");
}

#[tokio::test]
async fn whoever_depends_on_an_object_is_a_tree() {
    let tree = ran(OBJECTS, &["impact", "vpc/a", "-n", "x"]).await;
    assert_eq!(tree.status, ExitStatus::Well, "{tree:?}");
    assert_eq!(
        tree.out,
        "\
VPC/x/a
├── VirtualMachine/x/m1   spec.vpc (rule vms)
│   ├── Backup/x/b1   spec.vms[*] (rule backups)
│   │   └── Backup/x/b2   spec.previous (rule backups)
│   │       └── Backup/x/b1   spec.previous (rule backups) … a cycle
│   └── Backup/x/b2   spec.vms[*] (rule backups) … as above
└── VirtualMachine/yy/m2   spec.vpc (rule vms)

4 objects depend on VPC/x/a: 2 Backup, 2 VirtualMachine
"
    );
    let zone = ran(OBJECTS, &["impact", "zone", "z"]).await;
    assert!(zone.out.starts_with("Zone/z\n└── VirtualMachine/x/m1   spec.zone (rule vms) [Warn]\n"), "{zone:?}");
    let names = ran(OBJECTS, &["impact", "zone", "z", "-o", "name"]).await;
    assert_eq!(
        names.out,
        "virtualmachines.compute.example.com/m1\nbackups.backup.example.com/b1\nbackups.backup.example.com/b2\n"
    );
    let json: Value = serde_json::from_str(&ran(OBJECTS, &["impact", "zone", "z", "-o", "json"]).await.out).unwrap();
    assert_eq!((&json["count"], &json["dependents"][0]["by"][0]["onDelete"]), (&3.into(), &"Warn".into()), "{json}");
    assert_eq!(json["dependents"][3]["again"], "Cycle", "{json}");
}

#[tokio::test]
async fn what_nobody_depends_on_and_what_is_not_there_are_told_apart() {
    let nobody = ran(OBJECTS, &["impact", "vm", "m2", "-n", "yy"]).await;
    assert_eq!(nobody.status, ExitStatus::Failure, "`vm` is no name of the kind: {nobody:?}");
    let nobody = ran(OBJECTS, &["impact", "virtualmachine", "m2", "-n", "yy"]).await;
    assert_eq!(nobody.status, ExitStatus::Well, "{nobody:?}");
    assert_eq!(nobody.out, "VirtualMachine/yy/m2\nnothing depends on VirtualMachine/yy/m2\n");
    let missing = ran(OBJECTS, &["impact", "vpc", "a", "-n", "yy"]).await;
    assert_eq!(missing.status, ExitStatus::Failure, "{missing:?}");
    assert!(missing.err.starts_with("error: there is no vpcs.network.example.com/a in namespace yy\n"), "{missing:?}");
    let all = ran(OBJECTS, &["impact", "vpc", "a", "-A"]).await;
    assert_eq!(all.status, ExitStatus::Failure, "{all:?}");
}

#[tokio::test]
async fn selectors_hold_what_they_select_and_never_dangle() {
    let more = r"
---
{apiVersion: compute.example.com/v1, kind: VirtualMachine, metadata: {name: m5, namespace: x}, spec: {peers: {tier: prod}}}
---
{apiVersion: compute.example.com/v1, kind: VirtualMachine, metadata: {name: m6, namespace: x}, spec: {peers: prod}}
---
{apiVersion: compute.example.com/v1, kind: VirtualMachine, metadata: {name: m7, namespace: x}, spec: {peers: {tier: test}}}
";
    let objects = format!("{OBJECTS}{more}");
    assert_eq!(ran(&objects, &["dangling"]).await.status, ExitStatus::Well);
    let tree = ran(&objects, &["impact", "vpc/a", "-n", "x"]).await;
    let selected = "├── VirtualMachine/x/m5   spec.peers (rule vms)\n";
    let unclear =
        "├── VirtualMachine/x/m6   spec.peers (rule vms) [unresolved: it has an invalid selector at `.spec.peers`";
    assert!(tree.out.contains(selected) && tree.out.contains(unclear) && !tree.out.contains("m7"), "{tree:?}");
}

#[tokio::test]
async fn an_object_that_refers_to_itself_neither_dangles_nor_depends_on_itself() {
    let itself = r"
---
{apiVersion: backup.example.com/v1, kind: Backup, metadata: {name: b3, namespace: x, uid: '1'}, spec: {previous: b3}}
";
    let objects = format!("{OBJECTS}{itself}");
    assert_eq!(ran(&objects, &["dangling"]).await.status, ExitStatus::Well);
    let tree = ran(&objects, &["impact", "backup", "b3", "-n", "x"]).await;
    assert!(tree.out.ends_with("nothing depends on Backup/x/b3\n"), "{tree:?}");
}

#[tokio::test]
async fn yaml_says_what_json_says() {
    let objects = format!("{OBJECTS}{MISSING}");
    for command in [&["dangling"][..], &["impact", "zone", "z"]] {
        let json = ran(&objects, &[command, &["-o", "json"]].concat()).await;
        let yaml = ran(&objects, &[command, &["-o", "yaml"]].concat()).await;
        let json: Value = serde_json::from_str(&json.out).unwrap();
        assert_eq!(serde_saphyr::from_str::<Value>(&yaml.out).unwrap(), json, "{}", yaml.out);
    }
}

#[tokio::test]
async fn an_object_without_a_namespace_is_shown_without_one_whatever_its_file_says() {
    let objects = OBJECTS.replace("{name: z}", "{name: z, namespace: x}");
    for command in [
        "impact zone z",
        "why zone z",
        "trace virtualmachine m1 -n x",
        "graph --objects",
        "graph --objects -o mermaid",
        "order",
        "order -o json",
        "unused",
        "dangling --coverage",
        "impact zone z -o json",
    ] {
        let words: Vec<_> = command.split(' ').collect();
        let (expected, told) = (ran(OBJECTS, &words).await, ran(&objects, &words).await);
        assert_eq!((told.status, told.out), (expected.status, expected.out), "{command} {}", told.err);
        assert!(expected.status != ExitStatus::Failure, "{command} {}", expected.err);
    }
    // What nothing defines has no namespace either where no object of the kind names one.
    const UNDEFINED: &str = r"
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: apps}
spec:
  dependent: {group: app.example.com, version: v1, kind: App, resource: apps}
  dependencies: [{group: plan.example.com, version: v1, resource: plans, fieldRef: {path: .spec.plan}}]
---
{apiVersion: app.example.com/v1, kind: App, metadata: {name: a, namespace: x}, spec: {plan: gone}}
---
{apiVersion: plan.example.com/v1, kind: Plan, metadata: {name: there}}
";
    let told = ran(&format!("{OBJECTS}---{UNDEFINED}"), &["dangling", "-n", "x"]).await;
    assert!(told.status == ExitStatus::Finding && told.out.contains("\nPlan/gone "), "{told:?}");
    let namespaced = UNDEFINED.replace("{name: there}", "{name: there, namespace: other}");
    let told = ran(&format!("{OBJECTS}---{namespaced}"), &["dangling", "-n", "x"]).await;
    assert!(told.status == ExitStatus::Finding && told.out.contains("\nPlan/x/gone "), "{told:?}");
}

#[tokio::test]
async fn a_namesake_made_anew_is_not_what_was_meant() {
    let by_uid = r"
---
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: claims}
spec:
  dependent: {group: claim.example.com, version: v1, kind: Claim, resource: claims}
  dependencies:
  - {group: network.example.com, version: v1, resource: vpcs, fieldRef: {path: .spec.vpc, uidPath: .spec.uid}}
---
{apiVersion: network.example.com/v1, kind: VPC, metadata: {name: b, namespace: x, uid: new}}
---
{apiVersion: claim.example.com/v1, kind: Claim, metadata: {name: c, namespace: x}, spec: {vpc: b, uid: old}}
";
    let dangling = ran(&format!("{OBJECTS}{by_uid}"), &["dangling"]).await;
    assert_eq!(dangling.status, ExitStatus::Finding, "{dangling:?}");
    assert!(
        dangling.out.contains("VPC/x/b with UID old   1            Claim/x/c   spec.vpc   claims\n"),
        "{dangling:?}"
    );
}

#[tokio::test]
async fn where_nothing_was_looked_at_nothing_is_well() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(path("empty/below")).unwrap();
    std::fs::create_dir_all(path("rules")).unwrap();
    std::fs::create_dir_all(path("objects")).unwrap();
    write(&path("empty/below"), "all.yaml", &format!("{RULES}---{OBJECTS}"));
    write(&path("rules"), "rules.yaml", RULES);
    write(&path("objects"), "objects.yaml", OBJECTS);
    let (empty, rules, objects) = (path("empty"), path("rules"), path("objects"));
    for command in [&["dangling"][..], &["order"], &["graph", "--objects"], &["graph"]] {
        for (folders, said) in [
            (&[&empty][..], "the files contain no DependencyRule"),
            (&[&objects], "the files contain no DependencyRule"),
            (&[&rules], "the files contain no object of a kind that rules name: backups.backup.example.com"),
        ] {
            let files: Vec<_> = folders.iter().flat_map(|folder| ["-f", folder.to_str().unwrap()]).collect();
            let told = depguard(&[command, &files].concat()).await;
            if command == ["graph"] && folders == [&rules] {
                assert_eq!(told.status, ExitStatus::Well, "{told:?}");
                continue;
            }
            assert_eq!((told.status, told.out.as_str()), (ExitStatus::Failure, ""), "{command:?} {told:?}");
            assert!(told.err.contains(said) && told.err.contains("-R"), "{command:?} {told:?}");
        }
        if command != ["graph"] {
            let nowhere = ran(OBJECTS, &[command, &["-n", "nope"]].concat()).await;
            assert_eq!(nowhere.status, ExitStatus::Failure, "{command:?} {nowhere:?}");
            assert!(nowhere.err.contains("there is no namespace nope"), "{command:?} {nowhere:?}");
        }
    }
    let nobody = depguard(&["impact", "zone", "z", "-f", objects.to_str().unwrap()]).await;
    assert_eq!(nobody.status, ExitStatus::Failure, "{nobody:?}");
}

#[tokio::test]
async fn a_file_of_a_folder_that_can_not_be_read_leaves_it_untold_and_the_others_are_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "all.yaml", &format!("{RULES}---{OBJECTS}"));
    write(folder.path(), "values.yaml", "replicas: 3\n");
    let fine = depguard(&["dangling", "-f", folder.path().to_str().unwrap()]).await;
    assert_eq!(fine.status, ExitStatus::Well, "{fine:?}");
    assert!(fine.err.contains("values.yaml` that are not manifests"), "{fine:?}");
    write(folder.path(), "chart.yaml", "{{- if .Values.on }}\na: [\n");
    for command in [
        &["dangling"][..],
        &["order"],
        &["impact", "virtualmachine", "m2", "-n", "yy"],
        &["why", "virtualmachine", "m2", "-n", "yy"],
    ] {
        let told = depguard(&[command, &["-f", folder.path().to_str().unwrap()]].concat()).await;
        assert_eq!(
            told.status,
            if command == ["order"] { ExitStatus::Finding } else { ExitStatus::Failure },
            "{told:?}"
        );
        assert!(format!("{}{}", told.out, told.err).contains("could not"), "{told:?}");
    }
    // The findings are still reported.
    write(folder.path(), "more.yaml", MISSING);
    let found = depguard(&["dangling", "-f", folder.path().to_str().unwrap()]).await;
    assert_eq!(found.status, ExitStatus::Finding, "{found:?}");
    assert!(found.err.contains("could not read the file") && found.err.contains("chart.yaml"), "{found:?}");
}

#[tokio::test]
async fn a_definition_of_a_group_below_k8s_io_says_its_scope_and_so_do_its_objects() {
    const GATEWAYS: &str = r"
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: gateways}
spec:
  dependent: {group: gateway.networking.k8s.io, version: v1, kind: Gateway, resource: gateways}
  dependencies: [{group: gateway.networking.k8s.io, version: v1, resource: gatewayclasses, fieldRef: {path: .spec.gatewayClassName}}]
---
{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: envoy}}
---
{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: public, namespace: infra}, spec: {gatewayClassName: envoy}}
";
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "all.yaml", GATEWAYS);
    let files = ["-f", file.to_str().unwrap()];
    let dangling = depguard(&[&["dangling"][..], &files].concat()).await;
    assert_eq!(dangling.status, ExitStatus::Well, "{dangling:?}");
    let why = depguard(&[&["why", "gatewayclass", "envoy"][..], &files].concat()).await;
    assert_eq!(why.status, ExitStatus::Finding, "{why:?}");
}

/// Twice as many selectors take about twice as long, not four times: a selector looks only at the objects that it
/// selects.
#[tokio::test]
async fn a_selector_costs_what_it_selects() {
    let count = 6_000;
    let mut objects = String::new();
    for index in 0..count {
        objects += &format!(
            "---\n{{apiVersion: network.example.com/v1, kind: VPC, metadata: {{name: v{index}, namespace: x, labels: {{app: a{index}}}}}}}\n\
             ---\n{{apiVersion: compute.example.com/v1, kind: VirtualMachine, metadata: {{name: m{index}, namespace: x}}, spec: {{peers: {{app: a{index}}}}}}}\n"
        );
    }
    let names = ran(&objects, &["impact", "vpc", "v7", "-n", "x", "-o", "name"]).await;
    assert_eq!(names.out, "virtualmachines.compute.example.com/m7\n", "{}", names.err);
}

/// `impact` reads all namespaces, so that naming one would not help.
#[tokio::test]
async fn who_reads_too_much_is_told_how_to_read_less() {
    let mut objects = String::new();
    for index in 0..2_001 {
        objects += &format!(
            "---\n{{apiVersion: network.example.com/v1, kind: VPC, metadata: {{name: v{index}, namespace: x, labels: {{app: a}}}}}}\n\
             ---\n{{apiVersion: compute.example.com/v1, kind: VirtualMachine, metadata: {{name: m{index}, namespace: x}}, spec: {{peers: {{app: a}}}}}}\n"
        );
    }
    for (command, advice) in [
        (&["impact", "vpc", "v7", "-n", "x"][..], "name fewer files with -f"),
        (&["dangling"], "read one namespace at a time, with --namespace"),
    ] {
        let told = ran(&objects, command).await;
        assert_eq!((told.status, told.out.as_str()), (ExitStatus::Failure, ""), "{command:?}");
        assert_eq!(told.err.lines().next(), Some("error: there are more than 4000000 references to read"));
        assert!(told.err.contains(advice), "{command:?}: {}", told.err);
    }
}
