//! A replica seen from outside, for people and for metrics.

use serde::Serialize;

/// State and counters of a replica. Counters count from its start.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ReplicaStatus {
    /// Number of the cluster, hexadecimal.
    pub cluster_id: String,
    /// Index of this replica.
    pub replica: u8,
    /// Members of the group.
    pub replicas: u8,
    /// `primary`, `backup`, `view_change`, `recovering` or `stopped`.
    pub role: &'static str,
    /// The view.
    pub view: u32,
    /// The last view whose log was adopted.
    pub log_view: u32,
    /// Who orders commands in this view; -1 while there is nobody to talk to.
    pub primary: i16,
    /// Newest op in the log.
    pub op: u64,
    /// Known to be committed up to here.
    pub commit: u64,
    /// Applied up to here.
    pub applied: u64,
    /// The durable checkpoint.
    pub checkpoint_op: u64,
    /// Lowest op in the log.
    pub log_floor: u64,
    /// A peer's state is being fetched.
    pub syncing: bool,
    /// The folder was new and the group was not: votes and acknowledgements are withheld until the group is known.
    pub rejoining: bool,
    /// Commands that wait for a place in the pipeline.
    pub queued: usize,
    /// Open sessions of callers.
    pub sessions: usize,
    /// The disk is full: commands are refused.
    pub storage_full: bool,
    /// The clocks of the members.
    pub clock: ClockStatus,
    /// How often this folder was started.
    pub incarnation: u64,
    /// Release, `major.minor.patch`.
    pub release: String,
    /// The release that all replicas are known to run; what later ones bring is refused.
    pub release_in_force: String,
    /// Why it has stopped; empty while it runs.
    pub stopped: String,
    /// Connections to the others.
    pub peers: Vec<PeerStatus>,
    /// Files and work of the disk.
    pub storage: StorageStatus,
    /// What was counted.
    pub counters: Counters,
}

/// The clocks of the members, as this one sees them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ClockStatus {
    /// `agreed`, `unknown` (too few other clocks were read since the start), `own_is_wrong` or `disagreed` (no majority of
    /// the clocks agrees).
    pub state: &'static str,
    /// The clocks do not agree: this one is wrong, or which one is wrong cannot be said.
    pub unsynchronised: bool,
    /// How far this clock is ahead of those that agree, or behind when negative, in nanoseconds; 0 while it is right.
    pub ahead_ns: i64,
    /// How far clocks are apart of which no majority agrees, in nanoseconds.
    pub spread_ns: u64,
    /// How far the time of the next operation is ahead of this clock, in nanoseconds.
    pub log_ahead_ns: i64,
}

/// The connections to one peer.
#[derive(Debug, Clone, Default, Serialize)]
pub struct PeerStatus {
    /// Its index.
    pub replica: u8,
    /// Where it is dialled.
    pub address: String,
    /// Both connections are open.
    pub connected: bool,
    /// Our connection to it is open.
    pub sending: bool,
    /// Its connection to us is open.
    pub receiving: bool,
    /// How often ours was opened.
    pub connects: u64,
    /// Bytes that its socket took.
    pub sent_bytes: u64,
    /// Bytes that wait.
    pub queued_bytes: u64,
    /// Frames that were dropped, as there was no connection or no room.
    pub dropped_frames: u64,
    /// Why there is no connection; empty when there is.
    pub last_failure: String,
}

/// Journal and checkpoints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct StorageStatus {
    /// Journal files in use.
    pub journal_files: u64,
    /// Bytes written to the journal.
    pub journal_bytes: u64,
    /// Group commits: writes with one sync each.
    pub group_commits: u64,
    /// Prepares in them.
    pub prepares: u64,
    /// Nanoseconds that writes and syncs of the journal took, together.
    pub commit_ns: u64,
    /// Slowest of them, in nanoseconds.
    pub commit_ns_max: u64,
    /// Superblocks written.
    pub superblocks: u64,
    /// Checkpoints written or received.
    pub checkpoints: u64,
    /// Bytes of the newest.
    pub checkpoint_bytes: u64,
}

/// What happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Proposals made here.
    pub proposed: u64,
    /// Commands applied.
    pub applied_commands: u64,
    /// Proposals and reads refused.
    pub refused: u64,
    /// Linearizable reads answered.
    pub reads: u64,
    /// Changes of view seen.
    pub view_changes: u64,
    /// Frames received.
    pub received_frames: u64,
    /// Frames sent.
    pub sent_frames: u64,
    /// Frames that the protocol dropped.
    pub dropped_frames: u64,
    /// Connections that were turned away.
    pub refused_connections: u64,
    /// Journal entries that failed verification, those found at the start included.
    pub faulty: u64,
    /// Entries that belong to the journal and were not in it at the start.
    pub missing: u64,
    /// Copies of the superblock that did not hold what they should at the start and were written anew.
    pub mended_copies: u64,
    /// Headers and bodies fetched from peers.
    pub repaired: u64,
    /// States fetched from peers.
    pub state_transfers: u64,
}
