//! `why`: everything that stands in the way of a deletion.

mod files;
mod live;
mod obstacles;
mod obstacles_live;
