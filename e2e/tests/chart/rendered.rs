//! Checks of the objects that helm renders.

use clap::Parser as _;
use depguard_controller::manifests::{self, File, ReadThrough, Setup};
use depguard_core::ControlPlane;
use depguard_core::interlock::Buckets;
use depguard_e2e::{Outcome, Stop, ensure};
use depguard_kcp::{Feature, Features};
use serde_json::{Value, json};

use crate::chart::{Chart, NAMESPACE, object, parse};
use crate::values::{Case, KCP, KUBERNETES};

pub(crate) fn lint(chart: &Chart) -> Outcome {
    for values in [KUBERNETES, KCP] {
        chart.helm(&["lint", "--strict"], NAMESPACE, values, &[])?;
    }
    Ok(())
}

/// Checks that the expected objects of a case exist, that its binaries accept their flags, and that its pods are
/// restricted.
pub(crate) fn check(chart: &Chart, case: &Case) -> Outcome {
    let objects = chart.objects(NAMESPACE, case.control_plane, case.set)?;
    for (kind, name, pointer, expected) in case.expected {
        let object = object(&objects, kind, name)?;
        let found = object.pointer(pointer).cloned().unwrap_or_default();
        let expected: Value = serde_json::from_str(expected)?;
        let holds = match (&found, &expected) {
            (Value::Array(found), Value::String(_) | Value::Object(_)) => found.contains(&expected),
            _ => found == expected,
        };
        ensure(holds, || format!("{kind} {name} has at {pointer} {found}, not {expected}"))?;
    }
    for (kind, name) in case.absent {
        let found = object(&objects, kind, name);
        ensure(found.is_err(), || format!("there is a {kind} {name}"))?;
    }
    for pod in objects.iter().filter_map(|object| object.pointer("/spec/template/spec")) {
        is_restricted(pod)?;
        for container in pod["containers"].as_array().into_iter().flatten() {
            flags_are_taken(container)?;
        }
    }
    Ok(())
}

/// Checks that the chart's schema, or a template, rejects a setting with a message that contains `said`.
pub(crate) fn is_rejected(chart: &Chart, values: &str, setting: &str, said: &str) -> Outcome {
    match chart.render(NAMESPACE, values, &[setting]) {
        Ok(_) => Err(Stop::failed("it was rendered")),
        Err(why) => ensure(why.to_string().contains(said), || format!("helm does not speak of `{said}`: {why}")),
    }
}

/// Checks that the dashboard gets into its ConfigMap unchanged, with the braces that are Grafana's own.
pub(crate) fn dashboard(chart: &Chart) -> Outcome {
    let objects = chart.objects(NAMESPACE, KUBERNETES, &["metrics.dashboard.enabled=true"])?;
    let found = object(&objects, "ConfigMap", "depguard-dashboard")?;
    let file = std::fs::read_to_string(chart.folder.join("dashboard.json"))?;
    let text = found["data"]["depguard.json"].as_str().unwrap_or_default();
    let is_unchanged = text.trim_end() == file.trim_end() && text.contains("{{decision}}");
    ensure(is_unchanged, || "it differs from dashboard.json".to_owned())
}

