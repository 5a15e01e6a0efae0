//! Requesters and their rights: who may do what, by RBAC and by the groups of each control plane.

pub(crate) mod access_review;
pub(crate) mod authenticate;
pub(crate) mod authorize;
pub(crate) mod escalate;
pub(crate) mod rbac;
