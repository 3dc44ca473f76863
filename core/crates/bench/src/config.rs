//! Settings of a measurement.

use std::num::NonZeroUsize;
use std::time::Duration;

use headrace_model::limits::{PARTITIONS_PER_COMMAND_MAX, PAYLOAD_SIZE_BYTES_MAX};
use serde::{Deserialize, Serialize};

use headrace_client::{ClientError, ConnectOptions, Transport, WriteStyle};

/// Maximum number of actors of one run: one thread and one connection each.
const ACTORS_MAX: u32 = 4096;
/// Maximum number of batches in flight. More would let unread answers fill a socket's buffer.
const WINDOW_MAX: u32 = 1024;
/// Maximum size of a batch. A frame is at most 4 GiB; a quarter of it is far beyond any sensible value.
const BATCH_SIZE_BYTES_MAX: u64 = 1 << 30;

/// Settings of a measurement. Every field has a default, so a JSON document names only the differences.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent switches of a settings document"
)]
pub struct BenchConfig {
    /// Address of the server, `host:port`.
    pub address: String,
    /// Transport of the requests.
    pub transport: Transport,
    /// User to log in as.
    pub username: String,
    /// Password of the user. Never part of a report.
    #[serde(skip_serializing)]
    pub password: String,
    /// Personal access token to log in with in place of user and password. Never part of a report.
    #[serde(skip_serializing)]
    pub token: Option<String>,
    /// Ticket to log in with in place of user and password, to measure a partition node. Never part of a report.
    #[serde(skip_serializing)]
    pub ticket: Option<String>,
    /// Address, `host:port`, of the server on which the user looks up and creates streams and topics; absent:
    /// `address`.
    pub catalog_address: Option<String>,
    /// Kinds of actors that run.
    pub mode: Mode,
    /// Number of producing connections, in the modes that produce.
    pub producers: u32,
    /// Number of consuming connections, in the modes that consume. Consumer n reads partition n modulo the number of
    /// partitions.
    pub consumers: u32,
    /// Name of the stream.
    pub stream: String,
    /// Name of the topic.
    pub topic: String,
    /// Number of partitions of the topic, if it has to be created; 0: as many as there are actors of one kind.
    pub partitions: u32,
    /// Preparation of stream and topic.
    pub setup: Setup,
    /// Delete the stream afterwards.
    pub delete_afterwards: bool,
    /// Choice of each batch's partition.
    pub placement: Placement,
    /// Payload size of one message, without its 64-byte header.
    pub message_size_bytes: u32,
    /// Number of messages of one batch.
    pub messages_per_batch: u32,
    /// Number of messages requested by one poll; 0: as many as there are in a batch.
    pub messages_per_poll: u32,
    /// Condition that ends the run.
    pub amount: Amount,
    /// Maximum number of batches of one producer in flight; 1: each waits for its answer.
    pub window: u32,
    /// Duration of the initial warm-up, which is not counted.
    pub warm_up_seconds: f64,
    /// Limit of payload bytes per second of all producers together; absent: unlimited.
    pub rate_limit_bytes_per_second: Option<u64>,
    /// Place where a consumer's position is kept.
    pub cursor: Cursor,
    /// Behaviour of a consumer at the end of its partition if there are no producers.
    pub at_end: AtEnd,
    /// Pause of a consumer after a poll that returned nothing, while producers run.
    pub idle_poll_micros: u64,
    /// Check offsets and checksums of consumed messages. Costs the load generator CPU time.
    pub verify: bool,
    /// `TCP_NODELAY` on the connections.
    pub no_delay: bool,
    /// Write the header of large frames separately, as the official client does.
    pub header_first: bool,
    /// Time after which an unanswered request fails; 0: never.
    pub response_timeout_seconds: f64,
    /// Processes whose total CPU time is reported, if they run on this machine.
    pub server_pids: Vec<u32>,
}

impl Default for BenchConfig {
    fn default() -> Self {
        Self {
            address: "127.0.0.1:8090".into(),
            transport: Transport::Tcp,
            username: "iggy".into(),
            password: "iggy".into(),
            token: None,
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

/// Kinds of actors that run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Producers only.
    Produce,
    /// Consumers only, reading existing messages.
    Consume,
    /// Producers and consumers at the same time.
    Both,
}

/// Preparation of stream and topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setup {
    /// Create what is missing and use existing ones.
    CreateMissing,
    /// Delete the stream with everything in it, and create it again.
    Recreate,
    /// Use existing ones; fail if one is missing.
    Existing,
}

/// Choice of each batch's partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Producer n sends to partition n modulo the number of partitions.
    Pinned,
    /// The server chooses.
    Balanced,
}

/// Condition that ends the run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// Number of batches (or as many messages in polls) of each actor.
    Batches(u64),
    /// Number of payload bytes of all producers together, and of all consumers together.
    Bytes(u64),
    /// Duration of the run.
    Seconds(f64),
}

/// Place where a consumer's position is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cursor {
    /// Position kept by the consumer, which polls by offset.
    Client,
    /// Position kept by the server: the consumer polls for the next messages and lets the server store the offset with
    /// each poll.
    Server,
}

/// Behaviour of a consumer at the end of its partition if there are no producers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtEnd {
    /// Restart at the first message.
    Rewind,
    /// Stop.
    Stop,
}

impl BenchConfig {
    /// Validate all settings that can be checked without a server.
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
            return refuse("producers", "there is neither a producer nor a consumer");
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

    /// Number of producing connections of this mode.
    pub fn producers(&self) -> u32 {
        match self.mode {
            Mode::Produce | Mode::Both => self.producers,
            Mode::Consume => 0,
        }
    }

    /// Number of consuming connections of this mode.
    pub fn consumers(&self) -> u32 {
        match self.mode {
            Mode::Consume | Mode::Both => self.consumers,
            Mode::Produce => 0,
        }
    }

    /// Number of partitions of a topic that has to be created.
    pub(crate) fn partitions_to_create(&self) -> u32 {
        match self.partitions {
            0 => self
                .producers()
                .max(self.consumers())
                .min(PARTITIONS_PER_COMMAND_MAX),
            partitions => partitions,
        }
    }

    /// Payload size of one batch.
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

    /// Number of batches of each of `actors`; `None` if the run ends by time.
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

    /// Payload bytes of all actors together; `None` if the run ends by time.
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
    /// Duration of the run, if it ends by time.
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
    fn secrets_are_read_and_not_reported() {
        let text = r#"{"password": "secret", "token": "secret", "ticket": "secret"}"#;
        let config: BenchConfig = serde_json::from_str(text).expect("parses");
        assert_eq!(config.token.as_deref(), Some("secret"));
        let json = serde_json::to_string(&config).expect("serialisable");
        assert!(!json.contains("secret"), "{json}");
    }

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
