//! Things on their way to a thread that waits in `poll` or in an event loop.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::event::{EventfdFlags, eventfd};

/// A queue with a descriptor that is readable while something waits. One wake-up serves everything that waits.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    waiting: Mutex<Vec<T>>,
    signal: OwnedFd,
    signalled: AtomicBool,
}

impl<T> Mailbox<T> {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            waiting: Mutex::default(),
            signal: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            signalled: AtomicBool::new(false),
        })
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<T>> {
        // Held for a push or a swap only.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, item: T) {
        self.waiting().push(item);
        self.wake();
    }

    /// Hand over all of `items`, which is empty afterwards.
    pub(crate) fn push_all(&self, items: &mut Vec<T>) {
        if items.is_empty() {
            return;
        }
        self.waiting().append(items);
        self.wake();
    }

    /// Everything that came since the last call, oldest first.
    pub(crate) fn take(&self) -> Vec<T> {
        // In this order: a push that comes before the flag is cleared does not write, and is taken below; one that comes
        // after it writes, and nobody reads that away.
        let mut counter = [0; 8];
        let _ = rustix::io::read(&self.signal, &mut counter);
        self.signalled.store(false, Ordering::SeqCst);
        core::mem::take(&mut *self.waiting())
    }

    fn wake(&self) {
        if !self.signalled.swap(true, Ordering::SeqCst) {
            // Fails only when the counter is full: it is readable already then.
            let _ = rustix::io::write(&self.signal, &1_u64.to_ne_bytes());
        }
    }
}

impl<T> AsFd for Mailbox<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.signal.as_fd()
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

    #[test]
    fn nothing_is_left_behind_by_many_writers() {
        let mailbox = Mailbox::new().unwrap();
        let mut taken = 0;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..50_000).for_each(|_| mailbox.push(0)));
            }
            while taken < 200_000 {
                let mut descriptors = [PollFd::new(&mailbox, PollFlags::IN)];
                poll(&mut descriptors, None).unwrap();
                taken += mailbox.take().len();
            }
        });
        assert_eq!(taken, 200_000);
    }
}
