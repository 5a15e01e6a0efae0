//! Generated files under `config/`: each is exactly what the manifests module makes.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use depguard_controller::manifests::{self, Identity, Place, ReadThrough, Setup};
use depguard_controller::packs::RulePack;
use depguard_core::interlock::{Buckets, PLURAL as REGISTERS};
use depguard_core::{ControlPlane, LogicalCluster, Rule};
use depguard_kcp::{Feature, Features};
use serde_json::{Value, json};

const CONTROL_PLANES: [ControlPlane; 2] = [ControlPlane::Kcp, ControlPlane::Kubernetes];
const WAY: ReadThrough = ReadThrough::FrontProxy;

#[test]
fn the_files_under_config_are_generated() {
    let of = |control_plane, way| manifests::files(&Setup::new(control_plane, way)).unwrap();
    let mut kcp = of(ControlPlane::Kcp, ReadThrough::FrontProxy);
    kcp.extend(of(ControlPlane::Kcp, ReadThrough::Export));
    kcp.sort_by_key(|file| file.name.clone());
    kcp.dedup();
    let kubernetes = of(ControlPlane::Kubernetes, WAY);
    let rules =
        CONTROL_PLANES.into_iter().flat_map(|control_plane| manifests::rule_files(control_plane, false).unwrap());
    let added = |control_plane, way, enable: Features| {
        let without = of(control_plane, way);
        let files = manifests::files(&Setup { enable, ..Setup::new(control_plane, way) }).unwrap().into_iter();
        files.filter(|file| !without.contains(file)).collect::<Vec<_>>()
    };
    let setups = [
        (ControlPlane::Kubernetes, WAY),
        (ControlPlane::Kcp, ReadThrough::FrontProxy),
        (ControlPlane::Kcp, ReadThrough::Export),
    ];
    let of_locks = |(control_plane, way)| added(control_plane, way, Features::new([Feature::Locks], []));
    let mut locks: Vec<_> = setups.into_iter().flat_map(of_locks).collect();
    locks.sort_by_key(|file| file.name.clone());
    locks.dedup();
    let registers = Features { registers: Buckets::new(16), ..Features::default() };
    let mut interlock: Vec<_> =
        setups.into_iter().flat_map(|(control_plane, way)| added(control_plane, way, registers.clone())).collect();
    interlock.sort_by_key(|file| file.name.clone());
    interlock.dedup();
    let owners = added(ControlPlane::Kubernetes, WAY, Features::new([Feature::Owners], []));
    let events = added(ControlPlane::Kubernetes, WAY, Features::new([Feature::DenialEvents], []));
    let compat = added(ControlPlane::Kubernetes, WAY, Features::new([], ["pods".parse().unwrap()]));
    for (folder, files) in [
        ("kcp", kcp),
        ("kubernetes", kubernetes),
        ("rules", rules.collect()),
        ("locks", locks),
        ("compat", compat),
        ("owners", owners),
        ("interlock", interlock),
        ("denial-events", events),
    ] {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
        let (folder, chart) = (root.join("config").join(folder), root.join("charts/depguard/files"));
        for file in &files {
            // The chart has copies, because a chart reads no file outside of its folder.
            let copy = chart.join(&file.name);
            let copy = copy.exists().then_some(copy);
            for path in copy.into_iter().chain([folder.join(&file.name)]) {
                if std::env::var_os("DEPGUARD_WRITE").is_some() {
                    fs::write(&path, &file.text).unwrap();
                }
                let found = fs::read_to_string(&path).unwrap_or_default();
                assert!(found == file.text, "{} is out of date: run this test with DEPGUARD_WRITE=1", path.display());
            }
        }
        let mut names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        let mut expected: Vec<_> = files.iter().map(|file| file.name.as_str()).collect();
        expected.sort_unstable();
        assert_eq!(names, expected, "{} holds what is not generated", folder.display());
    }
}

