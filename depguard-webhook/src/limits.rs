pub(crate) mod gauged_semaphore;
pub(crate) mod read_budget;
pub(crate) mod review_limits;
