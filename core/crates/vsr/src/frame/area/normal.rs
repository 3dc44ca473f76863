//! Areas of normal operation: prepares, acknowledgements and heartbeats with the commit point.

use super::definition::area;
use crate::frame::Operation;
use crate::frame::PrepareFlags;

area! {
    /// One operation of the log. The checksum of the header is the identity of the prepare; `parent` makes the log a
    /// hash chain.
    Prepare {
        /// Checksum of the prepare at the previous op.
        parent: u128 = 128,
        /// Checksum of the request's header; 0 if the prepare does not stem from a single request.
        request_checksum: u128 = 144,
        /// Client id; 0 if the prepare does not stem from a single request.
        client: u128 = 160,
        /// Digest of the state at the author's checkpoint in force; 0 before the first.
        checkpoint_id: u128 = 176,
        /// Position in the log, from 1; 0 is the root.
        op: u64 = 192,
        /// Highest op that the author knew to be committed; below `op`.
        commit: u64 = 200,
        /// Nanoseconds since the Unix epoch, strictly increasing along the log.
        timestamp_ns: u64 = 208,
        /// Number of the request.
        request: u64 = 216,
        /// Session of the request.
        session: u64 = 224,
        /// Data plane: offset of the first message.
        base_offset: u64 = 232,
        /// User on whose behalf the operation is executed.
        user_id: u32 = 240,
        /// Number of commands, or messages, in the body.
        count: u32 = 244,
        /// Effect on the state.
        operation: Operation = 248,
        /// Format of the body.
        flags: PrepareFlags = 249,
    }
}

area! {
    /// Acknowledgement that every operation up to `op` is durable at the author.
    PrepareOk {
        /// Checksum of the prepare `op`.
        prepare_checksum: u128 = 128,
        /// Highest op that is acknowledged, together with every op below it.
        op: u64 = 144,
        /// Highest op that was executed.
        commit_min: u64 = 152,
        /// Highest op known to be committed.
        commit_max: u64 = 160,
        /// Op of the durable checkpoint.
        checkpoint_op: u64 = 168,
        /// Highest op that survives a power failure.
        synced_op: u64 = 176,
    }
}

area! {
    /// Heartbeat of a primary.
    Commit {
        /// Checksum of the prepare `commit`.
        commit_checksum: u128 = 128,
        /// Highest op that is committed.
        commit: u64 = 144,
        /// Op of the primary's durable checkpoint.
        checkpoint_op: u64 = 152,
        /// Monotonic clock of the primary, in nanoseconds; echoed in the answer.
        timestamp_monotonic_ns: u64 = 160,
        /// Round of the read index; 0 for none.
        probe: u64 = 168,
        /// Op up to which no replica needs the log.
        gc_floor: u64 = 176,
    }
}

area! {
    /// Answer to a [`Commit`] that requests one.
    CommitOk {
        /// Copied from the [`Commit`].
        timestamp_monotonic_ns: u64 = 128,
        /// Copied from the [`Commit`].
        probe: u64 = 136,
        /// Highest op of the author.
        op: u64 = 144,
        /// Highest op that was executed.
        commit_min: u64 = 152,
        /// Op of the durable checkpoint.
        checkpoint_op: u64 = 160,
    }
}
