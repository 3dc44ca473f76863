//! What to measure.

use std::num::NonZeroUsize;
use std::time::Duration;

use headrace_model::limits::{PARTITIONS_PER_COMMAND_MAX, PAYLOAD_SIZE_BYTES_MAX};
use serde::{Deserialize, Serialize};

use crate::{ClientError, ConnectOptions, Transport, WriteStyle};

/// Actors of one run: one thread and one connection each.
const ACTORS_MAX: u32 = 4096;
/// More would let the answers fill a socket's buffer while nobody reads them.
const WINDOW_MAX: u32 = 1024;
/// A frame is at most 4 GiB; a quarter of it is far beyond anything sensible.
const BATCH_SIZE_BYTES_MAX: u64 = 1 << 30;

/// What to measure. Every field has a default, so a JSON document names only what differs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent switches of a settings document"
)]
pub struct BenchConfig {
    /// `host:port` of the server.
    pub address: String,
    /// What carries the requests.
    pub transport: Transport,
    /// User to log in as.
    pub username: String,
    /// Its password. Never part of a report.
    #[serde(skip_serializing)]
    pub password: String,
    /// Ticket to log in with in place of user and password: what is measured is a partition node. Never part of a report.
    #[serde(skip_serializing)]
    pub ticket: Option<String>,
    /// `host:port` of where streams and topics are looked up and made, as the user; absent: `address`.
    pub catalog_address: Option<String>,
    /// Who works.
    pub mode: Mode,
    /// Producing connections, in the modes that produce.
    pub producers: u32,
    /// Consuming connections, in the modes that consume. Consumer n reads partition n, around.
    pub consumers: u32,
    /// Name of the stream.
    pub stream: String,
    /// Name of the topic.
    pub topic: String,
    /// Partitions of the topic, if it has to be created; 0: as many as there are actors of one kind.
    pub partitions: u32,
    /// What to do about stream and topic beforehand.
    pub setup: Setup,
    /// Delete the stream afterwards.
    pub delete_afterwards: bool,
    /// Where batches go.
    pub placement: Placement,
    /// Payload of one message, without its 64-byte header.
    pub message_size_bytes: u32,
    /// Messages of one batch.
    pub messages_per_batch: u32,
    /// Messages asked for by one poll; 0: as many as there are in a batch.
    pub messages_per_poll: u32,
    /// When to stop.
    pub amount: Amount,
    /// Batches of one producer that may wait for an answer at the same time; 1: none is sent ahead.
    pub window: u32,
    /// Work that is done but not counted, before everything else.
    pub warm_up_seconds: f64,
    /// Payload bytes per second that all producers together may send; absent: as fast as it goes.
    pub rate_limit_bytes_per_second: Option<u64>,
    /// Who remembers how far a consumer has come.
    pub cursor: Cursor,
    /// What a consumer does at the end of its partition while nobody produces.
    pub at_end: AtEnd,
    /// Pause of a consumer after a poll that returned nothing, while producers are at work.
    pub idle_poll_micros: u64,
    /// Check offsets and checksums of what is consumed. Costs the load generator CPU time.
    pub verify: bool,
    /// `TCP_NODELAY` on the connections.
    pub no_delay: bool,
    /// Write the header of large frames by itself, as the official client does.
    pub header_first: bool,
    /// Give up on an answer after this time; 0: never.
    pub response_timeout_seconds: f64,
    /// Processes whose CPU time is reported, all together, if they run on this machine.
    pub server_pids: Vec<u32>,
}

impl Default for BenchConfig {
    fn default() -> Self {
        Self {
            address: "127.0.0.1:8090".into(),
            transport: Transport::Tcp,
            username: "iggy".into(),
            password: "iggy".into(),
            ticket: None,
            catalog_address: None,
            mode: Mode::Produce,
            producers: 1,
            consumers: 1,
            stream: "bench".into(),
            topic: "bench".into(),
            partitions: 0,
            setup: Setup::CreateMissing,
            delete_afterwards: false,
            placement: Placement::Pinned,
            message_size_bytes: 1000,
            messages_per_batch: 1000,
            messages_per_poll: 0,
            amount: Amount::Batches(1000),
            window: 1,
            warm_up_seconds: 0.0,
            rate_limit_bytes_per_second: None,
            cursor: Cursor::Client,
            at_end: AtEnd::Rewind,
            idle_poll_micros: 500,
            verify: false,
            no_delay: true,
            header_first: false,
            response_timeout_seconds: 30.0,
            server_pids: Vec::new(),
        }
    }
}

/// Who works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Producers only.
    Produce,
    /// Consumers only, of what is there.
    Consume,
    /// Producers and consumers at the same time.
    Both,
}

