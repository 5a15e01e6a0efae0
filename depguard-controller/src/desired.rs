//! What is to be installed.

/// The name of the one configuration that is installed at a place; the reference's.
pub(crate) const CONFIGURATION_NAME: &str = "dependency-controller";
