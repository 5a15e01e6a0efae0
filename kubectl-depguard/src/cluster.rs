//! Cluster that a command looks at: an API server, or manifests read as if they were one.

pub(crate) mod api_server;
pub(crate) mod built_in_kinds;
pub(crate) mod documents;
pub(crate) mod every_cluster;
pub(crate) mod files;
pub(crate) mod files_for_server;
pub(crate) mod kinds;
pub(crate) mod manifests;
pub(crate) mod named_objects;
pub(crate) mod object_record;
pub(crate) mod object_text;
pub(crate) mod record_reader;
pub(crate) mod resource_path;
pub(crate) mod rule_flaws;
pub(crate) mod rule_manifests;
pub(crate) mod rules;
pub(crate) mod selection;
pub(crate) mod source;
pub(crate) mod yaml;
