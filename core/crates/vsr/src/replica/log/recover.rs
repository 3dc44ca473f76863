//! Recovery of the log from the records of the journal and the superblock.

use super::Log;
use crate::api::RecoveredEntry;
use crate::frame::{PrepareHeader, Release};
use crate::superblock::RecordedView;

impl Log {
    /// Merge the records of the journal with the log that the superblock records. An entry that has lost a view change,
    /// or was accepted in a view that was never recorded (and so never acknowledged), is dropped; `sequence` is that of
    /// the superblock.
    pub(crate) fn recover(
        &mut self,
        entries: &[RecoveredEntry],
        recorded: &RecordedView,
        sequence: u64,
    ) {
        for entry in entries {
            if entry.op <= self.checkpoint.op {
                continue;
            }
            match entry.header {
                Some(header) => {
                    self.entries.recover(header, entry.intact);
                    if recorded.has_lost(&header) {
                        self.entries.drop_op(entry.op, sequence);
                        if entries.iter().any(|above| outlives(recorded, entry, above)) {
                            // The replacing prepare was stored before the entries above: it is damaged, not missing.
                            self.entries.recover_faulty(entry.op);
                        }
                    } else {
                        self.learn_commit(header.area.commit);
                    }
                }
                None => self.entries.recover_faulty(entry.op),
            }
        }
        for header in &recorded.headers {
            if !header.is_blank() && header.op() > self.checkpoint.op {
                self.entries.want(*header);
            }
        }
        self.head = self
            .entries
            .highest()
            .unwrap_or(0)
            .max(self.entries.faulty().last().unwrap_or(0))
            .max(self.checkpoint.op);
        self.floor = self
            .entries
            .lowest()
            .map_or(self.head + 1, |lowest| lowest.min(self.checkpoint.op + 1));
    }

    /// Latest release that a recorded prepare needs.
    pub(crate) fn latest_release(&self) -> Option<Release> {
        (self.checkpoint.op..=self.head)
            .filter_map(|op| self.header(op))
            .map(PrepareHeader::release_in_force)
            .max()
    }

    /// Take over the log of the only replica: it cannot be repaired, and every durable operation is committed. Returns
    /// the operation that is damaged, if one is.
    pub(crate) fn recover_alone(&mut self) -> Result<(), u64> {
        for op in self.checkpoint.op + 1..=self.head {
            let below = self.checksum(op - 1);
            let intact = self.is_available(op)
                && below.is_some()
                && self.header(op).map(PrepareHeader::parent) == below;
            if !intact {
                return Err(op);
            }
        }
        self.commit_max = self.head;
        self.link_floor = self.head.max(self.checkpoint.op + 1);
        Ok(())
    }
}

/// Return whether `above` lies above `lost` and still has its place in the log.
fn outlives(recorded: &RecordedView, lost: &RecoveredEntry, above: &RecoveredEntry) -> bool {
    above.op > lost.op
        && above
            .header
            .is_none_or(|header| !recorded.has_lost(&header))
}
