//! Statuses of rules with one slip: none says that the rule is enforced while the objects that the right rule protects can
//! be deleted.

use super::*;

/// String of a rule, by its pointer, and the word that the slip makes of it; `None`: any word.
type Slip = (&'static str, Option<&'static str>);

/// Words of a rule that an author may take for others, each with an existing one that is not meant.
const OTHERS: [(&str, &str); 24] = [
    ("/dependent/apiExportName", "storage.example.com"),
    ("/dependent/group", "network.example.com"),
    ("/dependent/version", "v1beta1"),
    ("/dependent/kind", "Disk"),
    ("/dependent/resource", "disks"),
    ("/dependencies/0/apiExportRef/path", "root:compute"),
    ("/dependencies/0/apiExportRef/name", "storage.example.com"),
    ("/dependencies/0/apiExportRef/name", "older.network.example.com"),
    ("/dependencies/0/group", "compute.example.com"),
    ("/dependencies/0/version", "v1beta1"),
    ("/dependencies/0/kind", "LAN"),
    ("/dependencies/0/resource", "lans"),
    ("/dependencies/0/fieldRef/path", ".spec.backup"),
    ("/dependencies/0/fieldRef/path", ".spec.size"),
    ("/dependencies/0/fieldRef/namespacePath", ".spec.backup"),
    ("/dependencies/0/fieldRef/namespacePath", ".spec.size"),
    ("/dependencies/0/fieldRef/uidPath", ".spec.backup"),
    ("/dependencies/0/selectorRef/path", ".spec.others"),
    ("/dependencies/0/when/path", ".spec.backup"),
    ("/dependencies/0/when/path", ".spec.size"),
    ("/dependencies/0/onDelete", "Warn"),
    ("/dependencies/0/onMissing", "Ignore"),
    ("/dependencies/0/ownedDependents", "Ignore"),
    ("/failurePolicy", "Ignore"),
];

/// Slips after which the rule protects the same objects: the word is for people only, or narrows a reference down, so that
/// the reference counts all the more without it.
const HARMLESS: [Slip; 10] = [
    ("/dependent/kind", None),
    ("/dependencies/0/version", None),
    ("/dependencies/0/fieldRef/kindPath", None),
    ("/dependencies/0/fieldRef/groupPath", None),
    ("/dependencies/0/fieldRef/apiVersionPath", None),
    ("/dependencies/0/fieldRef/uidPath", None),
    ("/dependencies/0/message", None),
    ("/dependencies/0/onMissing", Some("Ignore")),
    ("/dependencies/0/ownedDependents", Some("Ignore")),
    ("/failurePolicy", Some("Ignore")),
];

/// Slips that give another rule, which could be meant: nobody can tell, and the other rule is enforced.
const OTHER_RULES: [Slip; 12] = [
    // 1: dependents with another label.
    ("/dependent/selector/matchLabels/tier", None),
    // 2: the same kind of another export.
    ("/dependencies/0/apiExportRef/name", Some("older.network.example.com")),
    // 3: targets of another kind.
    ("/dependencies/0/resource", Some("lans")),
    // 4, 5: another name, or another namespace, that the rule holds.
    ("/dependencies/0/fieldRef/value", None),
    ("/dependencies/0/fieldRef/namespace", None),
    // 6, 7, 8: another field that holds a name, a namespace or a UID.
    ("/dependencies/0/fieldRef/path", Some(".spec.backup")),
    ("/dependencies/0/fieldRef/namespacePath", Some(".spec.backup")),
    ("/dependencies/0/fieldRef/uidPath", Some(".spec.backup")),
    // 9: another field that holds a selector.
    ("/dependencies/0/selectorRef/path", Some(".spec.others")),
    // 10, 11: another condition.
    ("/dependencies/0/when/path", Some(".spec.backup")),
    ("/dependencies/0/when/in/0", None),
    // 12: a warning instead of a refusal, as the condition's message says.
    ("/dependencies/0/onDelete", Some("Warn")),
];

