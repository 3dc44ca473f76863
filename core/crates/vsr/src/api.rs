//! Events that a replica consumes and outputs that it produces.
//!
//! The replica is a step function: it does no I/O, reads no clock and starts no thread. A host passes [`Event`]s in and
//! carries out the [`Output`]s.
//!
//! Rules for a host:
//! * carry out every output, in order; complete every token exactly once or report [`Event::StorageError`];
//! * journal outputs ([`Output::Append`], [`Output::Truncate`]) take effect in the order in which they were given;
//! * [`Output::Apply`] and [`Output::Checkpoint`] form one ordered stream to the state machine;
//! * frames may be lost, duplicated and reordered; completions may come in any order.

use alloc::boxed::Box;
use alloc::vec::Vec;

use headrace_buffer::Slice;

use crate::clocks::Window;
use crate::frame::{Frame, Operation, PrepareFrame, PrepareHeader, Release};
use crate::superblock::Superblock;
use crate::timeouts::Timeouts;

/// Time of a step. Safety depends on neither clock; durations are measured on the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Now {
    /// Nanoseconds of a clock that never goes back (`CLOCK_BOOTTIME`).
    pub monotonic_ns: u64,
    /// Bounds for the timestamps of operations. Requests and proposals are queued while the bounds are unknown.
    pub wall: Window,
}

/// Configuration that is constant while a replica runs. Equal on all replicas of a group except `replica` and `seed`.
#[derive(Debug, Clone)]
pub struct Config {
    /// Random number of the cluster; frames and files of another cluster are refused.
    pub cluster: u128,
    /// Number of the replicated log; 1 is the metadata group.
    pub group: u64,
    /// Index of this replica in the member list.
    pub replica: u8,
    /// Number of members: 1, 3 or 5.
    pub replica_count: u8,
    /// Software release of this process. State and operations that need a later release are not opened, stored or
    /// executed.
    pub release: Release,
    /// Timeouts of the protocol.
    pub timeouts: Timeouts,
    /// Maximum number of requests that wait for a slot in the pipeline. Clients above the limit get a `Busy` redirect.
    pub request_queue_max: usize,
    /// Maximum number of payload bytes in one prepare.
    pub batch_bytes_max: usize,
    /// Maximum number of requests in one prepare.
    pub batch_requests_max: usize,
    /// Number of bytes of prepares, about, that may wait for the journal of a backup. Above it the backup accepts no more
    /// and fetches them later, so that a full or slow disk does not fill its memory.
    pub unstored_bytes_max: u64,
    /// Number of operations between two checkpoints.
    pub checkpoint_ops: u64,
    /// Number of body bytes between two checkpoints, if this limit is reached first.
    pub checkpoint_bytes: u64,
    /// Number of operations kept in the log below the newest checkpoint, for replicas that lag behind.
    pub log_keep_ops: u64,
    /// Maximum number of sessions in the client table.
    pub clients_max: usize,
    /// Size of a checkpoint chunk in a state transfer, in bytes.
    pub chunk_bytes: u32,
    /// Seed of jitter and nonces. Must differ for every start of every replica.
    pub seed: u64,
}

