//! Results of batches, and failures that were not asked for.

use std::ops::{Deref, Range};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headrace_sdk_core::{SendFailure, Stored};

use crate::promise::Promise;

/// Number of failed batches from which on those that are of no more use are dropped.
const FAILURES_MANY: usize = 1024;

/// The result of a batch, shared by its messages.
#[derive(Debug, Default)]
pub struct Delivery {
    result: Promise<Result<Stored, SendFailure>>,
    /// Messages of a failed batch whose results were asked for.
    asked: Mutex<PlaceSet>,
}

impl Delivery {
    /// Ask for the result of some messages of the batch, given by their places in it; `None` if it has not arrived.
    ///
    /// Asking twice for a message is asking once. A success costs no more than a copy of it.
    #[inline]
    pub fn ask(&self, messages: Range<u32>) -> Option<Result<Stored, SendFailure>> {
        let result = self.result.get()?;
        if result.is_err() {
            self.asked().add(messages);
        }
        Some(result)
    }

    /// Return whether the batch has failed, and the result of each of its messages was asked for.
    fn is_handled(&self, messages_count: u32) -> bool {
        self.asked().count >= messages_count
    }

    fn asked(&self) -> MutexGuard<'_, PlaceSet> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deref for Delivery {
    type Target = Promise<Result<Stored, SendFailure>>;

    fn deref(&self) -> &Self::Target {
        &self.result
    }
}

/// A set of places in a batch.
#[derive(Debug, Default)]
struct PlaceSet {
    /// A bit for each place.
    words: Vec<u64>,
    count: u32,
}

impl PlaceSet {
    fn add(&mut self, places: Range<u32>) {
        let words = places.end.div_ceil(u64::BITS) as usize;
        if self.words.len() < words {
            self.words.resize(words, 0);
        }
        for place in places {
            let bit = 1 << (place % u64::BITS);
            let word = &mut self.words[(place / u64::BITS) as usize];
            self.count += u32::from(*word & bit == 0);
            *word |= bit;
        }
    }
}

/// Batches that have failed, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// The batches with the numbers of their messages.
    batches: Vec<(Arc<Delivery>, u32)>,
    /// Number of batches at which those of no more use are looked for.
    prune_at: usize,
}

impl Failures {
    /// Add a batch with the number of its messages.
    pub(super) fn add(&mut self, batch: Arc<Delivery>, messages_count: u32) {
        if self.batches.len() >= self.prune_at.max(FAILURES_MANY) {
            self.prune();
            self.prune_at = 2 * self.batches.len();
        }
        self.batches.push((batch, messages_count));
    }

    /// Take the first failure with a message whose result was not asked for, and forget all others.
    pub(super) fn take(&mut self) -> Option<SendFailure> {
        self.prune_at = 0;
        let batches = std::mem::take(&mut self.batches);
        let mut unhandled = (batches.iter()).filter(|(batch, count)| !batch.is_handled(*count));
        unhandled.find_map(|(batch, _)| batch.get()?.err())
    }

    /// Drop batches that [`Self::take`] cannot return: those that are handled, and those behind one that can no
    /// longer be. Callers keep deliveries of all others but one, so there are no more of them than of these.
    fn prune(&mut self) {
        let mut is_certain = false;
        self.batches.retain(|(batch, messages_count)| {
            // Read first: a caller that asks for a message keeps its delivery until then.
            let is_abandoned = Arc::strong_count(batch) == 1;
            if is_certain || batch.is_handled(*messages_count) {
                return false;
            }
            is_certain = is_abandoned;
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use headrace_sdk_core::Failure;

    use super::*;

    fn failure() -> SendFailure {
        SendFailure::Request(Failure::Closed)
    }

    fn failed() -> Arc<Delivery> {
        let batch = Arc::<Delivery>::default();
        batch.fulfil(Err(failure()));
        batch
    }

    #[test]
    fn a_failure_is_taken_while_a_message_was_not_asked_for() {
        for (asked, is_taken) in [
            (&[][..], true),
            (&[0..1, 0..1, 1..2, 1..2], true),
            (&[0..1, 2..200, 198..200], true),
            (&[0..1, 2..200, 0..3], false),
            (&[0..100, 100..200], false),
        ] {
            let batch = failed();
            let mut failures = Failures::default();
            failures.add(Arc::clone(&batch), 200);
            for messages in asked {
                assert_eq!(batch.ask(messages.clone()), Some(Err(failure())));
            }
            assert_eq!(failures.take(), is_taken.then(failure), "{asked:?}");
            assert_eq!(failures.take(), None);
        }
    }

    #[test]
    fn only_results_that_have_arrived_are_asked_for() {
        let batch = Arc::<Delivery>::default();
        assert_eq!(batch.ask(0..1), None);
        batch.fulfil(Err(failure()));
        let mut failures = Failures::default();
        failures.add(Arc::clone(&batch), 1);
        assert_eq!(failures.take(), Some(failure()));
        let batch = Arc::<Delivery>::default();
        let stored = Stored {
            partition: 1,
            base_offset: Some(2),
        };
        batch.fulfil(Ok(stored));
        assert_eq!(batch.ask(0..1), Some(Ok(stored)));
        assert!(batch.asked().words.is_empty());
    }

    #[test]
    fn failures_that_were_asked_for_do_not_displace_later_ones() {
        let mut failures = Failures::default();
        for _ in 0..2 * FAILURES_MANY {
            let batch = failed();
            failures.add(Arc::clone(&batch), 1);
            assert_eq!(batch.ask(0..1), Some(Err(failure())));
        }
        assert!(failures.batches.len() <= FAILURES_MANY);
        failures.add(failed(), 1);
        assert_eq!(failures.take(), Some(failure()));
    }

    #[test]
    fn a_failure_that_is_asked_for_late_does_not_displace_a_later_one() {
        let mut failures = Failures::default();
        let kept: Vec<_> = (0..3 * FAILURES_MANY).map(|_| failed()).collect();
        for batch in &kept {
            failures.add(Arc::clone(batch), 1);
        }
        failures.add(failed(), 1);
        for batch in kept {
            assert_eq!(batch.ask(0..1), Some(Err(failure())));
        }
        assert_eq!(failures.take(), Some(failure()));
    }

    #[test]
    fn failures_without_a_caller_do_not_add_up() {
        let mut failures = Failures::default();
        for _ in 0..10 * FAILURES_MANY {
            failures.add(failed(), 1);
        }
        assert!(failures.batches.len() <= FAILURES_MANY);
        assert_eq!(failures.take(), Some(failure()));
        assert_eq!(failures.take(), None);
    }
}
