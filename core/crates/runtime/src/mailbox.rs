//! Bounded queues into a shard, from other shards and from the control plane.
//!
//! One queue per receiver with any number of senders. Messages of one sender arrive in their order, which is all that
//! requests and their answers need, and a receiver has one queue to poll. A queue per pair of shards would save the
//! senders one contended word, but n shards would poll n - 1 queues per turn and hold n times the memory, and the
//! control plane, which is no shard, would need queues of its own. Measured: 50 to 70 ns for a message in and out, its
//! share of the wake-up included, with one to four senders at once.
//!
//! A full queue returns the message: the sender keeps it and slows down, so nothing is lost and nothing grows
//! (SHARD-5). The sender is woken when there is room again. No thread waits inside this module, so two shards that have
//! filled each other's queues both go on emptying their own.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use crossbeam_queue::ArrayQueue;

use crate::driver::Waker;

struct Shared<T> {
    queue: ArrayQueue<T>,
    waker: Waker,
    /// True if `refused` is not empty: saves the receiver the lock as long as no sender was refused.
    has_refused: AtomicBool,
    /// Senders to be woken when there is room.
    refused: Mutex<Vec<Waker>>,
}

/// Sending end of a mailbox.
pub(crate) struct Sender<T> {
    shared: Arc<Shared<T>>,
    /// Woken when there is room after a refusal.
    own: Option<Waker>,
}

/// Receiving end of a mailbox; there is exactly one.
pub(crate) struct Receiver<T>(Arc<Shared<T>>);

/// Create a queue for `capacity` messages whose receiver waits in the driver of `waker`.
pub(crate) fn channel<T>(capacity: usize, waker: Waker) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        queue: ArrayQueue::new(capacity),
        waker,
        has_refused: AtomicBool::new(false),
        refused: Mutex::default(),
    });
    let sender = Sender {
        shared: Arc::clone(&shared),
        own: None,
    };
    (sender, Receiver(shared))
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            own: self.own.clone(),
        }
    }
}

impl<T> Sender<T> {
    /// Sender for a shard: after a refusal its driver is woken as soon as there is room.
    pub(crate) fn for_shard(&self, waker: Waker) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            own: Some(waker),
        }
    }

    /// Queue a message and wake the receiver; a full queue returns the message.
    pub(crate) fn try_send(&self, message: T) -> Result<(), T> {
        if let Err(message) = self.shared.queue.push(message) {
            let Some(own) = &self.own else {
                return Err(message);
            };
            self.shared.wake_when_there_is_room(own);
            // The receiver may have made room before it could see this sender's request for a wake-up.
            self.shared.queue.push(message)?;
        }
        // Costs a system call only if the receiver sleeps.
        self.shared.waker.wake();
        Ok(())
    }

    /// Number of messages that wait.
    pub(crate) fn len(&self) -> usize {
        self.shared.queue.len()
    }
}

impl<T> Receiver<T> {
    /// Take the oldest message.
    pub(crate) fn try_recv(&self) -> Option<T> {
        let message = self.0.queue.pop();
        // In one total order with the queue's own head: either this load sees that a sender was refused, or the refused
        // sender sees the slot that became free.
        if self.0.has_refused.load(Ordering::SeqCst) {
            self.0.there_is_room();
        }
        message
    }
}

impl<T> Shared<T> {
    fn wake_when_there_is_room(&self, waker: &Waker) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if !refused.iter().any(|other| other.is_same(waker)) {
            refused.push(waker.clone());
        }
        // Set under the lock, so that it is never false while the list has an entry.
        self.has_refused.store(true, Ordering::SeqCst);
    }

    /// Wake refused senders once half the queue is free: a sender woken for one slot would be refused again at once.
    #[cold]
    fn there_is_room(&self) {
        if self.queue.len() > self.queue.capacity() / 2 {
            return;
        }
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_refused.store(false, Ordering::SeqCst);
        for waker in refused.drain(..) {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Duration};

    use super::*;

    #[test]
    fn a_full_queue_gives_the_message_back() {
        let (sender, receiver) = channel(2, Waker::new().expect("a descriptor"));
        assert_eq!(sender.try_send(1), Ok(()));
        assert_eq!(sender.try_send(2), Ok(()));
        assert_eq!(sender.try_send(3), Err(3));
        assert_eq!(receiver.try_recv(), Some(1));
        assert_eq!(sender.try_send(3), Ok(()));
        assert_eq!(receiver.try_recv(), Some(2));
        assert_eq!(receiver.try_recv(), Some(3));
        assert_eq!(receiver.try_recv(), None);
    }

    /// SHARD-5: several senders, a slow receiver, a small queue: everything arrives, each sender's in order.
    #[test]
    fn nothing_is_lost_or_reordered_under_pressure() {
        const EACH: u64 = 20_000;
        let (sender, receiver) = channel(16, Waker::new().expect("a descriptor"));
        let senders: Vec<_> = (0..3_u64)
            .map(|name| {
                let sender = sender.clone();
                thread::spawn(move || {
                    for number in 0..EACH {
                        let mut message = (name, number);
                        while let Err(refused) = sender.try_send(message) {
                            message = refused;
                            thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        let mut next = [0_u64; 3];
        while next.iter().sum::<u64>() < 3 * EACH {
            while let Some((name, number)) = receiver.try_recv() {
                let expected = &mut next[usize::try_from(name).expect("small")];
                assert_eq!(number, *expected);
                *expected += 1;
            }
            thread::sleep(Duration::from_micros(1));
        }
        for sender in senders {
            sender.join().expect("no panic");
        }
    }

    /// SHARD-5: a shard that was refused sleeps until there is room, and is woken then.
    #[test]
    fn who_was_refused_is_woken_when_there_is_room() {
        use crate::driver::{DriverChoice, Selection, Workers};

        const MESSAGES: u64 = 5_000;
        let (sender, receiver) = channel(8, Waker::new().expect("a descriptor"));
        let waker = Waker::new().expect("a descriptor");
        let sender = sender.for_shard(waker.clone());
        let shard = thread::spawn(move || {
            let selection = Selection::decide(DriverChoice::Poll).expect("always there");
            let workers = Workers::new(Workers::threads_by_default());
            let mut driver = selection.open(waker, workers).expect("a driver opens");
            for number in 0..MESSAGES {
                let mut message = number;
                while let Err(refused) = sender.try_send(message) {
                    message = refused;
                    // Only a wake-up ends this wait before the timeout.
                    driver
                        .poll(Some(Duration::from_secs(20)), &mut Vec::new())
                        .expect("it works");
                }
            }
        });
        let begin = std::time::Instant::now();
        let mut expected = 0;
        while expected < MESSAGES {
            assert!(
                begin.elapsed() < Duration::from_secs(15),
                "a wake-up was missed"
            );
            match receiver.try_recv() {
                Some(number) => {
                    assert_eq!(number, expected);
                    expected += 1;
                }
                None => thread::yield_now(),
            }
        }
        shard.join().expect("no panic");
    }
}
