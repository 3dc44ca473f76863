//! State of a replica that other threads may read.

use std::sync::{Mutex, MutexGuard, PoisonError, atomic::Ordering};

use headrace_vsr::{api::Report, clocks::Agreement};

use crate::{
    events::Role,
    peers::Peers,
    status::{Counters, ReplicaStatus, StorageStatus},
    storage::Disk,
};

/// Interval between two updates of the connection status, which allocates memory.
const PEERS_EVERY_NS: u64 = 100_000_000;

#[derive(Debug)]
pub(crate) struct Shared {
    status: Mutex<Described>,
}

#[derive(Debug)]
struct Described {
    status: ReplicaStatus,
    peers_at_ns: u64,
}

impl Shared {
    pub(crate) fn new(status: ReplicaStatus) -> Self {
        Self {
            status: Mutex::new(Described {
                status,
                peers_at_ns: 0,
            }),
        }
    }

    fn described(&self) -> MutexGuard<'_, Described> {
        // Held only briefly, by the replica's threads and by callers that read the status.
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn status(&self) -> ReplicaStatus {
        self.described().status.clone()
    }

    pub(crate) fn count(&self, count: impl FnOnce(&mut Counters)) {
        count(&mut self.described().status.counters);
    }

    pub(crate) fn storage(&self, change: impl FnOnce(&mut StorageStatus)) {
        change(&mut self.described().status.storage);
    }

    pub(crate) fn started(&self, incarnation: u64) {
        let mut described = self.described();
        described.status.incarnation = incarnation;
        described.status.role = Role::Recovering.name();
    }

    pub(crate) fn rejoining(&self, rejoining: bool) {
        self.described().status.rejoining = rejoining;
    }

    /// Record the clock agreement learned from pings.
    pub(crate) fn clock(&self, agreement: Agreement) {
        let clock = &mut self.described().status.clock;
        clock.state = agreement.name();
        (clock.unsynchronised, clock.ahead_ns, clock.spread_ns) = match agreement {
            Agreement::OwnIsWrong { by_ns } => (true, by_ns, 0),
            Agreement::Disagreed { spread_ns } => (true, 0, spread_ns),
            Agreement::Unknown | Agreement::Agreed => (false, 0, 0),
        };
    }

    /// Publish the state of the core after a turn.
    pub(crate) fn update_status(
        &self,
        report: Report,
        (role, primary): (Role, Option<u8>),
        log_ahead_ns: i64,
        now_ns: u64,
        peers: Option<&Peers>,
        disk: &Disk,
    ) {
        let mut described = self.described();
        let status = &mut described.status;
        status.clock.log_ahead_ns = log_ahead_ns;
        status.storage_full = disk.is_full();
        status.storage.checkpoints = disk.images.load(Ordering::Relaxed);
        status.storage.checkpoint_bytes = disk.image_bytes.load(Ordering::Relaxed);
        status.role = role.name();
        status.view = report.view;
        status.log_view = report.log_view;
        status.primary = primary.map_or(-1, i16::from);
        status.op = report.op;
        status.commit = report.commit_max;
        status.applied = report.commit_min;
        status.checkpoint_op = report.checkpoint_op;
        status.log_floor = report.log_floor;
        status.syncing = report.syncing;
        status.release_in_force = report.release.to_string();
        status.queued = report.queued;
        status.sessions = report.clients;
        if let Some(peers) = peers
            && now_ns >= described.peers_at_ns + PEERS_EVERY_NS
        {
            described.peers_at_ns = now_ns;
            described.status.peers = peers.status();
            described.status.counters.refused_connections = peers.refused();
        }
    }

    /// Record that the replica has stopped; the first reason counts.
    pub(crate) fn stopped(&self, reason: &str) {
        let mut described = self.described();
        let status = &mut described.status;
        status.role = "stopped";
        status.primary = -1;
        status.peers.clear();
        if status.stopped.is_empty() {
            reason.clone_into(&mut status.stopped);
        }
    }
}
