//! Between nodes, for no group in particular.

use super::definition::area;

area! {
    /// Asks another node whether it is there. Its body may say how far the groups of the author have got
    /// ([`progress`](crate::frame::body::progress)).
    Ping {
        /// The author's monotonic clock, in nanoseconds; comes back in the answer.
        ping_monotonic_ns: u64 = 128,
        /// The author's wall clock, in nanoseconds since the epoch.
        wall_ns: u64 = 136,
        /// Hash of the boot of the author's system.
        boot_id_hash: u64 = 144,
    }
}

area! {
    /// Answer to [`Ping`], with the same kind of body.
    Pong {
        /// From the [`Ping`].
        ping_monotonic_ns: u64 = 128,
        /// The author's wall clock, in nanoseconds since the epoch.
        wall_ns: u64 = 136,
    }
}

area! {
    /// The heartbeats of many groups ([`heartbeats`](crate::frame::body::heartbeats)).
    HeartbeatBatch {
        /// The author's monotonic clock, in nanoseconds; comes back in the answers.
        timestamp_monotonic_ns: u64 = 128,
        /// How many heartbeats the body has.
        count: u32 = 136,
    }
}
