//! Fields by which Kubernetes selects objects of its own kinds. No schema tells them: each is a line of Kubernetes' code.
//!
//! `e2e/tests/scenarios/lookups.rs` asks a real kube-apiserver for each of them, and for the other fields by which the
//! ready-made rules could look dependents up. docs/status.md has the table.

use crate::model::field_path::FieldPath;
use crate::model::names::GroupVersionResource;

/// Fields that can hold the name of another object, by group and resource.
const FIELDS: [(&str, &str, &[&str]); 8] = [
    (
        "",
        "pods",
        &["spec.nodeName", "spec.serviceAccountName", "spec.schedulerName", "status.nominatedNodeName", "status.podIP"],
    ),
    ("", "services", &["spec.clusterIP", "spec.type"]),
    ("", "secrets", &["type"]),
    ("", "events", &["involvedObject.name", "involvedObject.namespace", "involvedObject.uid", "reportingComponent"]),
    ("resource.k8s.io", "resourceslices", &["spec.nodeName", "spec.driver"]),
    ("certificates.k8s.io", "certificatesigningrequests", &["spec.signerName"]),
    ("certificates.k8s.io", "clustertrustbundles", &["spec.signerName"]),
    ("certificates.k8s.io", "podcertificaterequests", &["spec.signerName", "spec.podName", "spec.nodeName"]),
];

/// Returns the fields by which a kube-apiserver selects objects of a built-in kind, beside name and namespace.
pub fn built_in_fields(gvr: &GroupVersionResource) -> Vec<FieldPath> {
    let of_kind =
        FIELDS.iter().filter(|(group, resource, _)| gvr.group.as_str() == *group && gvr.resource.as_str() == *resource);
    of_kind.flat_map(|(_, _, fields)| *fields).filter_map(|field| FieldPath::parse(field).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_table() {
        let mut table = "| kind | fields |\n|---|---|\n".to_owned();
        for (group, resource, fields) in FIELDS {
            let dot = if group.is_empty() { "" } else { "." };
            let fields: Vec<_> = fields.iter().map(|field| format!("`.{field}`")).collect();
            table += &format!("| {resource}{dot}{group} | {} |\n", fields.join(", "));
        }
        let page = include_str!("../../../docs/status.md");
        assert!(page.contains(&table), "docs/status.md lacks the table:\n{table}");
    }
}
