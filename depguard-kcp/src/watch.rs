pub(crate) mod channel;
pub(crate) mod metadata;
pub(crate) mod reflector;
pub(crate) mod steady;
