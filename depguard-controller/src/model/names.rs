//! Names of the objects that depguard makes.

use depguard_kcp::RegisterKeySecret;

/// depguard's own namespace, unless told otherwise.
pub const NAMESPACE: &str = RegisterKeySecret::NAMESPACE;
/// Name of the controllers' Lease, unless told otherwise.
pub(crate) const LEASE: &str = "depguard-controller";
/// Annotation of the controllers' Lease: version of the controller that wrote the Lease last.
pub const VERSION_ANNOTATION: &str = "dependencies.opendefense.cloud/version";
/// Name of the APIExport of locks, beside the export of rules: a workspace that uses locks need not be a provider.
pub const LOCK_EXPORT: &str = "locks.dependencies.opendefense.cloud";
/// Name of the configuration about deletions of rules' targets, the same as the reference's.
pub(crate) const RULES_CONFIGURATION: &str = "dependency-controller";
/// Name of the configuration about references that rules' dependents make.
pub(crate) const REFERENCES_CONFIGURATION: &str = "dependency-references";
/// Name of the configuration about rules that are about to be stored.
pub(crate) const SPEC_ADMISSION_CONFIGURATION: &str = "depguard-rules";
/// Name of the configuration about locks themselves.
pub(crate) const LOCK_KINDS_CONFIGURATION: &str = "depguard-lock-kinds";
/// Name of the configuration about locked objects.
pub(crate) const LOCKS_CONFIGURATION: &str = "depguard-locks";
/// Name of the configuration about objects that the older tool's Locks lock.
pub(crate) const COMPAT_LOCKS_CONFIGURATION: &str = "depguard-compat-locks";
/// `status.phase` of a GroupOwner that owns objects, or is about to.
pub(crate) const OWNING: &str = "Owning";
/// `status.phase` of a GlobalOwner whose groups are removed.
pub(crate) const REMOVING: &str = "Removing";
/// `status.phase` of a GlobalOwner whose groups are released.
pub(crate) const RELEASING: &str = "Releasing";
/// Condition of a rule whose new references and deletions of targets are interlocked.
pub(crate) const INTERLOCKED: &str = "Interlocked";
