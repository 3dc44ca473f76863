//! What a replica is told and what it asks for.
//!
//! The replica is a step function: it does no I/O, reads no clock and starts no thread. A host gives it [`Event`]s
//! and carries out its [`Output`]s.
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

/// The time of a step. Safety depends on neither clock; durations are counted on the monotonic one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Now {
    /// Nanoseconds of a clock that never goes back (`CLOCK_BOOTTIME`).
    pub monotonic_ns: u64,
    /// Bounds of the timestamps of operations. While nothing is known commands wait.
    pub wall: Window,
}

/// What does not change while a replica runs. Equal on all replicas of a group except `replica` and `seed`.
#[derive(Debug, Clone)]
pub struct Config {
    /// Random number of the cluster; frames and files of another cluster are refused.
    pub cluster: u128,
    /// The replicated log; 1 is the metadata group.
    pub group: u64,
    /// This replica's place in the member list.
    pub replica: u8,
    /// Members: 1, 3 or 5.
    pub replica_count: u8,
    /// Software release of this process: whatever needs a later one is not opened, stored or executed.
    pub release: Release,
    /// Timer table.
    pub timeouts: Timeouts,
    /// Requests waiting for a place in the pipeline; above it clients are told that the primary is busy.
    pub request_queue_max: usize,
    /// Bytes of the payloads that one prepare may carry.
    pub batch_bytes_max: usize,
    /// Requests that one prepare may carry.
    pub batch_requests_max: usize,
    /// Operations between two checkpoints.
    pub checkpoint_ops: u64,
    /// Bytes of bodies between two checkpoints, when that comes first.
    pub checkpoint_bytes: u64,
    /// Operations kept in the log below the newest checkpoint, for replicas that lag behind.
    pub log_keep_ops: u64,
    /// Sessions in the client table.
    pub clients_max: usize,
    /// Bytes of one chunk of a checkpoint in a state transfer.
    pub chunk_bytes: u32,
    /// Seed of jitter and nonces. Different for every start of every replica.
    pub seed: u64,
}

/// What happened outside.
#[derive(Debug, Clone)]
pub enum Event {
    /// A frame of another replica (already decoded and verified by [`Intake::decode`](crate::frame::Intake::decode)).
    Frame(Frame),
    /// A request frame of a client that is connected to this replica or was relayed to it.
    /// Answered by [`Output::Reply`], or not at all (the client retries).
    Request(Frame),
    /// A command of this process without a session: at most one attempt, no deduplication.
    /// Answered by exactly one [`Output::Proposed`].
    Propose(Proposal),
    /// All members of the group run this release or a later one.
    Common(Release),
    /// All frames of [`Output::Append`] are durable (covered by a completed sync).
    Appended {
        /// Token of the output.
        token: u64,
    },
    /// The journal was cut.
    LogTruncated {
        /// Token of the output.
        token: u64,
    },
    /// The superblock image is durable in a quorum of its copies.
    SuperblockWritten {
        /// Token of the output.
        token: u64,
    },
    /// Answer to [`Output::Read`]; `None` when the record is damaged or gone.
    ReadDone {
        /// Token of the output.
        token: u64,
        /// The prepare, exactly as it was appended.
        frame: Option<PrepareFrame>,
    },
    /// The state machine executed [`Output::Apply`].
    Applied {
        /// The operation.
        op: u64,
        /// One per command, in order.
        replies: Vec<CommandReply>,
    },
    /// The image asked for by [`Output::Checkpoint`] is durable.
    CheckpointDone {
        /// Operation of the image.
        op: u64,
        /// Bytes of the image.
        length: u64,
        /// XXH3-128 of the image: equal on all replicas for the same operation.
        digest: u128,
    },
    /// Answer to [`Output::ReadChunk`]; `None` when the checkpoint is gone or damaged.
    ChunkRead {
        /// Token of the output.
        token: u64,
        /// The bytes asked for.
        bytes: Option<Slice>,
    },
    /// The chunk is in the incoming file.
    ChunkWritten {
        /// Token of the output.
        token: u64,
    },
    /// Answer to [`Output::Install`].
    Installed {
        /// Token of the output.
        token: u64,
        /// The client table part of the image, as given to [`Output::Checkpoint`];
        /// `None` when the length or the digest does not match: the transfer starts over.
        clients: Option<Slice>,
    },
    /// Storage failed. A failed sync is never retried: the replica stops.
    StorageError(StorageError),
}

/// A command of the local process.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// Chosen by the caller, not 0; comes back in [`Output::Proposed`] and in [`Command::ticket`].
    pub ticket: u64,
    /// What it is.
    pub operation: Operation,
    /// The user who asked; 0 for the system.
    pub user_id: u32,
    /// The release since which the command exists.
    pub since: Release,
    /// The command.
    pub body: Slice,
}

/// What storage failed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StorageError {
    /// The part.
    pub what: StoragePart,
    /// Error number of the operating system.
    pub errno: i32,
}

/// A part of a replica's storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoragePart {
    /// Journal append, sync or cut.
    Journal,
    /// Superblock write or sync.
    Superblock,
    /// Checkpoint write, sync, rename or install.
    Checkpoint,
}

