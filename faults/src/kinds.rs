//! Kinds of targets and dependents: four pairs, one for each way in which depguard looks up dependents.

use serde_json::{Value, json};

/// Group and export of the targets.
pub(crate) const NETWORK: &str = "network.example.com";
/// Group and export of the dependents.
pub(crate) const COMPUTE: &str = "compute.example.com";
/// Version of both groups.
pub(crate) const VERSION: &str = "v1alpha1";
/// Namespaces of the objects. A target in one of them has a namesake in the other.
pub(crate) const NAMESPACES: [&str; 2] = ["default", "other"];
/// Field of references at the beginning.
pub(crate) const REF: &str = "targetRef";
/// Field of references once a rule was changed.
pub(crate) const OTHER_REF: &str = "otherRef";

/// Kind of targets, and the kind that refers to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pair {
    /// Machines: listed whole, page by page.
    Vpc,
    /// Servers: requested by a field selector.
    Net,
    /// Crates: the printed column is read.
    Zone,
    /// Guests: they may refer to hosts of another namespace, so those of all namespaces are listed.
    Host,
}

impl Pair {
    /// List of all pairs.
    pub const ALL: [Pair; 4] = [Pair::Vpc, Pair::Net, Pair::Zone, Pair::Host];

    /// Field of the spec that refers at the beginning.
    pub const REF: &str = REF;

    /// Returns true if references of this pair may name a namespace.
    pub(crate) fn crosses(self) -> bool {
        self == Pair::Host
    }

    pub(crate) fn target(self) -> (&'static str, &'static str) {
        match self {
            Pair::Vpc => ("VPC", "vpcs"),
            Pair::Net => ("Net", "nets"),
            Pair::Zone => ("Zone", "zones"),
            Pair::Host => ("Host", "hosts"),
        }
    }

    pub(crate) fn dependent(self) -> (&'static str, &'static str) {
        match self {
            Pair::Vpc => ("Machine", "machines"),
            Pair::Net => ("Server", "servers"),
            Pair::Zone => ("Crate", "crates"),
            Pair::Host => ("Guest", "guests"),
        }
    }

    /// Returns the path of the pair's targets in a namespace.
    pub fn targets_in(self, namespace: &str) -> String {
        format!("/apis/{NETWORK}/{VERSION}/namespaces/{namespace}/{}", self.target().1)
    }

    /// Returns the path of the pair's dependents in a namespace.
    pub fn dependents_in(self, namespace: &str) -> String {
        format!("/apis/{COMPUTE}/{VERSION}/namespaces/{namespace}/{}", self.dependent().1)
    }

    /// Returns a target.
    pub fn make_target(self, name: &str) -> Value {
        json!({
            "apiVersion": format!("{NETWORK}/{VERSION}"), "kind": self.target().0,
            "metadata": {"name": name}, "spec": {"cidr": "10.0.0.0/16"},
        })
    }

    /// Returns a dependent that refers by a field of its spec.
    pub fn make_dependent(self, name: &str, field: &str, target: &str) -> Value {
        json!({
            "apiVersion": format!("{COMPUTE}/{VERSION}"), "kind": self.dependent().0,
            "metadata": {"name": name}, "spec": {"image": "debian-12", (field): {"name": target}},
        })
    }

    /// Returns the name of the pair's rule.
    pub(crate) fn rule_name(self) -> String {
        format!("{}-{}", self.dependent().1, self.target().1)
    }

    /// Returns the rule by which the pair's dependents refer by this field of their spec.
    pub(crate) fn rule(self, field: &str) -> Value {
        let (dependent, target) = (self.dependent(), self.target());
        let mut reference = json!({"path": format!(".spec.{field}.name")});
        if self.crosses() {
            reference["namespacePath"] = json!(format!(".spec.{field}.namespace"));
        }
        json!({
            "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule",
            "metadata": {"name": self.rule_name()},
            "spec": {
                "dependent": {
                    "apiExportName": COMPUTE, "group": COMPUTE, "version": VERSION,
                    "kind": dependent.0, "resource": dependent.1,
                },
                "dependencies": [{
                    "apiExportRef": {"path": "root:network", "name": NETWORK},
                    "group": NETWORK, "version": VERSION, "resource": target.1,
                    "fieldRef": reference,
                }],
            },
        })
    }

    pub(crate) fn target_schema(self) -> Value {
        let (kind, plural) = self.target();
        schema(NETWORK, kind, plural, &json!({}))
    }

    pub(crate) fn dependent_schema(self) -> Value {
        let (kind, plural) = self.dependent();
        let path = format!(".spec.{REF}.name");
        let extra = match self {
            Pair::Vpc | Pair::Host => json!({}),
            Pair::Net => json!({"selectableFields": [{"jsonPath": path}]}),
            Pair::Zone => json!({"additionalPrinterColumns": [{"name": "Zone", "type": "string", "jsonPath": path}]}),
        };
        schema(COMPUTE, kind, plural, &extra)
    }
}

fn schema(group: &str, kind: &str, plural: &str, extra: &Value) -> Value {
    let text = json!({"type": "string"});
    let reference = json!({"type": "object", "properties": {"name": text, "namespace": text}});
    let mut version = json!({
        "name": VERSION, "served": true, "storage": true,
        "schema": {"type": "object", "properties": {"spec": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {(REF): reference, (OTHER_REF): reference},
        }}},
    });
    for (key, value) in extra.as_object().into_iter().flatten() {
        version[key] = value.clone();
    }
    json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema",
        "metadata": {"name": format!("v1.{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "versions": [version],
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
        },
    })
}
