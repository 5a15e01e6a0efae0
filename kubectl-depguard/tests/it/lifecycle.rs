//! `install`, `uninstall` and `status` against the testbed, on both control planes.

mod installing;
mod leaving;
mod versions;
