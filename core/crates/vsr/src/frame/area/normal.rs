//! Normal operation: the log grows, acknowledgements come back, heartbeats tell the commit point.

use super::super::{Operation, PrepareFlags};
use super::definition::area;

area! {
    /// One operation of the log. The checksum of the header is the identity of the prepare; `parent` makes the log a
    /// chain of hashes.
    Prepare {
        /// Checksum of the prepare with the op before.
        parent: u128 = 128,
        /// Checksum of the request's header; 0 when no single request is behind it.
        request_checksum: u128 = 144,
        /// The client; 0 when no single request is behind it.
        client: u128 = 160,
        /// Digest of the state at the author's checkpoint in force; 0 before the first.
        checkpoint_id: u128 = 176,
        /// Position in the log, from 1; 0 is the root.
        op: u64 = 192,
        /// The highest op that the author knew to be committed; below `op`.
        commit: u64 = 200,
        /// Nanoseconds since the epoch, strictly growing along the log.
        timestamp_ns: u64 = 208,
        /// Number of the request.
        request: u64 = 216,
        /// Session of the request.
        session: u64 = 224,
        /// Data plane: offset of the first message.
        base_offset: u64 = 232,
        /// The user on whose behalf it is.
        user_id: u32 = 240,
        /// Commands, or messages, in the body.
        count: u32 = 244,
        /// What it does to the state.
        operation: Operation = 248,
        /// How the body is to be read.
        flags: PrepareFlags = 249,
    }
}

area! {
    /// Everything up to `op` is durable at the author.
    PrepareOk {
        /// Checksum of the prepare `op`.
        prepare_checksum: u128 = 128,
        /// The highest op that is acknowledged, with every op below it.
        op: u64 = 144,
        /// The highest op applied.
        commit_min: u64 = 152,
        /// The highest op known to be committed.
        commit_max: u64 = 160,
        /// The op of the durable checkpoint.
        checkpoint_op: u64 = 168,
        /// The highest op that survives a power failure.
        synced_op: u64 = 176,
    }
}

area! {
    /// Heartbeat of a primary.
    Commit {
        /// Checksum of the prepare `commit`.
        commit_checksum: u128 = 128,
        /// The highest op that is committed.
        commit: u64 = 144,
        /// The op of the primary's durable checkpoint.
        checkpoint_op: u64 = 152,
        /// The primary's monotonic clock, in nanoseconds; comes back in the answer.
        timestamp_monotonic_ns: u64 = 160,
        /// Round of the read index; 0 for none.
        probe: u64 = 168,
        /// Ops up to this one need not be kept for anyone.
        gc_floor: u64 = 176,
    }
}

area! {
    /// Answer to a [`Commit`] that wants one.
    CommitOk {
        /// From the [`Commit`].
        timestamp_monotonic_ns: u64 = 128,
        /// From the [`Commit`].
        probe: u64 = 136,
        /// The author's highest op.
        op: u64 = 144,
        /// The highest op applied.
        commit_min: u64 = 152,
        /// The op of the durable checkpoint.
        checkpoint_op: u64 = 160,
    }
}