/// Returns the facts about a kind of the world in which the rules are: there are machines, disks, VPCs and LANs.
fn all(gvr: &GroupVersionResource) -> KindState {
    let text = json!({"type": "string"});
    let reference = json!({"type": "object", "properties": {
        "name": text, "namespace": text, "kind": text, "group": text, "apiVersion": text, "uid": text,
    }});
    let labels = json!({"type": "object", "additionalProperties": text});
    let machine = json!({
        "vpcRef": reference, "backup": text, "state": text, "size": {"type": "integer"}, "vpcs": labels, "others": labels,
    });
    let (kind, versions, spec) = match gvr.group_resource().to_string().as_str() {
        "virtualmachines.compute.example.com" => ("VirtualMachine", &["v1alpha1"][..], machine),
        "disks.compute.example.com" => ("Disk", &["v1alpha1"][..], json!({"size": {"type": "integer"}})),
        "vpcs.network.example.com" => ("VPC", &["v1alpha1", "v1beta1"][..], json!({})),
        "lans.network.example.com" => ("LAN", &["v1alpha1"][..], json!({})),
        _ => return KindState::NotServed,
    };
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}});
    let versions = versions.iter().map(|name| json!({"name": name, "served": true, "schema": schema}));
    let definition = json!({"spec": {
        "scope": "Namespaced", "names": {"kind": kind}, "versions": versions.collect::<Vec<_>>(),
    }});
    KindState::from_definition(&definition, gvr.version.as_str())
}

fn setting(control_plane: ControlPlane, spec: &Value) -> Setting {
    let mut rule = vm_to_vpc();
    rule["spec"] = spec.clone();
    let mut setting = Setting { control_plane, all: Some(all), ..Setting::from_rule(rule) };
    let named = |cluster: &str, name: &str, kinds: &[&str]| {
        let mut named = export(cluster, kinds[0]);
        named["metadata"]["name"] = json!(name);
        let resources = kinds.iter().map(|kind| export(cluster, kind)["spec"]["resources"][0].take());
        named["spec"]["resources"] = resources.collect();
        named
    };
    let (machines, networks) = (
        ["virtualmachines.compute.example.com", "disks.compute.example.com"],
        ["vpcs.network.example.com", "lans.network.example.com"],
    );
    setting.exports = Some(vec![
        named("compute", "compute.example.com", &machines),
        named("compute", "storage.example.com", &["disks.compute.example.com"]),
        named("network", "network.example.com", &networks),
        named("network", "older.network.example.com", &networks),
        named("network", "storage.example.com", &["lans.network.example.com"]),
    ]);
    setting
}

/// Returns the specs of right rules, which together have each field that can lead to another object.
fn right(control_plane: ControlPlane) -> [Value; 4] {
    let mut base = vm_to_vpc();
    if control_plane == ControlPlane::Kubernetes {
        base = local(base);
    }
    let spec = &mut base["spec"];
    spec["dependent"]["selector"] = json!({"matchLabels": {"tier": "prod"}});
    spec["failurePolicy"] = json!("Fail");
    let dependency = spec["dependencies"][0].as_object_mut().unwrap();
    let more = json!({
        "when": {"path": ".spec.state", "in": ["Running"]}, "onDelete": "Deny", "onMissing": "Deny",
        "ownedDependents": "Block", "message": "detach it",
    });
    dependency.extend(more.as_object().cloned().unwrap());
    dependency.remove("fieldRef");
    let reference = |field: &str, value: Value| {
        let mut spec = spec.clone();
        spec["dependencies"][0][field] = value;
        spec
    };
    let paths = ["name", "namespace", "kind", "group", "apiVersion", "uid"].map(|part| format!(".spec.vpcRef.{part}"));
    let [path, namespace, kind, group, api_version, uid] = &paths;
    let mut selected = reference("selectorRef", json!({"path": ".spec.vpcs"}));
    selected["dependencies"][0].as_object_mut().unwrap().remove("onMissing");
    let whole = json!({
        "path": path, "namespacePath": namespace, "kindPath": kind, "groupPath": group, "apiVersionPath": api_version,
        "uidPath": uid,
    });
    let mut by_kind = reference("fieldRef", whole);
    by_kind["dependencies"][0]["kind"] = json!("VPC");
    [
        by_kind,
        reference("fieldRef", json!({"value": "shared", "namespacePath": namespace})),
        reference("fieldRef", json!({"path": path, "namespace": "shared"})),
        selected,
    ]
}

