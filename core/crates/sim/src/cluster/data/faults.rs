//! Faults of data nodes, and the end of their processes.

use headrace_log::storage::FileName;
use headrace_wire::message::Messages;

use super::directory::Conditions;
use super::operations::is_early;
use super::process::Process;
use super::{Cluster, Data};
use crate::checker::{Cause, End, StoredOffset};
use crate::plan::{Damage, Fault, Loss};
use crate::random::Domain;

impl Cluster<Data> {
    /// Inject a fault that is particular to this kind of node.
    pub(super) fn inject(&mut self, fault: &Fault) {
        match *fault {
            Fault::IoErrors {
                replica,
                operations,
                down_ns,
            } => {
                if let Some(node) = self.nodes.get_mut(usize::from(replica)) {
                    node.storage.errors = operations;
                    self.group.calm_ns = u64::MAX;
                    self.plan_restart(replica, down_ns);
                }
            }
            Fault::JournalDamage {
                replica,
                damage,
                pick,
            } => self.damage(replica, damage, pick),
            _ => {}
        }
    }

    /// Crash a process, with or without a power loss, and schedule its restart.
    pub(super) fn crash_process(&mut self, node: u8, power: Option<Loss>, down_ns: u64) {
        let now_ns = self.now_ns();
        let mut draw = self.draw(Domain::Loss, node);
        let state = &mut self.nodes[usize::from(node)];
        let Some(mut process) = state.process.take() else {
            return;
        };
        self.trace_crash(node, power, down_ns);
        self.note_delays(node);
        let state = &mut self.nodes[usize::from(node)];
        let conditions = Conditions {
            is_full: state.full_until_ns > now_ns,
            ..Conditions::default()
        };
        let pool = process.memory.pool().clone();
        let storage = &mut state.storage;
        for operation in std::mem::take(&mut process.operations).into_values() {
            let requested = &operation.request.operation;
            if operation.outcome.is_none() || is_early(self.kind.bug, requested) {
                self.tally.add("crashes during operations on files");
                storage.execute_partly(
                    operation.namespace,
                    requested,
                    (conditions, &pool),
                    &mut draw,
                );
            }
        }
        if let Some(loss) = power {
            storage.lose_power(loss, &mut draw);
        }
        storage.crash_in_step = None;
        storage.errors = 0;
        let ends: Vec<_> = process.connections.into_keys().collect();
        self.hang_up_all(node, ends, power.is_none());
        let group = &mut self.group;
        let end = if power.is_some() || group.has_sync_failed {
            End::Power
        } else {
            End::Kill
        };
        for partition in &mut group.partitions {
            partition.messages.ended(end, group.calm_ns, now_ns);
            let loses = !end.is_survived_at(partition.messages.level());
            for stored in &mut partition.stored {
                stored.ended(end, loses || partition.messages.is_damaged());
            }
        }
        group.has_sync_failed = false;
        group.calm_ns = now_ns;
        self.after_crash(node, power, down_ns);
    }

    /// Note that pauses and the disk have delayed background syncs until now, or until a moment before.
    pub(super) fn note_delays(&mut self, node: u8) {
        let delayed_until_ns = self.nodes[usize::from(node)].delayed_until_ns();
        self.group.calm_ns = (self.group.calm_ns).max(delayed_until_ns.min(self.now_ns()));
    }

    /// Damage durable bytes of a file.
    fn damage(&mut self, node: u8, damage: Damage, pick: u64) {
        let now_ns = self.now_ns();
        let mut draw = self.draw(Domain::Damage, node);
        let Some(state) = self.nodes.get_mut(usize::from(node)) else {
            return;
        };
        // A start that is under way may have to cut off what is damaged now.
        let is_down = state.process.as_ref().is_none_or(Process::is_opening);
        let partitions = &mut self.group.partitions;
        let chosen = usize::try_from(pick % partitions.len() as u64).expect("an index");
        let partition = &mut partitions[chosen];
        let disk = state.storage.disk(partition.namespace);
        // A start writes no copy of the manifest; the next append does.
        let has_copy = disk.read(&FileName::ManifestCopy.to_string()).is_some();
        let may_damage_manifest = has_copy && !partition.is_manifest_damaged;
        let names = disk.names().filter_map(FileName::parse);
        let is_wanted = |file: &FileName| match draw.below(10) {
            0..6 => matches!(file, FileName::Log(_)),
            6..8 => matches!(file, FileName::Index(_)),
            8 => *file == FileName::Offsets,
            _ => *file == FileName::Manifest && may_damage_manifest,
        };
        let files: Vec<_> = names.filter(is_wanted).collect();
        if files.is_empty() {
            return;
        }
        let index = usize::try_from((pick >> 32) % files.len() as u64).expect("an index");
        let (file, name) = (files[index], files[index].to_string());
        let before = disk.read(&name).unwrap_or_default().to_vec();
        let Some(scar) = disk.damage(&name, 0, usize::MAX, damage, &mut draw) else {
            return;
        };
        match file {
            FileName::Log(base) => {
                let mut end = 0;
                let intact = Messages::new(&before)
                    .map_while(Result::ok)
                    .take_while(|it| {
                        end += it.bytes().len();
                        end <= scar.start()
                    });
                partition
                    .messages
                    .damaged(base.0 + intact.count() as u64, is_down);
                if is_down {
                    let stored = &mut partition.stored;
                    stored.iter_mut().for_each(StoredOffset::messages_damaged);
                }
                self.tally.add("logs damaged");
            }
            FileName::Offsets => {
                for stored in &mut partition.stored {
                    stored.damaged();
                }
                self.tally.add("stored offsets damaged");
            }
            FileName::Manifest => {
                partition.is_manifest_damaged = true;
                self.tally.add("manifests damaged");
            }
            _ => self.tally.add("indexes damaged"),
        }
        self.causes.add(node, Cause::Record);
        self.trace
            .event(now_ns, node, "damage", &[scar.start() as u64]);
        self.trace.explain(now_ns, node, || {
            format!(
                "{damage:?} in {name} of {} at {}",
                partition.namespace,
                scar.start()
            )
        });
    }
}
