//! Settings of links.

/// Limits and timeouts of the links from a gateway's shard to partition nodes.
#[derive(Debug, Clone)]
pub struct LinksConfig {
    /// Time that an unsent call waits for a node before it is refused as
    /// [`Unavailable`](headrace_link::Refusal::Unavailable).
    pub unsent_timeout_micros: u64,
    /// Time of silence after which a link with calls to be answered is closed.
    pub silence_timeout_micros: u64,
    /// Maximum bytes in flight on one link before further connections have to wait.
    pub in_flight_bytes_max: u64,
}

impl Default for LinksConfig {
    fn default() -> Self {
        Self {
            unsent_timeout_micros: 15_000_000,
            silence_timeout_micros: 30_000_000,
            in_flight_bytes_max: 16 << 20,
        }
    }
}
