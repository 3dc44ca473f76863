//! Retention: the host decides time and bounds, the log removes segments.

use headrace_log::{Retention, RetentionRule};
use headrace_model::{Offset, Timestamp};

use super::Partition;
use crate::api::Outbox;

impl Partition {
    /// Time from which [`retain`](Self::retain) with the bounds of this rule may have something to do, never a later
    /// one. None until something changes here.
    pub fn retention_due(&self, rule: &RetentionRule) -> Option<Timestamp> {
        let is_retained = self.is_open() && !self.closing;
        is_retained.then(|| self.log.retention_due(rule)).flatten()
    }

    /// Remove sealed segments whose messages have all expired, and seal the open one if it is due.
    ///
    /// With `keeps_unread`, segments with messages behind the smallest stored offset are kept.
    pub fn retain(
        &mut self,
        retention: Retention,
        keeps_unread: bool,
        now: Timestamp,
        out: &mut Outbox,
    ) {
        if !self.is_open() || self.closing {
            return;
        }
        let barrier = self.unread_from(keeps_unread);
        self.log.retain(retention, barrier);
        self.log.end_of_turn(now, &mut out.storage);
        self.advance(now, out);
    }

    /// Remove the oldest segment if it is sealed and on the device. Returns true if it was removed.
    pub fn remove_oldest(&mut self, keeps_unread: bool, now: Timestamp, out: &mut Outbox) -> bool {
        if !self.is_open() || self.closing {
            return false;
        }
        let is_gone = self.log.remove_oldest(self.unread_from(keeps_unread));
        if is_gone {
            self.log.end_of_turn(now, &mut out.storage);
            self.advance(now, out);
        }
        is_gone
    }

    /// Smallest stored offset, if unread messages are to be kept.
    fn unread_from(&self, keeps_unread: bool) -> Option<Offset> {
        self.offsets.smallest().filter(|_| keeps_unread)
    }
}
