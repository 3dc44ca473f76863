//! Planted bugs: a broken rule of the replica, or a host that misbehaves. A checker must notice each of them.
//!
//! The replica has no switches for this. Its decisions are the methods of [`Rules`]; [`Planted`] overrides one. Nor has the
//! production host: what it leaves out is a sync, a write or a file that the simulated folder takes and does not carry out.
//!
//! Some rules are not here, because breaking one of them alone changes nothing that can be seen: another rule holds as
//! well. A backup acknowledges only in normal operation, which it enters when its superblock is durable
//! (`may_acknowledge`); a heartbeat's commit point is held against the chain of hashes (`commit_verified`); a read waits for
//! what its view began with, whether requests are admitted or not (`past_recovery_barrier`); what is cut is provably
//! uncommitted, so that cutting early loses nothing (`may_cut`). An acknowledgement of an earlier view (`ack_counts`) names
//! its prepare by checksum: with three members it is worth one of this view.

use clap::ValueEnum;
use headrace_vsr::frame::Release;
use headrace_vsr::quorum::Quorums;
use headrace_vsr::rules::{Adoption, BodyState, Checkpoints, Evidence, Repeat, Rules, Standard};

use crate::jobs::Step;

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Mutant {
    /// A prepare is acknowledged before the journal reports it durable.
    AckBeforeDurable,
    /// An operation commits with one acknowledgement too few.
    QuorumMinusOne,
    /// Parents are not compared: strays of a lost view stay in the log.
    NoLinkCheck,
    /// Frames go out before the superblock that they rest on is durable.
    SendBeforeSuperblock,
    /// The log is cut to the commit point when a view is left.
    TruncateOnLeaving,
    /// A damaged record is denied as if it had never been there.
    FaultyDenied,
    /// Every record is denied, durable or not.
    DurableDenied,
    /// The canonical log is the longest one.
    LogByOp,
    /// A new primary decides with one log too few.
    ViewQuorumMinusOne,
    /// One denial proves that a prepare was not committed.
    OneDenial,
    /// Summaries do not prove commits: a new view may cut below them.
    CommitsUnproven,
    /// A new primary starts without the bodies of its log.
    StartWithoutBody,
    /// An old answer of the same view is adopted again.
    StaleStartView,
    /// The log is compacted by a checkpoint that is not durable.
    CompactUndurable,
    /// A request is executed although it was executed before.
    RepeatExecuted,
    /// A read is served without asking the others.
    ReadUnconfirmed,
    /// A read is served before the state has caught up.
    ReadBehind,
    /// Commands are taken whatever release is in force.
    ReleaseIgnored,
    /// Host: the journal is reported durable without a sync.
    HostNoJournalSync,
    /// Host: the superblock is written to one copy.
    HostOneCopy,
    /// Host: the superblock is reported durable without a sync.
    HostNoSuperblockSync,
    /// Host: checkpoints are named without a sync of the folder.
    HostFolderNotSynced,
    /// Host: a failed sync is ignored.
    HostErrorsIgnored,
    /// Host: what was read back after a restart is taken for durable without a sync.
    HostNoSyncAtStart,
    /// Host: what a crash has torn out of a group commit is taken for damaged.
    HostHoleIsDamage,
    /// Host: what is damaged is left out of what a start has found, as if it had never been there.
    HostDamageOverlooked,
    /// Host: the oldest record that a start of the first replica has found is said to be damaged.
    HostIntactIsDamage,
    /// Host: a replica with an empty disk takes itself for one of a new group with the first other that has no history.
    HostEmptyQuorumIsNew,
    /// Host: a primary takes the others to run the release that it runs.
    HostReleaseUnasked,
    /// Host: a primary stamps with what its own wall clock shows.
    HostClockBelieved,
    /// Host: a folder that is an older copy of itself is believed.
    HostOlderCopyBelieved,
    /// Host: a replica with an empty disk goes on as if nothing had happened.
    HostForgetful,
    /// Production host: names that were read back after a restart are taken for durable without a sync of the folder.
    HostNamesUnsyncedAtStart,
    /// Production host: the list of journal files takes its place unsynced.
    HostListNotSynced,
    /// Production host: checkpoints take their places unsynced.
    HostCheckpointNotSynced,
}

