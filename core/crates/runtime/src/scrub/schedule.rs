//! Schedule of the scrub: which part is checked next, in which pass, and which places are known to be damaged.
//!
//! A pass goes through all parts in the order of their numbers. The position is kept, so that a process that restarts
//! often does not check the first partitions again and again, and never the last.

use std::collections::BTreeSet;

use headrace_model::{Namespace, Offset, PartitionId, StreamId, TopicId};
use serde::{Deserialize, Serialize};

use crate::fsck::{Finding, FindingKind, units::Unit};

/// Maximum number of damaged places that are kept.
const DAMAGE_MAX: usize = 1000;
/// Maximum number of damaged places of one part that are kept.
const DAMAGE_OF_PART_MAX: usize = 100;

/// A part of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Part {
    pub(super) namespace: Namespace,
    pub(super) unit: Unit,
}

/// A part as it is kept in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct StoredPart {
    stream: u32,
    topic: u32,
    partition: u32,
    /// None for the files beside the log.
    segment: Option<u64>,
}

impl From<Part> for StoredPart {
    fn from(part: Part) -> Self {
        Self {
            stream: part.namespace.stream().0,
            topic: part.namespace.topic().0,
            partition: part.namespace.partition().0,
            segment: match part.unit {
                Unit::Companions => None,
                Unit::Segment(base) => Some(base.0),
            },
        }
    }
}

impl StoredPart {
    fn part(self) -> Option<Part> {
        let (stream, topic) = (StreamId(self.stream), TopicId(self.topic));
        let namespace = Namespace::new(stream, topic, PartitionId(self.partition)).ok()?;
        let unit = self
            .segment
            .map_or(Unit::Companions, |base| Unit::Segment(Offset(base)));
        Some(Part { namespace, unit })
    }
}

/// A damaged place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Damage {
    part: StoredPart,
    /// Path of the file in the data directory.
    pub(super) path: String,
    /// Kind of the finding.
    pub(super) kind: FindingKind,
    /// Position of the first byte, if the place is known.
    pub(super) position: Option<u64>,
    /// Offset of the first message affected, if messages are.
    pub(super) offset: Option<u64>,
    /// Explanation for operators.
    pub(super) explanation: String,
    /// Pass that found it last.
    #[serde(default)]
    pass: u64,
}

impl Damage {
    pub(super) fn part(&self) -> Option<Part> {
        self.part.part()
    }

    fn is_at(&self, other: &Self) -> bool {
        (&self.path, self.kind, self.position) == (&other.path, other.kind, other.position)
    }
}

/// Progress, as it is kept in a file. Times are seconds since 1970.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Progress {
    /// Number of the pass.
    pass: u64,
    /// Time at which the pass began.
    began: Option<u64>,
    /// Time at which the last whole pass ended.
    ended: Option<u64>,
    /// True between the beginning and the end of a pass.
    is_under_way: bool,
    /// Part that was checked last in this pass.
    position: Option<StoredPart>,
    /// Places found damaged that are not known to be whole again.
    pub(super) damage: Vec<Damage>,
}

/// Schedule of the scrub.
pub(super) struct Schedule {
    interval_seconds: u64,
    pub(super) progress: Progress,
}

impl Schedule {
    /// Continue with the progress that an earlier process has made.
    pub(super) fn new(interval_seconds: u64, progress: Progress) -> Self {
        Self {
            interval_seconds,
            progress,
        }
    }

    /// Begin or continue a pass if one is due; returns the seconds to wait otherwise.
    pub(super) fn begin(&mut self, now: u64) -> Result<(), u64> {
        let progress = &mut self.progress;
        if progress.is_under_way {
            return Ok(());
        }
        if let Some(began) = &mut progress.began {
            // A clock that was set back does not put off the next pass by more than an interval.
            *began = (*began).min(now);
            let due = began.saturating_add(self.interval_seconds);
            if now < due {
                return Err(due - now);
            }
        }
        progress.pass += 1;
        progress.began = Some(now);
        progress.is_under_way = true;
        progress.position = None;
        Ok(())
    }

    /// Return whether this pass has still to check a part of this partition.
    pub(super) fn may_want(&self, namespace: Namespace) -> bool {
        self.position()
            .is_none_or(|position| namespace >= position.namespace)
    }

    /// Return whether this pass has still to check the part.
    pub(super) fn wants(&self, part: Part) -> bool {
        self.position().is_none_or(|position| part > position)
    }

    fn position(&self) -> Option<Part> {
        self.progress.position.and_then(StoredPart::part)
    }

    /// Note the check of the next part, and that it is complete up to there.
    pub(super) fn passed(&mut self, part: Part) {
        self.progress.position = Some(part.into());
    }

    /// Note what a check of a part has found. Returns the damage that was not known.
    pub(super) fn found(&mut self, part: Part, found: Vec<Damage>) -> Vec<Damage> {
        let stored = StoredPart::from(part);
        let damage = &mut self.progress.damage;
        let known: Vec<Damage> = damage
            .extract_if(.., |damage| damage.part == stored)
            .collect();
        let mut new = Vec::new();
        for found in found.into_iter().take(DAMAGE_OF_PART_MAX) {
            if damage.len() == DAMAGE_MAX {
                break;
            }
            if !known.iter().any(|known| known.is_at(&found)) {
                new.push(found.clone());
            }
            damage.push(found);
        }
        new
    }

    /// Describe damage that this pass has found in a part.
    pub(super) fn damage(&self, part: Part, path: String, finding: Finding) -> Damage {
        Damage {
            part: part.into(),
            path,
            kind: finding.kind,
            position: finding.position,
            offset: finding.offset,
            explanation: finding.explanation,
            pass: self.progress.pass,
        }
    }