/// One command of an operation that is to be executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Client session's client, or 0 for a command without a session.
    pub client: u128,
    /// Session of the client.
    pub session: u64,
    /// Number of the request within the session.
    pub request: u64,
    /// Ticket of a [`Proposal`] of *this* process that is answered by this command; 0 otherwise.
    pub ticket: u64,
    /// The command.
    pub body: Slice,
}

/// What the state machine answered to one command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandReply {
    /// 0, or the error code of the application.
    pub status: u32,
    /// Bytes for the client.
    pub body: Slice,
}

/// An operation to execute.
#[derive(Debug, Clone)]
pub struct ApplyOperation {
    /// Position in the log.
    pub op: u64,
    /// Identity of the prepare: equal on all replicas for the same `op`.
    pub checksum: u128,
    /// Nanoseconds since the Unix epoch, strictly increasing along the log: the only time of the state machine.
    pub timestamp_ns: u64,
    /// What it is.
    pub operation: Operation,
    /// The release in force: a rule that a later one has changed is the old one here.
    pub release: Release,
    /// The user who asked.
    pub user_id: u32,
    /// Commands to execute, in order. Those which were executed before are left out already, so it may be empty;
    /// it is empty for operations of the protocol itself (register, no-op).
    pub commands: Vec<Command>,
}

/// How a [`Proposal`] ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Committed and executed here.
    Committed {
        /// Position in the log.
        op: u64,
        /// Answer of the state machine.
        reply: CommandReply,
    },
    /// Not accepted; it will not be executed. The primary, when known, may accept it.
    Redirected {
        /// The primary of the current view, or [`NO_REPLICA`](crate::frame::NO_REPLICA).
        primary: u8,
    },
    /// Not accepted: too much is waiting; it will not be executed.
    Busy,
    /// Not accepted: larger than a prepare may be, or not an operation for the state machine.
    Refused,
    /// Not accepted: some member may not know it yet. It will not be executed.
    TooNew {
        /// The release in force.
        in_force: Release,
    },
    /// The replica lost its view before the command was committed: it may or may not be executed.
    Unknown,
}

/// How a read index ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadOutcome {
    /// The local state machine now holds everything that was committed before the question.
    Ready {
        /// Operation up to which the state machine has executed.
        op: u64,
    },
    /// This replica cannot answer; the primary of its view may.
    Redirected {
        /// The primary of the current view, or [`NO_REPLICA`](crate::frame::NO_REPLICA).
        primary: u8,
    },
}

/// What the replica wants done.
#[derive(Debug, Clone)]
pub enum Output {
    /// Send to another replica, or drop when there is no connection.
    Send {
        /// Index of the replica.
        to: u8,
        /// The bytes.
        frame: Frame,
    },
    /// Append these prepares to the journal and sync. Answered by [`Event::Appended`]. When the journal holds a record
    /// of the same operation already, the newest record counts.
    Append {
        /// Comes back.
        token: u64,
        /// Prepares; operations need not be in order when some are repaired.
        frames: Vec<PrepareFrame>,
    },
    /// Forget all records with `op >= from_op`. Answered by [`Event::LogTruncated`].
    Truncate {
        /// Comes back.
        token: u64,
        /// First operation to forget.
        from_op: u64,
    },
    /// Read the prepare of `op`. Answered by [`Event::ReadDone`].
    Read {
        /// Comes back.
        token: u64,
        /// Operation.
        op: u64,
        /// Identity that the record must have.
        checksum: u128,
    },
    /// Write the superblock. Answered by [`Event::SuperblockWritten`]. One at a time. When the image names a newer
    /// checkpoint, older checkpoints may be removed after it is durable.
    Superblock {
        /// Comes back.
        token: u64,
        /// Image; its sequence is one above the last one.
        image: Box<Superblock>,
    },
    /// Execute. Answered by [`Event::Applied`]. One at a time.
    Apply(ApplyOperation),
    /// Make a durable image of the state machine as it is after `op`, together with `clients`.
    /// Answered by [`Event::CheckpointDone`]. Later operations may be executed meanwhile.
    Checkpoint {
        /// The operation that was executed last.
        op: u64,
        /// Canonical bytes of the client table; part of the image and of its digest.
        clients: Slice,
    },
    /// Records with `op < below_op` are not needed any more.
    GcLog {
        /// Lowest operation that must be kept.
        below_op: u64,
    },
    /// Read bytes of the checkpoint `op` for another replica. Answered by [`Event::ChunkRead`].
    ReadChunk {
        /// Comes back.
        token: u64,
        /// Operation of the checkpoint.
        op: u64,
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
    },
    /// Write bytes of an incoming checkpoint. Offset 0 starts over. Answered by [`Event::ChunkWritten`].
    WriteChunk {
        /// Comes back.
        token: u64,
        /// Operation of the checkpoint.
        op: u64,
        /// First byte.
        offset: u64,
        /// The bytes.
        bytes: Slice,
    },
    /// Verify the incoming checkpoint, make it durable under its name, replace the state of the state machine by it.
    /// Answered by [`Event::Installed`].
    Install {
        /// Comes back.
        token: u64,
        /// Operation of the checkpoint.
        op: u64,
        /// Its length in bytes.
        length: u64,
        /// Its XXH3-128.
        digest: u128,
    },
    /// Answer to a client: a `Reply`, `Redirect`, `Eviction` or `PongClient` frame.
    Reply {
        /// The client.
        client: u128,
        /// The bytes.
        frame: Frame,
    },
    /// Answer to a [`Proposal`].
    Proposed {
        /// The proposal's ticket.
        ticket: u64,
        /// How it ended.
        outcome: Outcome,
    },
    /// Answer to [`Replica::read_index`](crate::replica::Replica::read_index).
    ReadReady {
        /// The caller's number.
        id: u64,
        /// How it ended.
        outcome: ReadOutcome,
    },
    /// Something worth counting or logging.
    Notice(Notice),
    /// The replica stopped; nothing else follows. The process should end.
    Fatal(FatalReason),
}

