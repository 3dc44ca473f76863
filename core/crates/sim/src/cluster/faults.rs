//! Execution of the planned faults, as far as they are the same for all kinds of nodes.

use super::{Cluster, Kind, Storage as _};
use crate::checker::Cause;
use crate::disk::Disk;
use crate::options::Options;
use crate::plan::{Fault, Loss};
use crate::random::Domain;

/// Planned crash in the middle of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CrashInStep {
    /// Number of outputs before it.
    pub(crate) outputs: u8,
    pub(crate) power: Option<Loss>,
    pub(crate) down_ns: u64,
}

impl<K: Kind> Cluster<K> {
    pub(super) fn fault(&mut self, index: usize) {
        if self.healed {
            return;
        }
        let now_ns = self.now_ns();
        let fault = self.scenario.plan[index].fault.clone();
        self.trace.event(now_ns, u8::MAX, "fault", &[index as u64]);
        self.trace
            .explain(now_ns, u8::MAX, || format!("fault {index}: {fault:?}"));
        if K::is_protected(self)
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
                let members = 0..self.scenario.options.replicas;
                for node in members.filter(|node| replicas >> node & 1 == 1) {
                    self.crash(node, power, down_ns);
                }
            }
            Fault::CrashInStep {
                replica,
                outputs,
                power,
                down_ns,
            } => {
                let crash = CrashInStep {
                    outputs,
                    power,
                    down_ns,
                };
                K::plan_crash(self, replica, crash);
            }
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
            Fault::Pause { replica, .. }
            | Fault::SlowDisk { replica, .. }
            | Fault::DiskFull { replica, .. }
            | Fault::SyncError { replica, .. }
            | Fault::Misread { replica }
            | Fault::ClockJump { replica, .. } => self.hinder(replica, &fault),
            other => K::inject(self, index, &other),
        }
    }

    /// Inject faults that only make a node slow or its requests fail.
    fn hinder(&mut self, replica: u8, fault: &Fault) {
        let now_ns = self.now_ns();
        let Some(node) = self.nodes.get_mut(usize::from(replica)) else {
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
                self.causes.add(replica, Cause::Full);
                node.full_until_ns = now_ns + for_ns;
            }
            Fault::SyncError { down_ns, .. } => {
                self.causes.add(replica, Cause::FailedSync);
                node.sync_error = Some(*down_ns);
            }
            Fault::Misread { .. } => node.storage.misread(),
            Fault::ClockJump { by_ns, .. } => {
                self.tally.add("clock jumps");
                node.clock.jump(*by_ns);
            }
            _ => {}
        }
    }

    /// Crash a process, with or without a power loss, and schedule its restart.
    pub(crate) fn crash(&mut self, node: u8, power: Option<Loss>, down_ns: u64) {
        // Replicas that remember the newer state stay up until the older copy is detected.
        if !K::is_protected(self) {
            K::crash(self, node, power, down_ns);
        }
    }

    /// Record a crash in the trace.
    pub(crate) fn trace_crash(&mut self, node: u8, power: Option<Loss>, down_ns: u64) {
        let now_ns = self.now_ns();
        self.trace
            .event(now_ns, node, "crash", &[u64::from(power.is_some())]);
        self.trace.explain(now_ns, node, || {
            let milliseconds = down_ns / 1_000_000;
            format!("crash, power {power:?}, down for {milliseconds} ms")
        });
    }

    /// Count a crash, and schedule the restart.
    pub(crate) fn after_crash(&mut self, node: u8, power: Option<Loss>, down_ns: u64) {
        self.tally.add("crashes");
        self.causes.add(node, Cause::Crash);
        if power.is_some() {
            self.tally.add("power losses");
            self.causes.add(node, Cause::Torn);
        }
        self.nodes[usize::from(node)].busy_until_ns = 0;
        self.plan_start(node, down_ns);
    }
}

/// An empty disk.
pub(crate) fn empty(options: &Options) -> Disk {
    Disk::new(options.disk.weak_names, options.disk.weak_size)
}
