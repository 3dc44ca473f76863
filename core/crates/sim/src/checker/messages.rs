//! Checker of the messages of one partition: a plain list of what is known to be at each offset.
//!
//! An offset is known once its batch is acknowledged or its message is read. From then on it holds that message, until a
//! crash that the partition's durability does not promise to survive: then the offsets from the first unpromised one on are
//! uncertain together, because a log loses only its end. Reading one of them again settles those before it as well, unless
//! they became uncertain at an earlier crash: then the log has gone on from an end that is not known.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use headrace_model::Durability;

use super::violation::{Check, Violation};

/// End of a process, by what it takes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// The process dies, and the operating system keeps what it has.
    Kill,
    /// The machine loses its power, or the device has dropped what was to be synced.
    Power,
}

impl End {
    /// Return whether everything acknowledged at this level survives.
    pub const fn is_survived_at(self, level: Durability) -> bool {
        match (self, level) {
            (_, Durability::Fsync) | (Self::Kill, Durability::Os) => true,
            (Self::Power, Durability::Os) | (_, Durability::Memory) => false,
        }
    }
}

/// Number of a batch that was sent, among those of its partition.
pub type BatchNumber = u32;

/// Message as a client reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadMessage {
    /// Offset of the message.
    pub offset: u64,
    /// Batch and place in the batch, which its payload names.
    pub batch: BatchNumber,
    /// Place in the batch.
    pub index: u32,
    /// Digest of all its bytes.
    pub digest: u64,
}

#[derive(Debug)]
struct Batch {
    count: u32,
    sent_ns: u64,
    acknowledged_ns: Option<u64>,
    /// Offset of its first message, once one of them is known.
    base: Option<u64>,
}

#[derive(Debug)]
struct Known {
    batch: BatchNumber,
    index: u32,
    /// Digest of its bytes, once it was read.
    digest: Option<u64>,
    since_ns: u64,
    is_uncertain: bool,
    /// Number of ends before that of the last process that has certainly held it, if it is uncertain.
    life: usize,
}

/// Known messages of a partition.
#[derive(Debug)]
pub struct PartitionMessages {
    level: Durability,
    /// Time after which written messages are on the device at any level, if nothing delays it.
    background_ns: u64,
    batches: Vec<Batch>,
    known: BTreeMap<u64, Known>,
    /// Ends of the messages that survive a kill, and a loss of power, whatever the level.
    flushed: [u64; 2],
    /// Ends of the process so far: true where everything was left in place.
    ends: Vec<bool>,
    /// Offsets of which a loss of power may have left any part, so that a start finds gaps.
    torn: Vec<Range<u64>>,
    /// First offset whose bytes were damaged at rest.
    damaged_from: Option<u64>,
    /// True if damage was reported, by an error or to the operator.
    is_damage_reported: bool,
    /// Offsets read since the audit began.
    seen: BTreeSet<u64>,
}

impl PartitionMessages {
    /// An empty partition of this level.
    pub const fn new(level: Durability, background_ns: u64) -> Self {
        Self {
            level,
            background_ns,
            batches: Vec::new(),
            known: BTreeMap::new(),
            flushed: [0; 2],
            ends: Vec::new(),
            torn: Vec::new(),
            damaged_from: None,
            is_damage_reported: false,
            seen: BTreeSet::new(),
        }
    }

    /// Level of the partition.
    pub const fn level(&self) -> Durability {
        self.level
    }

    /// Number of known messages.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Return whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Record that a batch is sent. Returns its number.
    pub fn sent(&mut self, count: u32, now_ns: u64) -> BatchNumber {
        self.batches.push(Batch {
            count,
            sent_ns: now_ns,
            acknowledged_ns: None,
            base: None,
        });
        BatchNumber::try_from(self.batches.len() - 1).expect("a run has few batches")
    }

    /// Record that a batch is acknowledged. `life`: number of ends of the process before the one that has answered.
    pub fn acknowledged(
        &mut self,
        number: BatchNumber,
        base: u64,
        (life, now_ns): (usize, u64),
    ) -> Result<(), Violation> {
        let batch = &mut self.batches[number as usize];
        batch.acknowledged_ns = Some(now_ns);
        for index in 0..batch.count {
            let place = (number, index);
            self.place(base + u64::from(index), place, None, (life, now_ns))?;
        }
        Ok(())
    }

    /// Number of messages that were sent: an upper bound of the end.
    pub fn sent_count(&self) -> u64 {
        self.batches
            .iter()
            .map(|batch| u64::from(batch.count))
            .sum()
    }

    /// End of all that may be there.
    pub fn end_max(&self) -> u64 {
        self.known.last_key_value().map_or(0, |(last, _)| last + 1)
    }

