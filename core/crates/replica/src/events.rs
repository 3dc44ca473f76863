//! Events from a replica to its host process.

use headrace_buffer::Slice;
use headrace_model::Level;

/// Role of a replica in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Primary of the view: orders commands.
    Primary,
    /// Backup: follows the primary.
    Backup,
    /// The group is electing a primary, or this replica is taking over the log as primary.
    ViewChange,
    /// Just started; requesting the log of the view.
    Recovering,
}

impl Role {
    /// Name for logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Backup => "backup",
            Self::ViewChange => "view_change",
            Self::Recovering => "recovering",
        }
    }
}

/// Reason why a proposal, a request or a read was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Another replica orders commands: this one, if known.
    NotPrimary(Option<u8>),
    /// Too many requests are waiting.
    Busy,
    /// The disk is full.
    Storage,
    /// The command needs a release that is not in force yet, because not all replicas are known to run it.
    Release,
    /// The command is larger than [`COMMAND_BYTES_MAX`](crate::COMMAND_BYTES_MAX).
    Oversize,
    /// Outcome unknown: the view changed while the command was in flight. A request of a session can be retried.
    Unknown,
    /// The session does not exist (any more). The request may or may not have been applied before.
    SessionEnded,
    /// The caller has opened a newer session.
    SessionFenced,
    /// A request with a higher number was already executed.
    Stale,
    /// The number was already used for another command.
    Reused,
}

impl Refusal {
    /// Name for logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotPrimary(_) => "not_primary",
            Self::Busy => "busy",
            Self::Storage => "storage",
            Self::Release => "release",
            Self::Oversize => "oversize",
            Self::Unknown => "unknown",
            Self::SessionEnded => "session_ended",
            Self::SessionFenced => "session_fenced",
            Self::Stale => "stale",
            Self::Reused => "reused",
        }
    }
}

/// Event for the host, delivered in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplicaEvent {
    /// Replace the state; answered by [`Replica::restored`](crate::Replica::restored).
    Restore {
        /// Op of the state.
        op: u64,
        /// State that the state machine once returned for a checkpoint.
        state: Slice,
    },
    /// Apply commands in order; answered by [`Replica::applied`](crate::Replica::applied).
    Apply {
        /// Position in the log.
        op: u64,
        /// Nanoseconds since the Unix epoch, strictly increasing.
        timestamp_ns: u64,
        /// Commands, each with the request id of the local proposal that it completes, or 0.
        commands: Vec<(u64, Slice)>,
    },
    /// Return the state after `op` through [`Replica::checkpoint`](crate::Replica::checkpoint).
    Checkpoint {
        /// Op that was applied last.
        op: u64,
    },
    /// A request of a session was executed, now or before.
    RequestCompleted {
        /// Request id of the caller.
        request_id: u64,
        /// Session; for a request that opens one, the new session.
        session: u64,
        /// Reply of the state machine.
        reply: Slice,
    },
    /// A proposal, a request or a read was refused.
    Refused {
        /// Request id of the caller.
        ticket: u64,
        /// Reason for the refusal.
        refusal: Refusal,
    },
    /// A linearizable read may be served from the state after `op`, which was reported before.
    Read {
        /// Request id of the caller.
        ticket: u64,
        /// Op up to which the state must be applied.
        op: u64,
    },
    /// The role or the view has changed.
    Role {
        /// New role.
        role: Role,
        /// Current view.
        view: u32,
        /// Primary, if one is reachable.
        primary: Option<u8>,
    },
    /// A log line.
    Log {
        /// Severity of the line.
        level: Level,
        /// Text of the line.
        message: String,
    },
    /// The replica has halted; nothing follows.
    Stopped {
        /// Reason for the stop.
        reason: String,
    },
}