/// An API server shows its users patterns as they are. Only where a list of lists has too many texts for an API server to
/// check them by CEL is there nothing else to show: in selectors, of further conditions, and of the names in an owner's groups.
#[test]
fn each_pattern_is_explained_in_words() {
    fn patterns(schema: &Value, path: &str, found: &mut Vec<(String, bool)>) {
        let Value::Object(fields) = schema else { return };
        if let Some(Value::String(pattern)) = fields.get("pattern") {
            let rule = json!(format!(r#"self.matches(r"""{pattern}""")"#));
            let rules = fields.get("x-kubernetes-validations").and_then(Value::as_array);
            found.push((path.to_owned(), rules.into_iter().flatten().any(|found| found["rule"] == rule)));
        }
        for (name, schema) in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
            patterns(schema, &format!("{path}.{name}"), found);
        }
        for inner in ["items", "additionalProperties"].into_iter().filter_map(|field| fields.get(field)) {
            patterns(inner, path, found);
        }
    }
    let (mut explained, mut others) = (0, Vec::new());
    for crd in [manifests::crd()].into_iter().chain(manifests::lock_crds()).chain(manifests::owner_crds()) {
        let mut found = Vec::new();
        let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
        patterns(crd.pointer(schema).unwrap_or(&Value::Null), "spec", &mut found);
        explained += found.iter().filter(|(_, explained)| *explained).count();
        others.extend(found.into_iter().filter_map(|(path, explained)| (!explained).then_some(path)));
    }
    others.retain(|path| !path.contains(".selector.match") && path != "spec.childResources.names");
    assert_eq!(
        others,
        ["spec.dependencies.excludeNames", "spec.dependencies.when.and.path", "spec.childResource.names"]
    );
    assert!(explained > 40, "{explained}");
}

/// Returns every way to run depguard.
fn setups() -> Vec<Setup> {
    let cluster = Some(LogicalCluster::parse("2x3").unwrap());
    let known = Setup {
        identity: Identity::ServiceAccounts { cluster },
        ..Setup::new(ControlPlane::Kcp, ReadThrough::FrontProxy)
    };
    let all = Features {
        registers: Buckets::new(16),
        ..Features::new([Feature::Locks, Feature::Owners, Feature::DenialEvents], ["pods".parse().unwrap()])
    };
    let kubernetes = Setup::new(ControlPlane::Kubernetes, WAY);
    let mut setups = vec![Setup { enable: all, ..kubernetes.clone() }, kubernetes];
    for read_through in [ReadThrough::FrontProxy, ReadThrough::Export] {
        setups.push(Setup { read_through, ..known.clone() });
        let enable = Features { registers: Buckets::new(16), ..Features::new([Feature::Locks], []) };
        setups.push(Setup { read_through, enable, ..known.clone() });
        setups.push(Setup { read_through, identity: Identity::Certificates, ..known.clone() });
    }
    setups
}

#[test]
fn only_the_front_proxy_way_may_list_everything_and_nothing_may_do_more() {
    for setup in setups() {
        let wide = setup.control_plane == ControlPlane::Kcp && setup.read_through == ReadThrough::FrontProxy;
        let mut everything = Vec::new();
        for (place, objects) in manifests::rbac(&setup) {
            for rule in objects.iter().flat_map(|object| object["rules"].as_array().into_iter().flatten()) {
                let has_star = ["apiGroups", "resources", "verbs", "nonResourceURLs"].map(|field| {
                    rule[field].as_array().into_iter().flatten().any(|value| value.as_str().unwrap().contains('*'))
                });
                if has_star.contains(&true) {
                    assert!(wide && place == Place::Shards, "{setup:?}: {rule}");
                    everything.push(rule["verbs"].clone());
                }
            }
        }
        let follow = setup.enable.registers.map(|_| json!(["watch"]));
        let expected: Vec<_> = [json!(["get", "list"])].into_iter().chain(follow).filter(|_| wide).collect();
        assert_eq!(everything, expected, "{setup:?}");
    }
}

/// An account reads one Secret, of depguard's own namespace, and only with registers.
#[test]
fn the_only_secret_anybody_may_read_is_the_registers_key() {
    for setup in setups() {
        let objects = manifests::rbac(&setup).into_iter().flat_map(|(_, objects)| objects);
        for object in objects {
            for rule in object["rules"].as_array().into_iter().flatten() {
                if !rule["resources"].to_string().contains("secrets") {
                    continue;
                }
                assert!(setup.enable.registers.is_some() && object["kind"] == "Role", "{setup:?}: {object}");
                assert_eq!(object["metadata"]["namespace"], "depguard-system", "{object}");
                let is_named = rule["resourceNames"] == json!(["depguard-reference-registers"]);
                assert!(is_named || rule["verbs"] == json!(["create"]), "{rule}");
            }
        }
    }
}

#[test]
fn the_webhook_may_read_targets_that_a_rule_looks_for() {
    let granted = |on_missing: Value| {
        let target = |resource: &str| json!({"group": "", "resource": resource, "onMissing": on_missing});
        let dependencies = ["secrets", "configmaps", "secrets"].map(target);
        let dependent = json!({"group": "a.example.com", "resource": "as"});
        let rule = json!({"spec": {"dependent": dependent, "dependencies": dependencies}});
        let role = manifests::dependents_of("a", &[rule]);
        let rules = role["rules"].as_array().unwrap().iter();
        rules.map(|rule| (rule["resources"][0].as_str().unwrap().to_owned(), rule["verbs"].clone())).collect::<Vec<_>>()
    };
    let read = |resource: &str| (resource.to_owned(), json!(["get", "list"]));
    for on_missing in ["Audit", "Warn"] {
        assert_eq!(granted(json!(on_missing)), ["as", "secrets", "configmaps"].map(read));
    }
    // The webhook follows dependents whose references may be interlocked.
    let followed = ("as".to_owned(), json!(["get", "list", "watch"]));
    assert_eq!(granted(json!("Deny")), [followed, read("secrets"), read("configmaps")]);
    assert_eq!(granted(json!("Ignore")), [read("as")]);
    assert_eq!(granted(Value::Null), [read("as")]);
}

#[test]
fn outside_of_its_workspace_no_service_account_is_named_without_that_workspace() {
    for setup in setups() {
        for (place, objects) in manifests::rbac(&setup) {
            let subjects = objects.iter().flat_map(|object| object["subjects"].as_array().into_iter().flatten());
            for subject in subjects {
                let name = subject["name"].as_str().unwrap();
                let is_local = subject["kind"] == "ServiceAccount" || name.starts_with("system:serviceaccount:");
                assert!(!is_local || matches!(place, Place::Cluster | Place::DepCtrl), "{place:?}: {subject}");
            }
        }
    }
}

#[test]
fn the_packs_are_right() {
    let mut names = BTreeSet::new();
    for pack in RulePack::all() {
        assert_eq!(RulePack::by_name(pack.name).map(|pack| pack.name), Some(pack.name));
        assert!(pack.protects.starts_with("keeps ") && !pack.held_against.is_empty(), "{}", pack.name);
        for mut rule in pack.rules() {
            // All packs of a control plane may be applied in one place.
            let name = rule["metadata"]["name"].as_str().unwrap().to_owned();
            assert!(name.starts_with(&format!("{}-", pack.name)), "{name} begins with another name than {}", pack.name);
            assert!(names.insert(name), "{rule} exists twice");
            rule["metadata"]["annotations"] = json!({"kcp.io/cluster": "any"});
            let rule = Rule::parse(pack.control_plane, &rule).unwrap();
            assert!(!rule.edges().is_empty());
            assert_eq!(rule.dependent().export, None);
        }
    }
    let former: Vec<_> = RulePack::all().iter().flat_map(RulePack::formerly).map(|(name, _)| name.to_owned()).collect();
    assert!(former.iter().all(|name| names.insert(name.clone())), "another rule has a former name: {former:?}");
    assert!(RulePack::by_name("no-such-pack").is_none());
}

#[test]
fn the_yaml_reads_back_as_the_same_objects() {
    let mut objects = vec![manifests::crd(), manifests::api_resource_schema(), manifests::api_export()];
    objects.extend(manifests::owner_crds());
    objects.extend([manifests::lock_crds(), manifests::lock_schemas()].concat());
    objects.extend([manifests::lock_export(), manifests::tenant_binding("root:a"), manifests::compat_crd()]);
    objects.push(manifests::register_crd());
    objects.extend(manifests::register_policy());
    objects.extend(setups().iter().flat_map(manifests::rbac).flat_map(|(_, objects)| objects));
    for object in objects {
        let text = manifests::yaml(std::slice::from_ref(&object)).unwrap();
        assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap(), object);
    }
}

