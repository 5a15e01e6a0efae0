//! The testbed, in this process.

use depguard_testbed::{Kind, Options, Testbed};

use super::{Access, Ring, Servers};
use crate::outcome::Outcome;
use crate::selection::RingKind;

pub(super) async fn start(kind: RingKind) -> Outcome<Ring> {
    let plays = if kind.is_kcp() { Kind::Kcp } else { Kind::Kubernetes };
    let testbed = Testbed::start(Options { kind: plays, ..Options::default() }).await?;
    // There a token is its user's name.
    let access = Access::new(testbed.url().to_owned(), testbed.ca_pem(), "admin", "tenant")?;
    Ring::open(kind, access, Servers::Testbed(testbed)).await
}
