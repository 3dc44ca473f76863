//! Entries of the log: those that this replica believes to be in it, and the extent to which its journal holds them.
//!
//! The journal may still hold records that the log has dropped (*discarded* records). They are cut when the superblock
//! that justifies the cut is durable. Until then a discarded record must not be overwritten, and it counts as evidence
//! in a view change.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::frame::{PrepareFrame, PrepareHeader};
use crate::replica::flow::{Flow, must};
use crate::rules::{BodyState, Evidence};

/// One operation of the logical log whose header is known.
#[derive(Debug, Clone)]
struct Slot {
    header: PrepareHeader,
    /// Prepare with its body, if it is in memory.
    frame: Option<PrepareFrame>,
    /// Token of the append that will make it durable.
    token: Option<u64>,
    /// True if the journal holds exactly this prepare.
    durable: bool,
}

/// Dropped record that the journal still holds.
#[derive(Debug, Clone, Copy)]
struct DiscardedRecord {
    checksum: Option<u128>,
    /// Sequence of the superblock that justifies the cut.
    justified_by: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Entries {
    /// Entries whose headers are known. A slot holds its own operation, never a blank header, and only its own body.
    slots: BTreeMap<u64, Slot>,
    /// Operations whose records were durable once and fail verification now. Their headers may still be known. None is
    /// in a durable slot.
    faulty: BTreeSet<u64>,
    /// Discarded records that may not be overwritten yet.
    discarded: BTreeMap<u64, DiscardedRecord>,
    /// Operations whose bodies wait to be appended to the journal, in order of arrival. Replaced ones may occur twice.
    unwritten: Vec<u64>,
    /// Operation below which bodies have been released from memory.
    cached_from: u64,
}

impl Entries {
    pub(crate) fn header(&self, op: u64) -> Option<&PrepareHeader> {
        self.slots.get(&op).map(|slot| &slot.header)
    }

    pub(crate) fn frame(&self, op: u64) -> Option<&PrepareFrame> {
        self.slots.get(&op).and_then(|slot| slot.frame.as_ref())
    }

    pub(crate) fn body(&self, op: u64) -> BodyState {
        match self.slots.get(&op) {
            Some(slot) if slot.durable => BodyState::Durable,
            // An entry that is being rewritten over a damaged record stays "faulty" as evidence: see `evidence`.
            Some(slot) if slot.frame.is_some() => BodyState::Writing,
            _ if self.faulty.contains(&op) => BodyState::Faulty,
            _ => BodyState::Missing,
        }
    }

    /// Return whether the body is available for execution and repair.
    pub(crate) fn is_available(&self, op: u64) -> bool {
        matches!(self.body(op), BodyState::Durable | BodyState::Writing)
    }

    pub(crate) fn evidence(&self, op: u64, in_checkpoint: bool) -> Evidence {
        let body = match self.body(op) {
            BodyState::Writing | BodyState::Missing if self.faulty.contains(&op) => {
                BodyState::Faulty
            }
            body => body,
        };
        Evidence {
            header: self.header(op).map(|header| header.checksum),
            body,
            discarded: self.discarded.get(&op).map(|record| record.checksum),
            in_checkpoint,
        }
    }

    pub(crate) fn lowest(&self) -> Option<u64> {
        self.slots.first_key_value().map(|(op, _)| *op)
    }

    pub(crate) fn highest(&self) -> Option<u64> {
        self.slots.last_key_value().map(|(op, _)| *op)
    }

    pub(crate) fn faulty(&self) -> impl Iterator<Item = u64> {
        self.faulty.iter().copied()
    }

    /// Take over a record found by the journal scan.
    pub(crate) fn recover(&mut self, header: PrepareHeader, intact: bool) {
        let op = header.op();
        if !intact {
            self.faulty.insert(op);
        }
        self.slots.insert(
            op,
            Slot {
                header,
                frame: None,
                token: None,
                durable: intact,
            },
        );
    }

    /// Take over a damaged record whose header is lost too.
    pub(crate) fn recover_faulty(&mut self, op: u64) {
        self.faulty.insert(op);
    }

    /// Record a header whose body must be fetched. The slot must be empty.
    pub(crate) fn want(&mut self, header: PrepareHeader) {
        self.slots.entry(header.op()).or_insert(Slot {
            header,
            frame: None,
            token: None,
            durable: false,
        });
    }

    /// Take a body into memory and queue it for the journal.
    pub(crate) fn store(&mut self, frame: PrepareFrame) {
        let op = frame.header.op();
        let slot = self.slots.entry(op).or_insert(Slot {
            header: frame.header,
            frame: None,
            token: None,
            durable: false,
        });
        debug_assert_eq!(slot.header.checksum, frame.header.checksum);
        slot.frame = Some(frame);
        if !slot.durable {
            slot.token = None;
            self.unwritten.push(op);
        }
    }

    /// Cache a body that was read from the journal.
    pub(crate) fn cache(&mut self, frame: PrepareFrame) {
        if let Some(slot) = self.slots.get_mut(&frame.header.op())
            && slot.header.checksum == frame.header.checksum
        {
            slot.frame = Some(frame);
        }
    }

    /// Release the bodies in memory up to `op`, as far as the journal has them.
    pub(crate) fn uncache_through(&mut self, op: u64) {
        let end = op + 1;
        for (_, slot) in self.slots.range_mut(self.cached_from.min(end)..end) {
            if !slot.durable {
                break;
            }
            slot.frame = None;
            self.cached_from = slot.header.op() + 1;
        }
    }

