//! Changes by number: how many were made, are in the file and on the device.

use headrace_model::Timestamp;

#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) changes: u64,
    pub(super) written: u64,
    pub(super) synced: u64,
    /// Number of the last change to be synced.
    pub(super) sync_target: u64,
    /// Time of the next background sync, for changes whose responses do not wait for one.
    pub(super) sync_deadline: Option<Timestamp>,
}

impl Progress {
    /// Return the number of a new change.
    pub(super) const fn next(&mut self) -> u64 {
        self.changes += 1;
        self.changes
    }

    /// Return whether a sync is to begin as soon as none is under way.
    pub(super) const fn is_sync_due(&self) -> bool {
        self.sync_target > self.synced && self.written > self.synced
    }

    /// Count all changes as done.
    pub(super) fn reset(&mut self) {
        *self = Self {
            changes: self.changes,
            written: self.changes,
            synced: self.changes,
            sync_target: self.changes,
            sync_deadline: None,
        };
    }

    /// Request a sync of this change.
    pub(super) fn sync(&mut self, change: u64) {
        self.sync_target = self.sync_target.max(change);
    }

    /// Request a sync of all changes.
    pub(super) fn sync_all(&mut self) {
        self.sync(self.changes);
    }

    /// Sync changes whose responses do not wait for a sync, to bound how far offsets fall back at a loss of power. An
    /// interval of zero leaves that to the kernel.
    pub(super) fn sync_in_background(&mut self, now: Timestamp, interval_micros: u64) {
        if interval_micros == 0 || self.sync_target >= self.changes {
            self.sync_deadline = None;
        } else if self.sync_deadline.is_some_and(|deadline| deadline <= now) {
            self.sync_deadline = None;
            self.sync_all();
        } else if self.sync_deadline.is_none() {
            self.sync_deadline = Some(Timestamp(now.0 + interval_micros));
        }
    }
}
