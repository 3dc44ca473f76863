//! Node: its clock, its data directory, and the process that currently runs on it.

use headrace_vsr::frame::Release;

use super::Kind;
use crate::checker::Progress;
use crate::clock::Clock;
use crate::disk::Disk;
use crate::machine::{NEWER, OLDER};
use crate::options::Options;
use crate::random::Fates;

/// File of the superblock's copies.
pub(crate) const SUPERBLOCK: &str = "superblock";
/// Marker file of an unproven replica, which withholds acknowledgements and votes.
pub(crate) const MARKER: &str = "unproven";

/// Copy of a data directory.
#[derive(Clone, Debug)]
pub(crate) struct DirectoryCopy {
    pub(crate) disk: Disk,
    /// Upper bound of the log view in the copy.
    pub(crate) log_view: u32,
    /// Upper bound of the newest operation in that log.
    pub(crate) op: u64,
}

/// A node.
pub(crate) struct Node<K: Kind> {
    pub(crate) storage: K::Storage,
    pub(crate) clock: Clock,
    /// Installed release; `has_run_newer` is set once the newer one has run on this disk.
    pub(crate) release: Release,
    pub(crate) has_run_newer: bool,
    /// Copy of the data directory, with upper bounds on the log of its replica.
    pub(crate) copy: Option<DirectoryCopy>,
    /// Number of process starts on this node.
    pub(crate) starts: u64,
    pub(crate) process: Option<K::Process>,
    /// Reason why no process can start on this node any more.
    pub(crate) refused: Option<String>,
    /// End of the pause of the process.
    pub(crate) busy_until_ns: u64,
    pub(crate) slow_until_ns: u64,
    pub(crate) slow_factor: u32,
    pub(crate) full_until_ns: u64,
    /// Downtime of the process after the next sync, which fails.
    pub(crate) sync_error: Option<u64>,
    pub(crate) progress: Progress,
    /// True if the node stays down permanently.
    pub(crate) is_removed: bool,
}

impl<K: Kind> Node<K> {
    pub(crate) fn new(fates: Fates, options: &Options, replica: u8, storage: K::Storage) -> Self {
        Self {
            storage,
            clock: Clock::new(&fates, replica, options.clock_skew_ppm),
            release: if options.old_releases >> replica & 1 == 1 {
                OLDER
            } else {
                NEWER
            },
            has_run_newer: false,
            copy: None,
            starts: 0,
            process: None,
            refused: None,
            busy_until_ns: 0,
            slow_until_ns: 0,
            slow_factor: 1,
            full_until_ns: 0,
            sync_error: None,
            progress: Progress::default(),
            is_removed: false,
        }
    }

    /// Time until which pauses and its disk delay the process.
    pub(crate) fn delayed_until_ns(&self) -> u64 {
        self.busy_until_ns
            .max(self.slow_until_ns)
            .max(self.full_until_ns)
    }
}
