//! Faults that depend on how this kind of node stores its state.

use headrace_vsr::rules::Rules;

use super::store::Store;
use super::{Bare, Cluster, Event, files};
use crate::checker::Cause;
use crate::cluster::{Node, SUPERBLOCK};
use crate::jobs::Jobs;
use crate::options::{MILLISECOND, SECOND};
use crate::plan::{Damage, Fault, Loss};
use crate::random::Domain;

/// Time until the next attempt to damage a newest record, and from the first to the last.
const NEWEST_AGAIN_NS: u64 = 7 * MILLISECOND;
const NEWEST_WITHIN_NS: u64 = SECOND;

impl<R: Rules + Clone> Cluster<Bare<R>> {
    /// Inject a fault that is particular to this kind of node.
    pub(super) fn inject(&mut self, index: usize, fault: &Fault) {
        match *fault {
            Fault::CrashAtSync {
                replica, down_ns, ..
            } => self.crash(replica, None, down_ns),
            Fault::JournalDamage {
                replica,
                damage,
                pick,
            } => self.damage_journal(replica, damage, pick),
            Fault::NewestDamage {
                replica,
                damage,
                down_ns,
            } => {
                let planned_ns = self.scenario.plan[index].at_ns;
                let again_ns = self.now_ns() + NEWEST_AGAIN_NS;
                if !self.damage_newest(replica, damage, down_ns)
                    && again_ns < planned_ns + NEWEST_WITHIN_NS
                {
                    self.schedule.plan(again_ns, 0, Event::Fault(index));
                }
            }
            Fault::SuperblockDamage { replica, pair } => self.damage_superblock(replica, pair),
            Fault::CheckpointDamage { replica } => self.damage_checkpoint(replica),
            _ => self.inject_into_replica(fault),
        }
    }

    /// Crash a process, with or without a power loss, and schedule its restart.
    pub(super) fn crash_process(&mut self, node: u8, power: Option<Loss>, down_ns: u64) {
        let mut draw = self.draw(Domain::Loss, node);
        let state = &mut self.nodes[usize::from(node)];
        let Some(mut process) = state.process.take() else {
            return;
        };
        self.trace_crash(node, power, down_ns);
        let state = &mut self.nodes[usize::from(node)];
        state.storage.last_committed = process.records();
        if !process.journal.is_idle() {
            self.causes.add(node, Cause::Torn);
        }
        let unfinished = [
            &mut process.journal,
            &mut process.superblock,
            &mut process.checkpoint,
        ];
        if unfinished.iter().any(|jobs| !jobs.is_idle()) {
            self.tally.add("crashes during disk requests");
        }
        for jobs in unfinished {
            Jobs::crash(jobs, &mut state.storage.disk, &mut draw);
        }
        if let Some(loss) = power {
            state.storage.disk.lose_power(loss, &mut draw);
        }
        state.storage.crash_in_step = None;
        self.after_crash(node, power, down_ns);
    }

    /// Damage the record of a committed operation, provided that the head of a later intact committed record states
    /// that it was durable. Without that statement it could not be distinguished from a write that never happened.
    fn damage_journal(&mut self, replica: u8, damage: Damage, pick: u64) {
        let mut draw = self.draw(Domain::Damage, replica);
        let Some(node) = self.nodes.get_mut(usize::from(replica)) else {
            return;
        };
        let (committed, records) = match &node.process {
            Some(process) => process.records(),
            None => node.storage.last_committed.clone(),
        };
        let intact = records
            .iter()
            .filter(|(op, _)| *op <= committed && !node.storage.damaged_ops.contains(op));
        let Some(witness) = intact.map(|(op, place)| (*place, *op)).max() else {
            return;
        };
        let candidates: Vec<_> = records
            .iter()
            .filter(|(op, place)| {
                *place < witness.0 && *op < witness.1 && Store::vouches_for(witness.0, *op)
            })
            .collect();
        if candidates.is_empty() {
            return;
        }
        let (op, place) =
            candidates[usize::try_from(pick % candidates.len() as u64).expect("an index")];
        let (file, start, end) = Store::range(*place);
        if let Some(scar) = node
            .storage
            .disk
            .damage(&file, start, end, damage, &mut draw)
        {
            node.storage.record_damage.push((*op, *place, scar));
        }
        node.storage.damaged_ops.insert(*op);
        self.causes.add(replica, Cause::Record);
        self.tally.add("records damaged");
    }

