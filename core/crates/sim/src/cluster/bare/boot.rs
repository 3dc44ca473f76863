//! Start of a process: superblock, checkpoint, journal, replica.

use std::fmt::Write as _;

use headrace_buffer::Slice;
use headrace_vsr::api::{Config, RecoveredEntry};
use headrace_vsr::frame::{Origin, Release, digest};
use headrace_vsr::neighbours::Pings;
use headrace_vsr::replica::{OpenError, Replica};
use headrace_vsr::rules::Rules;
use headrace_vsr::superblock::{self, Checkpoint, Superblock};
use headrace_vsr::timeouts::Profile;
use headrace_vsr::trust::Trust;

use super::files;
use super::node::Process;
use super::store::Store;
use super::{Bare, BareEvent, CLUSTER, Cluster, GROUP, alarms, meeting};
use crate::checker::{Alarm, Check, Violation};
use crate::cluster::SUPERBLOCK;
use crate::cluster::checks::SEAL_AFTER_NS;
use crate::jobs::Step;
use crate::machine::{Machine, NEWER};
use crate::mutants::HostFault;
use crate::options::Options;
use crate::random::Domain;

impl<R: Rules + Clone> Cluster<Bare<R>> {
    /// Start a process, unless one is running or the state of the disk prevents it.
    pub(super) fn start(&mut self, node: u8) {
        let now_ns = self.now_ns();
        let state = &mut self.nodes[usize::from(node)];
        if state.process.is_some() || state.is_removed || state.refused.is_some() {
            return;
        }
        state.starts += 1;
        let starts = state.starts;
        self.trace.event(now_ns, node, "start", &[starts]);
        self.trace
            .explain(now_ns, node, || format!("start {starts}"));
        self.tally.add("starts");
        if let Err(reason) = self.try_boot(node) {
            self.trace
                .explain(now_ns, node, || format!("refused: {reason}"));
            let state = &mut self.nodes[usize::from(node)];
            let excused = state.storage.damaged_pair.is_some() || state.storage.damaged_checkpoint;
            state.process = None;
            state.refused = Some(reason.clone());
            self.tally.add("starts refused");
            if !excused {
                self.fail(
                    node,
                    Violation::new(
                        Check::Recovery,
                        format!("replica {node} does not start: {reason}"),
                    ),
                );
            }
        }
    }

    fn try_boot(&mut self, node: u8) -> Result<(), String> {
        let options = self.scenario.options.clone();
        let mut draw = self.draw(Domain::Core, node);
        let state = &mut self.nodes[usize::from(node)];
        if state.storage.disk.read(SUPERBLOCK).is_none() {
            let members = (0..u64::from(options.replicas))
                .map(|member| member + 1)
                .collect();
            let first = Superblock::new(CLUSTER, GROUP, u64::from(node) + 1, node, members, 0);
            if options.replicas > 1 && self.kind.host_fault != Some(HostFault::Forgetful) {
                meeting::mark(&mut state.storage.disk);
            }
            carry_out(
                &files::first_superblock_steps(&first),
                &mut state.storage.disk,
            );
        }
        let sync = self.kind.host_fault != Some(HostFault::NoSyncAtStart);
        if sync {
            // Unsynced writes of the previous process may be readable now and lost in a power loss.
            state.storage.disk.sync(SUPERBLOCK);
        }
        let superblock = self.mended_superblock(node)?;
        let checkpoint = superblock.checkpoint;
        let boots = superblock.incarnation + 1;
        let (machine, clients) = self.machine_of(node, &checkpoint)?;
        let state = &mut self.nodes[usize::from(node)];
        let result = self.group.canon.restored(checkpoint.op, machine.history());
        let (store, mut scan) = Store::recover(&mut state.storage.disk, &superblock, sync);
        match self.kind.host_fault {
            Some(HostFault::HoleIsDamage) => mark_gaps_damaged(&mut scan.entries, checkpoint.op),
            Some(HostFault::DamageOverlooked) => scan.entries.retain(|entry| entry.intact),
            Some(HostFault::IntactIsDamage) if node == 0 => {
                (scan.entries.first_mut().into_iter()).for_each(|entry| entry.intact = false);
            }
            _ => {}
        }
        let noticed = alarms::check_start(state, &scan, &superblock);
        let config = config_of(&options, node, state.release, draw.word());
        let damaged = scan.entries.iter().filter(|entry| !entry.intact).count();
        let has_damaged = scan.damaged().next().is_some();
        if scan.torn.is_some() {
            self.tally.add("torn appends found at starts");
        }
        self.tally
            .add_many("damaged records found at starts", damaged as u64);
        let listed = listing(&scan.entries);
        let found = format!("found superblock {} and {listed}", superblock.sequence);
        let mut out = Vec::new();
        let neighbours = neighbours_of(&config, state.starts);
        let now = neighbours.now(state.clock.at(self.schedule.now_ns()));
        let opened = Replica::open(
            config,
            self.kind.rules.clone(),
            superblock,
            &scan.entries,
            &clients,
            now,
            &mut out,
        );
        let replica = match opened {
            Ok(replica) => replica,
            Err(OpenError::Release { .. }) => {
                self.upgrade_refused(node);
                return Ok(());
            }
            Err(error) => return Err(error.to_string()),
        };
        state.has_run_newer |= state.release == NEWER;
        state.process = Some(Process::new(
            (state.starts, boots),
            replica,
            machine,
            if meeting::is_marked(&state.storage.disk) {
                Trust::unproven()
            } else {
                Trust::Proven
            },
            neighbours,
            checkpoint.op,
            store,
        ));
        let incarnation = state.starts;
        self.check(node, result);
        self.check(node, noticed);
        if has_damaged {
            let result = self.causes.check(node, Alarm::Records);
            self.check(node, result);
        }
        let (idle_ns, idle) = (
            self.now_ns() + SEAL_AFTER_NS,
            BareEvent::Idle { node, incarnation },
        );
        self.schedule.plan_own(idle_ns, 1, idle);
        self.trace.explain(self.schedule.now_ns(), node, || found);
        self.send_greetings(node, incarnation);
        self.ping(node, incarnation);
        self.pass_common_release(node);
        self.after_step(node, out);
        Ok(())
    }