/// Input of a replica.
#[derive(Debug, Clone)]
pub enum Event {
    /// Frame of another replica (already decoded and verified by [`Intake::decode`](crate::frame::Intake::decode)).
    Frame(Frame),
    /// Request frame of a client that is connected to this replica or was relayed to it. Answered by [`Output::Reply`],
    /// or not at all (the client retries).
    Request(Frame),
    /// Command of this process without a session: at most one attempt, no deduplication. Answered by exactly one
    /// [`Output::Proposed`].
    Propose(Proposal),
    /// All members of the group run this release or a later one.
    CommonRelease(Release),
    /// A connection with another member was established, perhaps after an outage.
    PeerConnected,
    /// All frames of [`Output::Append`] are durable (covered by a completed sync).
    Appended {
        /// Token of the output.
        token: u64,
    },
    /// The journal was truncated.
    LogTruncated {
        /// Token of the output.
        token: u64,
    },
    /// The superblock image is durable in a quorum of its copies.
    SuperblockWritten {
        /// Token of the output.
        token: u64,
    },
    /// Answer to [`Output::Read`]; `None` if the record is damaged or no longer in the journal.
    ReadDone {
        /// Token of the output.
        token: u64,
        /// Prepare, exactly as it was appended.
        frame: Option<PrepareFrame>,
    },
    /// The state machine executed [`Output::Apply`].
    Applied {
        /// Operation that was executed.
        op: u64,
        /// Replies, one per command, in order.
        replies: Vec<CommandReply>,
    },
    /// The image requested by [`Output::Checkpoint`] is durable.
    CheckpointDone {
        /// Operation of the image.
        op: u64,
        /// Length of the image in bytes.
        length: u64,
        /// XXH3-128 of the image: identical on all replicas for the same operation.
        digest: u128,
    },
    /// Answer to [`Output::ReadChunk`]; `None` if the checkpoint is gone or damaged.
    ChunkRead {
        /// Token of the output.
        token: u64,
        /// Bytes that were requested.
        bytes: Option<Slice>,
    },
    /// The chunk has been written to the incoming file.
    ChunkWritten {
        /// Token of the output.
        token: u64,
    },
    /// Answer to [`Output::Install`].
    Installed {
        /// Token of the output.
        token: u64,
        /// Client table section of the image, as given to [`Output::Checkpoint`]; `None` if the length or the digest
        /// does not match: the transfer starts over.
        clients: Option<Slice>,
    },
    /// Storage failed. A failed sync is never retried: the replica stops.
    StorageError(StorageError),
}

/// Command proposed by the local process.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// Request id chosen by the caller, not 0; returned in [`Output::Proposed`] and in [`Command::ticket`].
    pub request_id: u64,
    /// Type of the operation.
    pub operation: Operation,
    /// User on whose behalf the command is proposed; 0 for the system.
    pub user_id: u32,
    /// First release that supports the command.
    pub min_release: Release,
    /// Encoded command.
    pub body: Slice,
}

/// Failure of a storage operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StorageError {
    /// Part of the storage that failed.
    pub part: StoragePart,
    /// Error number of the operating system.
    pub errno: i32,
}

/// Part of a replica's storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoragePart {
    /// Journal append, sync or truncation.
    Journal,
    /// Superblock write or sync.
    Superblock,
    /// Checkpoint write, sync, rename or install.
    Checkpoint,
}

/// One command of an operation to execute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Client id of the session, or 0 for a command without a session.
    pub client: u128,
    /// Session of the client.
    pub session: u64,
    /// Number of the request within the session.
    pub request: u64,
    /// Request id of a [`Proposal`] of *this* process that is answered by this command; 0 otherwise.
    pub request_id: u64,
    /// Encoded command.
    pub body: Slice,
}

/// Result of one command in the state machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandReply {
    /// 0, or the error code of the application.
    pub status: u32,
    /// Body of the reply to the client.
    pub body: Slice,
}

/// Operation to execute.
#[derive(Debug, Clone)]
pub struct ApplyOperation {
    /// Position in the log.
    pub op: u64,
    /// Identity of the prepare: identical on all replicas for the same `op`.
    pub checksum: u128,
    /// Nanoseconds since the Unix epoch, strictly increasing along the log: the only time of the state machine.
    pub timestamp_ns: u64,
    /// Type of the operation.
    pub operation: Operation,
    /// Release in force. Rules that a later release changed apply here in their old form.
    pub release: Release,
    /// User on whose behalf the operation runs.
    pub user_id: u32,
    /// Commands to execute, in order. Commands that were executed before are already filtered out, so the list may be
    /// empty; it is always empty for operations of the protocol itself (register, no-op).
    pub commands: Vec<Command>,
}

/// Outcome of a [`Proposal`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Committed and executed here.
    Committed {
        /// Position in the log.
        op: u64,
        /// Answer of the state machine.
        reply: CommandReply,
    },
    /// Rejected and never executed. The primary, if known, may accept the command.
    Redirected {
        /// Primary of the current view, or [`NO_REPLICA`](crate::frame::NO_REPLICA).
        primary: u8,
    },
    /// Rejected and never executed: the request queue is full.
    Busy,
    /// Rejected: larger than a prepare may be, or not an operation for the state machine.
    Refused,
    /// Rejected and never executed: some member may not support the command yet.
    ReleaseNotInForce {
        /// Release in force.
        in_force: Release,
    },
    /// The replica lost its view before the command was committed: it may or may not be executed.
    Unknown,
}