/// What a host does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misdeed {
    /// No sync of the journal.
    JournalNotSynced,
    /// One copy of the superblock.
    OneCopy,
    /// No sync of the superblock.
    SuperblockNotSynced,
    /// No sync of the folder.
    FolderNotSynced,
    /// Storage errors are ignored.
    ErrorsIgnored,
    /// No sync before the journal is read at a start.
    NoSyncAtStart,
    /// A hole below an intact record is damage.
    HoleIsDamage,
    /// Damaged records are not mentioned.
    DamageOverlooked,
    /// A whole record is said to be damaged.
    IntactIsDamage,
    /// Two empty disks are a new group.
    EmptyQuorumIsNew,
    /// The release of others is not asked for.
    ReleaseUnasked,
    /// No clock but the own is asked.
    ClockBelieved,
    /// Others do not compare a replica with what they remember of it.
    OlderCopyBelieved,
    /// An empty disk is nothing special.
    Forgetful,
    /// No sync of the folder before the files in it are believed at a start.
    NamesUnsyncedAtStart,
    /// The list of journal files takes its place unsynced.
    ListNotSynced,
    /// Checkpoints take their places unsynced.
    CheckpointNotSynced,
}

/// The rules with one of them broken.
#[derive(Clone, Copy, Debug)]
pub struct Planted(pub Mutant);

impl Mutant {
    /// Those of the core and of the simulator's host, or those of the production host.
    pub fn all(of_production_host: bool) -> Vec<Self> {
        let in_production = |mutant: &Self| mutant.misdeed().is_some_and(Misdeed::is_in_production);
        let only_there = |mutant: &Self| {
            matches!(
                mutant,
                Self::HostNamesUnsyncedAtStart
                    | Self::HostListNotSynced
                    | Self::HostCheckpointNotSynced
            )
        };
        Self::value_variants()
            .iter()
            .filter(|mutant| {
                if of_production_host {
                    in_production(mutant)
                } else {
                    !only_there(mutant)
                }
            })
            .copied()
            .collect()
    }

    /// What the host does wrong, when it is the host.
    pub const fn misdeed(self) -> Option<Misdeed> {
        match self {
            Self::HostNoJournalSync => Some(Misdeed::JournalNotSynced),
            Self::HostOneCopy => Some(Misdeed::OneCopy),
            Self::HostNoSuperblockSync => Some(Misdeed::SuperblockNotSynced),
            Self::HostFolderNotSynced => Some(Misdeed::FolderNotSynced),
            Self::HostErrorsIgnored => Some(Misdeed::ErrorsIgnored),
            Self::HostNoSyncAtStart => Some(Misdeed::NoSyncAtStart),
            Self::HostHoleIsDamage => Some(Misdeed::HoleIsDamage),
            Self::HostDamageOverlooked => Some(Misdeed::DamageOverlooked),
            Self::HostIntactIsDamage => Some(Misdeed::IntactIsDamage),
            Self::HostEmptyQuorumIsNew => Some(Misdeed::EmptyQuorumIsNew),
            Self::HostReleaseUnasked => Some(Misdeed::ReleaseUnasked),
            Self::HostClockBelieved => Some(Misdeed::ClockBelieved),
            Self::HostOlderCopyBelieved => Some(Misdeed::OlderCopyBelieved),
            Self::HostForgetful => Some(Misdeed::Forgetful),
            Self::HostNamesUnsyncedAtStart => Some(Misdeed::NamesUnsyncedAtStart),
            Self::HostListNotSynced => Some(Misdeed::ListNotSynced),
            Self::HostCheckpointNotSynced => Some(Misdeed::CheckpointNotSynced),
            _ => None,
        }
    }
}

impl Misdeed {
    /// Whether it can be done to the production host: something that it asks of its files is left out.
    pub const fn is_in_production(self) -> bool {
        matches!(
            self,
            Self::JournalNotSynced
                | Self::OneCopy
                | Self::SuperblockNotSynced
                | Self::FolderNotSynced
                | Self::ErrorsIgnored
                | Self::NoSyncAtStart
                | Self::Forgetful
                | Self::NamesUnsyncedAtStart
                | Self::ListNotSynced
                | Self::CheckpointNotSynced
        )
    }

    /// Leaves out of a request to the disk what the misdeed leaves out. `kind` is the part of the storage.
    pub(crate) fn change(self, kind: crate::cluster::Part, steps: &mut Vec<Step>) {
        use crate::cluster::Part;
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
            (Self::FolderNotSynced, Part::Checkpoint) => {
                steps.retain(|step| *step != Step::SyncNames);
            }
            _ => {}
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
