//! Planted bugs: a broken rule of the replica, or a faulty host. A checker must detect each of them.
//!
//! The replica has no switches for this. Its decisions are the methods of [`Rules`]; [`Planted`] overrides one. The
//! production host has none either: the simulated data directory accepts a sync, a write or a file and does not execute
//! it. A data node has its bugs in what carries out its operations on files, and between it and its clients.
//!
//! Some rules are missing here, because breaking one of them alone has no visible effect: another rule holds as well. A
//! backup acknowledges only in normal operation, which it enters when its superblock is durable (`may_acknowledge`);
//! the commit number of a heartbeat is checked against the hash chain (`commit_verified`); a read waits for the
//! operations with which its view began, whether requests are admitted or not (`past_recovery_barrier`); truncated
//! operations are provably uncommitted, so that truncating early loses nothing (`may_cut`). An acknowledgement of an
//! earlier view (`ack_counts`) names its prepare by checksum: with three members it is equivalent to one of this view.

use clap::ValueEnum;
use headrace_vsr::frame::Release;
use headrace_vsr::journal::{HEAD_BYTES, RecordHeader};
use headrace_vsr::quorum::Quorums;
use headrace_vsr::rules::{Adoption, BodyState, Checkpoints, Evidence, Repeat, Rules, Standard};

use crate::jobs::Step;

/// Kind of node that a run consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeKind {
    /// Replicas on a host of the simulator's own.
    #[default]
    Core,
    /// Replicas on the production host.
    Host,
    /// A data node.
    Data,
}

/// Planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Mutant {
    /// A prepare is acknowledged before the journal reports it durable.
    AckBeforeDurable,
    /// An operation commits with one acknowledgement too few.
    QuorumMinusOne,
    /// Parent checksums are not compared: stray prepares of a lost view stay in the log.
    NoLinkCheck,
    /// Frames are sent before the superblock on which they depend is durable.
    SendBeforeSuperblock,
    /// The log is truncated to the commit number when a view is left.
    TruncateOnLeaving,
    /// A damaged record is denied as if it had never existed.
    FaultyDenied,
    /// Every record is denied, durable or not.
    DurableDenied,
    /// The longest log is chosen as the canonical one.
    LogByOp,
    /// A new primary decides with one log too few.
    ViewQuorumMinusOne,
    /// One denial proves that a prepare was not committed.
    OneDenial,
    /// Summaries do not prove commits: a new view may truncate below them.
    CommitsUnproven,
    /// A new primary starts without the bodies of its log.
    StartWithoutBody,
    /// A stale `StartView` of the same view is adopted again.
    StaleStartView,
    /// The log is compacted by a checkpoint that is not durable.
    CompactUndurable,
    /// A request is executed although it was executed before.
    RepeatExecuted,
    /// A read is served without confirmation by the others.
    ReadUnconfirmed,
    /// A read is served before the state has caught up.
    ReadBehind,
    /// Commands are accepted whatever release is in force.
    ReleaseIgnored,
    /// Host: the journal is reported durable without a sync.
    HostNoJournalSync,
    /// Host: the superblock is written to one copy.
    HostOneCopy,
    /// Host: the superblock is reported durable without a sync.
    HostNoSuperblockSync,
    /// Host: checkpoints are renamed without a sync of the directory.
    HostDirectoryNotSynced,
    /// Host: a failed sync is ignored.
    HostErrorsIgnored,
    /// Host: records read after a restart are taken for durable without a sync.
    HostNoSyncAtStart,
    /// Host: gaps that a crash has left in a group commit are taken for damage.
    HostHoleIsDamage,
    /// Host: damaged records are omitted from the result of a start, as if they had never existed.
    HostDamageOverlooked,
    /// Host: the oldest record found by a start of the first replica is reported as damaged.
    HostIntactIsDamage,
    /// Host: a replica with an empty disk takes its group for new after the first peer without history.
    HostEmptyQuorumIsNew,
    /// Host: a primary assumes that the others run its own release.
    HostReleaseUnasked,
    /// Host: a primary takes timestamps from its own wall clock.
    HostClockBelieved,
    /// Host: a data directory that is an older copy is trusted.
    HostOlderCopyBelieved,
    /// Host: a replica with an empty disk continues without rejoining.
    HostForgetful,
    /// Host: nothing in the journal states that records were cut.
    HostCutUnsealed,
    /// Production host: names read after a restart are taken for durable without a sync of the directory.
    HostNamesUnsyncedAtStart,
    /// Production host: the list of journal files is renamed to its final name without a sync.
    HostListNotSynced,
    /// Production host: checkpoints are renamed to their final names without a sync.
    HostCheckpointNotSynced,
    /// Data node: a log is reported as synced, and is not.
    DataSyncSkipped,
    /// Data node: a sync is reported before it takes effect.
    DataSyncEarly,
    /// Data node: a write is reported before it takes effect.
    DataWriteEarly,
    /// Data node: a file is created without a sync of the directory.
    DataCreateUnsynced,
    /// Data node: a replacement gets its name before its bytes are synced.
    DataReplacementUnsynced,
    /// Data node: a failed sync is reported as a success.
    DataSyncErrorIgnored,
    /// Data node: a failed write is reported as a success.
    DataWriteErrorIgnored,
    /// Data node: a start believes the page cache after a failed sync.
    DataCacheBelieved,
    /// Data node: some writes end in the middle, and are reported as complete.
    DataShortWrite,
    /// Data node: some writes go to another place.
    DataWriteMisdirected,
    /// Data node: some reads return bytes of another place.
    DataReadElsewhere,
    /// Data node: checksums of messages are not compared.
    DataChecksumSkipped,
    /// Data node: a start overlooks the newest log file.
    DataFileOverlooked,
    /// Data node: the manifest is not replaced.
    DataManifestForgotten,
    /// Data node: stored offsets are reported as synced, and are not.
    DataOffsetsUnsynced,
    /// Data node: stored offsets are reported as written, and are not.
    DataOffsetsForgotten,
    /// Data node: an offset is stored that is greater than the given one.
    DataOffsetAhead,
    /// Data node: a batch is appended twice.
    DataBatchRepeated,
    /// Data node: a poll begins behind the given offset.
    DataPollSkips,
}

