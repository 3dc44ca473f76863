//! Faults that depend on how this kind of node stores its state.

use headrace_replica::{ReplicaConfig, ReplicaStatus};
use headrace_vsr::frame::Intake;
use headrace_vsr::journal::{HEAD_BYTES, Place, RecordHeader, Scanner};
use headrace_vsr::superblock::{self, COPY_BYTES, Superblock};

use super::node::{PlannedCrash, RecordDamage, config_of};
use super::{Cluster, Event, Host, given_up};
use crate::checker::Cause;
use crate::cluster::checks::FRAME_BYTES_MAX;
use crate::cluster::{CrashInStep, MARKER, Node, SUPERBLOCK};
use crate::disk::Disk;
use crate::options::SECOND;
use crate::plan::{Damage, Fault, Loss, Mishap};
use crate::random::Domain;

impl Cluster<Host> {
    /// Inject a fault that is particular to this kind of node.
    pub(super) fn inject(&mut self, index: usize, fault: &Fault) {
        match *fault {
            Fault::CrashAtSync {
                replica,
                of_directory,
                after,
                down_ns,
            } => self.plan_death_at_sync(replica, of_directory, after, down_ns),
            Fault::JournalDamage {
                replica,
                damage,
                pick,
            } => self.damage_journal(replica, damage, pick),
            Fault::SuperblockDamage { replica, pair } => self.damage_superblock(replica, pair),
            Fault::CheckpointDamage { replica } => self.damage_checkpoint(replica),
            Fault::FileLost {
                replica,
                mishap,
                pick,
                down_ns,
            } => self.lose_file(replica, mishap, pick, down_ns),
            Fault::GivenUp { replica, down_ns } if !self.give_up(replica, down_ns) => {
                let again_ns = self.now_ns() + given_up::AGAIN_NS;
                self.schedule.plan(again_ns, 0, Event::Fault(index));
            }
            _ => self.inject_into_replica(fault),
        }
    }

    /// Plan a crash in the middle of the next work of the process: during a file operation, or while sending.
    pub(super) fn plan_crash(&mut self, replica: u8, crash: CrashInStep) {
        let mut draw = self.draw(Domain::Loss, replica);
        let (sends, count) = (draw.chance(300_000), draw.within(1, 24));
        let Some(node) = self.nodes.get_mut(usize::from(replica)) else {
            return;
        };
        node.storage.death = Some(PlannedCrash {
            power: crash.power,
            down_ns: crash.down_ns,
            sent: sends.then_some(crash.outputs),
        });
        if !sends {
            node.storage.directory.die_at(count, draw);
        }
    }

    /// Plan a crash before a sync, with all written data in the page cache.
    fn plan_death_at_sync(&mut self, replica: u8, of_directory: bool, after: u8, down_ns: u64) {
        let Some(node) = self.nodes.get_mut(usize::from(replica)) else {
            return;
        };
        if node.process.is_none() {
            return;
        }
        node.storage.death = Some(PlannedCrash {
            power: None,
            down_ns,
            sent: None,
        });
        node.storage.directory.die_at_sync(of_directory, after);
    }

    /// Handle a crash in the middle of a file operation.
    pub(super) fn crash_at_file_operation(&mut self, node: u8) {
        self.tally.add("crashes amid work on files");
        self.causes.add(node, Cause::Torn);
        let death = self.nodes[usize::from(node)].storage.death.take();
        let (power, down_ns) =
            death.map_or((None, SECOND / 10), |death| (death.power, death.down_ns));
        self.end_process(node);
        self.after_end(node, power, None, down_ns);
    }

    /// Crash a process after only some connections have received the bytes written to them.
    pub(super) fn crash_sending(&mut self, node: u8, death: PlannedCrash) {
        self.collect_counters(node);
        self.after_end(node, death.power, death.sent, death.down_ns);
    }

    /// End the process of a node, if one is running.
    pub(super) fn end_process(&mut self, node: u8) {
        self.collect_counters(node);
        self.hang_up(node, None, false);
    }

    /// Collect the counters of a process that has ended.
    pub(super) fn collect_counters(&mut self, node: u8) {
        let result = self.check_full_disk_reported(node);
        self.check(node, result);
        let state = &mut self.nodes[usize::from(node)];
        state.storage.directory.end();
        let status = state.process.take().map(|process| process.replica.status());
        if let Some(status) = status {
            self.count(&status);
        }
    }

    pub(super) fn count(&mut self, status: &ReplicaStatus) {
        let storage = &status.storage;
        for (name, many) in [
            ("group commits", storage.group_commits),
            ("prepares written", storage.prepares),
            (
                "prepares that shared a sync",
                storage.prepares.saturating_sub(storage.group_commits),
            ),
            ("superblocks written", storage.superblocks),
            ("state transfers", status.counters.state_transfers),
            ("records repaired", status.counters.repaired),
            ("connections refused", status.counters.refused_connections),
        ] {
            self.tally.add_many(name, many);
        }
    }

