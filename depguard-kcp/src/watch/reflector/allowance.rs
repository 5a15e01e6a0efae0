//! Limits of the watched objects of one workspace, so that no workspace fills the memory that all share.

use depguard_core::{ControlPlane, RuleError};
use serde_json::Value;

/// Limits of the watched objects of each resource, for one logical cluster or for a plain cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "depguard's other crates construct it with all fields")]
pub struct Allowance {
    /// Maximum of objects.
    pub objects: usize,
    /// Maximum of memory of all these objects, in bytes.
    pub memory: usize,
}

impl Allowance {
    /// Default limits, far above the needs of a workspace that is used as intended: a rule counts as some 6 KiB, and 3 KiB
    /// more for each further dependency.
    pub const DEFAULT: Self = Self { objects: 2000, memory: 32 << 20 };
    /// No limit.
    pub(crate) const NONE: Self = Self { objects: usize::MAX, memory: usize::MAX };

    /// Returns the error of a rule in a workspace, or a plain cluster, that exceeds the limits.
    pub fn exceeded(&self, control_plane: ControlPlane) -> RuleError {
        let place = match control_plane {
            ControlPlane::Kcp => "workspace",
            ControlPlane::Kubernetes => "cluster",
        };
        RuleError::Allowance { place, objects: self.objects, memory: self.memory >> 20 }
    }
}

impl Default for Allowance {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Bytes of a map's node, however few its entries are.
const NODE: usize = 640;
/// Bytes of an allocation besides its content.
const ALLOCATION: usize = 16;

/// Returns the approximate memory of a value, in bytes.
pub(super) fn weigh(value: &Value) -> usize {
    let inside = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len().saturating_add(ALLOCATION),
        Value::Array(items) => items.iter().fold(ALLOCATION, |sum, item| sum.saturating_add(weigh(item))),
        Value::Object(fields) => {
            let nodes = fields.len().div_ceil(8).saturating_mul(NODE);
            let texts =
                fields.iter().map(|(key, value)| weigh(value).saturating_add(key.len()).saturating_add(ALLOCATION));
            texts.fold(nodes, usize::saturating_add)
        }
    };
    inside.saturating_add(size_of::<Value>())
}
