//! Configuration of a run.

use serde::Deserialize;

/// A load on one topic, which exists already.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `host:port` of the server.
    pub address: String,
    pub username: String,
    pub password: String,
    pub mode: Mode,
    /// Connections; connection n works on partition n.
    pub connections: u32,
    /// Name of the stream.
    pub stream: String,
    pub topic: String,
    /// Payload of one message.
    pub message_size_bytes: usize,
    /// Messages of a batch, and of a poll.
    pub messages_per_batch: u32,
    pub amount: Amount,
    pub warm_up_seconds: f64,
    /// Process whose CPU time is reported.
    pub server_pid: u32,
}

/// Operation of the connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    Produce,
    /// Read stored messages, again from the first message after the last.
    Consume,
}

/// End of a run.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// After this many payload bytes of all connections together.
    Bytes(u64),
    /// After this time.
    Seconds(f64),
}

impl Config {
    /// Messages of each connection; `None` when time decides.
    pub fn messages_per_connection(&self) -> Option<u64> {
        match self.amount {
            Amount::Bytes(bytes) => {
                let batch_bytes =
                    self.message_size_bytes as u64 * u64::from(self.messages_per_batch);
                let batches = bytes
                    .div_ceil(batch_bytes.max(1))
                    .div_ceil(u64::from(self.connections.max(1)));
                Some(batches * u64::from(self.messages_per_batch))
            }
            Amount::Seconds(_) => None,
        }
    }
}
