//! Checker of alarms: a replica that reads damaged data must report it, and must not raise an alarm without a cause.

use std::collections::BTreeSet;

use super::violation::{Check, Violation};

/// Fault of a node that may make replicas raise an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Durable bytes of a journal record were damaged.
    Record,
    /// Copies of the superblock were damaged.
    Superblock,
    /// A checkpoint was damaged.
    Checkpoint,
    /// A sync failed and the data to be synced was lost.
    FailedSync,
    /// A file was truncated, lost or swapped with another one.
    File,
    /// The disk was full.
    Full,
    /// The disk was replaced by an empty one.
    Replaced,
    /// The data directory was replaced by an older copy.
    OlderCopy,
    /// The process crashed, possibly in the middle of a write.
    Crash,
    /// The process ended in order, and another one began.
    Stop,
    /// The process crashed in the middle of a journal write, or a power loss left an arbitrary part of the unsynced
    /// writes.
    Torn,
}

/// Alarm raised by a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// Damaged records in its journal.
    Records,
    /// Damaged copies of its superblock, which it rewrites.
    Superblock,
    /// No replica has an operation that may have been acknowledged.
    Undecidable,
    /// The disk of the replica is full.
    Full,
    /// The data directory is empty although the group is not new.
    LostDisk,
    /// The data directory of a replica is an older copy.
    OlderCopy,
}

impl Alarm {
    /// Causes, any of which justifies the alarm, and whether the cause must affect the replica that raises the alarm.
    const fn causes(self) -> (&'static [Cause], bool) {
        use Cause::{
            Checkpoint, Crash, FailedSync, File, Full, OlderCopy, Record, Replaced, Stop, Torn,
        };
        match self {
            Self::Records => (&[Record, FailedSync, File, OlderCopy, Torn], true),
            Self::Superblock => (&[Cause::Superblock, Crash, File, OlderCopy], true),
            Self::Undecidable => (
                &[Record, Checkpoint, FailedSync, File, OlderCopy, Replaced],
                false,
            ),
            Self::Full => (&[Full], true),
            Self::LostDisk => (&[Replaced, File, OlderCopy], true),
            // The last message of a process may arrive after the first one of its successor.
            Self::OlderCopy => (&[OlderCopy, Crash, Stop], false),
        }
    }
}

/// Causes for alarms that have occurred in a run.
#[derive(Clone, Debug, Default)]
pub struct Causes {
    of: BTreeSet<(u8, Cause)>,
}

impl Causes {
    /// Record a cause for alarms at a node.
    pub fn add(&mut self, node: u8, cause: Cause) {
        self.of.insert((node, cause));
    }

    /// Check that an alarm raised by a replica has a cause.
    pub fn check(&self, node: u8, alarm: Alarm) -> Result<(), Violation> {
        let (causes, is_own) = alarm.causes();
        let is_reason =
            |(at, cause): &(u8, Cause)| causes.contains(cause) && (!is_own || *at == node);
        if self.of.iter().any(is_reason) {
            return Ok(());
        }
        let what = format!("replica {node} raises the alarm {alarm:?} without a cause");
        Err(Violation::new(Check::Alarm, what))
    }
}

/// Verdict of a recovery scan about a damaged record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The operation is missing.
    Absent,
    /// The record is reported as damaged.
    Damaged,
    /// The record is reported as intact.
    Intact,
    /// Another record of the operation is used or takes precedence, or the damage has left an intact record.
    Superseded,
}

/// Check the verdict of a start that has read a record of `op` whose bytes are still damaged.
pub fn check_verdict(op: u64, verdict: Verdict) -> Result<(), Violation> {
    let what = match verdict {
        Verdict::Damaged | Verdict::Superseded => return Ok(()),
        Verdict::Absent => "is taken for one that was never there",
        Verdict::Intact => "is taken for whole",
    };
    let what = format!("the damaged record of operation {op} {what}");
    Err(Violation::new(Check::Alarm, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_with_a_cause_are_accepted() {
        let mut causes = Causes::default();
        causes.add(1, Cause::Record);
        causes.add(2, Cause::Full);
        causes.check(1, Alarm::Records).unwrap();
        causes.check(2, Alarm::Full).unwrap();
        // Damage at one replica may leave another one unable to decide.
        causes.check(0, Alarm::Undecidable).unwrap();
        // A message of an earlier process arrives after those of its successor.
        causes.add(2, Cause::Stop);
        causes.check(0, Alarm::OlderCopy).unwrap();
        check_verdict(7, Verdict::Damaged).unwrap();
        check_verdict(7, Verdict::Superseded).unwrap();
    }

    #[test]
    fn alarms_without_a_cause_and_silence_about_damage_are_rejected() {
        let mut causes = Causes::default();
        causes.add(1, Cause::Record);
        causes.add(1, Cause::Crash);
        let alarm = |node, alarm| causes.check(node, alarm).expect_err("no cause").check;
        // The damage is at another replica.
        assert_eq!(alarm(0, Alarm::Records), Check::Alarm);
        // The cause is of a different kind.
        assert_eq!(alarm(1, Alarm::Full), Check::Alarm);
        assert_eq!(alarm(1, Alarm::LostDisk), Check::Alarm);
        for verdict in [Verdict::Absent, Verdict::Intact] {
            let violation = check_verdict(7, verdict).expect_err("silence");
            assert_eq!(violation.check, Check::Alarm);
        }
    }
}
