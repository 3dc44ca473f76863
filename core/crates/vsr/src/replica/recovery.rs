//! Recovery with a persistent log (instead of VRR 4.3, whose replicas have no disk).
//!
//! With its persisted state a replica is safe at once: it serves repair and takes part in view changes. It requests the
//! log of the current view only to catch up sooner. A former primary does not resume its view.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use fastrand::Rng;
use thiserror::Error;

use crate::api::{Config, Now, Output, RecoveredEntry, Status};
use crate::clients::ClientTable;
use crate::frame::area::CHUNK_BYTES_MAX;
use crate::frame::body::multi::REQUESTS_MAX;
use crate::frame::{PrepareHeader, Release};
use crate::quorum::Quorums;
use crate::rules::Rules;
use crate::superblock::Superblock;
use crate::timeouts::TimeoutsError;

use crate::replica::durable::checkpoint::Checkpointing;
use crate::replica::durable::superblock_order::SuperblockOrder;
use crate::replica::log::Log;
use crate::replica::recent::Recent;
use crate::replica::repair::body_repair::BodyRepair;
use crate::replica::repair::header_repair::HeaderRepair;
use crate::replica::requests::admission::Admission;
use crate::replica::requests::reads::Reads;
use crate::replica::timers::Timers;
use crate::replica::view_changes::view_change::ViewChanging;
use crate::replica::view_changes::votes::Votes;
use crate::replica::{Flow, Replica};