#[test]
fn locks_of_the_older_tool_keep_their_short_name() {
    assert_eq!(manifests::compat_crd()["spec"]["names"]["shortNames"], json!(["l"]));
}

/// Checks a schema and all schemas in it: each has one type or takes any value, a description where users see one, and no key that
/// structural schemas don't have.
fn is_structural(schema: &Value, place: &str, is_told: bool) {
    const KEYS: [&str; 15] = [
        "description",
        "enum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maxProperties",
        "minItems",
        "minLength",
        "minimum",
        "pattern",
        "properties",
        "required",
        "type",
        "additionalProperties",
    ];
    let fields = schema.as_object().unwrap_or_else(|| panic!("{place}: {schema}"));
    for key in fields.keys() {
        assert!(KEYS.contains(&key.as_str()) || key.starts_with("x-kubernetes-"), "{place}: {key}");
    }
    let takes_any = fields.get("x-kubernetes-preserve-unknown-fields") == Some(&json!(true));
    assert!(takes_any || fields["type"].is_string(), "{place}: {schema}");
    let description = fields.get("description").map_or("", |text| text.as_str().unwrap());
    assert!(!is_told || (!description.is_empty() && !description.contains('`')), "{place}: {description:?}");
    for (name, field) in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
        // Nobody is to write the older form of `apiExportRef` any more.
        let is_told = name != "metadata" && !place.ends_with(".dependent.apiExportRef");
        is_structural(field, &format!("{place}.{name}"), is_told);
    }
    for inner in ["items", "additionalProperties"].into_iter().filter_map(|key| fields.get(key)) {
        is_structural(inner, &format!("{place}[]"), false);
    }
}

