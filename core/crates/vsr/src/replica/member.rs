//! Identity of a replica: its configuration and rules, which are constant while it runs.

use thiserror::Error;

use crate::api::Config;
use crate::frame::area::CHUNK_BYTES_MAX;
use crate::frame::body::multi::REQUESTS_MAX;
use crate::frame::{FrameFlags, Origin, Release};
use crate::quorum::Quorums;
use crate::superblock::Superblock;
use crate::timeouts::TimeoutsError;

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

/// Configuration of a replica, with the rules that it follows.
#[derive(Debug)]
pub(crate) struct Member<R> {
    pub(crate) rules: R,
    pub(crate) config: Config,
    pub(crate) quorums: Quorums,
}

impl<R> Member<R> {
    /// Check the configuration, and that the superblock belongs to this member.
    pub(crate) fn new(
        config: Config,
        rules: R,
        superblock: &Superblock,
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
        Ok(Self {
            rules,
            config,
            quorums,
        })
    }

    /// Author of frames, since the start that follows this superblock.
    pub(crate) fn origin(&self, superblock: &Superblock) -> Origin {
        Origin {
            cluster: self.config.cluster,
            group: self.config.group,
            view: superblock.view.number,
            epoch: superblock.epoch,
            replica: self.config.replica,
            release: self.config.release,
            flags: FrameFlags::NONE,
            incarnation: superblock.incarnation + 1,
        }
    }

    /// Return whether the group has no other member.
    pub(crate) fn is_alone(&self) -> bool {
        self.config.replica_count == 1
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
