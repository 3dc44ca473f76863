//! Areas of the frames between nodes, which belong to no group.

use super::definition::area;

area! {
    /// Liveness check of another node.
    Ping {
        /// Monotonic clock of the author, in nanoseconds; echoed in the answer.
        ping_monotonic_ns: u64 = 128,
        /// Wall clock of the author, in nanoseconds since the Unix epoch.
        wall_ns: u64 = 136,
        /// Hash of the boot id of the author's system.
        boot_id_hash: u64 = 144,
    }
}

area! {
    /// Answer to [`Ping`].
    Pong {
        /// Copied from the [`Ping`].
        ping_monotonic_ns: u64 = 128,
        /// Wall clock of the author, in nanoseconds since the Unix epoch.
        wall_ns: u64 = 136,
    }
}