#[test]
fn the_schemas_are_structural_and_tell_users_of_each_field() {
    let crds =
        [vec![manifests::crd()], manifests::lock_crds(), manifests::owner_crds(), vec![manifests::register_crd()]]
            .concat();
    for crd in crds {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
        is_structural(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], kind, true);
    }
}

#[test]
fn with_roles_made_before_the_controller_may_make_none() {
    let may = |precreated_roles| {
        let enable = Features::new([Feature::Owners], []);
        let rights = manifests::rbac(&Setup { enable, precreated_roles, ..Setup::new(ControlPlane::Kubernetes, WAY) });
        let mut objects = rights.into_iter().flat_map(|(_, objects)| objects);
        objects.any(|object| object["rules"].to_string().contains("clusterroles"))
    };
    assert!(may(false));
    assert!(!may(true));
}

#[test]
fn only_with_registers_may_anybody_touch_them_and_the_webhook_makes_none() {
    let verbs = |setup: &Setup, account: &str| {
        let objects = manifests::rbac(setup).into_iter().flat_map(|(_, objects)| objects);
        let of_account = objects.filter(|object| object["metadata"]["name"] == json!(format!("{account}-interlock")));
        let rules = of_account.flat_map(|object| object["rules"].as_array().cloned().unwrap_or_default());
        let of_registers = rules.filter(|rule| rule["resources"] == json!([REGISTERS]));
        of_registers.map(|rule| rule["verbs"].to_string()).collect::<String>()
    };
    for without in setups() {
        let without = Setup { enable: Features { registers: None, ..without.enable }, ..without };
        let printed: String = manifests::files(&without).unwrap().into_iter().map(|file| file.text).collect();
        assert!(!printed.contains(REGISTERS), "{without:?}");
        let with = Setup { enable: Features { registers: Buckets::new(1), ..without.enable.clone() }, ..without };
        assert_eq!(verbs(&with, "depguard-controller"), r#"["list","create","update","delete"]"#);
        let reads_everything = with.control_plane == ControlPlane::Kcp && with.read_through == ReadThrough::FrontProxy;
        let expected = if reads_everything { r#"["update"]"# } else { r#"["get","update"]"# };
        assert_eq!(verbs(&with, "depguard-webhook"), expected);
    }
}
