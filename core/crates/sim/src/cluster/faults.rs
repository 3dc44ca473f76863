//! Execution of the planned faults.

use headrace_vsr::rules::Rules;

use super::node::{CrashInStep, Node};
use super::store::Store;
use super::{Cluster, Event, files};
use crate::checker::Cause;
use crate::jobs::Jobs;
use crate::options::{MILLISECOND, SECOND};
use crate::plan::{Damage, Fault, Loss};
use crate::random::Domain;

/// Time until the next attempt to damage a newest record, and from the first to the last.
const NEWEST_AGAIN_NS: u64 = 7 * MILLISECOND;
const NEWEST_WITHIN_NS: u64 = SECOND;

impl<R: Rules + Clone> Cluster<R> {
    pub(super) fn fault(&mut self, index: usize) {
        if self.healed {
            return;
        }
        let now_ns = self.now_ns();
        let fault = self.scenario.plan[index].fault.clone();
        self.trace.event(now_ns, u8::MAX, "fault", &[index as u64]);
        self.trace
            .explain(now_ns, u8::MAX, || format!("fault {index}: {fault:?}"));
        if self.undetected_rollback.is_some()
            && matches!(
                fault,
                Fault::CrashInStep { .. }
                    | Fault::CrashAtSync { .. }
                    | Fault::SyncError { .. }
                    | Fault::DiskFull { .. }
                    | Fault::DiskReplaced { .. }
                    | Fault::Release { .. }
            )
        {
            return;
        }
        match fault {
            Fault::Crash {
                replicas,
                power,
                down_ns,
            } => {
                for node in
                    (0..self.scenario.options.replicas).filter(|node| replicas >> node & 1 == 1)
                {
                    self.crash(node, power, down_ns);
                }
            }
            Fault::CrashInStep {
                replica,
                outputs,
                power,
                down_ns,
            } => {
                if let Some(node) = self.nodes.get_mut(usize::from(replica)) {
                    node.crash_in_step = Some(CrashInStep {
                        outputs,
                        power,
                        down_ns,
                    });
                }
            }
            Fault::CrashAtSync {
                replica, down_ns, ..
            } => self.crash(replica, None, down_ns),
            Fault::PowerCut { loss, down_ns } => {
                self.tally.add("power cuts of all");
                for node in 0..self.scenario.options.replicas {
                    // Restarts are staggered.
                    let down_ns = down_ns + self.draw(Domain::Loss, node).below(down_ns + 1);
                    self.crash(node, Some(loss), down_ns);
                }
            }
            Fault::Cut {
                links,
                for_ns,
                hold,
            } => {
                self.tally.add("cuts of links");
                self.network.cut(links, now_ns + for_ns, hold);
            }
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
                let again_ns = now_ns + NEWEST_AGAIN_NS;
                if !self.damage_newest(replica, damage, down_ns)
                    && again_ns < planned_ns + NEWEST_WITHIN_NS
                {
                    self.schedule.plan(again_ns, 0, Event::Fault(index));
                }
            }
            Fault::SuperblockDamage { replica, pair } => self.damage_superblock(replica, pair),
            Fault::CheckpointDamage { replica } => self.damage_checkpoint(replica),
            Fault::DirectoryCopied { replica } => self.copy_directory(replica),
            Fault::DirectoryRestored { replica, down_ns } => {
                self.restore_directory(replica, down_ns);
            }
            Fault::Release {
                replica,
                newer,
                down_ns,
            } => self.change_release(replica, newer, down_ns),
            Fault::DiskReplaced { replica, down_ns } => self.replace_disk(replica, down_ns),
            other => self.hinder(&other),
        }
    }

    /// Inject faults that only make a node slow or its requests fail.
    fn hinder(&mut self, fault: &Fault) {
        let now_ns = self.now_ns();
        let (Fault::Pause { replica, .. }
        | Fault::SlowDisk { replica, .. }
        | Fault::DiskFull { replica, .. }
        | Fault::SyncError { replica, .. }
        | Fault::Misread { replica }
        | Fault::ClockJump { replica, .. }) = fault
        else {
            return;
        };
        let Some(node) = self.nodes.get_mut(usize::from(*replica)) else {
            return;
        };
        match fault {
            Fault::Pause { for_ns, .. } => {
                self.tally.add("pauses");
                node.busy_until_ns = node.busy_until_ns.max(now_ns + for_ns);
            }
            Fault::SlowDisk { factor, for_ns, .. } => {
                self.tally.add("slow disks");
                (node.slow_until_ns, node.slow_factor) = (now_ns + for_ns, *factor);
            }
            Fault::DiskFull { for_ns, .. } => {
                self.causes.add(*replica, Cause::Full);
                node.full_until_ns = now_ns + for_ns;
            }
            Fault::SyncError { down_ns, .. } => {
                self.causes.add(*replica, Cause::FailedSync);
                node.sync_error = Some(*down_ns);
            }
            Fault::Misread { .. } => node.misreads = true,
            Fault::ClockJump { by_ns, .. } => {
                self.tally.add("clock jumps");
                node.clock.jump(*by_ns);
            }
            _ => {}
        }
    }

    /// Crash a process, with or without a power loss, and schedule its restart.
    pub(super) fn crash(&mut self, node: u8, power: Option<Loss>, down_ns: u64) {
        if self.undetected_rollback.is_some() {
            // Replicas that remember the newer state stay up until the older copy is detected.
            return;
        }
        let now_ns = self.now_ns();
        let mut draw = self.draw(Domain::Loss, node);
        let state = &mut self.nodes[usize::from(node)];
        let Some(mut process) = state.process.take() else {
            return;
        };
        self.trace
            .event(now_ns, node, "crash", &[u64::from(power.is_some())]);
        self.trace.explain(now_ns, node, || {
            format!(
                "crash, power {power:?}, down for {} ms",
                down_ns / 1_000_000
            )
        });
        state.last_committed = process.records();
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
            Jobs::crash(jobs, &mut state.disk, &mut draw);
        }
        self.tally.add("crashes");
        self.causes.add(node, Cause::Crash);
        if let Some(loss) = power {
            self.tally.add("power losses");
            self.causes.add(node, Cause::Torn);
            state.disk.lose_power(loss, &mut draw);
        }
        state.crash_in_step = None;
        state.busy_until_ns = 0;
        self.schedule
            .plan(now_ns + down_ns, 1, Event::Start { node });
    }

    /// Replace the disk of a node by an empty one, provided that all other members know what they have acknowledged.
    fn replace_disk(&mut self, replica: u8, down_ns: u64) {
        let serves = |node: &Node<R>| node.refused.is_none();
        let all_are_fit = self.nodes.iter().all(serves) && self.all_have_met();
        if !all_are_fit || usize::from(replica) >= self.nodes.len() {
            return;
        }
        self.crash(replica, None, down_ns);
        self.tally.add("disks replaced");
        self.causes.add(replica, Cause::Replaced);
        let disk = self.scenario.options.disk.clone();
        self.nodes[usize::from(replica)].replace_disk(disk.weak_names, disk.weak_size);
    }

    /// Return whether every member has completed its handshakes. No member may lose its disk before that.
    fn all_have_met(&self) -> bool {
        self.nodes.iter().all(Node::has_met_all)
    }

    /// Return whether every member but one has completed its handshakes.
    fn others_have_met(&self, replica: u8) -> bool {
        (0..)
            .zip(&self.nodes)
            .all(|(member, node)| member == replica || node.has_met_all())
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
            None => node.last_committed.clone(),
        };
        let intact = records
            .iter()
            .filter(|(op, _)| *op <= committed && !node.damaged_ops.contains(op));
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
        if let Some(scar) = node.disk.damage(&file, start, end, damage, &mut draw) {
            node.record_damage.push((*op, *place, scar));
        }
        node.damaged_ops.insert(*op);
        self.causes.add(replica, Cause::Record);
        self.tally.add("records damaged");
    }

    /// Crash a process, and damage its newest durable record while no head states that it was durable. Only the peers may
    /// notice it, so all of them must hold the operation; and no other evidence may depend on the record. Returns whether all
    /// of this is so now.
    fn damage_newest(&mut self, replica: u8, damage: Damage, down_ns: u64) -> bool {
        let mut draw = self.draw(Domain::Damage, replica);
        let is_whole = |node: &Node<R>| {
            let mut scars = node.record_damage.iter().map(|(_, _, scar)| scar);
            node.refused.is_none()
                && node.forgotten.is_none()
                && node.damaged_ops.is_empty()
                && !node.damaged_checkpoint
                && !scars.any(|scar| node.disk.is_still_damaged(scar))
        };
        if self.undetected_rollback.is_some()
            || !self.all_have_met()
            || !self.nodes.iter().all(is_whole)
        {
            return false;
        }
        let checksum = |node: &Node<R>, op| {
            let process = node.process.as_ref()?;
            process.store.checksum(&node.disk, op)
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
        node.disk.damage(&file, start, end, damage, &mut draw);
        node.damaged_ops.insert(op);
        node.forgotten = Some(op);
        self.causes.add(replica, Cause::Record);
        self.tally.add("newest records damaged");
        true
    }

    fn damage_superblock(&mut self, replica: u8, pair: u8) {
        let mut draw = self.draw(Domain::Damage, replica);
        if !self.all_have_met() || self.nodes.iter().any(|node| node.forgotten.is_some()) {
            return;
        }
        let Some(node) = self.nodes.get_mut(usize::from(replica)) else {
            return;
        };
        if node.damaged_pair.is_some_and(|damaged| damaged != pair) {
            return;
        }
        node.damaged_pair = Some(pair);
        for range in files::superblock_pair(pair) {
            if draw.chance(700_000) {
                let (start, end) = (range.start, range.end);
                let damage = Damage::Bits;
                let scar = (node.disk).damage(files::SUPERBLOCK, start, end, damage, &mut draw);
                node.superblock_scars.extend(scar);
            }
        }
        self.causes.add(replica, Cause::Superblock);
        self.tally.add("superblock copies damaged");
    }

    /// Damage the newest checkpoint, provided that the votes of all other members count: the replica may not start any
    /// more, and a member whose votes do not count yet needs all others to prove itself.
    fn damage_checkpoint(&mut self, replica: u8) {
        let mut draw = self.draw(Domain::Damage, replica);
        let is_forgetful = |node: &Node<R>| node.forgotten.is_some();
        if !self.others_have_met(replica) || self.nodes.iter().any(is_forgetful) {
            return self.tally.add("checkpoints that the group needed");
        }
        let Some(node) = self.nodes.get_mut(usize::from(replica)) else {
            return;
        };
        let Some(name) = files::newest_checkpoint(&node.disk) else {
            return;
        };
        node.disk
            .damage(&name, 0, usize::MAX, Damage::Bits, &mut draw);
        node.damaged_checkpoint = true;
        self.causes.add(replica, Cause::Checkpoint);
        self.tally.add("checkpoints damaged");
    }
}
