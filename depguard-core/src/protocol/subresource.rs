//! Subresources through which a request changes an object, and the fields that the request can change.

use crate::model::field_path::{FieldPath, Segment};
use crate::model::names::GroupResource;

/// Subresource of a kind through which a request can change a field that a rule may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Subresource {
    /// The name.
    pub name: &'static str,
    /// Fields that a request can change; `*` stands for each element of a list or a map.
    fields: &'static [&'static str],
}

/// Subresources of Kubernetes' own kinds besides `status`, as its API servers implement them. `scale` is not among them:
/// `scale` changes a number, and rules read no numbers.
const OF_BUILT_IN: [(&str, &str, Subresource); 5] = [
    (
        "",
        "namespaces",
        Subresource {
            name: "finalize",
            fields: &[ANNOTATIONS, FINALIZERS, GENERATE_NAME, LABELS, OWNERS, "spec.finalizers"],
        },
    ),
    // The API server copies the annotations, the labels and the target's name of the Binding onto the Pod. It also sets
    // the condition `PodScheduled`, which the review does not show.
    ("", "pods", Subresource { name: Subresource::BINDING, fields: &[ANNOTATIONS, LABELS, "spec.nodeName"] }),
    ("", "pods", Subresource { name: "ephemeralcontainers", fields: &[GENERATE_NAME, "spec.ephemeralContainers"] }),
    (
        "",
        "pods",
        Subresource {
            name: "resize",
            fields: &[
                GENERATE_NAME,
                "spec.containers.*.resources",
                "spec.initContainers.*.resources",
                "spec.resources",
            ],
        },
    ),
    (
        "certificates.k8s.io",
        "certificatesigningrequests",
        Subresource { name: "approval", fields: &[ANNOTATIONS, FINALIZERS, GENERATE_NAME, LABELS, OWNERS, "status"] },
    ),
];

const ANNOTATIONS: &str = "metadata.annotations";
const FINALIZERS: &str = "metadata.finalizers";
const GENERATE_NAME: &str = "metadata.generateName";
const LABELS: &str = "metadata.labels";
const OWNERS: &str = "metadata.ownerReferences";

/// Status of a kind of Kubernetes' own. (Some of these kinds keep metadata as it is.)
const STATUS_OF_BUILT_IN: Subresource =
    Subresource { name: "status", fields: &[ANNOTATIONS, FINALIZERS, GENERATE_NAME, LABELS, OWNERS, "status"] };
/// Status of any other kind.
const STATUS: Subresource = Subresource { name: "status", fields: &["status"] };

impl Subresource {
    /// Name of the subresource that binds a Pod to a node. Its reviews hold a Binding. The reviews of each other
    /// subresource hold the whole object.
    pub const BINDING: &'static str = "binding";

    /// Returns the subresources of a kind. A kind that is none of Kubernetes' own may have no `status`.
    pub fn from_kind(kind: &GroupResource) -> impl Iterator<Item = Self> {
        let (group, resource) = (kind.group.as_str(), kind.resource.as_str());
        let of_kind = OF_BUILT_IN.iter().filter(move |(of, kind, _)| (*of, *kind) == (group, resource));
        let status = if kind.group.may_be_built_in() { STATUS_OF_BUILT_IN } else { STATUS };
        of_kind.map(|(_, _, subresource)| *subresource).chain([status])
    }

    /// Returns true if a request through the subresource can change a value at this path.
    pub fn changes(&self, path: &FieldPath) -> bool {
        let meets = |(segment, name): (&Segment, &str)| match segment {
            Segment::Name(own) => name == "*" || own == name,
            Segment::Index(_) => name == "*",
            // A string is changed as a whole.
            Segment::Wildcard | Segment::FromJson => true,
        };
        self.fields.iter().any(|field| path.segments().iter().zip(field.split('.')).all(meets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subresource_changes_what_is_in_its_fields_or_around_them() {
        for (kind, path, expected) in [
            ("virtualmachines.example.com", ".status.vpc", &["status"][..]),
            ("virtualmachines.example.com", ".metadata.labels.vpc", &[]),
            ("virtualmachines.example.com", "*.vpc", &["status"]),
            ("services", ".metadata.annotations['a.b/c']", &["status"]),
            ("services", ".metadata.annotations['a.b/c'].fromJSON()[*].name", &["status"]),
            ("services", ".metadata.name", &[]),
            ("services", ".metadata.ownerReferences[*].uid", &["status"]),
            ("deployments.apps", ".spec.replicas", &[]),
            ("namespaces", ".metadata.labels.vpc", &["finalize", "status"]),
            ("namespaces", ".spec.finalizers[*]", &["finalize"]),
            ("pods", ".spec.nodeName", &["binding"]),
            ("pods", ".metadata.labels.vpc", &["binding", "status"]),
            ("pods", ".spec.ephemeralContainers[0].image", &["ephemeralcontainers"]),
            ("pods", ".spec.containers[*].env[*].value", &[]),
            ("pods", ".spec.containers[0].resources.limits", &["resize"]),
            ("pods", ".spec.containers.fromJSON()", &["resize"]),
            ("pods", ".spec.*.name", &["binding", "ephemeralcontainers", "resize"]),
            ("certificatesigningrequests.certificates.k8s.io", ".status.x", &["approval", "status"]),
        ] {
            let path = FieldPath::parse(path).unwrap();
            let kind = kind.parse().unwrap();
            let all = Subresource::from_kind(&kind).filter(|subresource| subresource.changes(&path));
            assert_eq!(all.map(|subresource| subresource.name).collect::<Vec<_>>(), expected, "{kind} {path}");
        }
    }
}