/// What to do about stream and topic beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setup {
    /// Create what is missing, use what is there.
    CreateMissing,
    /// Delete the stream with everything in it, then create it.
    Recreate,
    /// Use what is there, fail if it is not.
    Existing,
}

/// Where batches go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Producer n sends to partition n, around.
    Pinned,
    /// The server decides.
    Balanced,
}

/// When to stop.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// After this many batches (or as many messages in polls) of each actor.
    Batches(u64),
    /// After this many payload bytes of all producers together, and as many of all consumers together.
    Bytes(u64),
    /// After this time.
    Seconds(f64),
}

/// Who remembers how far a consumer has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cursor {
    /// The consumer: it asks by offset.
    Client,
    /// The server: the consumer asks for what comes next and lets the server store the offset with each poll.
    Server,
}

/// What a consumer does at the end of its partition while nobody produces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtEnd {
    /// Start again at the first message.
    Rewind,
    /// Stop.
    Stop,
}

impl BenchConfig {
    /// Check what can be checked without a server.
    pub fn validate(&self) -> Result<(), ClientError> {
        let refuse = |setting: &'static str, reason: &str| {
            Err(ClientError::InvalidSetting {
                setting,
                reason: reason.to_owned(),
            })
        };
        if self.ticket.is_some() && self.catalog_address.is_none() {
            return refuse("catalog_address", "a ticket opens partitions alone");
        }
        if self.producers() + self.consumers() == 0 {
            return refuse("producers", "nobody would work");
        }
        if self.producers().max(self.consumers()) > ACTORS_MAX {
            return refuse("producers", "more than 4096 threads");
        }
        if self.producers() == 0 && self.mode != Mode::Consume {
            return refuse("producers", "the mode needs at least one");
        }
        if self.consumers() == 0 && self.mode != Mode::Produce {
            return refuse("consumers", "the mode needs at least one");
        }
        if self.partitions > PARTITIONS_PER_COMMAND_MAX {
            return refuse("partitions", "one command creates at most 1000");
        }
        if self.message_size_bytes == 0 || self.message_size_bytes > PAYLOAD_SIZE_BYTES_MAX {
            return refuse("message_size_bytes", "1 to 64,000,000");
        }
        if self.messages_per_batch == 0 || self.batch_payload_bytes() > BATCH_SIZE_BYTES_MAX {
            return refuse(
                "messages_per_batch",
                "at least 1, and 1 GiB per batch at most",
            );
        }
        if self.window == 0 || self.window > WINDOW_MAX {
            return refuse("window", "1 to 1024");
        }
        if self.rate_limit_bytes_per_second == Some(0) {
            return refuse("rate_limit_bytes_per_second", "at least 1");
        }
        match self.amount {
            Amount::Batches(0) => return refuse("amount", "at least one batch"),
            Amount::Bytes(0) => return refuse("amount", "at least one byte"),
            _ => {}
        }
        for (setting, seconds) in [
            ("amount", self.amount.seconds().unwrap_or(1.0)),
            ("warm_up_seconds", self.warm_up_seconds),
            ("response_timeout_seconds", self.response_timeout_seconds),
        ] {
            if Duration::try_from_secs_f64(seconds).is_err() {
                return refuse(setting, "not a time");
            }
        }
        Ok(())
    }

    /// Producing connections of this mode.
    pub fn producers(&self) -> u32 {
        match self.mode {
            Mode::Produce | Mode::Both => self.producers,
            Mode::Consume => 0,
        }
    }

    /// Consuming connections of this mode.
    pub fn consumers(&self) -> u32 {
        match self.mode {
            Mode::Consume | Mode::Both => self.consumers,
            Mode::Produce => 0,
        }
    }

    /// Partitions of a topic that has to be created.
    pub(crate) fn partitions_to_create(&self) -> u32 {
        match self.partitions {
            0 => self
                .producers()
                .max(self.consumers())
                .min(PARTITIONS_PER_COMMAND_MAX),
            partitions => partitions,
        }
    }

    /// Payload of one batch.
    pub fn batch_payload_bytes(&self) -> u64 {
        u64::from(self.message_size_bytes) * u64::from(self.messages_per_batch)
    }

    pub(crate) fn poll_messages_count(&self) -> u32 {
        match self.messages_per_poll {
            0 => self.messages_per_batch,
            count => count,
        }
    }

    pub(crate) fn window(&self) -> NonZeroUsize {
        usize::try_from(self.window)
            .ok()
            .and_then(NonZeroUsize::new)
            .unwrap_or(NonZeroUsize::MIN)
    }

    /// Batches of each of `actors`; `None` when time decides.
    pub(crate) fn batches_per_actor(&self, actors: u32) -> Option<u64> {
        match self.amount {
            Amount::Batches(batches) => Some(batches),
            Amount::Bytes(bytes) => Some(
                bytes
                    .div_ceil(self.batch_payload_bytes())
                    .div_ceil(u64::from(actors.max(1))),
            ),
            Amount::Seconds(_) => None,
        }
    }

    /// Payload bytes of all actors together; `None` when time decides.
    pub(crate) fn expected_bytes(&self) -> Option<u64> {
        [self.producers(), self.consumers()]
            .into_iter()
            .map(|actors| {
                let batches = self.batches_per_actor(actors)?;
                batches
                    .checked_mul(self.batch_payload_bytes())?
                    .checked_mul(u64::from(actors))
            })
            .try_fold(0_u64, |sum, bytes| sum.checked_add(bytes?))
    }

    pub(crate) fn warm_up(&self) -> Duration {
        Duration::try_from_secs_f64(self.warm_up_seconds).unwrap_or_default()
    }

    pub(crate) fn connect_options(&self) -> ConnectOptions {
        ConnectOptions {
            transport: self.transport,
            no_delay: self.no_delay,
            response_timeout: Duration::try_from_secs_f64(self.response_timeout_seconds)
                .ok()
                .filter(|timeout| !timeout.is_zero()),
            write_style: if self.header_first {
                WriteStyle::HeaderFirst
            } else {
                WriteStyle::Vectored
            },
            ..ConnectOptions::default()
        }
    }
}