    /// Check the answer to a poll sent at `sent_ns`. `from` is the offset that it asked for.
    pub fn read(
        &mut self,
        from: u64,
        messages: &[ReadMessage],
        (sent_ns, life, now_ns): (u64, usize, u64),
    ) -> Result<(), Violation> {
        let may_skip = |this: &Self, until: u64| this.damaged_from.is_some_and(|from| from < until);
        match messages.first() {
            None if self.is_certain_since(from, sent_ns) && !may_skip(self, from + 1) => {
                let what = format!("the known message {from} is not served");
                return Err(Violation::new(Check::Durability, what));
            }
            Some(first) if first.offset != from && !may_skip(self, first.offset) => {
                let what = format!("a poll from {from} begins at {}", first.offset);
                return Err(Violation::new(Check::Agreement, what));
            }
            _ => {}
        }
        for (message, next) in messages.iter().zip(messages.iter().skip(1)) {
            if next.offset != message.offset + 1 && !may_skip(self, next.offset) {
                let what = format!("offset {} follows {}", next.offset, message.offset);
                return Err(Violation::new(Check::Agreement, what));
            }
        }
        for message in messages {
            let place = (message.batch, message.index);
            self.place(message.offset, place, Some(message.digest), (life, now_ns))?;
            self.seen.insert(message.offset);
        }
        Ok(())
    }

    fn is_certain_since(&self, offset: u64, sent_ns: u64) -> bool {
        let known = self.known.get(&offset);
        known.is_some_and(|known| !known.is_uncertain && known.since_ns <= sent_ns)
    }

    fn place(
        &mut self,
        offset: u64,
        (number, index): (BatchNumber, u32),
        digest: Option<u64>,
        (life, now_ns): (usize, u64),
    ) -> Result<(), Violation> {
        // An answer may arrive after the end of its process.
        let ends = self.ends.get(life..).unwrap_or_default();
        let is_late = ends.iter().any(|is_whole| !is_whole);
        let Some(batch) = self.batches.get_mut(number as usize) else {
            let what = format!("offset {offset} holds a message that was never sent");
            return Err(Violation::new(Check::Agreement, what));
        };
        let base = offset.checked_sub(u64::from(index));
        if index >= batch.count || base.is_none() || batch.base.is_some_and(|it| Some(it) != base) {
            let what = format!(
                "message {index} of batch {number} is at offset {offset}, and the batch at {:?}",
                batch.base
            );
            return Err(Violation::new(Check::ExactlyOnce, what));
        }
        match self.known.get_mut(&offset) {
            Some(known) if (known.batch, known.index) == (number, index) => {
                if let (Some(before), Some(now)) = (known.digest, digest)
                    && before != now
                {
                    let what = format!("the bytes of message {offset} have changed");
                    return Err(Violation::new(Check::Agreement, what));
                }
                known.digest = known.digest.or(digest);
                if known.is_uncertain && !is_late {
                    self.settle(offset, now_ns);
                }
                return Ok(());
            }
            Some(known) if !known.is_uncertain && is_late => return Ok(()),
            Some(known) if !known.is_uncertain => {
                let what = format!(
                    "offset {offset} held message {} of batch {}, and now {index} of {number}",
                    known.index, known.batch
                );
                return Err(Violation::new(Check::Agreement, what));
            }
            // The log had lost its end, and has used these offsets again.
            Some(_) => self
                .known
                .retain(|at, known| *at < offset || !known.is_uncertain),
            None => {}
        }
        batch.base = base;
        let known = Known {
            batch: number,
            index,
            digest,
            since_ns: now_ns,
            is_uncertain: is_late,
            life,
        };
        self.known.insert(offset, known);
        Ok(())
    }

    /// Take this uncertain message for certain, and those before it that were there together with it: those behind it alone
    /// may be lost.
    fn settle(&mut self, offset: u64, now_ns: u64) {
        let Some(found) = self.known.get_mut(&offset) else {
            return;
        };
        if self.damaged_from.is_some() || !self.torn.is_empty() {
            found.is_uncertain = false;
            return;
        }
        let life = found.life;
        for (_, known) in self.known.range_mut(..=offset) {
            if known.is_uncertain && known.life >= life {
                known.is_uncertain = false;
                known.since_ns = now_ns;
            }
        }
    }

    /// Record a flush that was sent at `sent_ns`.
    pub fn flushed(&mut self, is_synced: bool, sent_ns: u64) {
        let certain = |it: &Known| !it.is_uncertain && it.since_ns <= sent_ns;
        let last = self.known.iter().rev().find(|(_, known)| certain(known));
        let end = last.map_or(0, |(offset, _)| offset + 1);
        for (flushed, is_covered) in self.flushed.iter_mut().zip([true, is_synced]) {
            if is_covered {
                *flushed = end.max(*flushed);
            }
        }
    }

