//! Value of a watch channel, without its lock.

use tokio::sync::watch::Receiver;

/// Returns a copy of the channel's value, and marks the value as seen.
///
/// A borrow would lock the channel. If two borrows of one channel are alive in a statement, and a writer comes in between,
/// then the reader and the writer wait for each other for ever. A copy can't.
#[expect(clippy::disallowed_methods, reason = "the borrow ends here")]
pub fn latest<T: Clone>(channel: &mut Receiver<T>) -> T {
    channel.borrow_and_update().clone()
}
