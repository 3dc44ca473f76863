//! Commands: the types of frames.
//!
//! Code 24 (heartbeats of many groups) is reserved: it was defined, but no release has sent it.

/// Type of a frame; its code is byte 60 of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Command {
    /// Node to node: liveness check.
    Ping = 1,
    /// Answer to [`Command::Ping`].
    Pong = 2,
    /// Client to replica: asks for the view and the primary; keeps the session alive.
    PingClient = 3,
    /// Answer to [`Command::PingClient`].
    PongClient = 4,
    /// Client to primary: an operation to execute.
    Request = 5,
    /// Primary to all: one operation of the log. Also the record format of the journal and the answer to a repair
    /// request.
    Prepare = 6,
    /// Backup to the primary of its view: durable up to this operation.
    PrepareOk = 7,
    /// Primary to client: the result of a request.
    Reply = 8,
    /// Primary to all: heartbeat, commit point, read probe.
    Commit = 9,
    /// Any to all: a vote to leave the view.
    StartViewChange = 10,
    /// Any replica to the new primary: a summary of its log.
    DoViewChange = 11,
    /// New primary to all, or to one: the log of the new view.
    StartView = 12,
    /// Primary to client: the session is gone.
    Eviction = 13,
    /// Any to all, or to the primary: asks for a [`Command::StartView`].
    RequestStartView = 14,
    /// Any to any: asks for headers.
    RequestHeaders = 15,
    /// Answer to [`Command::RequestHeaders`].
    Headers = 16,
    /// Any to any: asks for prepares.
    RequestPrepare = 17,
    /// Refusal of [`Command::RequestPrepare`]; never a nack.
    NoPrepare = 18,
    /// Any to any: asks for the state that could be transferred.
    RequestState = 19,
    /// Answer to [`Command::RequestState`].
    StateManifest = 20,
    /// Any to any: asks for a part of an artifact.
    RequestChunk = 21,
    /// Answer to [`Command::RequestChunk`].
    Chunk = 22,
    /// Backup to primary: answer to a [`Command::Commit`] that requests one.
    CommitOk = 23,
    /// Replica to client: use another replica, or retry later.
    Redirect = 25,
}

impl Command {
    /// Every command, ascending by number.
    pub const ALL: [Self; 24] = [
        Self::Ping,
        Self::Pong,
        Self::PingClient,
        Self::PongClient,
        Self::Request,
        Self::Prepare,
        Self::PrepareOk,
        Self::Reply,
        Self::Commit,
        Self::StartViewChange,
        Self::DoViewChange,
        Self::StartView,
        Self::Eviction,
        Self::RequestStartView,
        Self::RequestHeaders,
        Self::Headers,
        Self::RequestPrepare,
        Self::NoPrepare,
        Self::RequestState,
        Self::StateManifest,
        Self::RequestChunk,
        Self::Chunk,
        Self::CommitOk,
        Self::Redirect,
    ];

    /// Command with this code.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|command| command.code() == code)
    }

    /// Code in the header.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Return whether frames of this command speak for a node and not for a group: their group is 0.
    pub const fn is_of_node(self) -> bool {
        matches!(self, Self::Ping | Self::Pong)
    }

    /// Return whether clients send this command: the replica index of such frames is meaningless.
    pub const fn is_of_client(self) -> bool {
        matches!(self, Self::PingClient | Self::Request)
    }
}
