//! Kinds, objects and worlds of the cases: VMs of one provider refer to VPCs of another, and pods to config maps.

use depguard_core::ControlPlane;
use serde_json::{Value, json};

use crate::world::*;

pub(crate) const COMPUTE_GROUP: &str = "compute.example.com";
pub(crate) const NETWORK_GROUP: &str = "network.example.com";
pub(crate) const PROVIDER: &str = "root:providers:network";

const fn kind(group: &'static str, resource: &'static str, kind: &'static str, namespaced: bool) -> Kind {
    Kind { group, versions: &["v1alpha1", "v1"], resource, kind, namespaced }
}

pub(crate) const VM: Kind = kind(COMPUTE_GROUP, "virtualmachines", "VirtualMachine", true);
pub(crate) const RACK: Kind = kind(COMPUTE_GROUP, "racks", "Rack", false);
pub(crate) const VPC: Kind = kind(NETWORK_GROUP, "vpcs", "VPC", true);
pub(crate) const ZONE: Kind = kind(NETWORK_GROUP, "zones", "Zone", false);
pub(crate) const POD: Kind = Kind { group: "", versions: &["v1"], resource: "pods", kind: "Pod", namespaced: true };
pub(crate) const CONFIG: Kind =
    Kind { group: "", versions: &["v1"], resource: "configmaps", kind: "ConfigMap", namespaced: true };

/// Returns a VM that refers to a VPC.
pub(crate) fn vm(namespace: &str, name: &str, vpc: &str) -> Object {
    Object::new(VM, namespace, name).set("/spec/vpcRef/name", vpc)
}

pub(crate) fn rack(name: &str, vpc: &str) -> Object {
    Object::new(RACK, "", name).set("/spec/vpcRef/name", vpc)
}

pub(crate) fn vpc(namespace: &str, name: &str) -> Object {
    Object::new(VPC, namespace, name)
}

pub(crate) fn zone(name: &str) -> Object {
    Object::new(ZONE, "", name)
}

pub(crate) fn pod(namespace: &str, name: &str, config: &str) -> Object {
    Object::new(POD, namespace, name).set("/spec/configRef", config)
}

pub(crate) fn config(namespace: &str, name: &str) -> Object {
    Object::new(CONFIG, namespace, name)
}

/// Returns a world with VMs, racks, VPCs and zones of two providers, all bound, and one rule: VMs refer to VPCs.
pub(crate) fn bound() -> World {
    World::new(ControlPlane::Kcp).but(|world| {
        world.kinds = vec![VM, RACK, VPC, ZONE, POD, CONFIG];
        world.knows(PROVIDER, NETWORK);
        world.rules = vec![rule(COMPUTE, VM, ".spec.vpcRef.name", PROVIDER, VPC)];
        world.bindings = vec![
            binding(COMPUTE, "root:providers:compute", VM),
            binding(COMPUTE, "root:providers:compute", RACK),
            binding(NETWORK, PROVIDER, VPC),
            binding(NETWORK, PROVIDER, ZONE),
        ];
    })
}

/// Returns the same world as a plain cluster with a local rule.
pub(crate) fn plain() -> World {
    bound().but(|world| {
        world.control_plane = ControlPlane::Kubernetes;
        world.rules = vec![local_rule("anything", VM, ".spec.vpcRef.name", VPC)];
        world.bindings.clear();
    })
}

/// Returns a workspace with one local rule: pods refer to config maps.
pub(crate) fn local(cluster: &str) -> World {
    bound().but(|world| world.rules = vec![local_rule(cluster, POD, ".spec.configRef", CONFIG)])
}

/// Returns a world where namespace `ns` is being deleted. In `ns`, VM `m1` refers to VPC `a` and the VPC to the VM, by
/// two rules.
pub(crate) fn torn_down() -> World {
    bound().but(|world| {
        world.rules.push(rule(NETWORK, VPC, ".spec.gateway", "root:providers:compute", VM));
        world.knows("root:providers:compute", COMPUTE);
        world.objects = vec![vm("ns", "m1", "a"), vpc("ns", "a").set("/spec/gateway", "m1")];
        world.going.insert("ns".to_owned());
    })
}

pub(crate) fn about(dependent: Kind, path: &str, target: Kind) -> impl FnOnce(&mut World) {
    let rule = rule(COMPUTE, dependent, path, PROVIDER, target);
    move |world| world.rules = vec![rule]
}

/// Returns the world with one edit of its first rule.
pub(crate) fn ruled(world: &World, pointer: &str, value: impl Into<Value>) -> World {
    world.but(|world| set(&mut world.rules[0], pointer, value.into()))
}

pub(crate) fn asked_by(object: &Object, user: &str, groups: &[&str]) -> Value {
    let mut review = object.deletion();
    review["request"]["userInfo"] = json!({"username": user, "groups": groups});
    review
}

pub(crate) const BINDINGS: &str = "/apis/apis.kcp.io/v1alpha2/apibindings?limit=500";
pub(crate) const VMS: &str = "/apis/compute.example.com/v1alpha1/namespaces/ns/virtualmachines?limit=500";
pub(crate) const ALL_VMS: &str = "/apis/compute.example.com/v1alpha1/virtualmachines?limit=500";
pub(crate) const PODS: &str = "/api/v1/namespaces/ns/pods?limit=500";
pub(crate) const ALL_PODS: &str = "/api/v1/pods?limit=500";
pub(crate) const NAMESPACE: &str = "/api/v1/namespaces/ns";
pub(crate) const CLUSTER: &str = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster";
pub(crate) const VPCS: &str = "/apis/network.example.com/v1alpha1/namespaces/ns/vpcs?limit=500";