/// Returns the pointers to all strings in a value.
fn strings(value: &Value, at: &str) -> Vec<String> {
    match value {
        Value::Object(fields) => {
            fields.iter().flat_map(|(name, value)| strings(value, &format!("{at}/{name}"))).collect()
        }
        Value::Array(items) => {
            items.iter().enumerate().flat_map(|(index, value)| strings(value, &format!("{at}/{index}"))).collect()
        }
        Value::String(_) => vec![at.to_owned()],
        _ => Vec::new(),
    }
}

/// Returns words with a letter more, a letter fewer, and another letter, at either end and in the middle.
fn misspelt(word: &str) -> Vec<String> {
    let at = [0, word.len() / 2, word.len() - 1].into_iter();
    let words = at.flat_map(|at| {
        let (before, after) = word.split_at(at);
        let rest = &after[1..];
        [
            format!("{before}{after}x"),
            format!("{before}x{after}"),
            format!("{before}{rest}"),
            format!("{before}x{rest}"),
        ]
    });
    words.collect()
}

#[test]
fn a_rule_with_one_slip_is_not_enforced_unless_it_is_another_right_rule() {
    let (mut tried, mut in_force) = (BTreeSet::new(), BTreeSet::new());
    for control_plane in [ControlPlane::Kcp, ControlPlane::Kubernetes] {
        for right in right(control_plane) {
            let parsed = |spec: &Value| {
                let rule =
                    json!({"metadata": {"name": "a", "annotations": {"kcp.io/cluster": "compute"}}, "spec": spec});
                depguard_core::Rule::parse(control_plane, &rule).ok()
            };
            let unslipped = parsed(&right);
            for condition in ["Accepted", "ResolvedRefs", "Programmed", "Enforced"] {
                let said = setting(control_plane, &right).condition(condition);
                assert!(said.starts_with("True "), "{condition}: {said}: {right}");
            }
            for pointer in strings(&right, "") {
                let word = right.pointer(&pointer).and_then(Value::as_str).unwrap();
                let others = OTHERS.iter().filter(|(of, _)| *of == pointer).map(|(_, other)| (*other).to_owned());
                for slip in misspelt(word).into_iter().chain(others) {
                    let mut wrong = right.clone();
                    *wrong.pointer_mut(&pointer).unwrap() = json!(slip);
                    if parsed(&wrong) == unslipped
                        || !tried.insert((control_plane == ControlPlane::Kcp, wrong.to_string()))
                    {
                        continue;
                    }
                    let said = setting(control_plane, &wrong).condition("Enforced");
                    if said.starts_with("True ") {
                        let is_listed = |(of, word): &&Slip| *of == pointer && word.is_none_or(|word| word == slip);
                        let listed: Vec<_> = HARMLESS.iter().chain(&OTHER_RULES).filter(is_listed).collect();
                        assert!(!listed.is_empty(), "{pointer}: {slip}: {said}: {wrong}");
                        in_force.extend(listed);
                    }
                }
            }
        }
    }
    // Each exception is needed.
    let needed: BTreeSet<_> = HARMLESS.iter().chain(&OTHER_RULES).collect();
    assert_eq!(in_force, needed);
    assert!(tried.len() > 1000, "{} slips", tried.len());
}
