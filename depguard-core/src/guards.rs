#[cfg(feature = "locks")]
pub mod locks;
#[cfg(feature = "owners")]
pub mod owners;
pub mod spec_admission;
