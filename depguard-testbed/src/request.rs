//! Subjects of a request: the objects behind the door through which it came, and the change that it makes to them.

pub(crate) mod act;
pub(crate) mod view;
