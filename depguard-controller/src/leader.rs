pub(crate) mod election;
pub(crate) mod lease;
pub(crate) mod uninstall_watch;
pub(crate) mod write_permit;
