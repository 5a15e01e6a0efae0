//! depguard-kcp