    /// Record damage to the bytes of messages from this offset on. A start may cut them off: `is_down` says that the next
    /// one finds them so.
    pub fn damaged(&mut self, from: u64, is_down: bool) {
        let first = self.damaged_from.map_or(from, |before| before.min(from));
        self.damaged_from = Some(first);
        if is_down {
            self.become_uncertain(first);
        }
    }

    fn become_uncertain(&mut self, first: u64) {
        let life = self.ends.len();
        let certain = self.known.range_mut(first..);
        for (_, known) in certain.filter(|(_, known)| !known.is_uncertain) {
            (known.is_uncertain, known.life) = (true, life);
        }
    }

    /// Return whether bytes of its messages were damaged.
    pub const fn is_damaged(&self) -> bool {
        self.damaged_from.is_some()
    }

    /// Record that something was reported to the operator, which may have any cause.
    pub const fn damage_noted(&mut self) {
        self.is_damage_reported = true;
    }

    /// Record that a read from this offset on was refused because of damage. Fails if there was none.
    pub fn damage_reported(&mut self, from: u64) -> Result<(), Violation> {
        let is_torn = self.torn.iter().any(|torn| torn.contains(&from));
        if self.damaged_from.is_none() && !is_torn {
            let what = "damage is reported in a partition without damage";
            return Err(Violation::new(Check::Alarm, what));
        }
        self.is_damage_reported = true;
        Ok(())
    }

    /// Record the end of the process: what is not promised to survive becomes uncertain. `calm_ns`: time since which
    /// nothing has delayed the background syncs.
    pub fn ended(&mut self, end: End, calm_ns: u64, now_ns: u64) {
        let mut floor = self.end_max();
        if !end.is_survived_at(self.level) {
            let flushed = self.flushed[end as usize].max(self.flushed[1]);
            let is_old = |known: &Known| {
                known.since_ns >= calm_ns && known.since_ns + self.background_ns <= now_ns
            };
            let mut certain = self.known.iter().rev();
            let certain = certain.find(|(_, known)| !known.is_uncertain && is_old(known));
            floor = certain.map_or(0, |(offset, _)| offset + 1).max(flushed);
        }
        if end == End::Power && !end.is_survived_at(self.level) {
            self.torn.push(floor..self.sent_count());
        }
        if let Some(damaged) = self.damaged_from {
            floor = floor.min(damaged);
        }
        self.become_uncertain(floor);
        let is_whole = end.is_survived_at(self.level) && self.damaged_from.is_none();
        self.ends.push(is_whole);
        for flushed in &mut self.flushed {
            *flushed = floor.min(*flushed);
        }
    }

    /// Begin to read the whole partition, without faults.
    pub fn begin_audit(&mut self) {
        self.seen.clear();
    }

