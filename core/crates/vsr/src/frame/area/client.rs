//! Between clients and replicas.

use super::super::Operation;
use super::definition::{area, reasons};

area! {
    /// Asks a replica for view and primary, and keeps the session alive.
    PingClient {
        /// The client; never 0.
        client: u128 = 128,
        /// The client's monotonic clock, in nanoseconds; comes back in the answer.
        ping_monotonic_ns: u64 = 144,
        /// Its session; 0 before there is one.
        session: u64 = 152,
    }
}

area! {
    /// Answer to [`PingClient`]; the header's view is the replica's.
    PongClient {
        /// From the [`PingClient`].
        client: u128 = 128,
        /// From the [`PingClient`].
        ping_monotonic_ns: u64 = 144,
        /// The highest op that the replica knows to be committed.
        commit_max: u64 = 152,
        /// Index of the primary, or [`NO_REPLICA`](crate::frame::NO_REPLICA).
        primary: u8 = 160,
    }
}

area! {
    /// An operation. The checksum of the header is the identity of the request.
    Request {
        /// The client; never 0.
        client: u128 = 128,
        /// Op of the prepare that registered the client; 0 only to register.
        session: u64 = 144,
        /// Number of the request, growing within the session, from 1; 0 only to register.
        request: u64 = 152,
        /// The client's wall clock, in nanoseconds since the epoch; for measurements only.
        client_timestamp_ns: u64 = 160,
        /// The user on whose behalf it is.
        user_id: u32 = 168,
        /// Commands, or messages, in the body.
        count: u32 = 172,
        /// What to do.
        operation: Operation = 176,
        /// When to answer; a number that only the data plane reads.
        ack_level: u8 = 177,
    }
}

area! {
    /// The result of a request.
    Reply {
        /// The client that asked.
        client: u128 = 128,
        /// Checksum of the header of its request.
        request_checksum: u128 = 144,
        /// The op that executed the request.
        op: u64 = 160,
        /// The highest op committed when the reply was made.
        commit: u64 = 168,
        /// Timestamp of the op, in nanoseconds since the epoch.
        timestamp_ns: u64 = 176,
        /// Number of the request.
        request: u64 = 184,
        /// Session of the request; of a registration: the new one.
        session: u64 = 192,
        /// Data plane: offset of the first message.
        base_offset: u64 = 200,
        /// Data plane: messages appended.
        count: u32 = 208,
        /// 0, or why the request was not executed.
        status: u32 = 212,
        /// The operation of the request.
        operation: Operation = 216,
    }
}

reasons! {
    /// Why a session has ended.
    EvictionReason {
        /// The client has no session here.
        NoSession = 1,
        /// The client has opened a newer session.
        SessionFenced = 2,
        /// The client does not keep to the protocol.
        Protocol = 3,
        /// The client's release is not one that is accepted.
        Release = 4,
    }
}

area! {
    /// Tells a client that its session has ended.
    Eviction {
        /// The client.
        client: u128 = 128,
        /// The session that has ended.
        session: u64 = 144,
        /// Why.
        reason: EvictionReason = 152,
    }
}

reasons! {
    /// Why a request was not taken.
    RedirectReason {
        /// Another replica is the primary.
        NotPrimary = 1,
        /// Too much is waiting already.
        Busy = 2,
        /// The storage takes nothing more.
        Storage = 3,
        /// The command is of a release that is not in force yet.
        Release = 4,
    }
}

area! {
    /// Sends a client to another replica, or asks it to come later.
    Redirect {
        /// The client.
        client: u128 = 128,
        /// The request that was not taken.
        request: u64 = 144,
        /// How long to wait before the next attempt, in milliseconds.
        retry_after_ms: u32 = 152,
        /// Index of the primary, or [`NO_REPLICA`](crate::frame::NO_REPLICA).
        primary: u8 = 156,
        /// Why.
        reason: RedirectReason = 157,
    }
}
