//! The logical log: what this replica believes to be at each operation, and how much of it is in its journal.
//!
//! The journal may still hold records that the logical log has dropped (*remnants*); they are cut when the superblock
//! that justifies it is durable. Until then they matter in two ways: nothing may be written over them, and they are
//! evidence in a view change.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::frame::{PrepareFrame, PrepareHeader};
use crate::rules::{BodyState, Evidence};

/// One operation of the logical log whose header is known.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub(super) header: PrepareHeader,
    /// The body, when it is in memory.
    pub(super) frame: Option<PrepareFrame>,
    /// Token of the append that is to make it durable.
    pub(super) token: Option<u64>,
    /// The journal holds exactly this prepare.
    pub(super) durable: bool,
}

/// A dropped record that the journal still holds.
#[derive(Debug, Clone, Copy)]
struct Remnant {
    checksum: Option<u128>,
    /// Sequence of the superblock that justifies the cut.
    justified_by: u64,
}

#[derive(Debug, Default)]
pub(super) struct Log {
    slots: BTreeMap<u64, Slot>,
    /// Records that were durable once and fail verification now. A slot's header may be known all the same.
    faulty: BTreeSet<u64>,
    remnants: BTreeMap<u64, Remnant>,
    /// Operations whose body waits for a place in the journal, in order of arrival.
    unwritten: Vec<u64>,
    /// Bodies below this operation have been let go.
    cached_from: u64,
}

impl Log {
    pub(super) fn header(&self, op: u64) -> Option<&PrepareHeader> {
        self.slots.get(&op).map(|slot| &slot.header)
    }

    pub(super) fn frame(&self, op: u64) -> Option<&PrepareFrame> {
        self.slots.get(&op).and_then(|slot| slot.frame.as_ref())
    }

    pub(super) fn body(&self, op: u64) -> BodyState {
        match self.slots.get(&op) {
            Some(slot) if slot.durable => BodyState::Durable,
            // What is being rewritten over a damaged record stays "faulty" as evidence: see `evidence`.
            Some(slot) if slot.frame.is_some() => BodyState::Writing,
            _ if self.faulty.contains(&op) => BodyState::Faulty,
            _ => BodyState::Missing,
        }
    }

    /// Whether the body can be executed and served.
    pub(super) fn whole(&self, op: u64) -> bool {
        matches!(self.body(op), BodyState::Durable | BodyState::Writing)
    }

    pub(super) fn evidence(&self, op: u64, in_checkpoint: bool) -> Evidence {
        let body = match self.body(op) {
            BodyState::Writing | BodyState::Missing if self.faulty.contains(&op) => {
                BodyState::Faulty
            }
            body => body,
        };
        Evidence {
            header: self.header(op).map(|header| header.checksum),
            body,
            remnant: self.remnants.get(&op).map(|remnant| remnant.checksum),
            in_checkpoint,
        }
    }

    pub(super) fn lowest(&self) -> Option<u64> {
        self.slots.first_key_value().map(|(op, _)| *op)
    }

    pub(super) fn highest(&self) -> Option<u64> {
        self.slots.last_key_value().map(|(op, _)| *op)
    }

    pub(super) fn slots(&self) -> impl DoubleEndedIterator<Item = (u64, &Slot)> {
        self.slots.iter().map(|(op, slot)| (*op, slot))
    }

    pub(super) fn faulty(&self) -> impl Iterator<Item = u64> {
        self.faulty.iter().copied()
    }

