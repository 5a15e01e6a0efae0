pub(crate) mod endpoint_slices;
pub(crate) mod export_endpoints;
pub(crate) mod shard_hosts;
pub(crate) mod virtual_workspaces;
pub(crate) mod workspace_cache;
pub(crate) mod workspace_paths;
