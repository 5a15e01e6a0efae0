//! depguard-core
