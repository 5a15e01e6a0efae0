//! Objects of the comparison.

use depguard_e2e::Resource;
use serde_json::{Value, json};

pub(crate) const GROUP: &str = "compare.example.com";
pub(crate) const VERSION: &str = "v1alpha1";
pub(crate) const NAMESPACE: &str = "default";

/// Bytes of uid, revision, time and cluster, which every server adds.
const STAMPED: usize = 200;

/// Number of dependents that refer to one target.
pub(crate) const EACH: usize = 10;

/// Kind of the comparison. The four kinds of targets tell the webhooks and the ways of lookup apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Dependents whose schema declares no selectable field.
    Machine,
    /// Dependents whose reference is selectable.
    Server,
    /// Dependents whose reference is not selectable, but a column that the server prints.
    Crate,
    /// Targets of machines; depguard reviews them.
    Vpc,
    /// Targets of servers; depguard reviews them.
    Net,
    /// Targets of crates; depguard reviews them.
    Zone,
    /// Targets of machines; the stand-in reviews them.
    Old,
}

impl Kind {
    pub(crate) const ALL: [Kind; 7] =
        [Kind::Machine, Kind::Server, Kind::Crate, Kind::Vpc, Kind::Net, Kind::Zone, Kind::Old];
    pub(crate) const DEPENDENTS: [Kind; 3] = [Kind::Machine, Kind::Server, Kind::Crate];
    pub(crate) const TARGETS: [Kind; 4] = [Kind::Vpc, Kind::Net, Kind::Zone, Kind::Old];

    pub(crate) fn kind(self) -> &'static str {
        match self {
            Kind::Machine => "Machine",
            Kind::Server => "Server",
            Kind::Crate => "Crate",
            Kind::Vpc => "Vpc",
            Kind::Net => "Net",
            Kind::Zone => "Zone",
            Kind::Old => "Old",
        }
    }

    pub(crate) fn plural(self) -> &'static str {
        match self {
            Kind::Machine => "machines",
            Kind::Server => "servers",
            Kind::Crate => "crates",
            Kind::Vpc => "vpcs",
            Kind::Net => "nets",
            Kind::Zone => "zones",
            Kind::Old => "olds",
        }
    }

    /// Returns the path of the kind's objects in the one namespace.
    pub(crate) fn collection(self) -> String {
        format!("/apis/{GROUP}/{VERSION}/namespaces/{NAMESPACE}/{}", self.plural())
    }

    pub(crate) fn schema_name(self) -> String {
        format!("v1.{}.{GROUP}", self.plural())
    }

    pub(crate) fn schema(self) -> Value {
        let mut version = json!({
            "name": VERSION, "served": true, "storage": true,
            "schema": {"type": "object", "properties": {
                "spec": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"vpcRef": {"type": "object", "properties": {"name": {"type": "string"}}}},
                },
                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }},
        });
        if self == Kind::Server {
            version["selectableFields"] = json!([{"jsonPath": ".spec.vpcRef.name"}]);
        }
        if self == Kind::Crate {
            version["additionalPrinterColumns"] =
                json!([{"name": "VPC", "type": "string", "jsonPath": ".spec.vpcRef.name"}]);
        }
        json!({
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema",
            "metadata": {"name": self.schema_name()},
            "spec": {
                "group": GROUP, "scope": "Namespaced", "versions": [version],
                "names": {
                    "kind": self.kind(), "listKind": format!("{}List", self.kind()),
                    "plural": self.plural(), "singular": self.kind().to_lowercase(),
                },
            },
        })
    }

    fn resource(self, provider: &str) -> Resource {
        Resource {
            group: GROUP.to_owned(),
            plural: self.plural().to_owned(),
            kind: self.kind().to_owned(),
            export: Some((provider.to_owned(), GROUP.to_owned())),
            ..Resource::namespaced(self.kind())
        }
    }
}

/// Returns the rules: machines refer to vpcs, servers to nets, crates to zones. Only the stand-in knows of references
/// to olds.
pub(crate) fn rules(provider: &str) -> Vec<Value> {
    [(Kind::Machine, Kind::Vpc), (Kind::Server, Kind::Net), (Kind::Crate, Kind::Zone)]
        .iter()
        .map(|(dependent, target)| {
            let target = target.resource(provider);
            depguard_e2e::rules::rule(
                dependent.plural(),
                &dependent.resource(provider),
                &[(&target, ".spec.vpcRef.name")],
            )
        })
        .collect()
}

/// Returns a target. Free targets form sets with a label, so that each set can be deleted as a collection.
pub(crate) fn target(kind: Kind, name: &str, set: &str) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"), "kind": kind.kind(),
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"set": set}},
        "spec": {"cidr": "10.0.0.0/16"},
    })
}

/// Template of dependents of about one size, which differ in their names and in their references.
#[derive(Debug, Clone)]
pub(crate) struct Template(Value);

impl Template {
    /// Returns a template of objects that are about `bytes` long in an API server's list. With `managed`, they have the
    /// `managedFields` that a real server adds, about a quarter of a small object.
    pub(crate) fn new(kind: Kind, bytes: usize, managed: bool) -> Self {
        let mut object = json!({
            "apiVersion": format!("{GROUP}/{VERSION}"), "kind": kind.kind(),
            "metadata": {"name": name_of(0), "namespace": NAMESPACE, "labels": {"app": "web", "tier": "prod"}},
            "spec": {"vpcRef": {"name": "target-000000"}, "image": "debian-12", "cpus": 4, "memoryGiB": 16, "disks": []},
        });
        let mut stamped = STAMPED;
        if managed {
            object["metadata"]["managedFields"] = managed_fields();
        } else {
            stamped += managed_fields().to_string().len();
        }
        for n in 0.. {
            if object.to_string().len() + stamped >= bytes {
                break;
            }
            if let Some(disks) = object["spec"]["disks"].as_array_mut() {
                let name = format!("disk-{n}");
                disks.push(json!({"name": name, "sizeGiB": 40 + n, "class": "fast-replicated", "mount": format!("/srv/data/{name}")}));
            }
        }
        Self(object)
    }

    /// Makes the `n`th of `count` objects. Each target has ten dependents, spread over the whole list.
    pub(crate) fn make(&self, n: usize, count: usize) -> Value {
        let mut object = self.0.clone();
        object["metadata"]["name"] = json!(name_of(n));
        object["spec"]["vpcRef"]["name"] = json!(format!("target-{:06}", n % (count / EACH).max(1)));
        object
    }
}

fn managed_fields() -> Value {
    json!([{
        "manager": "kubectl", "operation": "Apply", "apiVersion": format!("{GROUP}/{VERSION}"),
        "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:app": {}, "f:tier": {}}}, "f:spec": {
            ".": {}, "f:cpus": {}, "f:disks": {}, "f:image": {}, "f:memoryGiB": {}, "f:vpcRef": {".": {}, "f:name": {}},
        }},
    }])
}

/// Returns the name of a dependent.
pub(crate) fn name_of(n: usize) -> String {
    format!("m{n:07}")
}

/// Target that some dependents refer to.
pub(crate) const BUSY: &str = "target-000007";

/// Returns the name of a target that nothing refers to.
pub(crate) fn free(n: usize) -> String {
    format!("free-{n:04}")
}