/// Things that a host counts, logs and shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// The status or the view changed.
    View {
        /// The view.
        view: u32,
        /// The status.
        status: Status,
    },
    /// A frame was dropped.
    Dropped(DropReason),
    /// Log entries of a lost view were cut.
    Truncated {
        /// First operation that was cut.
        from_op: u64,
    },
    /// A header was fetched from another replica.
    HeaderRepaired {
        /// Operation.
        op: u64,
    },
    /// A body was fetched from another replica.
    BodyRepaired {
        /// Operation.
        op: u64,
    },
    /// A stored record failed verification.
    Faulty {
        /// Operation.
        op: u64,
    },
    /// A checkpoint is durable and named by the superblock.
    Checkpointed {
        /// Operation.
        op: u64,
    },
    /// A checkpoint of another replica was installed.
    StateTransferred {
        /// Operation.
        op: u64,
    },
    /// The new primary cannot decide about this operation: all replicas answered and nobody has it.
    Deadlock {
        /// Operation.
        op: u64,
    },
    /// The primary gave up its view: it hears no quorum.
    Abdicated {
        /// The view.
        view: u32,
    },
    /// All members know this release: what it brings may be used from now on.
    ReleaseInForce {
        /// The release.
        release: Release,
    },
    /// A request that was executed before was answered from the client table or ignored.
    DuplicateRequest,
}

/// Why a frame was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// Another cluster, group or epoch.
    Foreign,
    /// An author that is not a member, or this replica itself.
    Author,
    /// A view that has passed.
    OldView,
    /// Not expected in this status.
    Status,
    /// A prepare that contradicts the log.
    Conflict,
    /// The body or the fields contradict each other.
    Malformed,
}

/// Persisted part: epoch, view, `log_view`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The primary admits requests, backups accept prepares of this view.
    Normal,
    /// A quorum left the previous view; the log of this one is not decided or not yet known here.
    ViewChange,
    /// The new primary has decided the log of this view and fetches what it lacks.
    Starting,
    /// A backup has adopted the log of this view and waits for its superblock.
    Adopting,
    /// Just started: serves repair, votes, asks for the current view.
    Recovering,
    /// Stopped.
    Halted,
}

/// Why the replica stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FatalReason {
    /// Storage failed.
    #[error("storage failed: {0:?}")]
    Storage(StorageError),
    /// A rule that must always hold was broken, here or on another replica. The text names the rule.
    #[error("invariant broken: {0}")]
    Invariant(&'static str),
    /// The log needs a later release than this process is.
    #[error("release {needed} is in force, and this is {own}")]
    Release {
        /// In force.
        needed: Release,
        /// Of this process.
        own: Release,
    },
    /// Another replica has a different state for the same operation.
    #[error("state differs between replicas at checkpoint {op}")]
    Diverged {
        /// Operation of the checkpoint.
        op: u64,
    },
}

/// A view of a replica for people and tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Status.
    pub status: Status,
    /// View.
    pub view: u32,
    /// Last view whose log was adopted.
    pub log_view: u32,
    /// Primary of the view.
    pub primary: u8,
    /// Newest operation in the log.
    pub op: u64,
    /// Executed up to here.
    pub commit_min: u64,
    /// Known to be committed up to here.
    pub commit_max: u64,
    /// Operation of the durable checkpoint.
    pub checkpoint_op: u64,
    /// Lowest operation in the log.
    pub log_floor: u64,
    /// Operations from here to the head are verified by their hash chain.
    pub link_floor: u64,
    /// A state transfer is running.
    pub syncing: bool,
    /// The release in force, as far as this replica has executed.
    pub release: Release,
    /// Commands waiting for a place in the pipeline.
    pub queued: usize,
    /// Sessions in the client table.
    pub clients: usize,
}

/// What the scan of the journal found for one operation above the checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoveredEntry {
    /// Position in the log.
    pub op: u64,
    /// Header of the newest record of the operation; `None` when it is damaged too.
    pub header: Option<PrepareHeader>,
    /// The whole record verifies. Otherwise the record was durable once and is damaged (*faulty*): torn appends, which
    /// were never acknowledged, are no entries at all.
    pub intact: bool,
}