    fn after_end(&mut self, node: u8, power: Option<Loss>, sent: Option<u8>, down_ns: u64) {
        let mut draw = self.draw(Domain::Loss, node);
        self.trace_crash(node, power, down_ns);
        self.hang_up(node, sent, power.is_some());
        let storage = &mut self.nodes[usize::from(node)].storage;
        if let Some(loss) = power {
            storage.directory.lose_power(loss, &mut draw);
        }
        storage.death = None;
        self.after_crash(node, power, down_ns);
    }

    /// Crash a process between two steps, with or without a power loss, and schedule its restart.
    pub(super) fn crash_process(&mut self, node: u8, power: Option<Loss>, down_ns: u64) {
        let state = &mut self.nodes[usize::from(node)];
        let Some(process) = &state.process else {
            return;
        };
        if process.writes || process.works_on_files {
            self.causes.add(node, Cause::Torn);
            self.tally.add("crashes during disk requests");
        }
        self.collect_counters(node);
        self.after_end(node, power, None, down_ns);
    }

    /// Damage the record of a committed operation, provided that the head of a later intact committed record states
    /// that it was durable. Without that statement it could not be distinguished from a write that never happened.
    fn damage_journal(&mut self, replica: u8, damage: Damage, pick: u64) {
        let mut draw = self.draw(Domain::Damage, replica);
        let Some(node) = self.nodes.get_mut(usize::from(replica)) else {
            return;
        };
        let Some(process) = &node.process else {
            return;
        };
        let committed = process.stepped.report().commit_max;
        let config = config_of(&self.scenario.options, replica, node.release);
        let damaged = node.storage.directory.with_disk(|disk| {
            let candidates = damageable(disk, &config, committed);
            if candidates.is_empty() {
                return None;
            }
            let at = usize::try_from(pick % candidates.len() as u64).expect("an index");
            let place = candidates[at];
            let start = usize::try_from(place.offset).expect("files are small");
            let end = start + HEAD_BYTES + place.frame_bytes as usize;
            let scar = disk.damage(&name_of(place.file), start, end, damage, &mut draw)?;
            Some(RecordDamage {
                op: place.op,
                file: place.file,
                offset: place.offset,
                scar,
            })
        });
        if let Some(injury) = damaged {
            node.storage.injuries.push(injury);
            node.storage.has_damaged_records = true;
            self.causes.add(replica, Cause::Record);
            self.tally.add("records damaged");
        }
    }

    /// Damage copies of one pair, provided that the other pair is intact.
    fn damage_superblock(&mut self, replica: u8, pair: u8) {
        let mut draw = self.draw(Domain::Damage, replica);
        if !self.all_have_met() {
            return;
        }
        let Some(node) = self.nodes.get_mut(usize::from(replica)) else {
            return;
        };
        let first = usize::from(pair) * 2;
        let scars = node.storage.directory.with_disk(|disk| {
            let opened = superblock_of(disk);
            let is_whole = |copy: &usize| (first..first + 2).contains(copy);
            if opened.is_none_or(|opened| !opened.repair.iter().all(is_whole)) {
                return None;
            }
            let mut scars = Vec::new();
            for copy in first..first + 2 {
                if draw.chance(700_000) {
                    let (start, end) = (copy * COPY_BYTES, (copy + 1) * COPY_BYTES);
                    scars.extend(disk.damage(SUPERBLOCK, start, end, Damage::Bits, &mut draw));
                }
            }
            Some(scars)
        });
        if let Some(scars) = scars {
            node.storage.superblock_scars.extend(scars);
            node.storage.has_damaged_superblock = true;
            self.causes.add(replica, Cause::Superblock);
            self.tally.add("superblock copies damaged");
        }
    }

    /// Crash a process, and damage a file of its data directory during the downtime.
    fn lose_file(&mut self, replica: u8, mishap: Mishap, pick: u64, down_ns: u64) {
        let runs = |node: &Node<Host>| node.process.is_some();
        let is_running = self.nodes.get(usize::from(replica)).is_some_and(runs);
        if self.group.undetected_rollback.is_some() || !is_running || !self.all_have_met() {
            return;
        }
        self.crash(replica, None, down_ns);
        let node = &mut self.nodes[usize::from(replica)];
        let lost = node
            .storage
            .directory
            .with_disk(|disk| lose_one(disk, mishap, pick));
        if let Some(name) = lost {
            node.storage.has_lost_files = true;
            self.causes.add(replica, Cause::File);
            self.tally.add(match mishap {
                Mishap::CutShort => "files cut short",
                Mishap::Missing => "files lost",
                Mishap::Swapped => "files swapped",
            });
            let now_ns = self.now_ns();
            self.trace
                .explain(now_ns, replica, || format!("{name}: {mishap:?}"));
        }
    }

