//! Words of the API of GlobalOwners and GroupOwners.

use depguard_core::owners;
pub use depguard_core::owners::{GROUP, VERSION};

/// Finalizer that keeps a GlobalOwner until its groups are removed or released.
pub const FINALIZER: &str = "dependencies.opendefense.cloud/teardown";
/// Label and annotation of a GroupOwner and of a group's ClusterRole. The label holds the UID of the GlobalOwner, by
/// which both are found even after the garbage collector has taken the owner reference away; the annotation holds its
/// name.
pub const GLOBAL_OWNER: &str = "dependencies.opendefense.cloud/global-owner";
/// Annotation of a GroupOwner: the index of its entry in the GlobalOwner's list, from 0 on.
pub const INDEX: &str = "dependencies.opendefense.cloud/group-index";
/// Annotation by which an object stays out, with the value `"false"`.
pub const OPT_OUT: &str = "dependencies.opendefense.cloud/adopt";
/// Label by which a ClusterRole adds to the controller's rights to owned objects.
pub const AGGREGATE: &str = "dependencies.opendefense.cloud/aggregate-to-owners";

/// Names of a kind.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "depguard's other crates construct it with all fields")]
pub struct Names {
    /// The kind itself.
    pub kind: &'static str,
    /// Plural, the name in URLs.
    pub plural: &'static str,
}

/// Names of GlobalOwners.
pub const GLOBAL_OWNERS: Names = Names { kind: "GlobalOwner", plural: owners::GLOBAL_OWNERS };
/// Names of GroupOwners.
pub const GROUP_OWNERS: Names = Names { kind: "GroupOwner", plural: owners::GROUP_OWNERS };

impl Names {
    /// Returns the group and the version: `globalowner.metacontroller.io/v1alpha1`.
    pub fn api_version() -> String {
        format!("{GROUP}/{VERSION}")
    }

    /// Returns the path of the collection.
    pub fn collection(self) -> String {
        format!("/apis/{GROUP}/{VERSION}/{}", self.plural)
    }

    /// Returns the path of one object.
    pub fn path(self, name: &str) -> String {
        format!("{}/{name}", self.collection())
    }
}
