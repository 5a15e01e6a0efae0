pub(crate) mod deletion_order;
pub(crate) mod strongly_connected;

pub use deletion_order::{DeletionOrder, feedback_edges};
pub use strongly_connected::strongly_connected_components;
