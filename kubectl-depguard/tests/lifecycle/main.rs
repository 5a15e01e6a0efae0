//! `install`, `uninstall` and `status` against the testbed, in both homes.

mod bed;
mod installing;
mod leaving;
