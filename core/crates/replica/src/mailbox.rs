//! Queue to a thread that waits in `poll` or in an event loop.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    sync::{Mutex, MutexGuard, PoisonError},
};

use headrace_wakeup::Wakeup;

/// Queue with a descriptor that is readable while items wait. One wake-up serves all waiting items.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    waiting: Mutex<Vec<T>>,
    wakeup: Wakeup,
}

impl<T> Mailbox<T> {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            waiting: Mutex::default(),
            wakeup: Wakeup::new()?,
        })
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<T>> {
        // Held only for a push or a swap.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, item: T) {
        self.waiting().push(item);
        self.wakeup.wake();
    }

    /// Append all of `items`, which is empty afterwards.
    pub(crate) fn push_all(&self, items: &mut Vec<T>) {
        if items.is_empty() {
            return;
        }
        self.waiting().append(items);
        self.wakeup.wake();
    }

    /// Take all items since the last call, oldest first.
    pub(crate) fn take(&self) -> Vec<T> {
        self.wakeup.take(|| core::mem::take(&mut *self.waiting()))
    }
}

impl<T> AsFd for Mailbox<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn readable(mailbox: &Mailbox<u8>) -> bool {
        let mut descriptors = [PollFd::new(mailbox, PollFlags::IN)];
        poll(&mut descriptors, Some(&Timespec::default())).unwrap() == 1
    }

    #[test]
    fn it_is_readable_while_something_waits() {
        let mailbox = Mailbox::new().unwrap();
        assert!(!readable(&mailbox));
        mailbox.push(1);
        mailbox.push_all(&mut vec![2, 3]);
        assert!(readable(&mailbox));
        assert_eq!(mailbox.take(), [1, 2, 3]);
        assert!(!readable(&mailbox));
        assert!(mailbox.take().is_empty());
    }
}
