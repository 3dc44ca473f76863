//! Wake-up of an event loop that waits for a descriptor, once for all items that arrived meanwhile.
//!
//! A flag beside an eventfd, so that only the first of many wake-ups costs a system call. The items are stored
//! elsewhere, usually behind a lock: they are stored before [`Wakeup::wake`], and taken within [`Wakeup::take`].
//!
//! The waker of the shards (`runtime::driver`) is different: it knows whether its driver sleeps, writes only in that
//! case, and the ring reads its descriptor.

mod order;

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::event::{EventfdFlags, eventfd};

use order::WakeupSignal;

/// Descriptor that is readable from the first [`wake`](Self::wake) until the next [`take`](Self::take).
#[derive(Debug)]
pub struct Wakeup(Eventfd);

#[derive(Debug)]
struct Eventfd {
    event: OwnedFd,
    is_set: AtomicBool,
}

impl Wakeup {
    /// Create a wake-up that is not signalled.
    ///
    /// # Errors
    /// No file descriptor is available.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Eventfd {
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            is_set: AtomicBool::new(false),
        }))
    }

    /// Make the descriptor readable. The items must be stored before.
    pub fn wake(&self) {
        order::wake(&self.0);
    }

    /// Return the result of `look`. An item stored too late for `look` makes the descriptor readable again.
    pub fn take<R>(&self, look: impl FnOnce() -> R) -> R {
        order::take(&self.0, look)
    }
}

impl AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}

impl WakeupSignal for Eventfd {
    fn set_flag(&self) -> bool {
        self.is_set.swap(true, Ordering::SeqCst)
    }

    fn clear_flag(&self) {
        // A read-modify-write and not a store: it must see the writes before the flag that it clears.
        self.is_set.swap(false, Ordering::SeqCst);
    }

    fn signal(&self) {
        // Fails only if the counter is full: the descriptor is readable already in that case.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    fn silence(&self) {
        // Fails if there was no signal: nothing needs to be read in that case.
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
    }
}

#[cfg(test)]
mod tests;
