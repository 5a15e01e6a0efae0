pub(crate) mod job;
pub(crate) mod outstanding;
pub(crate) mod prober;
pub(crate) mod result;
pub(crate) mod webhook_probe;