    /// Parts with known damage.
    pub(super) fn damaged_parts(&self) -> BTreeSet<Part> {
        let parts = self.progress.damage.iter().filter_map(Damage::part);
        parts.collect()
    }

    /// End the pass: damage that it has not met is in files that are gone.
    pub(super) fn end(&mut self, now: u64) {
        let pass = self.progress.pass;
        self.progress.damage.retain(|damage| damage.pass == pass);
        self.progress.is_under_way = false;
        self.progress.ended = Some(now);
    }

    /// Time at which the last whole pass ended, in seconds since 1970.
    pub(super) fn ended(&self) -> Option<u64> {
        self.progress.ended
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const INTERVAL_SECONDS: u64 = 1000;

    fn part(partition: u32, segment: u64) -> Part {
        let namespace = Namespace::new(StreamId(1), TopicId(2), PartitionId(partition)).unwrap();
        let unit = match segment {
            0 => Unit::Companions,
            base => Unit::Segment(Offset(base)),
        };
        Part { namespace, unit }
    }

    fn restarted(schedule: &Schedule) -> Schedule {
        let stored = serde_json::to_vec(&schedule.progress).unwrap();
        Schedule::new(INTERVAL_SECONDS, serde_json::from_slice(&stored).unwrap())
    }

    fn damage(schedule: &Schedule, part: Part) -> Damage {
        let finding = Finding {
            file: "x".into(),
            kind: FindingKind::Damaged,
            position: Some(7),
            bytes: None,
            offset: None,
            messages_count: None,
            repaired: false,
            explanation: String::new(),
        };
        schedule.damage(part, format!("{part:?}"), finding)
    }

    proptest! {
        /// LOG-21: a pass checks every part that is there during all of it exactly once, with a restart after any of
        /// them and parts that come and go; the next one begins an interval after it began.
        #[test]
        fn each_part_is_checked_once_in_a_pass(
            parts in proptest::collection::btree_set((0_u32..5, 0_u64..6), 1..20),
            changes in proptest::collection::vec((0_u32..5, 0_u64..6, any::<bool>(), any::<bool>()), 0..30),
            start in 1_000_000_u64..2_000_000,
        ) {
            let mut there: BTreeSet<Part> = parts.iter().map(|(partition, segment)| part(*partition, *segment)).collect();
            let mut schedule = Schedule::new(INTERVAL_SECONDS, Progress::default());
            let mut now = start;
            let mut changes = changes.into_iter();
            for _ in 0..3 {
                let began = now;
                prop_assert_eq!(schedule.begin(now), Ok(()));
                let mut stayed = there.clone();
                let mut checked = Vec::new();
                loop {
                    let next = there.iter().copied().find(|part| {
                        schedule.may_want(part.namespace) && schedule.wants(*part)
                    });
                    let Some(next) = next else { break };
                    checked.push(next);
                    schedule.passed(next);
                    now += 1;
                    if let Some((partition, segment, is_added, is_restarted)) = changes.next() {
                        let changed = part(partition, segment);
                        if is_added {
                            there.insert(changed);
                        } else {
                            there.remove(&changed);
                            stayed.remove(&changed);
                        }
                        if is_restarted {
                            schedule = restarted(&schedule);
                            prop_assert_eq!(schedule.begin(now), Ok(()));
                        }
                    }
                }
                schedule.end(now);
                prop_assert_eq!(schedule.ended(), Some(now));
                let distinct: BTreeSet<Part> = checked.iter().copied().collect();
                prop_assert_eq!(distinct.len(), checked.len());
                prop_assert!(stayed.is_subset(&distinct));
                schedule = restarted(&schedule);
                prop_assert_eq!(schedule.begin(now), Err(began + INTERVAL_SECONDS - now));
                now = began + INTERVAL_SECONDS;
            }
        }
    }

    #[test]
    fn a_clock_that_was_set_back_puts_off_no_pass_for_long() {
        let mut schedule = Schedule::new(INTERVAL_SECONDS, Progress::default());
        assert_eq!(schedule.begin(9_000_000), Ok(()));
        schedule.end(9_000_001);
        assert_eq!(schedule.begin(5_000_000), Err(INTERVAL_SECONDS));
    }

    #[test]
    fn damage_is_new_once_and_goes_when_it_is_mended_or_its_file_is_gone() {
        let mut schedule = Schedule::new(INTERVAL_SECONDS, Progress::default());
        schedule.begin(0).unwrap();
        let (first, second) = (part(1, 3), part(2, 4));
        for place in [first, second] {
            let found = vec![damage(&schedule, place)];
            assert_eq!(schedule.found(place, found).len(), 1);
        }
        schedule.end(1);
        let mut schedule = restarted(&schedule);
        assert_eq!(schedule.damaged_parts(), [first, second].into());
        schedule.begin(INTERVAL_SECONDS).unwrap();
        let found = vec![damage(&schedule, first)];
        assert_eq!(schedule.found(first, found), []);
        schedule.end(INTERVAL_SECONDS + 1);
        assert_eq!(schedule.damaged_parts(), [first].into());
        assert_eq!(schedule.found(first, Vec::new()), []);
        assert!(schedule.damaged_parts().is_empty());
    }

    #[test]
    fn what_is_kept_of_damage_is_bounded() {
        let mut schedule = Schedule::new(INTERVAL_SECONDS, Progress::default());
        schedule.begin(0).unwrap();
        for partition in 0..20 {
            let place = part(partition, 3);
            let found = vec![damage(&schedule, place); 1000];
            schedule.found(place, found);
        }
        assert_eq!(schedule.progress.damage.len(), DAMAGE_MAX);
    }
}