    /// Takes over a record that the journal scan found.
    pub(super) fn recover(&mut self, header: PrepareHeader, intact: bool) {
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

    /// Takes over a damaged record whose header is lost too.
    pub(super) fn recover_faulty(&mut self, op: u64) {
        self.faulty.insert(op);
    }

    /// Makes a header known whose body is to be fetched. The slot must be empty.
    pub(super) fn want(&mut self, header: PrepareHeader) {
        self.slots.entry(header.op()).or_insert(Slot {
            header,
            frame: None,
            token: None,
            durable: false,
        });
    }

    /// Takes a body into memory and queues it for the journal.
    pub(super) fn store(&mut self, frame: PrepareFrame) {
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

    /// Keeps a body that was read from the journal.
    pub(super) fn cache(&mut self, frame: PrepareFrame) {
        if let Some(slot) = self.slots.get_mut(&frame.header.op())
            && slot.header.checksum == frame.header.checksum
        {
            slot.frame = Some(frame);
        }
    }

    /// Lets go of the bodies in memory up to `op`, as far as the journal has them.
    pub(super) fn uncache_through(&mut self, op: u64) {
        let end = op + 1;
        for (_, slot) in self.slots.range_mut(self.cached_from.min(end)..end) {
            if !slot.durable {
                break;
            }
            slot.frame = None;
            self.cached_from = slot.header.op() + 1;
        }
    }

    /// Bodies to append now. They carry `token` from here on.
    ///
    /// Nothing is written over a remnant that is not cut. And above `commit_max` nothing is written above a hole: after a
    /// crash a hole below a record means damage, of which nobody can say that it was never acknowledged, and a prepare
    /// that nobody ever stored could not be given up any more.
    pub(super) fn take_unwritten(&mut self, token: u64, commit_max: u64) -> Vec<PrepareFrame> {
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
            if self.remnants.contains_key(&op) || op > stored + 1 {
                blocked.push(op);
                continue;
            }
            slot.token = Some(token);
            frames.push(frame.clone());
        }
        self.unwritten = blocked;
        frames
    }

    /// Whether the journal has this body, or has been given it.
    fn is_stored(&self, op: u64) -> bool {
        self.slots
            .get(&op)
            .is_some_and(|slot| slot.durable || slot.token.is_some())
    }

    pub(super) fn has_unwritten(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// The journal reported the append durable.
    pub(super) fn written(&mut self, token: u64, ops: &[u64]) {
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

    /// A record could not be read or verified. Returns whether that is news.
    pub(super) fn mark_faulty(&mut self, op: u64, checksum: u128) -> bool {
        match self.slots.get_mut(&op) {
            Some(slot) if slot.header.checksum == checksum && slot.durable => {
                slot.durable = false;
                self.faulty.insert(op);
                // The body may still be in memory: then it is written again.
                if slot.frame.is_some() {
                    slot.token = None;
                    self.unwritten.push(op);
                }
                true
            }
            _ => false,
        }
    }

    /// Drops an operation logically. A record that the journal holds, or is about to hold, becomes a remnant.
    pub(super) fn drop_op(&mut self, op: u64, justified_by: u64) {
        let slot = self.slots.remove(&op);
        let was_faulty = self.faulty.remove(&op);
        let on_disk = slot
            .as_ref()
            .is_some_and(|slot| slot.durable || slot.token.is_some())
            || was_faulty;
        if on_disk {
            self.remnants.entry(op).or_insert(Remnant {
                checksum: slot.map(|slot| slot.header.checksum),
                justified_by,
            });
        }
    }

    /// Drops everything above `head`.
    pub(super) fn drop_above(&mut self, head: u64, justified_by: u64) -> Option<u64> {
        let mut ops: BTreeSet<u64> = self.slots.range(head + 1..).map(|(op, _)| *op).collect();
        ops.extend(self.faulty.range(head + 1..).copied());
        for op in &ops {
            self.drop_op(*op, justified_by);
        }
        ops.first().copied()
    }

    /// Forgets everything up to `op`: a checkpoint covers it.
    pub(super) fn forget_through(&mut self, op: u64) {
        self.slots = self.slots.split_off(&(op + 1));
        self.faulty = self.faulty.split_off(&(op + 1));
        self.remnants = self.remnants.split_off(&(op + 1));
    }

    /// Forgets the remnants whose cut is justified by now. Returns from where the journal is to be cut, when records
    /// above all living ones are among them. Remnants further down are simply written over.
    pub(super) fn cut(&mut self, allowed: impl Fn(u64) -> bool) -> Option<u64> {
        let before = self.remnants.len();
        let mut highest = None;
        self.remnants.retain(|op, remnant| {
            let gone = allowed(remnant.justified_by);
            if gone {
                highest = Some(*op);
            }
            !gone
        });
        if before == self.remnants.len() {
            return None;
        }
        let living = self
            .slots
            .iter()
            .rev()
            .find(|(_, slot)| slot.durable || slot.token.is_some())
            .map_or(0, |(op, _)| *op)
            .max(self.faulty.last().copied().unwrap_or(0))
            .max(self.remnants.last_key_value().map_or(0, |(op, _)| *op));
        highest
            .filter(|highest| *highest > living)
            .map(|_| living + 1)
    }

    pub(super) fn has_remnants(&self) -> bool {
        !self.remnants.is_empty()
    }
}
