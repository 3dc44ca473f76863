//! Replicas that get another disk or another release.

use super::group::{ReplicaStorage as _, Replicated};
use super::{Cluster, Node, empty};
use crate::checker::{Cause, Progress};
use crate::disk::Disk;
use crate::machine::{NEWER, OLDER};
use crate::plan::Fault;

impl<K: Replicated> Cluster<K> {
    /// Inject a fault that all kinds of replicas have in common.
    pub(super) fn inject_into_replica(&mut self, fault: &Fault) {
        match *fault {
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
            _ => {}
        }
    }

    /// Restart a process with another release.
    fn change_release(&mut self, node: u8, newer: bool, down_ns: u64) {
        if self.scenario.options.old_releases == 0 {
            return;
        }
        let Some(state) = self.nodes.get_mut(usize::from(node)) else {
            return;
        };
        state.release = if newer { NEWER } else { OLDER };
        self.tally
            .add(if newer { "upgrades" } else { "downgrades" });
        K::restart(self, node, down_ns);
    }

    /// Replace the disk of a node by an empty one, provided that all other members know what they have acknowledged.
    pub(crate) fn replace_disk(&mut self, replica: u8, down_ns: u64) {
        let serves = |node: &Node<K>| node.refused.is_none();
        let all_are_fit = self.nodes.iter().all(serves) && self.all_have_met();
        if !all_are_fit || usize::from(replica) >= self.nodes.len() {
            return;
        }
        self.crash(replica, None, down_ns);
        self.tally.add("disks replaced");
        self.causes.add(replica, Cause::Replaced);
        self.empty_disk(replica);
    }

    pub(super) fn empty_disk(&mut self, replica: u8) {
        let disk = empty(&self.scenario.options);
        self.nodes[usize::from(replica)].replace_disk(disk, true);
    }

    /// Return whether every member has completed its handshakes. No member may lose its disk before that.
    pub(crate) fn all_have_met(&self) -> bool {
        self.nodes.iter().all(Node::has_met_all)
    }

    /// Return whether every member but one has completed its handshakes.
    pub(crate) fn others_have_met(&self, replica: u8) -> bool {
        (0..)
            .zip(&self.nodes)
            .all(|(member, node)| member == replica || node.has_met_all())
    }
}

impl<K: Replicated> Node<K> {
    /// Replace the data directory.
    pub(crate) fn replace_disk(&mut self, disk: Disk, is_empty: bool) {
        self.progress = Progress::default();
        self.storage.replace(disk, is_empty);
    }

    /// Return whether the replica is proven and needs no more handshakes with all others.
    pub(crate) fn has_met_all(&self) -> bool {
        self.storage.has_met_all()
    }
}
