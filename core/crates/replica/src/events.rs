//! What a replica tells the process that it lives in.

use headrace_buffer::Slice;
use headrace_model::Level;

/// What a replica is for its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Orders commands.
    Primary,
    /// Follows.
    Backup,
    /// The group is choosing a primary, or this one is taking over its log.
    ViewChange,
    /// Just started, and asking for the view.
    Recovering,
}

impl Role {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Backup => "backup",
            Self::ViewChange => "view_change",
            Self::Recovering => "recovering",
        }
    }
}

/// Why a proposal, a request or a read was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Another replica orders commands; that one if it is known.
    NotPrimary(Option<u8>),
    /// Too much waits already.
    Busy,
    /// The disk is full.
    Storage,
    /// The command is of a release that not all replicas are known to run: it is not in force yet.
    Release,
    /// The command is larger than [`COMMAND_BYTES_MAX`](crate::COMMAND_BYTES_MAX).
    Oversize,
    /// It may or may not be applied: the view changed while it was in flight. A request of a session can be sent again.
    Unknown,
    /// There is no such session (any more). Whether the request was applied before that is not known.
    SessionEnded,
    /// The caller has opened a newer session.
    SessionFenced,
    /// A request with a higher number was executed before.
    Stale,
    /// The number was used for another command.
    Reused,
}

impl Refusal {
    /// The word for it.
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

/// One thing to tell, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplicaEvent {
    /// Replace the state; answered by [`Replica::restored`](crate::Replica::restored).
    Restore {
        /// The op that led to it.
        op: u64,
        /// What the state machine once gave for a checkpoint.
        state: Slice,
    },
    /// Apply commands in order; answered by [`Replica::applied`](crate::Replica::applied).
    Apply {
        /// Position in the log.
        op: u64,
        /// Nanoseconds since the Unix epoch; grows strictly.
        timestamp_ns: u64,
        /// Each with the ticket of the proposal made here that it ends, or 0.
        commands: Vec<(u64, Slice)>,
    },
    /// Give the state that `op` led to with [`Replica::checkpoint`](crate::Replica::checkpoint).
    Checkpoint {
        /// The op applied last.
        op: u64,
    },
    /// A request of a session was executed, now or before.
    Answered {
        /// Which question.
        ticket: u64,
        /// The session; of an opening: the new one.
        session: u64,
        /// What the state machine answered.
        reply: Slice,
    },
    /// A proposal, a request or a read was not taken.
    Refused {
        /// Which one.
        ticket: u64,
        /// Why.
        refusal: Refusal,
    },
    /// Everything up to `op`, which was told before, makes a linearizable state.
    Read {
        /// Which question.
        ticket: u64,
        /// The op.
        op: u64,
    },
    /// From now on.
    Role {
        /// What it is.
        role: Role,
        /// The view.
        view: u32,
        /// Its primary, if there is one to talk to.
        primary: Option<u8>,
    },
    /// A log line.
    Log {
        /// How much it matters.
        level: Level,
        /// The line.
        message: String,
    },
    /// The replica has halted; nothing follows.
    Stopped {
        /// Why.
        reason: String,
    },
}
