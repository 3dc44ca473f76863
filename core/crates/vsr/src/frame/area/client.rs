//! Areas of the frames between clients and replicas.

use super::super::Operation;
use super::definition::{area, reasons};

area! {
    /// Request of a client for view and primary; keeps the session alive.
    PingClient {
        /// Client id; never 0.
        client: u128 = 128,
        /// Monotonic clock of the client, in nanoseconds; echoed in the answer.
        ping_monotonic_ns: u64 = 144,
        /// Session; 0 before registration.
        session: u64 = 152,
    }
}

area! {
    /// Answer to [`PingClient`]; the header's view is the replica's.
    PongClient {
        /// Copied from the [`PingClient`].
        client: u128 = 128,
        /// Copied from the [`PingClient`].
        ping_monotonic_ns: u64 = 144,
        /// Highest op that the replica knows to be committed.
        commit_max: u64 = 152,
        /// Index of the primary, or [`NO_REPLICA`](crate::frame::NO_REPLICA).
        primary: u8 = 160,
    }
}

area! {
    /// Operation requested by a client. The checksum of the header is the identity of the request.
    Request {
        /// Client id; never 0.
        client: u128 = 128,
        /// Op of the prepare that registered the client; 0 only to register.
        session: u64 = 144,
        /// Number of the request, increasing within the session, from 1; 0 only to register.
        request: u64 = 152,
        /// Wall clock of the client, in nanoseconds since the Unix epoch; for measurements only.
        client_timestamp_ns: u64 = 160,
        /// User on whose behalf the operation is requested.
        user_id: u32 = 168,
        /// Number of commands, or messages, in the body.
        count: u32 = 172,
        /// Operation to execute.
        operation: Operation = 176,
        /// Acknowledgement level, which only the data plane reads: when to answer.
        ack_level: u8 = 177,
    }
}

area! {
    /// Result of a request.
    Reply {
        /// Client id of the requester.
        client: u128 = 128,
        /// Checksum of the header of its request.
        request_checksum: u128 = 144,
        /// Op that executed the request.
        op: u64 = 160,
        /// Highest op committed when the reply was made.
        commit: u64 = 168,
        /// Timestamp of the op, in nanoseconds since the Unix epoch.
        timestamp_ns: u64 = 176,
        /// Number of the request.
        request: u64 = 184,
        /// Session of the request; of a registration: the new one.
        session: u64 = 192,
        /// Data plane: offset of the first message.
        base_offset: u64 = 200,
        /// Data plane: number of messages appended.
        count: u32 = 208,
        /// 0, or the error code of a request that was not executed.
        status: u32 = 212,
        /// Operation of the request.
        operation: Operation = 216,
    }
}

reasons! {
    /// Reason why a session has ended.
    EvictionReason {
        /// The client has no session here.
        NoSession = 1,
        /// The client has opened a newer session.
        SessionFenced = 2,
        /// The client violates the protocol.
        Protocol = 3,
        /// The client's release is not accepted.
        Release = 4,
    }
}

area! {
    /// Notice to a client that its session has ended.
    Eviction {
        /// Client id.
        client: u128 = 128,
        /// Session that has ended.
        session: u64 = 144,
        /// Reason why the session has ended.
        reason: EvictionReason = 152,
    }
}

reasons! {
    /// Reason why a request was not accepted.
    RedirectReason {
        /// Another replica is the primary.
        NotPrimary = 1,
        /// Too many requests are waiting.
        Busy = 2,
        /// The storage accepts no more writes.
        Storage = 3,
        /// The command needs a release that is not in force yet.
        Release = 4,
    }
}

area! {
    /// Answer that sends a client to another replica, or asks for a later retry.
    Redirect {
        /// Client id.
        client: u128 = 128,
        /// Number of the request that was not accepted.
        request: u64 = 144,
        /// Time to wait before the next attempt, in milliseconds.
        retry_after_ms: u32 = 152,
        /// Index of the primary, or [`NO_REPLICA`](crate::frame::NO_REPLICA).
        primary: u8 = 156,
        /// Reason for the redirect.
        reason: RedirectReason = 157,
    }
}