/// Outcome of a read index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadOutcome {
    /// The local state machine holds everything that was committed before the read was requested.
    Ready {
        /// Operation up to which the state machine has executed.
        op: u64,
    },
    /// This replica cannot answer; the primary of its view may.
    Redirected {
        /// Primary of the current view, or [`NO_REPLICA`](crate::frame::NO_REPLICA).
        primary: u8,
    },
}

/// Action that the host must carry out.
#[derive(Debug, Clone)]
pub enum Output {
    /// Send the frame to another replica, or drop it if there is no connection.
    Send {
        /// Index of the destination replica.
        to: u8,
        /// Frame to send.
        frame: Frame,
    },
    /// Append these prepares to the journal and sync. Answered by [`Event::Appended`]. If the journal already holds a
    /// record of the same operation, the newest record counts.
    Append {
        /// Token, echoed in the completion event.
        token: u64,
        /// Prepares; their operations may be out of order if some were repaired.
        frames: Vec<PrepareFrame>,
    },
    /// Discard all records with `op >= from_op`. Answered by [`Event::LogTruncated`].
    Truncate {
        /// Token, echoed in the completion event.
        token: u64,
        /// First operation to discard.
        from_op: u64,
    },
    /// Read the prepare of `op`. Answered by [`Event::ReadDone`].
    Read {
        /// Token, echoed in the completion event.
        token: u64,
        /// Operation to read.
        op: u64,
        /// Checksum that the prepare must have.
        checksum: u128,
    },
    /// Write the superblock. Answered by [`Event::SuperblockWritten`]. Only one write is outstanding at a time. If the
    /// image names a newer checkpoint, older checkpoints may be removed after the write is durable.
    Superblock {
        /// Token, echoed in the completion event.
        token: u64,
        /// Image to write; its sequence number is one above the previous one.
        image: Box<Superblock>,
    },
    /// Execute an operation. Answered by [`Event::Applied`]. Only one is outstanding at a time.
    Apply(ApplyOperation),
    /// Make a durable image of the state machine as of `op`, together with `clients`. Answered by
    /// [`Event::CheckpointDone`]. Later operations may be executed meanwhile.
    Checkpoint {
        /// Operation that was executed last.
        op: u64,
        /// Canonical encoding of the client table; part of the image and of its digest.
        clients: Slice,
    },
    /// Records with `op < below_op` are no longer needed.
    GcLog {
        /// Lowest operation that must be kept.
        below_op: u64,
    },
    /// Read bytes of the checkpoint `op` for another replica. Answered by [`Event::ChunkRead`].
    ReadChunk {
        /// Token, echoed in the completion event.
        token: u64,
        /// Operation of the checkpoint.
        op: u64,
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes.
        length: u32,
    },
    /// Write bytes of an incoming checkpoint. Offset 0 restarts the transfer. Answered by [`Event::ChunkWritten`].
    WriteChunk {
        /// Token, echoed in the completion event.
        token: u64,
        /// Operation of the checkpoint.
        op: u64,
        /// Offset of the first byte.
        offset: u64,
        /// Bytes to write.
        bytes: Slice,
    },
    /// Verify the incoming checkpoint, make it durable under its final name, and replace the state of the state machine
    /// with it. Answered by [`Event::Installed`].
    Install {
        /// Token, echoed in the completion event.
        token: u64,
        /// Operation of the checkpoint.
        op: u64,
        /// Length in bytes.
        length: u64,
        /// XXH3-128 of the checkpoint.
        digest: u128,
    },
    /// Frame for a client: a `Reply`, `Redirect`, `Eviction` or `PongClient`.
    Reply {
        /// Client id of the recipient.
        client: u128,
        /// Frame to send.
        frame: Frame,
    },
    /// Answer to a [`Proposal`].
    Proposed {
        /// Request id of the proposal.
        request_id: u64,
        /// Outcome of the proposal.
        outcome: Outcome,
    },
    /// Answer to [`Replica::read_index`](crate::replica::Replica::read_index).
    ReadReady {
        /// Request id chosen by the caller.
        id: u64,
        /// Outcome of the read.
        outcome: ReadOutcome,
    },
    /// Occurrence worth counting or logging.
    Notice(Notice),
    /// The replica stopped; nothing else follows. The process should end.
    Fatal(FatalReason),
}

