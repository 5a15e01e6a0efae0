//! What a deletion is decided by: each refusal with a twin one edit away that is allowed, and properties of all.

mod bearing;
mod cast;
mod corpus;
mod cycles;
mod driven;
mod eviction;
mod generated;
mod held;
mod lookups;
mod naive;
mod overrides;
mod properties;
mod referrers;
mod reviews;
mod scopes;
mod teardown;
mod unknown;
mod within;
mod world;
