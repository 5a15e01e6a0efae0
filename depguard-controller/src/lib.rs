//! depguard-controller