/// Occurrence that a host counts, logs and reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// The status or the view changed.
    View {
        /// View.
        view: u32,
        /// Status.
        status: Status,
    },
    /// A frame was dropped.
    Dropped(DropReason),
    /// Log entries of an abandoned view were truncated.
    Truncated {
        /// First operation that was truncated.
        from_op: u64,
    },
    /// A header was fetched from another replica.
    HeaderRepaired {
        /// Operation concerned.
        op: u64,
    },
    /// A body was fetched from another replica.
    BodyRepaired {
        /// Operation concerned.
        op: u64,
    },
    /// A stored record failed verification.
    Faulty {
        /// Operation concerned.
        op: u64,
    },
    /// A checkpoint is durable and named by the superblock.
    Checkpointed {
        /// Operation concerned.
        op: u64,
    },
    /// A checkpoint of another replica was installed.
    StateTransferred {
        /// Operation concerned.
        op: u64,
    },
    /// The new primary cannot decide about this operation: all replicas answered and none can supply it.
    Deadlock {
        /// Operation concerned.
        op: u64,
    },
    /// The primary abdicated: it hears no quorum.
    Abdicated {
        /// View.
        view: u32,
    },
    /// All members support this release: its features may be used from now on.
    ReleaseInForce {
        /// Release.
        release: Release,
    },
    /// A request that was executed before was answered from the client table or ignored.
    DuplicateRequest,
}

/// Reason why a frame was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// Sent by another cluster, group or epoch.
    Foreign,
    /// Sent by an author that is not a member, or by this replica itself.
    Author,
    /// Sent in an earlier view.
    OldView,
    /// Unexpected in the current status.
    Status,
    /// A prepare that contradicts the log.
    Conflict,
    /// A prepare for which there is no room until the journal has stored others.
    Unstored,
    /// The body or the fields contradict each other.
    Malformed,
}

/// Protocol status of a replica. The durable part of the state is epoch, view and `log_view`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The primary admits requests, backups accept prepares of this view.
    Normal,
    /// A quorum left the previous view; the log of the new view is undecided or not yet known to this replica.
    ViewChange,
    /// The new primary has decided the log of this view and fetches the entries that it lacks.
    Starting,
    /// A backup has adopted the log of this view and waits for its superblock write.
    Adopting,
    /// Just started: serves repair, votes, and asks for the current view.
    Recovering,
    /// Stopped.
    Halted,
}

/// Reason why the replica stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FatalReason {
    /// Storage failed.
    #[error("storage failed: {0:?}")]
    Storage(StorageError),
    /// An invariant was violated, here or on another replica. The text names the invariant.
    #[error("invariant broken: {0}")]
    Invariant(&'static str),
    /// The log needs a later release than this process has.
    #[error("release {needed} is in force, and this is {own}")]
    Release {
        /// Release in force.
        needed: Release,
        /// Release of this process.
        own: Release,
    },
    /// Another replica has a different state for the same operation.
    #[error("state differs between replicas at checkpoint {op}")]
    Diverged {
        /// Operation of the checkpoint.
        op: u64,
    },
}

/// State of a replica for inspection and tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Status.
    pub status: Status,
    /// View.
    pub view: u32,
    /// Last view whose log was adopted.
    pub log_view: u32,
    /// Primary of the current view.
    pub primary: u8,
    /// Newest operation in the log.
    pub op: u64,
    /// Newest operation that was executed.
    pub commit_min: u64,
    /// Newest operation known to be committed.
    pub commit_max: u64,
    /// Operation of the durable checkpoint.
    pub checkpoint_op: u64,
    /// Lowest operation in the log.
    pub log_floor: u64,
    /// Lowest operation from which the hash chain is verified up to the head.
    pub link_floor: u64,
    /// True if a state transfer is running.
    pub syncing: bool,
    /// Release in force, as of the newest operation executed by this replica.
    pub release: Release,
    /// Number of commands waiting for a slot in the pipeline.
    pub queued: usize,
    /// Number of sessions in the client table.
    pub clients: usize,
}

/// Result of the journal scan for one operation above the checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoveredEntry {
    /// Position in the log.
    pub op: u64,
    /// Header of the newest record of the operation; `None` if it is damaged too.
    pub header: Option<PrepareHeader>,
    /// True if the entire record verifies. Otherwise the record was once durable and is damaged (*faulty*). Torn
    /// appends, which were never acknowledged, have no entry.
    pub intact: bool,
}