    /// Check what was read since the audit began.
    pub fn check_whole(&self) -> Result<(), Violation> {
        let seen = &self.seen;
        for (offset, known) in &self.known {
            if seen.contains(offset) || known.is_uncertain {
                continue;
            }
            if self.damaged_from.is_none_or(|from| from > *offset) {
                let what = format!("the known message {offset} is lost");
                return Err(Violation::new(Check::Durability, what));
            }
            if !self.is_damage_reported {
                let what = format!("the damaged message {offset} is gone, unreported");
                return Err(Violation::new(Check::Alarm, what));
            }
        }
        let first = |known: &Known| known.index == 0;
        let found = self
            .known
            .iter()
            .filter(|(at, it)| first(it) && seen.contains(at));
        let mut sent_last_ns = 0;
        for (offset, known) in found {
            let batch = &self.batches[known.batch as usize];
            if batch
                .acknowledged_ns
                .is_some_and(|at_ns| at_ns < sent_last_ns)
            {
                let what =
                    format!("the batch at offset {offset} is behind one that was sent later");
                return Err(Violation::new(Check::Linearizability, what));
            }
            sent_last_ns = sent_last_ns.max(batch.sent_ns);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(offset: u64, batch: u32, index: u32) -> ReadMessage {
        ReadMessage {
            offset,
            batch,
            index,
            digest: offset + 1,
        }
    }

    fn two_batches(level: Durability) -> PartitionMessages {
        let mut partition = PartitionMessages::new(level, 1_000);
        for base in [0, 2] {
            let number = partition.sent(2, base);
            partition.acknowledged(number, base, (0, base + 1)).unwrap();
        }
        partition
    }

    fn whole(partition: &mut PartitionMessages, end: u64) -> Result<(), Violation> {
        partition.seen = (0..end).collect();
        partition.check_whole()
    }

    #[test]
    fn an_acknowledged_message_may_be_lost_only_as_its_level_allows() {
        for (level, end, is_kept) in [
            (Durability::Fsync, End::Power, true),
            (Durability::Os, End::Kill, true),
            (Durability::Os, End::Power, false),
            (Durability::Memory, End::Kill, false),
        ] {
            let mut partition = two_batches(level);
            partition.ended(end, 0, 100);
            let result = whole(&mut partition, 1);
            assert_eq!(result.is_err(), is_kept, "{level:?} {end:?}");
            assert!(whole(&mut partition, 4).is_ok());
        }
        // A background sync, or a flush, has come before.
        let mut partition = two_batches(Durability::Os);
        partition.ended(End::Power, 0, 5_000);
        assert!(whole(&mut partition, 1).is_err());
        let mut partition = two_batches(Durability::Os);
        partition.flushed(true, 2);
        partition.ended(End::Power, 0, 100);
        assert!(whole(&mut partition, 1).is_err());
        assert!(whole(&mut partition, 2).is_ok());
    }

    #[test]
    fn what_was_known_never_changes() {
        let mut partition = two_batches(Durability::Os);
        partition.read(0, &[message(0, 0, 0)], (5, 0, 6)).unwrap();
        let changed = ReadMessage {
            digest: 99,
            ..message(0, 0, 0)
        };
        let check = |result: Result<(), Violation>| result.expect_err("a violation").check;
        assert_eq!(
            check(partition.read(0, &[changed], (7, 0, 8))),
            Check::Agreement
        );
        assert_eq!(
            check(partition.read(1, &[message(1, 1, 1)], (7, 0, 8))),
            Check::ExactlyOnce
        );
        assert_eq!(check(partition.read(3, &[], (7, 0, 8))), Check::Durability);
        assert!(partition.read(4, &[], (7, 0, 8)).is_ok());
        let gap = [message(0, 0, 0), message(2, 1, 0)];
        assert_eq!(check(partition.read(0, &gap, (7, 0, 8))), Check::Agreement);
        assert_eq!(check(partition.damage_reported(2)), Check::Alarm);
    }

    #[test]
    fn offsets_behind_a_permitted_loss_are_used_again() {
        let mut partition = two_batches(Durability::Os);
        partition.ended(End::Power, 0, 100);
        let number = partition.sent(1, 101);
        partition.acknowledged(number, 1, (1, 102)).unwrap();
        assert_eq!(partition.end_max(), 2);
        assert!(whole(&mut partition, 2).is_ok());
        // The answer to the batch in front comes after that to the one behind it.
        let mut partition = two_batches(Durability::Os);
        partition.ended(End::Power, 0, 100);
        let (front, behind) = (partition.sent(2, 101), partition.sent(2, 101));
        partition.acknowledged(behind, 3, (1, 102)).unwrap();
        partition.acknowledged(front, 1, (1, 103)).unwrap();
        assert_eq!(partition.end_max(), 5);
        assert!(whole(&mut partition, 3).is_err());
        assert!(whole(&mut partition, 5).is_ok());
    }

    #[test]
    fn what_replaced_a_lost_end_settles_nothing_that_was_lost_before_it() {
        let mut partition = two_batches(Durability::Memory);
        partition.ended(End::Kill, 0, 100);
        // All is lost. The batch in front gets no answer.
        let (front, behind) = (partition.sent(2, 101), partition.sent(2, 102));
        partition.acknowledged(behind, 2, (1, 103)).unwrap();
        partition.ended(End::Kill, 0, 200);
        let read = [message(2, behind, 0), message(3, behind, 1)];
        partition.read(2, &read, (201, 2, 202)).unwrap();
        let read = [message(0, front, 0), message(1, front, 1)];
        partition.read(0, &read, (203, 2, 204)).unwrap();
        // Those that were there together are settled together.
        partition.ended(End::Kill, 0, 300);
        let read = [message(3, behind, 1)];
        partition.read(3, &read, (301, 3, 302)).unwrap();
        let lost = partition.read(0, &[], (303, 3, 304));
        assert_eq!(lost.expect_err("a violation").check, Check::Durability);
    }

    #[test]
    fn damage_excuses_only_what_lies_behind_it_and_is_reported() {
        let mut partition = two_batches(Durability::Fsync);
        partition.damaged(2, false);
        assert!(whole(&mut partition, 2).is_err());
        partition.damage_reported(2).unwrap();
        assert!(whole(&mut partition, 2).is_ok());
        assert!(whole(&mut partition, 1).is_err());
    }
}
