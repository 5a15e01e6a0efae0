pub(crate) mod channel;
pub(crate) mod metadata;
pub(crate) mod reflector;
