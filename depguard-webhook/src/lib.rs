//! depguard-webhook
