//! Traffic counters of all shards together, in the form in which they are reported.

use std::collections::BTreeMap;

use headrace_shard::{ClientRegistry, LATENCY_BOUNDS_MICROS, Meter, Reading};
use headrace_wire::Transport;

/// Requests, connections and messages since the start.
#[derive(Debug, Clone, serde::Serialize)]
pub struct TrafficReport {
    /// Upper bounds of the latency classes, except for the last one, which has none.
    pub latency_bounds_micros: Vec<u64>,
    /// Answers by command name, for commands that were answered at least once. `Unknown`: invalid command codes.
    pub commands: BTreeMap<&'static str, CommandReport>,
    /// Answers by status, without success; 0: statuses that are not counted separately.
    pub refusals: BTreeMap<u32, u64>,
    /// Number of clients by transport.
    pub connections: BTreeMap<&'static str, usize>,
    /// Accepted connections, those of the process with itself included.
    pub accepted_connections: u64,
    /// Bytes received from connections, after decryption.
    pub received_bytes: u64,
    /// Bytes sent to connections, before encryption.
    pub sent_bytes: u64,
    /// Messages appended and acknowledged.
    pub appended_messages: u64,
    /// Size of the requests that appended them, without headers.
    pub appended_bytes: u64,
    /// Messages delivered to consumers.
    pub polled_messages: u64,
    /// Size of the delivered messages.
    pub polled_bytes: u64,
    /// Bytes read from the files of partitions.
    pub storage_read_bytes: u64,
    /// Messages appended by committed transactions.
    pub published_messages: u64,
    /// Number of staged batches that were missing at their commit: their messages are lost.
    pub missing_stages: u64,
    /// Time in microseconds for which requests have waited because of quotas.
    pub quota_delayed_micros: u64,
    /// Trace records that were dropped because the buffer was full.
    pub traces_dropped: u64,
}

/// Answers to one command.
#[derive(Debug, Clone, serde::Serialize)]
pub struct CommandReport {
    /// Sum of the times from the start of a request to its answer.
    pub sum_micros: u64,
    /// Number of answers by latency class.
    pub classes: Vec<u64>,
}

impl TrafficReport {
    /// Read the counters of `meters`.
    pub(crate) fn read<'a>(
        meters: impl Iterator<Item = &'a Meter>,
        clients: &ClientRegistry,
    ) -> Self {
        let mut reading = Reading::default();
        for meter in meters {
            meter.add_to(&mut reading);
        }
        let mut connections = BTreeMap::from([("tcp", 0), ("quic", 0), ("websocket", 0)]);
        for client in clients.clients() {
            let name = match client.arrival.transport {
                Transport::Tcp => "tcp",
                Transport::Quic => "quic",
                Transport::WebSocket => "websocket",
                Transport::Http => continue,
            };
            *connections.entry(name).or_default() += 1;
        }
        let commands = reading.commands.into_iter();
        let answered =
            commands.filter(|latencies| latencies.classes.iter().any(|count| *count > 0));
        Self {
            latency_bounds_micros: LATENCY_BOUNDS_MICROS.to_vec(),
            commands: answered
                .map(|latencies| {
                    let name = latencies
                        .command
                        .map_or("Unknown", |command| command.name());
                    let report = CommandReport {
                        sum_micros: latencies.sum_micros,
                        classes: latencies.classes,
                    };
                    (name, report)
                })
                .collect(),
            refusals: reading.refusals,
            connections,
            accepted_connections: reading.accepted_connections,
            received_bytes: reading.received_bytes,
            sent_bytes: reading.sent_bytes,
            appended_messages: reading.appended_messages,
            appended_bytes: reading.appended_bytes,
            polled_messages: reading.polled_messages,
            polled_bytes: reading.polled_bytes,
            storage_read_bytes: reading.storage_read_bytes,
            published_messages: reading.published_messages,
            missing_stages: reading.missing_stages,
            quota_delayed_micros: reading.quota_delayed_micros,
            traces_dropped: reading.traces_dropped,
        }
    }
}
