pub(crate) mod features;
pub(crate) mod memory_budget;
pub(crate) mod read_through;
