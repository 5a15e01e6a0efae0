pub(crate) mod admission_review;
pub(crate) mod cascade;
pub(crate) mod cause;
pub(crate) mod deletion_target;
pub(crate) mod discovery;
pub(crate) mod object_review;
pub(crate) mod paged_list;
pub(crate) mod printed_table;
pub(crate) mod problem;
pub(crate) mod query_queue;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod response_error;
pub(crate) mod reviewed_object;
#[cfg(any(feature = "interlock", feature = "locks"))]
pub(crate) mod shared_object;
pub(crate) mod subresource;
pub(crate) mod timeout;
pub(crate) mod unreviewed;

pub use admission_review::{Operation, Requester};
pub use cause::{Cause, Prospect};
pub use object_review::ObjectReview;
pub use paged_list::{PagedList, Progress};
pub use problem::{Remedy, Unresolved};
pub use request::{Accept, Ask, QueryId, Request, Send, Verb};
pub use response::Answer;
#[cfg(any(feature = "interlock", feature = "locks"))]
pub use shared_object::{SharedObject, SharedWrite, StoredRead, WriteResult, WriteStep};
pub use subresource::Subresource;
pub use unreviewed::Unreviewed;