impl Amount {
    /// The time, if time decides.
    pub(crate) fn seconds(self) -> Option<f64> {
        match self {
            Self::Seconds(seconds) => Some(seconds),
            Self::Batches(_) | Self::Bytes(_) => None,
        }
    }

    pub(crate) fn duration(self) -> Option<Duration> {
        self.seconds()
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_valid_and_survives_json() {
        let config = BenchConfig::default();
        config.validate().expect("valid");
        let json = serde_json::to_string(&config).expect("serialisable");
        assert!(!json.contains("password"), "{json}");
        assert_eq!(
            serde_json::from_str::<BenchConfig>(&json).expect("parses"),
            config
        );
        assert_eq!(
            serde_json::from_str::<BenchConfig>("{}").expect("parses"),
            config
        );
        assert!(serde_json::from_str::<BenchConfig>(r#"{"producer": 2}"#).is_err());
    }

    #[test]
    fn amounts_are_divided_among_the_actors() {
        let mut config = BenchConfig {
            producers: 3,
            message_size_bytes: 100,
            messages_per_batch: 10,
            amount: Amount::Bytes(10_000),
            ..BenchConfig::default()
        };
        // Ten batches of 1000 bytes: four each, because three would be too few.
        assert_eq!(config.batches_per_actor(3), Some(4));
        assert_eq!(config.expected_bytes(), Some(12_000));
        config.mode = Mode::Both;
        config.consumers = 2;
        assert_eq!(config.expected_bytes(), Some(12_000 + 10_000));
        config.amount = Amount::Batches(7);
        assert_eq!(config.expected_bytes(), Some(7 * 1000 * 5));
        config.amount = Amount::Seconds(1.5);
        assert_eq!(config.expected_bytes(), None);
        assert_eq!(config.amount.duration(), Some(Duration::from_millis(1500)));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let refused = |change: fn(&mut BenchConfig)| {
            let mut config = BenchConfig::default();
            change(&mut config);
            match config.validate() {
                Err(ClientError::InvalidSetting { setting, .. }) => setting,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(
            refused(|c| c.ticket = Some("hrt1.".into())),
            "catalog_address"
        );
        assert_eq!(refused(|c| c.producers = 0), "producers");
        assert_eq!(refused(|c| c.producers = 5000), "producers");
        assert_eq!(
            refused(|c| {
                c.mode = Mode::Both;
                c.consumers = 0;
            }),
            "consumers"
        );
        assert_eq!(refused(|c| c.partitions = 1001), "partitions");
        assert_eq!(refused(|c| c.message_size_bytes = 0), "message_size_bytes");
        assert_eq!(refused(|c| c.messages_per_batch = 0), "messages_per_batch");
        assert_eq!(
            refused(|c| c.messages_per_batch = 2_000_000),
            "messages_per_batch"
        );
        assert_eq!(refused(|c| c.window = 0), "window");
        assert_eq!(refused(|c| c.amount = Amount::Bytes(0)), "amount");
        assert_eq!(refused(|c| c.amount = Amount::Seconds(-1.0)), "amount");
        assert_eq!(refused(|c| c.warm_up_seconds = f64::NAN), "warm_up_seconds");
        assert_eq!(
            refused(|c| c.rate_limit_bytes_per_second = Some(0)),
            "rate_limit_bytes_per_second"
        );
    }
}