/// Checks that the chart has the objects that `depguard-controller manifests` prints. The chart may add labels, and
/// adds the annotation that keeps a CRD.
pub(crate) fn as_printed(chart: &Chart) -> Outcome {
    let setup = Setup::new(ControlPlane::Kubernetes, ReadThrough::FrontProxy);
    printed_for(chart, &[], &setup)?;
    let all =
        [r#"enable=["locks", "owners", "denial-events"]"#, r#"compatLockKinds=["pods"]"#, "interlock.registers=16"];
    let pods = "pods".parse().map_err(|error| Stop::Failed(format!("{error}")))?;
    let features = [Feature::Locks, Feature::Owners, Feature::DenialEvents];
    let enable = Features { registers: Buckets::new(16), ..Features::new(features, [pods]) };
    printed_for(chart, &all, &Setup { enable: enable.clone(), ..setup.clone() })?;
    let precreated = [all[0], all[1], all[2], "owners.precreatedRoles=true"];
    let setup = Setup { enable, precreated_roles: true, ..setup };
    let objects = chart.objects(NAMESPACE, KUBERNETES, &precreated)?;
    as_many_rights(&objects, &manifests::files(&setup)?)
}

fn printed_for(chart: &Chart, set: &[&str], setup: &Setup) -> Outcome {
    let objects = chart.objects(NAMESPACE, KUBERNETES, set)?;
    let printed = manifests::files(setup)?;
    for file in &printed {
        let held = std::fs::read_to_string(chart.folder.join("files").join(&file.name)).unwrap_or_default();
        let how = format!(
            "run depguard-controller manifests --control-plane kubernetes --out {}/files",
            chart.folder.display()
        );
        ensure(held == file.text, || format!("the chart's {} is out of date: {how}", file.name))?;
        for expected in parse(&file.text)?.iter().filter(|object| object["kind"] != "Namespace") {
            let at = |object: &Value, field: &str| object["metadata"][field].clone();
            let same = |object: &&Value| {
                object["kind"] == expected["kind"]
                    && ["name", "namespace"].iter().all(|field| at(object, field) == at(expected, field))
            };
            let found = objects.iter().find(same).cloned();
            let mut found = found.ok_or_else(|| Stop::Failed(format!("the chart does not have {expected}")))?;
            let labels = expected["metadata"].get("labels").cloned();
            for (label, value) in labels.iter().filter_map(Value::as_object).flatten() {
                let held = &found["metadata"]["labels"][label];
                ensure(held == value, || format!("{label} is {held} in {found}"))?;
            }
            if expected["kind"] == "CustomResourceDefinition" {
                let keep = found["metadata"]["annotations"]["helm.sh/resource-policy"].take();
                ensure(keep == "keep", || "the CRD, and every rule, would go with the release".to_owned())?;
                found["metadata"]["annotations"] = expected["metadata"]["annotations"].clone();
            }
            let mut expected = expected.clone();
            for (object, labels) in [(&mut found, &labels), (&mut expected, &labels)] {
                object["metadata"]["labels"] = json!(labels);
                if let Some(metadata) = object["metadata"].as_object_mut() {
                    metadata.retain(|_, value| !value.is_null());
                }
            }
            ensure(found == expected, || format!("the chart has {found}\nwhere the controller prints {expected}"))?;
        }
    }
    as_many_rights(&objects, &printed)
}

fn as_many_rights(objects: &[Value], printed: &[File]) -> Outcome {
    let rights = |objects: &[Value]| objects.iter().filter(|object| is_a_right(object)).count();
    let all = printed.iter().map(|file| parse(&file.text)).collect::<Outcome<Vec<_>>>()?.concat();
    ensure(rights(objects) == rights(&all), || "the chart gives a right that the controller does not print".to_owned())
}

pub(crate) fn elsewhere(chart: &Chart) -> Outcome {
    let text = chart.render("elsewhere", KUBERNETES, &["interlock.registers=16"])?;
    let objects = parse(&text)?;
    ensure(!text.contains(NAMESPACE), || format!("something names {NAMESPACE}"))?;
    let binding = object(&objects, "ClusterRoleBinding", "depguard-webhook")?;
    let account = &binding["subjects"][0]["namespace"];
    ensure(account == "elsewhere", || format!("an account of {account} may read"))?;
    for object in &objects {
        let kind = object["kind"].as_str().unwrap_or_default();
        let global = ["Cluster", "CustomResourceDefinition", "ValidatingAdmissionPolicy"];
        let global = global.iter().any(|prefix| kind.starts_with(prefix));
        let namespace = object["metadata"]["namespace"].as_str();
        // Events about cluster-scoped objects belong there.
        let of_events = kind.starts_with("Role") && namespace == Some("default");
        ensure(of_events || namespace == (!global).then_some("elsewhere"), || format!("a {kind} is in {namespace:?}"))?;
    }
    Ok(())
}

fn is_a_right(object: &Value) -> bool {
    object["apiVersion"].as_str().is_some_and(|version| version.starts_with("rbac.authorization.k8s.io/"))
}

/// Checks that a pod meets the Pod Security Standard `restricted`, and that its file systems are read-only.
fn is_restricted(pod: &Value) -> Outcome {
    let context = &pod["securityContext"];
    let mut right = context["runAsNonRoot"] == true && context["seccompProfile"]["type"] == "RuntimeDefault";
    for container in pod["containers"].as_array().into_iter().flatten() {
        let context = &container["securityContext"];
        right &= context["allowPrivilegeEscalation"] == false
            && context["readOnlyRootFilesystem"] == true
            && context["capabilities"] == json!({"drop": ["ALL"]})
            && container["resources"]["limits"]["memory"].is_string();
    }
    ensure(right, || format!("a pod may more than it needs: {pod}"))
}

/// Checks that a container's binary accepts the flags, and that each file in a flag lies in a mounted volume.
fn flags_are_taken(container: &Value) -> Outcome {
    let strings = |field: &str| container[field].as_array().cloned().unwrap_or_default();
    let texts =
        |values: &[Value]| values.iter().filter_map(|value| value.as_str().map(str::to_owned)).collect::<Vec<_>>();
    let (command, flags) = (texts(&strings("command")), texts(&strings("args")));
    is_taken(command.first().map_or("", String::as_str), &flags)?;
    for path in flags.iter().filter_map(|flag| Some(flag.split_once('=')?.1)).filter(|value| value.starts_with('/')) {
        let mounts = strings("volumeMounts");
        let mounted =
            mounts.iter().filter_map(|mount| mount["mountPath"].as_str()).any(|place| path.starts_with(place));
        ensure(mounted, || format!("nothing is mounted at {path}"))?;
    }
    Ok(())
}

/// Checks that a binary of the image accepts these flags.
pub(crate) fn is_taken(binary: &str, flags: &[String]) -> Outcome {
    let line = std::iter::once(binary).chain(flags.iter().map(String::as_str));
    let parsed = match binary {
        "/depguard-webhook" => depguard_webhook::cli::Cli::try_parse_from(line).map(drop),
        "/depguard-controller" => depguard_controller::cli::Cli::try_parse_from(line).map(drop),
        _ => return Err(Stop::Failed(format!("`{binary}` is none of the binaries"))),
    };
    parsed.map_err(|why| Stop::Failed(format!("{binary} does not take {flags:?}: {why}")))
}
