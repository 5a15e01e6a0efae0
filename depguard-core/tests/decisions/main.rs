//! What a deletion is decided by: each refusal with a twin one edit away that is allowed.

mod bearing;
mod cast;
mod overrides;
mod referrers;
mod reviews;
mod unknown;
mod world;
