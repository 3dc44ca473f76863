//! Data directories restored from older copies: peers that remember the newer state must keep the replica from
//! continuing.

use headrace_vsr::api::Event as Input;
use headrace_vsr::frame::{Area, Frame};
use headrace_vsr::rules::Rules;
use headrace_vsr::superblock;
use headrace_vsr::trust::Standing;

use super::node::DirectoryCopy;
use super::{Cluster, SUPERBLOCK, meeting};
use crate::checker::{Cause, Check, Violation};
use crate::mutants::HostFault;
use crate::options::MILLISECOND;

/// Time until the operator empties the data directory of a detected replica.
const EMPTIED_AFTER_NS: u64 = 300 * MILLISECOND;

impl<R: Rules + Clone> Cluster<R> {
    /// Copy the data directory of a node whose replica is proven.
    pub(super) fn copy_directory(&mut self, replica: u8) {
        let Some(state) = self.nodes.get_mut(usize::from(replica)) else {
            return;
        };
        let Some(process) = state
            .process
            .as_ref()
            .filter(|process| process.is_superblock_durable)
        else {
            return;
        };
        if process.trust.is_proven() {
            let report = process.replica.report();
            state.copy = Some(DirectoryCopy {
                disk: state.disk.clone(),
                log_view: report.log_view,
                op: report.op,
            });
        }
    }

    /// Replace the data directory by the copy, if all other members run and remember a newer state than that of the
    /// copy.
    pub(super) fn restore_directory(&mut self, replica: u8, down_ns: u64) {
        let index = usize::from(replica);
        if self.undetected_rollback.is_some() || index >= self.nodes.len() {
            return;
        }
        let Some(copy) = self.nodes[index].copy.clone() else {
            return;
        };
        let Some(standing) = standing_of(&copy) else {
            return;
        };
        let remembers = |node: &super::node::Node<R>| {
            node.process.as_ref().is_some_and(|process| {
                process.is_superblock_durable
                    && process.trust.is_proven()
                    && process.memory.check(replica, standing).is_err()
            })
        };
        let others = (0..self.nodes.len()).filter(|other| *other != index);
        let is_proven = self.nodes[index]
            .process
            .as_ref()
            .is_some_and(|process| process.trust.is_proven());
        if !is_proven || !others.clone().all(|other| remembers(&self.nodes[other])) {
            return self.tally.add("older copies that not all would know");
        }
        self.crash(replica, None, down_ns);
        self.tally.add("older copies restored");
        self.causes.add(replica, Cause::OlderCopy);
        for other in others {
            let node = &mut self.nodes[other];
            node.crash_in_step = None;
            node.sync_error = None;
            node.full_until_ns = 0;
        }
        let node = &mut self.nodes[index];
        node.reset_expectations();
        node.disk = copy.disk;
        node.copy = None;
        if self.host_fault != Some(HostFault::OlderCopyBelieved) {
            self.undetected_rollback = Some(replica);
        }
    }

    /// Handshake before the first frame of a process. Returns whether frames of the process are accepted.
    pub(super) fn meets(&mut self, from: u8, to: u8, life: u64, process: u64) -> bool {
        let sender = &self.nodes[usize::from(from)];
        let standing = sender
            .process
            .as_ref()
            .filter(|running| running.incarnation == process)
            .map(super::node::Process::standing);
        let receiver = &mut self.nodes[usize::from(to)];
        let Some(running) = receiver
            .process
            .as_mut()
            .filter(|it| it.is_superblock_durable)
        else {
            return false;
        };
        let met = &mut running.met[usize::from(from)];
        if process <= *met {
            return true;
        }
        let Some(standing) = standing else {
            // The process ended before the handshake.
            return false;
        };
        if self.host_fault != Some(HostFault::OlderCopyBelieved)
            && running.memory.check(from, standing).is_err()
        {
            self.detect_rollback(from);
            return false;
        }
        *met = process;
        running.memory.on_handshake(from, standing);
        let incarnation = running.incarnation;
        let known = &mut receiver.met_disk_generations[usize::from(from)];
        *known = life.max(*known);
        self.arrive(to, Input::PeerConnected);
        self.runs(to, incarnation)
    }

    /// Record what a peer has acknowledged.
    pub(super) fn remember(&mut self, node: u8, frame: &Frame) {
        if let Area::PrepareOk(area) = &frame.header.area
            && area.op > area.commit_max
            && let Some(process) = &mut self.nodes[usize::from(node)].process
        {
            let header = &frame.header;
            process
                .memory
                .acknowledged(header.replica, header.view, area.op);
        }
    }

    /// Handle the detection of an older copy: the replica stops, and the operator empties the data directory.
    fn detect_rollback(&mut self, node: u8) {
        let now_ns = self.now_ns();
        self.trace
            .explain(now_ns, node, || "the directory is an older copy".to_owned());
        if self.nodes[usize::from(node)].forgotten.is_some() {
            self.tally.add("forgotten records noticed by peers");
        } else if self.undetected_rollback.take() != Some(node) {
            let what = format!("the directory of replica {node} is taken for an older copy");
            return self.fail(node, Violation::new(Check::Recovery, what));
        }
        self.tally.add("older copies found out");
        self.crash(node, None, EMPTIED_AFTER_NS);
        let disk = self.scenario.options.disk.clone();
        self.nodes[usize::from(node)].replace_disk(disk.weak_names, disk.weak_size);
    }
}

/// Upper bound of the standing that the replica of a copy would announce.
fn standing_of(copy: &DirectoryCopy) -> Option<Standing> {
    let opened = superblock::open(copy.disk.read(SUPERBLOCK)?).ok()?;
    (!meeting::is_marked(&copy.disk)).then_some(Standing {
        is_proven: true,
        incarnation: opened.superblock.incarnation + 1,
        process: u64::MAX,
        log_view: copy.log_view,
        op: copy.op,
        ..Standing::default()
    })
}
