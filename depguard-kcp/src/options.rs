pub(crate) mod features;
pub(crate) mod read_through;
