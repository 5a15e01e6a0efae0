pub(crate) mod admission_review;
pub(crate) mod deletion_target;
pub(crate) mod discovery;
pub(crate) mod paged_list;
pub(crate) mod printed_table;
pub(crate) mod problem;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod response_error;
pub(crate) mod timeout;
pub(crate) mod unreviewed;

pub use admission_review::{Operation, Requester};
pub use paged_list::{PagedList, Progress};
pub use problem::{Remedy, Unresolved};
pub use request::{Accept, QueryId, Request, Send, Verb};
pub use response::Answer;
pub use unreviewed::Unreviewed;
