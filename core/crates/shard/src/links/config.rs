//! Settings of links.

/// How a gateway's shard reaches partition nodes.
#[derive(Debug, Clone)]
pub struct LinksConfig {
    /// How long what was not sent waits for a node, before it is refused as
    /// [`Unavailable`](headrace_link::Refusal::Unavailable).
    pub patience_micros: u64,
    /// A link on which answers are due and nothing at all is heard for so long is given up.
    pub silence_micros_max: u64,
    /// What may be on its way over one link, before the connections that want more have to wait.
    pub in_flight_bytes_max: u64,
}

impl Default for LinksConfig {
    fn default() -> Self {
        Self {
            patience_micros: 15_000_000,
            silence_micros_max: 30_000_000,
            in_flight_bytes_max: 16 << 20,
        }
    }
}
