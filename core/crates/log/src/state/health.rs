//! Failure of a log, and lack of space, which passes (LOG-14).
//!
//! Messages that could not be written stay in memory at their offsets, and are what is retried. Their producers
//! received an error; the messages are stored once there is space all the same, as after a lost response.

use alloc::string::String;
use alloc::sync::Arc;

use headrace_model::{Namespace, Timestamp};

use crate::error::Failure;

/// Microseconds between two attempts.
const RETRY_MICROS: u64 = 1_000_000;

/// Reason why a log is read-only or out of service, if it is.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// The first reason: later failures are its consequences.
    pub(crate) failure: Option<Arc<Failure>>,
    /// Set if the failure is a lack of space.
    shortage: Option<OutOfSpace>,
}

/// State of a shortage of space.
#[derive(Debug)]
struct OutOfSpace {
    retry_at: Timestamp,
    /// True if the file of stored offsets is among the files that lack space.
    offsets: bool,
    /// True if that file may be tried now.
    may_retry_offsets: bool,
}

impl Health {
    /// Put down a failure that does not pass.
    pub(crate) fn fail(&mut self, namespace: Namespace, readable: bool, reason: String) {
        // Replace the reason of a shortage: a shortage passes, this failure does not.
        self.end_shortage();
        self.note(namespace, readable, reason);
    }

    /// Put down a lack of space. The log is read-only until there is space again.
    pub(crate) fn enter_shortage(
        &mut self,
        namespace: Namespace,
        reason: String,
        is_of_offsets: bool,
        now: Timestamp,
    ) {
        if self.failure.is_some() && self.shortage.is_none() {
            return;
        }
        self.note(namespace, true, reason);
        let had_offsets = self.shortage.take().is_some_and(|known| known.offsets);
        self.shortage = Some(OutOfSpace {
            retry_at: Timestamp(now.0 + RETRY_MICROS),
            offsets: had_offsets || is_of_offsets,
            may_retry_offsets: false,
        });
    }

    fn note(&mut self, namespace: Namespace, readable: bool, reason: String) {
        // Keep the first reason.
        if self.failure.is_none() {
            self.failure = Some(Arc::new(Failure {
                namespace,
                readable,
                reason,
            }));
        }
    }

    /// Forget every failure: the contents that had it are dropped.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Return whether the log is read-only only until space is found.
    pub(crate) fn is_out_of_space(&self) -> bool {
        self.shortage.is_some()
    }

    /// Time of the next retry.
    pub(crate) fn shortage_deadline(&self) -> Option<Timestamp> {
        self.shortage.as_ref().map(|shortage| shortage.retry_at)
    }

    /// Retry without delay: an operation succeeded, a file was removed, or this is the last opportunity.
    pub(crate) fn retry_now(&mut self) {
        if let Some(shortage) = &mut self.shortage {
            shortage.retry_at = Timestamp(0);
        }
    }

    /// Return whether a write of changed offsets may be tried now; true once per retry.
    pub(crate) fn take_offsets_retry(&mut self) -> bool {
        self.shortage
            .as_mut()
            .is_some_and(|shortage| core::mem::take(&mut shortage.may_retry_offsets))
    }

    /// Note that changed offsets were written.
    pub(crate) fn offsets_written(&mut self) {
        if let Some(shortage) = &mut self.shortage {
            shortage.offsets = false;
            self.retry_now();
        }
    }

    /// Note that messages were written.
    pub(crate) fn messages_written(&mut self) {
        if self.shortage.as_ref().is_some_and(|known| !known.offsets) {
            self.end_shortage();
        }
    }

    /// Return whether a wipe may go on: there is no failure, or a retry of what lacked space is due. The shortage lasts
    /// until the retry succeeds: otherwise each retry would take messages and refuse them a moment later.
    pub(crate) fn may_wipe(&mut self, now: Timestamp) -> bool {
        let Some(shortage) = &mut self.shortage else {
            return self.failure.is_none();
        };
        shortage.take_due(now)
    }

    /// End the shortage, if there is one. A failure that is no shortage stays.
    pub(crate) fn end_shortage(&mut self) {
        if self.shortage.take().is_some() {
            self.failure = None;
        }
    }

    /// Return whether what lacked space shall be retried now. `has_messages` is true if messages are to be written: the
    /// shortage is over if nothing is left to retry.
    pub(crate) fn take_retry(&mut self, now: Timestamp, has_messages: bool) -> bool {
        let Some(shortage) = &mut self.shortage else {
            return false;
        };
        if !shortage.take_due(now) {
            return false;
        }
        shortage.may_retry_offsets = shortage.offsets;
        let is_over = !has_messages && !shortage.offsets;
        if is_over {
            self.end_shortage();
        }
        !is_over
    }
}

impl OutOfSpace {
    /// Return whether a retry is due, and set the time of the next one.
    fn take_due(&mut self, now: Timestamp) -> bool {
        let is_due = self.retry_at <= now;
        if is_due {
            self.retry_at = Timestamp(now.0 + RETRY_MICROS);
        }
        is_due
    }
}
