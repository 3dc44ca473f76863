//! Settings of a producer.

use std::time::Duration;

/// Settings of a producer.
#[derive(Debug, Clone)]
pub struct ProducerConfig {
    /// Maximum number of messages in a batch.
    pub batch_messages: u32,
    /// Maximum size of a batch in bytes, message headers included; a single message may be larger.
    pub batch_bytes: usize,
    /// Time that a batch waits for more messages, unless the buffer is full.
    pub linger: Duration,
    /// Maximum number of batches in flight for each partition.
    pub window: usize,
    /// Maximum size of all messages that are not settled.
    pub buffer_bytes: usize,
    /// Time from a batch's first message on after which it is given up, unless it is in flight.
    pub delivery_timeout: Duration,
    /// Send again what may be stored already, because the connection broke before the answer. Such messages may be
    /// stored twice.
    pub repeat_uncertain: bool,
}

impl Default for ProducerConfig {
    fn default() -> Self {
        Self {
            batch_messages: 10_000,
            batch_bytes: 1 << 20,
            linger: Duration::from_millis(5),
            window: 1,
            buffer_bytes: 64 << 20,
            delivery_timeout: Duration::from_secs(120),
            repeat_uncertain: false,
        }
    }
}
