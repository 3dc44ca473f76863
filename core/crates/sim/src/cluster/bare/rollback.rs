//! Handshakes of processes before their first frame, in which older copies of data directories are detected.

use headrace_vsr::api::Event as Input;
use headrace_vsr::frame::{Area, Frame};
use headrace_vsr::rules::Rules;

use super::node::Process;
use super::{Bare, Cluster};
use crate::mutants::HostFault;

impl<R: Rules + Clone> Cluster<Bare<R>> {
    /// Handshake before the first frame of a process. Returns whether frames of the process are accepted.
    pub(super) fn meets(&mut self, from: u8, to: u8, life: u64, process: u64) -> bool {
        let sender = &self.nodes[usize::from(from)];
        let standing = sender
            .process
            .as_ref()
            .filter(|running| running.incarnation == process)
            .map(Process::standing);
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
        if self.kind.host_fault != Some(HostFault::OlderCopyBelieved)
            && running.memory.check(from, standing).is_err()
        {
            self.older_copy_found(from);
            return false;
        }
        *met = process;
        running.memory.on_handshake(from, standing);
        let incarnation = running.incarnation;
        let known = &mut receiver.storage.met_disk_generations[usize::from(from)];
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

    /// Handle the detection of an older copy. A record that was damaged before any head stated that it was durable makes
    /// peers take the directory for one.
    fn older_copy_found(&mut self, node: u8) {
        let is_excused = self.nodes[usize::from(node)].storage.forgotten.is_some();
        if is_excused {
            self.tally.add("forgotten records noticed by peers");
        }
        self.detect_rollback(node, is_excused);
    }
}
