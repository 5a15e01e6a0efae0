//! depguard-testbed
