//! Values of watch channels, read without a lock and sent only if they are new.

use tokio::sync::watch::{Receiver, Sender};

/// Returns a copy of the channel's value, and marks the value as seen.
///
/// A borrow would lock the channel. If two borrows of one channel are alive in a statement, and a writer comes in between,
/// then the reader and the writer wait for each other for ever. A copy can't.
#[expect(clippy::disallowed_methods, reason = "the borrow ends here")]
pub fn latest<T: Clone>(channel: &mut Receiver<T>) -> T {
    channel.borrow_and_update().clone()
}

/// Replaces the channel's value by another one, and wakes the channel's readers. An equal value wakes nobody.
pub fn send_if_new<T: PartialEq>(channel: &Sender<T>, value: T) {
    channel.send_if_modified(|known| {
        let is_new = *known != value;
        if is_new {
            *known = value;
        }
        is_new
    });
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;

    use super::*;

    #[test]
    fn readers_are_woken_by_another_value_alone() {
        let (sender, mut receiver) = watch::channel(1);
        send_if_new(&sender, 1);
        assert!(!receiver.has_changed().unwrap());
        send_if_new(&sender, 2);
        assert!(receiver.has_changed().unwrap());
        assert_eq!(latest(&mut receiver), 2);
        assert!(!receiver.has_changed().unwrap());
    }
}
