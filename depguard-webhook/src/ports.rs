pub(crate) mod api_reader;
pub(crate) mod export_reader;
pub(crate) mod front_proxy;
pub(crate) mod own_endpoint;
pub(crate) mod read_path;
