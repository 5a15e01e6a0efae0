//! Empty library: this crate has only the tests in `tests/`.