    /// Take the bodies to append now and mark them with `token`.
    ///
    /// A discarded record is not overwritten before it is cut. Above `commit_max` no record is written above a hole: after a
    /// crash a hole below a record counts as damage, which cannot be nacked, and a prepare that no replica ever stored
    /// could then never be discarded.
    pub(crate) fn take_unwritten(&mut self, token: u64, commit_max: u64) -> Vec<PrepareFrame> {
        self.unwritten.sort_unstable();
        self.unwritten.dedup();
        let mut frames = Vec::new();
        let mut blocked = Vec::new();
        let mut stored = commit_max;
        for op in core::mem::take(&mut self.unwritten) {
            while stored + 1 < op && self.is_stored(stored + 1) {
                stored += 1;
            }
            let Some(slot) = self.slots.get_mut(&op) else {
                continue;
            };
            if slot.durable || slot.token.is_some() {
                continue;
            }
            let Some(frame) = &slot.frame else { continue };
            if self.discarded.contains_key(&op) || op > stored + 1 {
                blocked.push(op);
                continue;
            }
            slot.token = Some(token);
            frames.push(frame.clone());
        }
        self.unwritten = blocked;
        frames
    }

    /// Return whether the journal has this body or is writing it.
    fn is_stored(&self, op: u64) -> bool {
        self.slots
            .get(&op)
            .is_some_and(|slot| slot.durable || slot.token.is_some())
    }

    /// Number of operations whose bodies wait to be appended; one that was replaced may count twice.
    pub(crate) fn unwritten_ops(&self) -> usize {
        self.unwritten.len()
    }

    /// Mark the operations of a completed append as durable.
    pub(crate) fn written(&mut self, token: u64, ops: &[u64]) {
        for op in ops {
            if let Some(slot) = self.slots.get_mut(op)
                && slot.token == Some(token)
            {
                slot.token = None;
                slot.durable = true;
                self.faulty.remove(op);
            }
        }
    }

    /// Mark a record as faulty because it could not be read or verified. Returns whether that is new.
    pub(crate) fn mark_faulty(&mut self, op: u64, checksum: u128) -> bool {
        match self.slots.get_mut(&op) {
            Some(slot) if slot.header.checksum == checksum && slot.durable => {
                slot.durable = false;
                self.faulty.insert(op);
                // If the body is still in memory, it is written again.
                if slot.frame.is_some() {
                    slot.token = None;
                    self.unwritten.push(op);
                }
                true
            }
            _ => false,
        }
    }

    /// Drop an operation logically. A record that the journal holds, or is about to hold, becomes a discarded
    /// one.
    pub(crate) fn drop_op(&mut self, op: u64, justified_by: u64) {
        let slot = self.slots.remove(&op);
        let was_faulty = self.faulty.remove(&op);
        let on_disk = slot
            .as_ref()
            .is_some_and(|slot| slot.durable || slot.token.is_some())
            || was_faulty;
        if on_disk {
            self.discarded.entry(op).or_insert(DiscardedRecord {
                checksum: slot.map(|slot| slot.header.checksum),
                justified_by,
            });
        }
    }

    /// Drop everything above `head`.
    pub(crate) fn drop_above(&mut self, head: u64, justified_by: u64) -> Option<u64> {
        let mut ops: BTreeSet<u64> = self.slots.range(head + 1..).map(|(op, _)| *op).collect();
        ops.extend(self.faulty.range(head + 1..).copied());
        for op in &ops {
            self.drop_op(*op, justified_by);
        }
        ops.first().copied()
    }

    /// Forget everything up to `op`: a checkpoint covers it.
    pub(crate) fn forget_through(&mut self, op: u64) {
        self.slots = self.slots.split_off(&(op + 1));
        self.faulty = self.faulty.split_off(&(op + 1));
        self.discarded = self.discarded.split_off(&(op + 1));
    }

    /// Forget the discarded records whose cut is now justified. Returns the operation from which the journal must be cut, if
    /// records above all live ones are among them. Lower ones are simply overwritten.
    pub(crate) fn cut(&mut self, allowed: impl Fn(u64) -> bool) -> Option<u64> {
        let before = self.discarded.len();
        let mut highest = None;
        self.discarded.retain(|op, record| {
            let gone = allowed(record.justified_by);
            if gone {
                highest = Some(*op);
            }
            !gone
        });
        if before == self.discarded.len() {
            return None;
        }
        let living = self
            .slots
            .iter()
            .rev()
            .find(|(_, slot)| slot.durable || slot.token.is_some())
            .map_or(0, |(op, _)| *op)
            .max(self.faulty.last().copied().unwrap_or(0))
            .max(self.discarded.last_key_value().map_or(0, |(op, _)| *op));
        highest
            .filter(|highest| *highest > living)
            .map(|_| living + 1)
    }

    /// Check the invariants of the slots.
    pub(crate) fn check(&self) -> Flow {
        for (op, slot) in &self.slots {
            must(slot.header.op() == *op, "a slot holds its own operation")?;
            must(!slot.header.is_blank(), "a slot holds a prepare")?;
            must(
                slot.frame
                    .as_ref()
                    .is_none_or(|frame| frame.header.checksum == slot.header.checksum),
                "a slot holds its own body",
            )?;
        }
        Ok(())
    }
}
