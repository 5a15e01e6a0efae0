//! Fields of Kubernetes' own kinds that may name an object: each is in a rule, or left out for a reason.

use std::collections::BTreeSet;

use depguard_controller::packs::RulePack;
use serde_json::Value;

use super::{OPENAPI, covered, given, is_covered, openapi};

/// Kinds that have a Pod's template, with its path: what a Pod's fields are is said of Pods once.
const TEMPLATES: [(&str, &str); 6] = [
    ("deployments", ".spec.template"),
    ("replicasets", ".spec.template"),
    ("statefulsets", ".spec.template"),
    ("daemonsets", ".spec.template"),
    ("jobs", ".spec.template"),
    ("cronjobs", ".spec.jobTemplate.spec.template"),
];

#[test]
fn each_field_of_kubernetes_that_is_named_like_a_reference_is_in_a_rule_or_is_left_out_for_a_reason() {
    let Some(openapi) = given(OPENAPI) else { return };
    let openapi: Value = serde_json::from_slice(&std::fs::read(openapi).unwrap()).unwrap();
    let packs = RulePack::all().iter().filter(|pack| pack.name.starts_with("kubernetes-"));
    let covered: BTreeSet<_> = packs.flat_map(covered).collect();
    let (mut fields, mut missing) = (0, Vec::new());
    for definition in openapi::definitions(&openapi) {
        let resource = definition["spec"]["names"]["plural"].as_str().unwrap();
        let template = TEMPLATES.iter().find(|(of, _)| *of == resource).map(|(_, template)| *template);
        for path in openapi::candidates(&definition) {
            fields += 1;
            let in_pod = template.and_then(|template| path.strip_prefix(template));
            if !is_covered(&covered, resource, &path) && !in_pod.is_some_and(|path| is_covered(&covered, "pods", path))
            {
                missing.push(format!("{resource} {path}"));
            }
        }
    }
    assert!(missing.is_empty() && fields > 500, "{fields} fields, missing: {missing:#?}");
}