    /// Superblock of a node, after its damaged copies were rewritten.
    fn mended_superblock(&mut self, node: u8) -> Result<Superblock, String> {
        let state = &mut self.nodes[usize::from(node)];
        let opened = superblock::open(state.storage.disk.read(SUPERBLOCK).unwrap_or_default())
            .map_err(|error| error.to_string())?;
        let noticed = alarms::check_superblock_repair(state, &opened.repair);
        state.storage.damaged_pair = None;
        state.storage.superblock_scars.clear();
        if !opened.repair.is_empty() {
            let steps = files::repair_steps(&opened.superblock, &opened.repair);
            carry_out(&steps, &mut state.storage.disk);
            self.tally.add("superblocks repaired");
            let caused = self.causes.check(node, Alarm::Superblock);
            self.check(node, caused);
        }
        self.check(node, noticed);
        Ok(opened.superblock)
    }

    /// State machine and client table as of the checkpoint.
    fn machine_of(
        &mut self,
        node: u8,
        checkpoint: &Checkpoint,
    ) -> Result<(Machine, Slice), String> {
        let disk = &self.nodes[usize::from(node)].storage.disk;
        let (machine, clients) = if checkpoint.op > 0 {
            let bytes = files::checkpoint(disk, checkpoint.op).ok_or("the checkpoint is gone")?;
            let whole = bytes.len() as u64 == checkpoint.len && digest(bytes) == checkpoint.digest;
            let (machine, clients) = files::decode_image(bytes)
                .filter(|_| whole)
                .ok_or("the checkpoint is damaged")?;
            (self.group.machines.restore(node, machine), clients)
        } else {
            (self.group.machines.fresh(node).map(Some), Slice::default())
        };
        match machine {
            Ok(Some(machine)) => Ok((machine, clients)),
            Ok(None) => Err("the checkpoint is none of this state machine".to_owned()),
            Err(violation) => {
                self.fail(node, violation.clone());
                Err(violation.what)
            }
        }
    }
}

/// Configuration of a replica.
fn config_of(options: &Options, node: u8, release: Release, seed: u64) -> Config {
    Config {
        cluster: CLUSTER,
        group: GROUP,
        replica: node,
        replica_count: options.replicas,
        release,
        timeouts: if options.slow_timeouts {
            Profile::Seed
        } else {
            Profile::Default
        }
        .timeouts(),
        request_queue_max: 64,
        batch_bytes_max: 64 * 1024,
        batch_requests_max: 64,
        unstored_bytes_max: options.unstored_bytes,
        checkpoint_ops: options.checkpoint_ops,
        checkpoint_bytes: 1 << 20,
        log_keep_ops: options.checkpoint_ops / 2,
        clients_max: 16,
        chunk_bytes: 256,
        seed,
    }
}

/// Knowledge of a process about its peers at its start: none.
fn neighbours_of(config: &Config, incarnation: u64) -> Pings {
    let origin = Origin {
        cluster: config.cluster,
        replica: config.replica,
        release: config.release,
        incarnation,
        ..Origin::default()
    };
    let peers = (0..config.replica_count).filter(|peer| *peer != config.replica);
    Pings::new(
        origin,
        config.replica_count,
        peers.collect(),
        config.timeouts.ping_ms,
    )
}

/// Mark every missing operation below an intact record as damaged.
fn mark_gaps_damaged(entries: &mut Vec<RecoveredEntry>, checkpoint_op: u64) {
    let listed: Vec<u64> = entries.iter().map(|entry| entry.op).collect();
    let newest = listed.last().copied().unwrap_or(checkpoint_op);
    let holes = (checkpoint_op + 1..newest).filter(|op| !listed.contains(op));
    entries.extend(holes.map(|op| RecoveredEntry {
        op,
        header: None,
        intact: false,
    }));
    entries.sort_by_key(|entry| entry.op);
}

/// Ranges of operations with their views; damaged ones are marked.
fn listing(entries: &[RecoveredEntry]) -> String {
    let mut text = String::new();
    for entry in entries {
        let view = entry
            .header
            .map_or_else(|| "?".to_owned(), |header| header.view.to_string());
        let mark = if entry.intact { "" } else { "!" };
        // Writing to a string does not fail.
        let _ = write!(text, " {}v{view}{mark}", entry.op);
    }
    text
}

fn carry_out(steps: &[Step], disk: &mut crate::disk::Disk) {
    for step in steps {
        step.carry_out(disk);
    }
}
