pub(crate) mod api_bindings;
pub(crate) mod bindings_list;
pub(crate) mod bound_kinds;
pub(crate) mod caller_scope;
pub(crate) mod candidates;
pub(crate) mod constraint_ends;
pub(crate) mod overrides;
pub(crate) mod rule_grant;
pub(crate) mod teardown;
pub(crate) mod teardown_exemption;
pub(crate) mod workspace_paths;

pub use rule_grant::{Acceptance, Grantee, PathLookups, RuleGrant, RuleGrants};
