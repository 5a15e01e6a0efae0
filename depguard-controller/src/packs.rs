//! Packs of ready-made rules: references between the kinds of Kubernetes, of kcp and of well-known products.
//!
//! A pack is data; [`manifests`](crate::manifests) makes files and rights of it.

mod argo_cd;
mod artifact_conduit;
mod cert_manager;
mod cluster_api;
mod crossplane;
mod external_secrets;
mod flux;
mod gateway_api;
mod kcp;
mod kubernetes;
mod kubevirt;
mod notation;
mod openmcp;

use depguard_core::ControlPlane;
use serde_json::Value;

/// Rules that belong together, ready to apply.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct RulePack {
    /// Name of the pack, and of its file without the ending.
    pub name: &'static str,
    /// Control plane that has the kinds.
    pub control_plane: ControlPlane,
    /// Part of a sentence that begins with "keeps": the objects that are protected, and from whom.
    pub protects: &'static str,
    /// Sentences to read before one applies the rules.
    pub notes: &'static [&'static str],
    /// Definitions against which the paths were checked, with their version, or the reason why there are none.
    pub held_against: &'static str,
    /// Maker of the rules.
    rules: fn() -> Vec<Value>,
    /// Fields that name objects, and that no rule of the pack follows.
    pub left_out: &'static [LeftOut],
}

/// Field that names an object, and the reason why no rule follows it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct LeftOut {
    /// Plural of the kind that has the field.
    pub resource: &'static str,
    /// Path of the field, as a rule would have it.
    pub path: &'static str,
    /// Part of a sentence: the reason.
    pub reason: &'static str,
}

impl RulePack {
    /// All packs, in the order in which they are listed.
    pub const ALL: [Self; 14] = [
        kubernetes::workloads::PACK,
        kubernetes::cluster::PACK,
        kubernetes::since_1_34::PACK,
        kcp::PACK,
        argo_cd::PACK,
        artifact_conduit::PACK,
        cert_manager::PACK,
        cluster_api::PACK,
        crossplane::PACK,
        external_secrets::PACK,
        flux::PACK,
        gateway_api::PACK,
        kubevirt::PACK,
        openmcp::PACK,
    ];

    /// Returns the pack with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|pack| pack.name == name)
    }

    /// Returns the rules.
    pub fn rules(&self) -> Vec<Value> {
        (self.rules)()
    }
}