/// Fault of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostFault {
    /// The journal is not synced.
    JournalNotSynced,
    /// Only one copy of the superblock is written.
    OneCopy,
    /// The superblock is not synced.
    SuperblockNotSynced,
    /// The directory is not synced.
    DirectoryNotSynced,
    /// Storage errors are ignored.
    ErrorsIgnored,
    /// The journal is not synced before it is read at a start.
    NoSyncAtStart,
    /// A gap below an intact record is taken for damage.
    HoleIsDamage,
    /// Damaged records are not reported.
    DamageOverlooked,
    /// An intact record is reported as damaged.
    IntactIsDamage,
    /// Two empty disks are taken for a new group.
    EmptyQuorumIsNew,
    /// The releases of the others are not requested.
    ReleaseUnasked,
    /// Only the own clock is used.
    ClockBelieved,
    /// Peers do not compare a replica with what they remember of it.
    OlderCopyBelieved,
    /// An empty disk is not treated specially.
    Forgetful,
    /// Cut records are overwritten with zeros, without seals.
    CutUnsealed,
    /// The directory is not synced before its files are trusted at a start.
    NamesUnsyncedAtStart,
    /// The list of journal files is renamed to its final name without a sync.
    ListNotSynced,
    /// Checkpoints are renamed to their final names without a sync.
    CheckpointNotSynced,
}

/// Rules with one of them broken.
#[derive(Clone, Copy, Debug)]
pub struct Planted(pub Mutant);

