//! `kubectl depguard install` compared with the chart: both install the same objects.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use depguard_e2e::{Outcome, Stop, ensure};
use kubectl_depguard::{ExitStatus, Terminal};
use serde_json::Value;

use crate::chart::{Chart, NAMESPACE, parse};

/// Files with the rendered chart, and their values. `kubectl depguard install` replaces the names in these values.
const RENDERED: [(&str, &str); 2] = [
    (
        "kubernetes.yaml",
        "image: {repository: registry.invalid/depguard, tag: image}
tls: {certManager: {enabled: true}}
",
    ),
    (
        "kcp.yaml",
        "controlPlane: kcp
image: {repository: registry.invalid/depguard, tag: image}
tls: {certManager: {enabled: true}}
kcp: {kubeconfig: {controller: {secretName: controller-kubeconfig}, webhook: {secretName: webhook-kubeconfig}}}
webhook: {url: https://webhook.invalid/validate}
",
    ),
];
/// Kinds that `kubectl depguard install` takes from these files. It has the rights and the rules' kind from the same
/// source as the chart.
const KINDS: [&str; 6] = ["Deployment", "Service", "NetworkPolicy", "PodDisruptionBudget", "Certificate", "Issuer"];
const HEADER: &str = "# Generated from charts/depguard by the test of the chart; do not edit.\n";
/// Environment variable that makes the test write the files before comparing them.
const WRITE: &str = "DEPGUARD_WRITE";

/// Values of the chart, and the flags that mean the same.
pub(crate) const SAME: [(&str, &[&str]); 5] = [
    (
        "image: {repository: example.com/depguard, tag: '1'}
tls: {secretName: pair}
",
        &["--control-plane=kubernetes", "--tls-secret=pair"],
    ),
    (
        "image: {repository: example.com/depguard, tag: '1'}
tls: {certManager: {enabled: true}}
",
        &["--control-plane=kubernetes", "--cert-manager"],
    ),
    (
        "image: {repository: example.com/depguard, tag: '1'}
tls: {certManager: {enabled: true, issuerRef: {kind: ClusterIssuer, name: ours}}}
",
        &["--control-plane=kubernetes", "--cert-manager=ClusterIssuer/ours"],
    ),
    (
        "controlPlane: kcp
image: {repository: example.com/depguard, tag: '1'}
tls: {secretName: pair}
readThrough: export
kcp: {kubeconfig: {controller: {secretName: controller-kubeconfig}, webhook: {secretName: webhook-kubeconfig}}}
webhook: {url: 'https://guard.example.com:9443/validate'}
",
        &[
            "--control-plane=kcp",
            "--tls-secret=pair",
            "--webhook-url=https://guard.example.com:9443/validate",
            "--read-through=export",
        ],
    ),
    (
        "controlPlane: kcp
image: {repository: example.com/depguard, tag: '1'}
tls: {certManager: {enabled: true}}
kcp: {kubeconfig: {controller: {secretName: controller-kubeconfig}, webhook: {secretName: webhook-kubeconfig}}}
webhook: {url: 'https://10.0.0.1/validate'}
",
        &["--control-plane=kcp", "--cert-manager", "--webhook-url=https://10.0.0.1/validate"],
    ),
];

/// Checks that the files that `kubectl depguard install` uses are what helm makes of the chart.
pub(crate) fn as_rendered(chart: &Chart) -> Outcome {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../kubectl-depguard/manifests");
    for (file, values) in RENDERED {
        let text = chart.render(NAMESPACE, values, &[])?;
        let mut kept = Vec::new();
        for document in text.split("\n---\n").map(|document| document.trim_start_matches("---\n").trim_matches('\n')) {
            let kind = parse(document)?.first().and_then(|object| object["kind"].as_str().map(str::to_owned));
            // In kcp, these accounts exist only for the processes and have no rights.
            let is_account = file == "kcp.yaml" && kind.as_deref() == Some("ServiceAccount");
            if is_account || kind.is_some_and(|kind| KINDS.contains(&kind.as_str())) {
                kept.push(document.lines().map(|line| format!("{}\n", line.trim_end())).collect::<String>());
            }
        }
        let expected = format!("{HEADER}{}", kept.join("---\n"));
        let path = folder.join(file);
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(&path, &expected)?;
        }
        let held = std::fs::read_to_string(&path).unwrap_or_default();
        ensure(held == expected, || {
            format!("{} is out of date: {WRITE}=1 cargo test -p depguard-e2e --test chart writes it", path.display())
        })?;
    }
    Ok(())
}

/// Checks that `kubectl depguard install` would apply what the chart renders, apart from the maker's marks.
pub(crate) async fn is_the_chart(chart: &Chart, values: &str, flags: &[&str]) -> Outcome {
    const ELSEWHERE: &str = "elsewhere";
    let common = ["kubectl-depguard", "install", "-n", ELSEWHERE, "--image=example.com/depguard:1"];
    let line = common.iter().chain(flags).chain(&["--dry-run=client", "-oyaml"]).map(OsString::from);
    let (mut terminal, captured) = Terminal::captured("");
    let status = kubectl_depguard::run(line, &mut terminal).await;
    ensure(status == ExitStatus::Well, || captured.err())?;
    let is_kcp = values.starts_with("controlPlane: kcp");
    // The chart creates neither the objects in workspaces nor a namespace.
    let of_chart =
        |object: &Value| object["kind"] != "Namespace" && (!is_kcp || object["metadata"]["namespace"] == ELSEWHERE);
    let installed = by_name(parse(&captured.out())?.into_iter().filter(of_chart))?;
    // Before helm removes a release, it runs a Job; here `uninstall` is a command.
    let rendered = chart.objects(ELSEWHERE, values, &[])?;
    let rendered = by_name(rendered.into_iter().filter(|object| object["kind"] != "Job"))?;
    let names = |objects: &BTreeMap<String, Value>| objects.keys().cloned().collect::<Vec<_>>();
    ensure(names(&installed) == names(&rendered), || format!("{:?}\nnot {:?}", names(&installed), names(&rendered)))?;
    for (name, object) in &installed {
        let expected = &rendered[name];
        ensure(object == expected, || format!("{name} is installed as {object}\nwhere the chart has {expected}"))?;
    }
    Ok(())
}

fn by_name(objects: impl Iterator<Item = Value>) -> Outcome<BTreeMap<String, Value>> {
    let mut named = BTreeMap::new();
    for mut object in objects {
        without_maker(&mut object);
        let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        let name = format!("{} {}/{}", text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"]));
        if named.insert(name.clone(), object).is_some() {
            return Err(Stop::Failed(format!("there are two of {name}")));
        }
    }
    Ok(named)
}

/// Removes the fields that only say who made an object, and those that only helm reads.
fn without_maker(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for field in ["app.kubernetes.io/managed-by", "helm.sh/chart", "helm.sh/resource-policy"] {
                fields.remove(field);
            }
            fields.values_mut().for_each(without_maker);
            fields.retain(|name, value| name != "annotations" || *value != Value::Object(serde_json::Map::new()));
        }
        Value::Array(values) => values.iter_mut().for_each(without_maker),
        _ => {}
    }
}