    /// Damage the newest checkpoint, provided that the votes of all other members count: the replica may not start any
    /// more, and a member whose votes do not count yet needs all others to prove itself.
    fn damage_checkpoint(&mut self, replica: u8) {
        let mut draw = self.draw(Domain::Damage, replica);
        if !self.others_have_met(replica) {
            return self.tally.add("checkpoints that the group needed");
        }
        let Some(node) = self.nodes.get_mut(usize::from(replica)) else {
            return;
        };
        let damaged = node.storage.directory.with_disk(|disk| {
            let name = disk
                .names()
                .filter(|name| {
                    name.strip_prefix("checkpoint-")
                        .is_some_and(|name| name.strip_suffix(".state").is_some())
                })
                .max()?
                .to_owned();
            disk.damage(&name, 0, usize::MAX, Damage::Bits, &mut draw);
            Some(())
        });
        if damaged.is_some() {
            node.storage.has_damaged_checkpoint = true;
            self.causes.add(replica, Cause::Checkpoint);
            self.tally.add("checkpoints damaged");
        }
    }
}

/// Name of a journal file.
fn name_of(number: u64) -> String {
    format!("wal-{number:020}.log")
}

/// Damage a whole file. Returns its name, unless no file is eligible.
fn lose_one(disk: &mut Disk, mishap: Mishap, pick: u64) -> Option<String> {
    // Only files that a replica must have after its first start. Without the marker it would be taken for proven.
    let names: Vec<String> = disk
        .names()
        .filter(|name| *name != MARKER && !name.contains("unfinished"))
        .map(str::to_owned)
        .collect();
    let at = |of: usize| usize::try_from(pick % (of.max(1) as u64)).expect("an index");
    let name = names.get(at(names.len()))?.clone();
    match mishap {
        Mishap::CutShort => {
            let length = disk.read(&name)?.len();
            disk.cut_short(&name, at(length));
        }
        Mishap::Missing => disk.lose(&name),
        Mishap::Swapped => {
            let kind = |name: &str| name.split('-').next().map(str::to_owned);
            let like = |other: &&String| **other != name && kind(other) == kind(&name);
            let others: Vec<&String> = names.iter().filter(like).collect();
            disk.swap(&name, others.get(at(others.len()))?);
        }
    }
    Some(name)
}

pub(super) fn superblock_of(disk: &Disk) -> Option<superblock::Opened> {
    superblock::open(disk.read(SUPERBLOCK)?).ok()
}

/// Records that may be damaged; see [`Host::damage_journal`].
fn damageable(disk: &Disk, config: &ReplicaConfig, committed: u64) -> Vec<Place> {
    let Some(opened) = superblock_of(disk) else {
        return Vec::new();
    };
    let places = places_of(disk, &opened.superblock, config);
    let intact = places
        .iter()
        .filter(|place| place.checksum != 0 && place.op <= committed);
    let Some(witness) = intact.max_by_key(|place| (place.file, place.offset)) else {
        return Vec::new();
    };
    let head = usize::try_from(witness.offset)
        .ok()
        .and_then(|offset| disk.read(&name_of(witness.file))?.get(offset..))
        .and_then(RecordHeader::parse);
    let synced = head.map_or(0, |head| head.synced);
    let may_go = |place: &&Place| {
        (place.file, place.offset) < (witness.file, witness.offset)
            && place.op < witness.op
            && place.op <= synced
            && place.checksum != 0
            && is_newest(&places, place)
    };
    places.iter().filter(may_go).copied().collect()
}

fn is_newest(places: &[Place], place: &Place) -> bool {
    places
        .iter()
        .rfind(|other| other.op == place.op)
        .is_some_and(|newest| newest == place)
}

pub(super) fn places_of(
    disk: &Disk,
    superblock: &Superblock,
    config: &ReplicaConfig,
) -> Vec<Place> {
    let intake = Intake {
        cluster: config.cluster_id(),
        message_size_max: FRAME_BYTES_MAX,
    };
    let mut scanner = Scanner::new(superblock, intake);
    let numbers = disk
        .names()
        .filter_map(|name| name.strip_prefix("wal-")?.strip_suffix(".log"));
    for number in numbers.filter_map(|number| number.parse().ok()) {
        scanner.file(number, disk.read(&name_of(number)).unwrap_or_default());
    }
    scanner.finish().places
}