impl Mutant {
    /// All planted bugs of this kind of node.
    pub fn all(kind: NodeKind) -> Vec<Self> {
        let only_in_production = |mutant: Self| {
            matches!(
                mutant,
                Self::HostNamesUnsyncedAtStart
                    | Self::HostListNotSynced
                    | Self::HostCheckpointNotSynced
            )
        };
        let all = Self::value_variants().iter().copied();
        all.filter(|mutant| match kind {
            NodeKind::Core => *mutant < Self::DataSyncSkipped && !only_in_production(*mutant),
            NodeKind::Host => mutant.misdeed().is_some_and(HostFault::is_in_production),
            NodeKind::Data => *mutant >= Self::DataSyncSkipped,
        })
        .collect()
    }

    /// Fault of the host, if the bug is one of the host.
    pub const fn misdeed(self) -> Option<HostFault> {
        match self {
            Self::HostNoJournalSync => Some(HostFault::JournalNotSynced),
            Self::HostOneCopy => Some(HostFault::OneCopy),
            Self::HostNoSuperblockSync => Some(HostFault::SuperblockNotSynced),
            Self::HostDirectoryNotSynced => Some(HostFault::DirectoryNotSynced),
            Self::HostErrorsIgnored => Some(HostFault::ErrorsIgnored),
            Self::HostNoSyncAtStart => Some(HostFault::NoSyncAtStart),
            Self::HostHoleIsDamage => Some(HostFault::HoleIsDamage),
            Self::HostDamageOverlooked => Some(HostFault::DamageOverlooked),
            Self::HostIntactIsDamage => Some(HostFault::IntactIsDamage),
            Self::HostEmptyQuorumIsNew => Some(HostFault::EmptyQuorumIsNew),
            Self::HostReleaseUnasked => Some(HostFault::ReleaseUnasked),
            Self::HostClockBelieved => Some(HostFault::ClockBelieved),
            Self::HostOlderCopyBelieved => Some(HostFault::OlderCopyBelieved),
            Self::HostForgetful => Some(HostFault::Forgetful),
            Self::HostCutUnsealed => Some(HostFault::CutUnsealed),
            Self::HostNamesUnsyncedAtStart => Some(HostFault::NamesUnsyncedAtStart),
            Self::HostListNotSynced => Some(HostFault::ListNotSynced),
            Self::HostCheckpointNotSynced => Some(HostFault::CheckpointNotSynced),
            _ => None,
        }
    }
}

impl HostFault {
    /// Return whether the fault can be injected into the production host, which is the case for omitted file
    /// operations.
    pub const fn is_in_production(self) -> bool {
        matches!(
            self,
            Self::JournalNotSynced
                | Self::OneCopy
                | Self::SuperblockNotSynced
                | Self::DirectoryNotSynced
                | Self::ErrorsIgnored
                | Self::NoSyncAtStart
                | Self::Forgetful
                | Self::NamesUnsyncedAtStart
                | Self::ListNotSynced
                | Self::CheckpointNotSynced
        )
    }

    /// Remove the steps from a disk request that the fault omits. `kind` is the part of the storage.
    pub(crate) fn change(self, kind: crate::cluster::bare::Part, steps: &mut Vec<Step>) {
        use crate::cluster::bare::Part;
        match (self, kind) {
            (Self::JournalNotSynced, Part::Journal)
            | (Self::SuperblockNotSynced, Part::Superblock) => {
                steps.retain(|step| !matches!(step, Step::Sync(_)));
            }
            (Self::OneCopy, Part::Superblock) => {
                // The first write is copy 0; the last step of the first pair is its sync.
                steps.truncate(1);
                steps.push(Step::Sync(crate::cluster::SUPERBLOCK.to_owned()));
            }
            (Self::DirectoryNotSynced, Part::Checkpoint) => {
                steps.retain(|step| *step != Step::SyncNames);
            }
            _ => {}
        }
    }
}

/// Replace the seals that these steps write by zeros.
pub(crate) fn remove_seals(steps: &mut [Step]) {
    for step in steps {
        if let Step::Write { bytes, .. } = step
            && RecordHeader::parse(bytes).is_some_and(|head| head.is_seal())
        {
            bytes[..HEAD_BYTES].fill(0);
        }
    }
}

