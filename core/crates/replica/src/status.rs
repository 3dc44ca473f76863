//! Status of a replica for operators and metrics.

use serde::Serialize;

/// State and counters of a replica. Counters start at zero with each start.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ReplicaStatus {
    /// Id of the cluster, hexadecimal.
    pub cluster_id: String,
    /// Index of this replica.
    pub replica: u8,
    /// Number of members of the group.
    pub replicas: u8,
    /// `primary`, `backup`, `view_change`, `recovering` or `stopped`.
    pub role: &'static str,
    /// Current view.
    pub view: u32,
    /// Last view whose log was adopted.
    pub log_view: u32,
    /// Primary of this view; -1 while none is reachable.
    pub primary: i16,
    /// Newest op in the log.
    pub op: u64,
    /// Highest op known to be committed.
    pub commit: u64,
    /// Highest op applied.
    pub applied: u64,
    /// Op of the durable checkpoint.
    pub checkpoint_op: u64,
    /// Lowest op in the log.
    pub log_floor: u64,
    /// True if a state transfer from a peer is running.
    pub syncing: bool,
    /// True if the data directory was new and the group was not: votes and acknowledgements are withheld until the
    /// replica has rejoined.
    pub rejoining: bool,
    /// Number of commands that wait for a slot in the pipeline.
    pub queued: usize,
    /// Number of open sessions.
    pub sessions: usize,
    /// True if the disk is full: commands are refused.
    pub storage_full: bool,
    /// Agreement of the members' clocks.
    pub clock: ClockStatus,
    /// Incarnation: number of starts on this data directory.
    pub incarnation: u64,
    /// Release of this replica, `major.minor.patch`.
    pub release: String,
    /// Release that all replicas are known to run; features of later releases are refused.
    pub release_in_force: String,
    /// Reason why the replica stopped; empty while it runs.
    pub stopped: String,
    /// Connections to the peers.
    pub peers: Vec<PeerStatus>,
    /// Files and disk work.
    pub storage: StorageStatus,
    /// Event counters.
    pub counters: Counters,
}

/// Agreement of the members' clocks, as seen by this replica.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ClockStatus {
    /// State of agreement: `agreed`, `unknown` (too few other clocks were read since the start), `own_is_wrong` or
    /// `disagreed` (no majority of the clocks agrees).
    pub state: &'static str,
    /// True if the clocks do not agree: the local clock is wrong, or the wrong one cannot be determined.
    pub unsynchronised: bool,
    /// Nanoseconds by which the local clock is ahead of the majority, or behind if negative; 0 while it is right.
    pub ahead_ns: i64,
    /// Spread of the clocks if no majority agrees, in nanoseconds.
    pub spread_ns: u64,
    /// Nanoseconds by which the timestamp of the next operation would be ahead of the local clock.
    pub log_ahead_ns: i64,
}

/// Connections between this replica and one peer.
#[derive(Debug, Clone, Default, Serialize)]
pub struct PeerStatus {
    /// Index of the peer.
    pub replica: u8,
    /// Address that is dialled.
    pub address: String,
    /// True if both connections are open.
    pub connected: bool,
    /// True if the connection from this replica to the peer is open.
    pub sending: bool,
    /// True if the connection from the peer to this replica is open.
    pub receiving: bool,
    /// Number of times that the outgoing connection was opened.
    pub connects: u64,
    /// Number of bytes accepted by the socket.
    pub sent_bytes: u64,
    /// Number of bytes that wait for the socket.
    pub queued_bytes: u64,
    /// Number of frames dropped because the connection was closed or its queue full.
    pub dropped_frames: u64,
    /// Reason why the connection is closed; empty while it is open.
    pub last_failure: String,
}

/// Statistics of journal and checkpoints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct StorageStatus {
    /// Number of journal files in use.
    pub journal_files: u64,
    /// Number of bytes written to the journal.
    pub journal_bytes: u64,
    /// Number of group commits: writes with one sync each.
    pub group_commits: u64,
    /// Number of prepares in group commits.
    pub prepares: u64,
    /// Total duration of writes and syncs of the journal, in nanoseconds.
    pub commit_ns: u64,
    /// Duration of the slowest group commit, in nanoseconds.
    pub commit_ns_max: u64,
    /// Number of superblock writes.
    pub superblocks: u64,
    /// Number of checkpoints written or received.
    pub checkpoints: u64,
    /// Length of the newest checkpoint in bytes.
    pub checkpoint_bytes: u64,
}

/// Event counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Number of local proposals.
    pub proposed: u64,
    /// Number of commands applied.
    pub applied_commands: u64,
    /// Number of proposals and reads refused.
    pub refused: u64,
    /// Number of linearizable reads answered.
    pub reads: u64,
    /// Number of view changes seen.
    pub view_changes: u64,
    /// Number of frames received.
    pub received_frames: u64,
    /// Number of frames sent.
    pub sent_frames: u64,
    /// Number of frames dropped by the protocol.
    pub dropped_frames: u64,
    /// Number of refused connections.
    pub refused_connections: u64,
    /// Number of journal entries that failed verification, including those found at the start.
    pub faulty: u64,
    /// Number of entries missing from the journal at the start.
    pub missing: u64,
    /// Number of superblock copies that were damaged or outdated at the start and rewritten.
    pub mended_copies: u64,
    /// Number of headers and bodies fetched from peers.
    pub repaired: u64,
    /// Number of state transfers from peers.
    pub state_transfers: u64,
}
