//! Request coalescing: reviews that need the same list at the same time share it, as in singleflight, but a review
//! joins a list only until the list is sent. A list that is older than the review could miss a dependent.
//!
//! ```text
//! reviews     A   B        C  D                 E
//!             |   |        |  |                 |
//!             v   v        v  v                 v
//! list 1      [waits][ sent ............ read ] A and B are answered
//! list 2                   [waits .............][ sent .... read ] C, D and E are answered
//! ```
//!
//! C and D arrive after list 1 was sent, so they wait for list 2; at most one list runs and one waits. A lookup that an
//! API server can answer by a field selector runs alone, until so many wait that one list is cheaper.
//!
//! [`batcher`] decides, without I/O; [`executor`] carries out its actions.

pub(crate) mod batcher;
pub(crate) mod executor;
