//! Alarms of replicas: what was damaged is noticed by the one that reads it, and nothing is said to be wrong without a cause.

use std::collections::BTreeSet;

use super::{Check, Violation};

/// What was done to a node, that may make replicas raise an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Durable bytes of a record of the journal were damaged.
    Record,
    /// Copies of the superblock were damaged.
    Superblock,
    /// A checkpoint was damaged.
    Checkpoint,
    /// A sync failed, and what it was to make durable is gone.
    FailedSync,
    /// A file was cut short, lost or swapped with another one.
    File,
    /// The disk was full.
    Full,
    /// The disk was replaced by an empty one.
    Replaced,
    /// The folder was replaced by an older copy.
    OlderCopy,
    /// The process has died, perhaps in the middle of a write.
    Death,
    /// The process has died in the middle of a write of the journal, or the power went and left any part of what was not
    /// synced.
    Torn,
}

/// What a replica says to be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// Records of its journal.
    Records,
    /// Copies of its superblock, which it writes anew.
    Superblock,
    /// No replica has an operation that may have been acknowledged.
    Undecidable,
    /// Its disk is full.
    Full,
    /// Its folder is empty and the group is not new.
    LostDisk,
    /// The folder of a replica is an older copy.
    OlderCopy,
}

impl Alarm {
    /// Any of which is a reason for it, and whether it has to be the replica's own.
    const fn causes(self) -> (&'static [Cause], bool) {
        use Cause::{Checkpoint, Death, FailedSync, File, Full, OlderCopy, Record, Replaced, Torn};
        match self {
            Self::Records => (&[Record, FailedSync, File, OlderCopy, Torn], true),
            Self::Superblock => (&[Cause::Superblock, Death, File, OlderCopy], true),
            Self::Undecidable => (
                &[Record, Checkpoint, FailedSync, File, OlderCopy, Replaced],
                false,
            ),
            Self::Full => (&[Full], true),
            Self::LostDisk => (&[Replaced, File, OlderCopy], true),
            // The last word of a process that is over may come after its successor's.
            Self::OlderCopy => (&[OlderCopy, Death], false),
        }
    }
}

/// What has happened in a run that may be a reason for alarms.
#[derive(Clone, Debug, Default)]
pub struct Causes {
    of: BTreeSet<(u8, Cause)>,
}

impl Causes {
    /// Something was done to a node.
    pub fn add(&mut self, node: u8, cause: Cause) {
        self.of.insert((node, cause));
    }

    /// A replica raises an alarm.
    pub fn justify(&self, node: u8, alarm: Alarm) -> Result<(), Violation> {
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

/// A record that was damaged, and what its reader says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing: there is no such operation.
    Absent,
    /// It is damaged.
    Damaged,
    /// It is whole.
    Intact,
    /// Another record of the operation serves or counts for more, or the damage has left a whole one.
    Superseded,
}

/// A start has read a record of `op` whose damaged bytes are still there.
pub fn must_be_noticed(op: u64, verdict: Verdict) -> Result<(), Violation> {
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
        causes.justify(1, Alarm::Records).unwrap();
        causes.justify(2, Alarm::Full).unwrap();
        // Damage at one replica may leave another one unable to decide.
        causes.justify(0, Alarm::Undecidable).unwrap();
        must_be_noticed(7, Verdict::Damaged).unwrap();
        must_be_noticed(7, Verdict::Superseded).unwrap();
    }

    #[test]
    fn alarms_without_a_cause_and_silence_about_damage_are_rejected() {
        let mut causes = Causes::default();
        causes.add(1, Cause::Record);
        causes.add(1, Cause::Death);
        let alarm = |node, alarm| causes.justify(node, alarm).expect_err("no cause").check;
        // The damage is another replica's.
        assert_eq!(alarm(0, Alarm::Records), Check::Alarm);
        // The cause is one of something else.
        assert_eq!(alarm(1, Alarm::Full), Check::Alarm);
        assert_eq!(alarm(1, Alarm::LostDisk), Check::Alarm);
        for verdict in [Verdict::Absent, Verdict::Intact] {
            let violation = must_be_noticed(7, verdict).expect_err("silence");
            assert_eq!(violation.check, Check::Alarm);
        }
    }
}
