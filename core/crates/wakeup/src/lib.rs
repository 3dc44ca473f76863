//! Wakes an event loop that waits for a descriptor, once for everything that came meanwhile.
//!
//! A flag beside an eventfd, so that only the first of many wake-ups costs a system call. What is waited for lies
//! elsewhere, mostly behind a lock: it is put there before [`Wakeup::wake`], and looked for within [`Wakeup::take`].
//!
//! The shards' own waker (`runtime::driver`) is another thing: it knows whether its driver sleeps, writes only then, and
//! its descriptor is read by the ring.

mod order;

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::event::{EventfdFlags, eventfd};

use order::Bell;

/// A descriptor that is readable from the first [`wake`](Self::wake) until the next [`take`](Self::take).
#[derive(Debug)]
pub struct Wakeup(Eventfd);

#[derive(Debug)]
struct Eventfd {
    event: OwnedFd,
    rung: AtomicBool,
}

impl Wakeup {
    /// One that is not readable yet.
    ///
    /// # Errors
    ///
    /// No file descriptor is free.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Eventfd {
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            rung: AtomicBool::new(false),
        }))
    }

    /// Make the descriptor readable. What there is to find has to be in its place before.
    pub fn wake(&self) {
        order::wake(&self.0);
    }

    /// What `look` finds. Whatever it comes too early for makes the descriptor readable again.
    pub fn take<R>(&self, look: impl FnOnce() -> R) -> R {
        order::take(&self.0, look)
    }
}

impl AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}

impl Bell for Eventfd {
    fn set_flag(&self) -> bool {
        self.rung.swap(true, Ordering::SeqCst)
    }

    fn clear_flag(&self) {
        // A read-modify-write and not a store: it must see what was written before the flag that it clears.
        self.rung.swap(false, Ordering::SeqCst);
    }

    fn signal(&self) {
        // Fails only when the counter is full: it is readable already then.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    fn silence(&self) {
        // Fails when nobody has signalled: there is nothing to read away then.
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
    }
}

#[cfg(test)]
mod tests;
