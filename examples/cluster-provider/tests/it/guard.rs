//! Tests of the provider's webhook, beside depguard's own and on a real API server.

mod bench;
mod corpus;
mod real;
