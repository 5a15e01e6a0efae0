pub(crate) mod batcher;
pub(crate) mod executor;
