//! Reports: the results that programs read with `-o json` and `-o yaml`.

use serde_json::Value;

use crate::references::files::{MISSING, OBJECTS, RULES};
use crate::tool::{Ran, depguard, write};

const API_VERSION: &str = "cli.dependencies.opendefense.cloud/v1alpha1";

/// Each kind of report that files suffice for, with its command; `DIR` stands for the folder of the files.
const COMMANDS: [(&str, &str); 13] = [
    ("DanglingReport", "dangling -f DIR/rules.yaml -f DIR/objects.yaml"),
    ("GlobalOwnerOrderReport", "order GlobalOwner all -f DIR/owner.yaml"),
    ("ImpactReport", "impact vpc/a -n x -f DIR/rules.yaml -f DIR/objects.yaml"),
    ("ImportReport", "import published-resource -f DIR/published.yaml"),
    ("LintReport", "lint -f DIR/rules.yaml"),
    ("OrderReport", "order -A -f DIR/rules.yaml -f DIR/objects.yaml -f DIR/locks.yaml"),
    ("RulesReport", "rules list"),
    ("SuggestReport", "suggest -f DIR/suggest.yaml"),
    ("TestReport", "test -f DIR/suite.yaml"),
    ("TraceReport", "trace virtualmachine/m1 -n x -f DIR/rules.yaml -f DIR/objects.yaml"),
    ("UnusedReport", "unused -f DIR/rules.yaml -f DIR/objects.yaml"),
    ("WhyReport", "why vpc/a -n x -f DIR/rules.yaml -f DIR/objects.yaml -f DIR/locks.yaml"),
    ("WhyReport", "why vpc/stuck -n x -f DIR/rules.yaml -f DIR/objects.yaml"),
];

const STUCK: &str = r"
---
{apiVersion: network.example.com/v1, kind: VPC, metadata: {name: stuck, namespace: x,
 deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: [network.example.com/cloud],
 ownerReferences: [{apiVersion: network.example.com/v1, kind: Network, name: n, uid: u, controller: true}]}}
";
const LOCKS: &str = r"
apiVersion: locks.dependencies.opendefense.cloud/v1alpha1
kind: ObjectLock
metadata: {name: freeze, namespace: x}
spec: {targets: [{group: network.example.com, resource: vpcs, name: a}], reason: change freeze}
";
const OWNER: &str = r"
apiVersion: globalowner.metacontroller.io/v1alpha1
kind: GlobalOwner
metadata: {name: all}
spec:
  selector: {matchLabels: {adopt: 'true'}}
  childResources: [{apiVersion: v1, resource: secrets}, {apiVersion: v1, resource: configmaps}]
";
const PUBLISHED: &str = r"
apiVersion: syncagent.kcp.io/v1alpha1
kind: PublishedResource
metadata: {name: publish-certs}
spec:
  resource: {apiGroup: cert-manager.io, version: v1, kind: Certificate}
  unknown: here
  related:
  - {identifier: secret, origin: service, kind: Secret, object: {reference: {path: spec.secretName}}}
";
const SUGGEST: &str = r"
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: vpcs.network.example.com},
 spec: {group: network.example.com, scope: Namespaced, names: {kind: VPC, plural: vpcs}, versions: [{name: v1, served: true, storage: true}]}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: subnets.network.example.com},
 spec: {group: network.example.com, scope: Namespaced, names: {kind: Subnet, plural: subnets}, versions: [{name: v1, served: true, storage: true,
  schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {
   vpcName: {type: string}, routerRef: {type: object, properties: {name: {type: string}}}}}}}}}]}}
";
const SUITE: &str = r"
name: vpcs
namespace: default
rules: [suite-rules.yaml]
objects:
- {apiVersion: v1, kind: Secret, metadata: {name: s}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {secret: s}}
tests:
- {name: in use, delete: secret/s, expect: denied}
- {name: wrong, delete: secret/s, expect: allowed}
";
const SUITE_RULES: &str = r"
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: secrets}
spec:
  dependent: {group: '', version: v1, kind: ConfigMap, resource: configmaps}
  dependencies: [{group: '', version: v1, resource: secrets, fieldRef: {path: .data.secret}}]
";

/// Runs a command on the files.
async fn ran(command: &str, format: &str) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let objects = format!("{OBJECTS}{MISSING}{STUCK}");
    let files = [
        ("rules.yaml", RULES),
        ("objects.yaml", &objects),
        ("locks.yaml", LOCKS),
        ("owner.yaml", OWNER),
        ("published.yaml", PUBLISHED),
        ("suggest.yaml", SUGGEST),
        ("suite.yaml", SUITE),
        ("suite-rules.yaml", SUITE_RULES),
    ];
    for (name, text) in files {
        write(folder.path(), name, text);
    }
    let folder = folder.path().to_str().unwrap().to_owned();
    let words: Vec<_> = command.split(' ').map(|word| word.replace("DIR", &folder)).collect();
    let mut args: Vec<_> = words.iter().map(String::as_str).collect();
    args.extend(["-o", format]);
    let ran = depguard(&args).await;
    Ran { out: ran.out.replace(&folder, "DIR"), ..ran }
}

#[tokio::test]
async fn each_report_begins_with_its_version_and_kind() {
    for (kind, command) in COMMANDS {
        let json = ran(command, "json").await;
        let head = format!("{{\n    \"apiVersion\": \"{API_VERSION}\",\n    \"kind\": \"{kind}\",\n");
        assert!(json.out.starts_with(&head), "{command}: {json:?}");
        // `suggest` and `import` print rules as YAML, and no report.
        if !["SuggestReport", "ImportReport"].contains(&kind) {
            let yaml = ran(command, "yaml").await;
            assert!(yaml.out.starts_with(&format!("apiVersion: {API_VERSION}\nkind: {kind}\n")), "{command}: {yaml:?}");
            let [json, yaml]: [Value; 2] =
                [serde_json::from_str(&json.out).unwrap(), serde_saphyr::from_str(&yaml.out).unwrap()];
            assert_eq!(yaml, json, "{command}");
        }
    }
}