    /// Crash a process, and damage its newest durable record while no head states that it was durable. Only the peers may
    /// notice it, so all of them must hold the operation; and no other evidence may depend on the record. Returns whether all
    /// of this is so now.
    fn damage_newest(&mut self, replica: u8, damage: Damage, down_ns: u64) -> bool {
        let mut draw = self.draw(Domain::Damage, replica);
        let is_whole = |node: &Node<Bare<R>>| {
            let mut scars = node.storage.record_damage.iter().map(|(_, _, scar)| scar);
            node.refused.is_none()
                && node.storage.forgotten.is_none()
                && node.storage.damaged_ops.is_empty()
                && !node.storage.damaged_checkpoint
                && !scars.any(|scar| node.storage.disk.is_still_damaged(scar))
        };
        if self.group.undetected_rollback.is_some()
            || !self.all_have_met()
            || !self.nodes.iter().all(is_whole)
        {
            return false;
        }
        let checksum = |node: &Node<Bare<R>>, op| {
            let process = node.process.as_ref()?;
            process.store.checksum(&node.storage.disk, op)
        };
        let Some(node) = self.nodes.get(usize::from(replica)) else {
            return false;
        };
        let newest = node
            .process
            .as_ref()
            .and_then(|it| it.store.newest_unsealed());
        let Some((op, place)) = newest else {
            return false;
        };
        let own = checksum(node, op);
        if own.is_none() || self.nodes.iter().any(|other| checksum(other, op) != own) {
            return false;
        }
        self.crash(replica, None, down_ns);
        let (file, start, end) = Store::range(place);
        let node = &mut self.nodes[usize::from(replica)];
        node.storage
            .disk
            .damage(&file, start, end, damage, &mut draw);
        node.storage.damaged_ops.insert(op);
        node.storage.forgotten = Some(op);
        self.causes.add(replica, Cause::Record);
        self.tally.add("newest records damaged");
        true
    }

    fn damage_superblock(&mut self, replica: u8, pair: u8) {
        let mut draw = self.draw(Domain::Damage, replica);
        if !self.all_have_met()
            || self
                .nodes
                .iter()
                .any(|node| node.storage.forgotten.is_some())
        {
            return;
        }
        let Some(node) = self.nodes.get_mut(usize::from(replica)) else {
            return;
        };
        if node
            .storage
            .damaged_pair
            .is_some_and(|damaged| damaged != pair)
        {
            return;
        }
        node.storage.damaged_pair = Some(pair);
        for range in files::superblock_pair(pair) {
            if draw.chance(700_000) {
                let (start, end) = (range.start, range.end);
                let damage = Damage::Bits;
                let scar = (node.storage.disk).damage(SUPERBLOCK, start, end, damage, &mut draw);
                node.storage.superblock_scars.extend(scar);
            }
        }
        self.causes.add(replica, Cause::Superblock);
        self.tally.add("superblock copies damaged");
    }

    /// Damage the newest checkpoint, provided that the votes of all other members count: the replica may not start any
    /// more, and a member whose votes do not count yet needs all others to prove itself.
    fn damage_checkpoint(&mut self, replica: u8) {
        let mut draw = self.draw(Domain::Damage, replica);
        let is_forgetful = |node: &Node<Bare<R>>| node.storage.forgotten.is_some();
        if !self.others_have_met(replica) || self.nodes.iter().any(is_forgetful) {
            return self.tally.add("checkpoints that the group needed");
        }
        let Some(node) = self.nodes.get_mut(usize::from(replica)) else {
            return;
        };
        let Some(name) = files::newest_checkpoint(&node.storage.disk) else {
            return;
        };
        node.storage
            .disk
            .damage(&name, 0, usize::MAX, Damage::Bits, &mut draw);
        node.storage.damaged_checkpoint = true;
        self.causes.add(replica, Cause::Checkpoint);
        self.tally.add("checkpoints damaged");
    }
}
