pub(crate) mod api_reader;
pub(crate) mod export_reader;
pub(crate) mod front_proxy;
pub(crate) mod read_path;
pub(crate) mod register_store;
