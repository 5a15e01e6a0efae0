mod registers;
pub(crate) mod removal;
pub(crate) mod stale_webhooks;
