//! `why`: blockers of a deletion.

mod files;
mod live;
