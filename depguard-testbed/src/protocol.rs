//! Kubernetes API as its clients see it: paths, tokens, objects, statuses and replies.

pub(crate) mod identity;
pub(crate) mod json;
pub(crate) mod reply;
pub(crate) mod routes;
pub(crate) mod status;
