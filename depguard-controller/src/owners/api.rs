//! The words of the API of GlobalOwners and GroupOwners.

use depguard_core::owners;
pub use depguard_core::owners::{GROUP, VERSION};

/// The most groups of a GlobalOwner.
pub const MAX_GROUPS: usize = 256;
/// The most names in a group.
pub const MAX_NAMES: usize = 1024;

/// What keeps a GlobalOwner until its groups are removed or released.
pub const FINALIZER: &str = "dependencies.opendefense.cloud/teardown";
/// On a GroupOwner and on a group's ClusterRole: a label with the UID of the GlobalOwner, by which both are found also
/// after the garbage collector has taken the owner reference away; and an annotation with its name.
pub const GLOBAL_OWNER: &str = "dependencies.opendefense.cloud/global-owner";
/// An annotation of a GroupOwner: which entry of the GlobalOwner's list it was made of, from 0 on.
pub const INDEX: &str = "dependencies.opendefense.cloud/group-index";
/// An annotation by which an object stays out: `"false"`.
pub const OPT_OUT: &str = "dependencies.opendefense.cloud/adopt";
/// The label that the older tool leaves out where no selector is given.
pub const SKIP_ADOPTION: &str = "skipAdoption";
/// The label by which a ClusterRole adds to what the controller may do with owned objects.
pub const AGGREGATE: &str = "dependencies.opendefense.cloud/aggregate-to-owners";

/// How a kind is called.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "made by depguard's other crates too, which say each field")]
pub struct Names {
    /// Its kind.
    pub kind: &'static str,
    /// Its name in URLs.
    pub plural: &'static str,
}

/// GlobalOwners.
pub const GLOBAL_OWNERS: Names = Names { kind: "GlobalOwner", plural: owners::GLOBAL_OWNERS };
/// GroupOwners.
pub const GROUP_OWNERS: Names = Names { kind: "GroupOwner", plural: owners::GROUP_OWNERS };

impl Names {
    /// `globalowner.metacontroller.io/v1alpha1`
    pub fn api_version() -> String {
        format!("{GROUP}/{VERSION}")
    }

    /// The path of all of them.
    pub fn collection(self) -> String {
        format!("/apis/{GROUP}/{VERSION}/{}", self.plural)
    }

    /// The path of one.
    pub fn path(self, name: &str) -> String {
        format!("{}/{name}", self.collection())
    }
}
