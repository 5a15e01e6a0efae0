//! The testbed, in this process.

use depguard_testbed::{Kind, Options, Testbed};

use super::{Access, Ring, Servers};
use crate::outcome::Outcome;
use crate::selection::RingKind;

pub(super) async fn start(kind: RingKind) -> Outcome<Ring> {
    let plays = if kind.is_kcp() { Kind::Kcp } else { Kind::Kubernetes };
    let mut options = Options::new(plays).rbac();
    if kind.reads_through_exports() {
        // Reading through exports is made for many shards.
        options = options.shards(["one", "two", "three"]);
    }
    let testbed = Testbed::start(options).await?;
    // The testbed takes a user's name as a token.
    let access = Access::new(testbed.url().to_owned(), testbed.ca_pem(), ["admin", "tenant", "masters"])?;
    Ring::open(kind, access, Servers::Testbed(testbed)).await
}