/// Upper limit of `batch_bytes_max`: a prepare is one frame, and far below the largest that a peer accepts.
const BATCH_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Reason why a replica cannot start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum OpenError {
    /// Groups of this size are not supported.
    #[error("a group has 1, 3 or 5 replicas, not {0}")]
    Members(u8),
    /// The timeouts contradict each other.
    #[error(transparent)]
    Timeouts(#[from] TimeoutsError),
    /// A setting is out of its range.
    #[error("{0} is out of its range")]
    Setting(&'static str),
    /// The superblock belongs to another cluster, group, member list or replica.
    #[error("the superblock belongs to another replica")]
    Identity,
    /// The fields of the superblock contradict each other.
    #[error("the superblock is inconsistent")]
    Superblock,
    /// The release in force is later than the release of this program.
    #[error("release {needed} is in force in this log, and this is {own}")]
    Release {
        /// Release in force.
        needed: Release,
        /// Release of this program.
        own: Release,
    },
    /// The client table in the checkpoint cannot be decoded.
    #[error("the checkpoint's client table is damaged")]
    Clients,
    /// The only replica has lost an operation, which it cannot fetch from another replica.
    #[error("operation {op} of the only replica's log is damaged")]
    Damaged {
        /// Operation that is damaged.
        op: u64,
    },
}

impl<R: Rules> Replica<R> {
    /// Start a replica from its storage.
    ///
    /// The host has restored the checkpoint that `superblock` names into the state machine; `clients` is the client
    /// table in it (empty before the first checkpoint). `log` is the result of the journal scan above that checkpoint.
    pub fn open(
        config: Config,
        rules: R,
        superblock: Superblock,
        log: &[RecoveredEntry],
        clients: &[u8],
        now: Now,
        out: &mut Vec<Output>,
    ) -> Result<Self, OpenError> {
        let members = config.replica_count;
        let quorums = Quorums::of(members)
            .filter(|_| matches!(members, 1 | 3 | 5))
            .ok_or(OpenError::Members(members))?;
        config.timeouts.validate()?;
        check_settings(&config)?;
        if superblock.cluster != config.cluster
            || superblock.group != config.group
            || superblock.replica != config.replica
            || superblock.replica_count() != members
            || config.replica >= members
        {
            return Err(OpenError::Identity);
        }
        if !superblock.is_consistent() {
            return Err(OpenError::Superblock);
        }
        let clients = ClientTable::decode(clients).map_err(|_| OpenError::Clients)?;
        let mut random = Rng::with_seed(config.seed);
        let incarnation = superblock.incarnation + 1;
        let nonce = u128::from(incarnation) << 64 | u128::from(random.u64(1..));
        let silence = u64::from(config.timeouts.normal_heartbeat_ms) * 1_000_000;
        let checkpoint = superblock.checkpoint;
        let mut checkpointing = Checkpointing::new(members);
        if checkpoint.op > 0 {
            checkpointing.remember(checkpoint.op, checkpoint.id);
        }
        let mut replica = Self {
            rules,
            quorums,
            incarnation,
            now,
            random,
            out: Vec::new(),
            recent: Recent::default(),
            next_token: 0,
            status: Status::Recovering,
            view: superblock.view,
            log_view: superblock.log_view,
            view_start_op: superblock.view_start_op,
            loss_view: superblock.loss_view,
            view_headers: superblock.view_headers.clone(),
            view_head_op: superblock.view_head_op,
            log: Log::default(),
            head: checkpoint.op,
            commit_min: checkpoint.op,
            commit_max: superblock.commit_max.max(checkpoint.op),
            link_floor: u64::MAX,
            checkpoint,
            log_floor: 1,
            clients,
            executing: None,
            checkpointing,
            admission: Admission::default(),
            acks: alloc::vec![0; usize::from(members)],
            acknowledged: None,
            last_heard_ns: alloc::vec![0; usize::from(members)],
            abdicated: false,
            log_time: (0, 0),
            common_release: Release::FIRST,
            announce_commit: false,
            early: BTreeMap::new(),
            appends: BTreeMap::new(),
            appending_bytes: 0,
            truncating: alloc::collections::VecDeque::new(),
            votes: Votes::silent_until(now.monotonic_ns + silence),
            view_changing: ViewChanging::new(nonce),
            header_repair: HeaderRepair::default(),
            body_repair: BodyRepair::default(),
            transfer: None,
            damaged_sources: BTreeSet::new(),
            transfer_loads: BTreeMap::new(),
            reads: Reads::new(members),
            timers: Timers::default(),
            superblock: SuperblockOrder::opened(superblock),
            config,
        };
        replica.recover_log(log);
        replica.check_release()?;
        if members == 1 {
            replica.check_alone()?;
        }
        replica.guarded(now, out, Self::begin);
        Ok(replica)
    }

    /// Check that this program supports the release of every recorded prepare.
    fn check_release(&self) -> Result<(), OpenError> {
        let newest = (self.checkpoint.op..=self.head)
            .filter_map(|op| self.header(op))
            .map(PrepareHeader::release_in_force)
            .max();
        let own = self.config.release;
        match newest {
            Some(needed) if needed > own => Err(OpenError::Release { needed, own }),
            _ => Ok(()),
        }
    }

    /// Merge the records of the journal with the log that the superblock records. An entry that has lost a view change,
    /// or was accepted in a view that was never recorded (and so never acknowledged), is dropped.
    fn recover_log(&mut self, entries: &[RecoveredEntry]) {
        let sequence = self.superblock.durable_sequence();
        for entry in entries {
            if entry.op <= self.checkpoint.op {
                continue;
            }
            match entry.header {
                Some(header) => {
                    self.log.recover(header, entry.intact);
                    if self.has_lost(&header) {
                        self.log.drop_op(entry.op, sequence);
                        if entries.iter().any(|above| self.outlives(entry, above)) {
                            // The replacing prepare was stored before the entries above: it is damaged, not missing.
                            self.log.recover_faulty(entry.op);
                        }
                    } else {
                        self.commit_max = self.commit_max.max(header.area.commit);
                    }
                }
                None => self.log.recover_faulty(entry.op),
            }
        }
        let recorded: Vec<PrepareHeader> = self
            .view_headers
            .iter()
            .filter(|header| !header.is_blank() && header.op() > self.checkpoint.op)
            .copied()
            .collect();
        for header in recorded {
            self.log.want(header);
        }
        self.head = self
            .log
            .highest()
            .unwrap_or(0)
            .max(self.log.faulty().last().unwrap_or(0))
            .max(self.checkpoint.op);
        self.log_floor = self
            .log
            .lowest()
            .map_or(self.head + 1, |lowest| lowest.min(self.checkpoint.op + 1));
    }

    /// Return whether `above` lies above `lost` and still has its place in the log.
    fn outlives(&self, lost: &RecoveredEntry, above: &RecoveredEntry) -> bool {
        above.op > lost.op && above.header.is_none_or(|header| !self.has_lost(&header))
    }

    /// Return whether a record has lost its place in the recorded log. It has if another prepare is recorded at this
    /// operation, if it lies above the start of the log's view and is older than that view, or if its view was never
    /// recorded.
    fn has_lost(&self, header: &PrepareHeader) -> bool {
        let op = header.op();
        let replaced = self.view_headers.iter().any(|recorded| {
            recorded.op() == op && !recorded.is_blank() && recorded.checksum != header.checksum
        });
        replaced
            || (op > self.view_start_op && header.view < self.log_view)
            || header.view > self.log_view
    }

    /// Check the log of a single replica: it cannot be repaired, and every durable operation is committed.
    fn check_alone(&mut self) -> Result<(), OpenError> {
        for op in self.checkpoint.op + 1..=self.head {
            let below = self.header(op - 1).map(|header| header.checksum);
            let intact = self.log.is_available(op)
                && below.is_some()
                && self.header(op).map(PrepareHeader::parent) == below;
            if !intact {
                return Err(OpenError::Damaged { op });
            }
        }
        self.commit_max = self.head;
        self.view_start_op = self.head;
        self.link_floor = self.head.max(self.checkpoint.op + 1);
        self.status = Status::Normal;
        Ok(())
    }

    fn begin(&mut self) -> Flow {
        self.persist();
        self.cut_journal();
        self.notice_view();
        if self.status == Status::Normal {
            self.arm_normal();
            return self.advance();
        }
        self.send_request_start_view(None);
        self.arm_request_start_view();
        Ok(())
    }
}

fn check_settings(config: &Config) -> Result<(), OpenError> {
    let settings = [
        ("request_queue_max", config.request_queue_max > 0),
        (
            "batch_requests_max",
            (1..=REQUESTS_MAX).contains(&config.batch_requests_max),
        ),
        (
            "batch_bytes_max",
            (1..=BATCH_BYTES_MAX).contains(&config.batch_bytes_max),
        ),
        ("unstored_bytes_max", config.unstored_bytes_max > 0),
        ("checkpoint_ops", config.checkpoint_ops > 0),
        ("clients_max", config.clients_max > 0),
        (
            "chunk_bytes",
            (1..=CHUNK_BYTES_MAX).contains(&config.chunk_bytes),
        ),
    ];
    match settings.into_iter().find(|(_, holds)| !holds) {
        Some((name, _)) => Err(OpenError::Setting(name)),
        None => Ok(()),
    }
}
