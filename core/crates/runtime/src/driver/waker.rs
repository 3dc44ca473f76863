//! Wakes a driver from another thread.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use rustix::event::{EventfdFlags, eventfd};

const AWAKE: u8 = 0;
const ASLEEP: u8 = 1;
const NOTIFIED: u8 = 2;

/// Wakes one driver. Cheap to clone, usable from any thread.
///
/// Wake-ups coalesce: only the first one of a sleeping driver costs a system call, and none of a busy one does. All
/// memory written before [`wake`](Self::wake) is visible to the driver's thread after the `poll` that the wake-up ends.
#[derive(Debug, Clone)]
pub struct Waker(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: AtomicU8,
    event: OwnedFd,
}

impl Waker {
    /// Create a waker for a driver that is opened later, so that senders to a shard can be built before its thread
    /// runs.
    ///
    /// # Errors
    ///
    /// No file descriptor is free.
    pub fn new() -> io::Result<Self> {
        // Blocking on purpose: the ring answers a read of a non-blocking descriptor with EAGAIN instead of
        // waiting for it.
        let event = eventfd(0, EventfdFlags::CLOEXEC)?;
        Ok(Self(Arc::new(Shared {
            state: AtomicU8::new(AWAKE),
            event,
        })))
    }

    /// End the driver's current wait, or make its next one return at once.
    pub fn wake(&self) {
        if self.0.state.swap(NOTIFIED, Ordering::AcqRel) == ASLEEP {
            // Fails only if the counter is about to exceed 2^64 - 2: it is not 0 then, which is enough to wake the
            // sleeper.
            let _ = rustix::io::write(&self.0.event, &1_u64.to_ne_bytes());
        }
    }

    /// Return whether both wake the same driver.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Mark the driver as about to wait. `false`: a wake-up came already, so it must not wait.
    pub(super) fn fall_asleep(&self) -> bool {
        self.0
            .state
            .compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Mark the driver as awake: it returns from the kernel and its thread checks everything that was sent to it.
    ///
    /// A read-modify-write and not a store: it must see what the thread that set `NOTIFIED` wrote before.
    pub(super) fn stay_awake(&self) {
        self.0.state.swap(AWAKE, Ordering::AcqRel);
    }

    /// Descriptor that is readable after a wake-up of a sleeping driver.
    pub(super) fn event(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn readable(waker: &Waker) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(waker.event(), PollFlags::IN)];
        let none = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut fds, Some(&none)).unwrap() == 1
    }

    #[test]
    fn a_busy_driver_is_woken_without_a_system_call() {
        let waker = Waker::new().unwrap();
        waker.wake();
        assert!(!readable(&waker));
        assert!(!waker.fall_asleep(), "the wake-up is not lost");
        waker.stay_awake();
        assert!(waker.fall_asleep());
    }

    #[test]
    fn a_sleeping_driver_gets_one_event_for_many_wake_ups() {
        let waker = Waker::new().unwrap();
        assert!(waker.fall_asleep());
        waker.wake();
        waker.clone().wake();
        assert!(readable(&waker));
        let mut count = [0; 8];
        rustix::io::read(waker.event(), &mut count).unwrap();
        assert_eq!(u64::from_ne_bytes(count), 1);
    }
}
