pub(crate) mod latest;
pub(crate) mod metadata;
pub(crate) mod reflector;
