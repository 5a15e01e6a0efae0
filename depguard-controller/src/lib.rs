//! The controller of depguard: resolves rules, installs webhook configurations, reports status.

#[cfg(feature = "bin")]
pub mod cli;
mod desired;
pub mod manifests;
