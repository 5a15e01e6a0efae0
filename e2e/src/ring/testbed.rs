//! The testbed, in this process.

use depguard_testbed::{Kind, Options, Testbed};

use super::{Access, Ring, Servers};
use crate::outcome::Outcome;
use crate::selection::RingKind;

pub(super) async fn start(kind: RingKind) -> Outcome<Ring> {
    let plays = if kind.is_kcp() { Kind::Kcp } else { Kind::Kubernetes };
    let mut options = Options::new(plays).rbac();
    if kind.reads_through_exports() {
        // That way is for many shards.
        options = options.shards(["one", "two", "three"]);
    }
    let testbed = Testbed::start(options).await?;
    // There a token is its user's name.
    let access = Access::new(testbed.url().to_owned(), testbed.ca_pem(), ["admin", "tenant", "masters"])?;
    Ring::open(kind, access, Servers::Testbed(testbed)).await
}