impl Planted {
    fn is(self, mutant: Mutant) -> bool {
        self.0 == mutant
    }
}

impl Rules for Planted {
    fn ackable(&self, body: BodyState) -> bool {
        Standard.ackable(body) || (self.is(Mutant::AckBeforeDurable) && body == BodyState::Writing)
    }

    fn commit_point(&self, acks: &[u64], quorums: Quorums) -> u64 {
        if self.is(Mutant::QuorumMinusOne) {
            return acks[usize::from(quorums.replication).saturating_sub(2)];
        }
        Standard.commit_point(acks, quorums)
    }

    fn linked(&self, parent: u128, checksum_below: u128) -> bool {
        Standard.linked(parent, checksum_below) || self.is(Mutant::NoLinkCheck)
    }

    fn verified(&self, op: u64, link_floor: u64) -> bool {
        Standard.verified(op, link_floor) || self.is(Mutant::NoLinkCheck)
    }

    fn superblock_covers(&self, durable_sequence: u64, needed_sequence: u64) -> bool {
        Standard.superblock_covers(durable_sequence, needed_sequence)
            || self.is(Mutant::SendBeforeSuperblock)
    }

    fn head_on_leaving(&self, head: u64, commit_max: u64) -> u64 {
        if self.is(Mutant::TruncateOnLeaving) {
            head.min(commit_max)
        } else {
            Standard.head_on_leaving(head, commit_max)
        }
    }

    fn nack(&self, evidence: Evidence) -> bool {
        let denied = match self.0 {
            Mutant::FaultyDenied => evidence.body == BodyState::Faulty,
            Mutant::DurableDenied => evidence.body == BodyState::Durable,
            _ => false,
        };
        Standard.nack(evidence) || (denied && !evidence.in_checkpoint)
    }

    fn log_rank(&self, log_view: u32, op: u64) -> u64 {
        if self.is(Mutant::LogByOp) {
            op
        } else {
            Standard.log_rank(log_view, op)
        }
    }

    fn view_change_quorum(&self, quorums: Quorums) -> u8 {
        let quorum = Standard.view_change_quorum(quorums);
        if self.is(Mutant::ViewQuorumMinusOne) {
            quorum.saturating_sub(1).max(1)
        } else {
            quorum
        }
    }

    fn nack_quorum(&self, quorums: Quorums) -> u8 {
        if self.is(Mutant::OneDenial) {
            1
        } else {
            Standard.nack_quorum(quorums)
        }
    }

    fn proven_commit(&self, commit_max: u64, op: u64, newest_commit: u64) -> u64 {
        if self.is(Mutant::CommitsUnproven) {
            0
        } else {
            Standard.proven_commit(commit_max, op, newest_commit)
        }
    }

    fn may_start_without_body(&self) -> bool {
        self.is(Mutant::StartWithoutBody)
    }

    fn adopts(&self, adoption: Adoption) -> bool {
        Standard.adopts(adoption)
            || (self.is(Mutant::StaleStartView) && adoption.frame_view == adoption.view)
    }

    fn compaction_limit(&self, checkpoints: Checkpoints) -> u64 {
        if self.is(Mutant::CompactUndurable) {
            checkpoints.newest
        } else {
            Standard.compaction_limit(checkpoints)
        }
    }

    fn repeated(&self, repeat: Repeat) -> bool {
        Standard.repeated(repeat) && !self.is(Mutant::RepeatExecuted)
    }

    fn is_in_force(&self, since: Release, in_force: Release) -> bool {
        Standard.is_in_force(since, in_force) || self.is(Mutant::ReleaseIgnored)
    }

    fn read_confirmations(&self, quorums: Quorums) -> u8 {
        if self.is(Mutant::ReadUnconfirmed) {
            0
        } else {
            Standard.read_confirmations(quorums)
        }
    }

    fn read_ready(&self, commit_min: u64, read_index: u64) -> bool {
        Standard.read_ready(commit_min, read_index) || self.is(Mutant::ReadBehind)
    }
}
