//! How much one workspace may have mirrored of a resource, so that none fills the memory that all share.

use depguard_core::{Home, RuleError};
use serde_json::Value;

/// What one logical cluster, or the one cluster there is, may have mirrored of each resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "made by depguard's other crates too, which say each field")]
pub struct Allowance {
    /// The most objects.
    pub objects: usize,
    /// The most memory that they take together, in bytes.
    pub memory: usize,
}

impl Allowance {
    /// Far above what a workspace has that is used as it is meant to be: a rule takes some
    /// 6 KiB, and 3 KiB more for each further dependency.
    pub const DEFAULT: Self = Self { objects: 2000, memory: 32 << 20 };
    /// No bound.
    pub(crate) const NONE: Self = Self { objects: usize::MAX, memory: usize::MAX };

    /// Why a rule can't be used that lies where there is more.
    pub fn exceeded(&self, home: Home) -> RuleError {
        let place = match home {
            Home::Kcp => "workspace",
            Home::Kubernetes => "cluster",
        };
        RuleError::Allowance { place, objects: self.objects, memory: self.memory >> 20 }
    }
}

impl Default for Allowance {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What a node of a map takes, however few entries are in it.
const NODE: usize = 640;
/// What an allocation takes beside what is in it.
const ALLOCATION: usize = 16;

/// About how much memory a value takes, in bytes.
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
