//! Tests of decisions: each refusal has a twin one edit away that is allowed; properties hold for all.

mod applicability;
mod cast;
mod changes;
mod corpus;
mod cycles;
mod driven;
mod eviction;
mod fixed_names;
mod generated;
mod lookups;
mod multus;
mod naive;
mod object_references;
mod overrides;
#[cfg(feature = "interlock")]
mod owners;
mod properties;
mod referrers;
mod reviews;
mod scopes;
#[cfg(feature = "interlock")]
mod strangers;
mod teardown;
mod unknown;
mod within;
mod world;
