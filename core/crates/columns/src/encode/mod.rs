//! Encoding of columns to batches for partitions.

mod error;
mod row;

use std::mem;

use headrace_model::limits::PARTITIONS_PER_TOPIC_MAX;
use headrace_wire::Partitioning;
use headrace_wire::batch::{BatchBuilder, INDEX_BYTES};
use headrace_wire::message::HEADER_BYTES;

pub use error::{Defect, EncodeError, SettingsError};

use crate::input::Rows;
use row::Row;

/// Size of a message in a batch without its payload and user headers.
const PER_MESSAGE_BYTES: usize = INDEX_BYTES + HEADER_BYTES;

/// Settings of an encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Number of partitions of the topic.
    pub partitions_count: u32,
    /// True to assign rows to partitions by the hash of their key, as the server's partitioning by key does.
    pub partition_by_key: bool,
    /// First partition for rows that are assigned round-robin.
    pub first_partition: u32,
    /// Maximum size of a batch in bytes, including the index, unless a single message is larger.
    pub batch_bytes: usize,
    /// Maximum size of all open batches in bytes; beyond it all of them are closed.
    pub memory_bytes: usize,
    /// Origin timestamp of rows without one, in microseconds since the Unix epoch.
    pub origin_timestamp: u64,
}

impl Settings {
    fn check(&self) -> Result<(), SettingsError> {
        if !(1..=PARTITIONS_PER_TOPIC_MAX).contains(&self.partitions_count) {
            return Err(SettingsError::Partitions(self.partitions_count));
        }
        for (name, value) in [
            ("batch_bytes", self.batch_bytes),
            ("memory_bytes", self.memory_bytes),
        ] {
            if value == 0 || i32::try_from(value).is_err() {
                return Err(SettingsError::Bound { name, value });
            }
        }
        Ok(())
    }
}

/// Messages for one partition, in the order of their rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The partition.
    pub partition: u32,
    /// Number of messages, at least one.
    pub messages_count: u32,
    /// Index, 16 bytes for each message. Index and messages follow the metadata in `SendMessages`.
    pub index: Vec<u8>,
    /// Encoded messages.
    pub messages: Vec<u8>,
}

impl Batch {
    /// Size of index and messages in bytes.
    pub fn size_bytes(&self) -> usize {
        self.index.len() + self.messages.len()
    }
}

/// Encoder of rows into batches by partition.
///
/// A row goes to the partition that it names, else to the one that its key hashes to, else to the current round-robin
/// partition. The round-robin partition advances with every closed batch, so that batches become as large as possible.
#[derive(Debug)]
pub struct Encoder {
    settings: Settings,
    /// Open batches by partition.
    open: Vec<Option<Box<BatchBuilder>>>,
    /// Total size of all open batches.
    open_bytes: usize,
    /// Current round-robin partition.
    round_robin_partition: u32,
    full: Vec<Batch>,
    /// Buffer for the user headers of the row being encoded.
    user_headers: Vec<u8>,
}

impl Encoder {
    /// Make an encoder without rows.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        settings.check()?;
        let mut open = Vec::new();
        open.resize_with(settings.partitions_count as usize, || None);
        Ok(Self {
            settings,
            open,
            open_bytes: 0,
            round_robin_partition: settings.first_partition % settings.partitions_count,
            full: Vec::new(),
            user_headers: Vec::new(),
        })
    }

    /// Encode all rows, or those before the first one that is refused.
    pub fn push(&mut self, rows: &Rows<'_>) -> Result<(), EncodeError> {
        for index in 0..rows.count {
            let row = Row::read(
                rows,
                index,
                &self.settings,
                mem::take(&mut self.user_headers),
            )?;
            self.take(&row);
            self.user_headers = row.user_headers;
        }
        Ok(())
    }

    /// Take the batches that are full.
    pub fn take_full(&mut self) -> Vec<Batch> {
        mem::take(&mut self.full)
    }

    /// Take all remaining batches, by partition.
    pub fn finish(&mut self) -> Vec<Batch> {
        self.close_all();
        self.take_full()
    }

    fn take(&mut self, row: &Row<'_>) {
        let bytes = PER_MESSAGE_BYTES + row.value.len() + row.user_headers.len();
        if bytes > self.settings.memory_bytes.saturating_sub(self.open_bytes) {
            self.close_all();
        }
        let assigned = row.partition.or_else(|| {
            let key = row.key.filter(|_| self.settings.partition_by_key)?;
            Partitioning::partition_for_key(key, self.settings.partitions_count)
        });
        // Closing a batch may advance the round-robin partition.
        let partition = loop {
            let partition = assigned.unwrap_or(self.round_robin_partition);
            if bytes <= self.room(partition) {
                break partition;
            }
            self.close(partition);
        };
        self.open[partition as usize]
            .get_or_insert_default()
            .push(row.id, row.origin_timestamp, row.value, &row.user_headers)
            .expect(
                "a batch is far smaller than a frame, and a row within the limits of a message",
            );
        self.open_bytes += bytes;
    }

    /// Remaining room in the batch of a partition in bytes; unlimited without an open batch.
    fn room(&self, partition: u32) -> usize {
        match &self.open[partition as usize] {
            None => usize::MAX,
            Some(batch) => self.settings.batch_bytes.saturating_sub(size_bytes(batch)),
        }
    }

    fn close(&mut self, partition: u32) {
        let Some(batch) = self.open[partition as usize].take() else {
            return;
        };
        self.open_bytes -= size_bytes(&batch);
        let messages_count = batch.messages_count();
        let (index, messages) = batch.into_parts();
        self.full.push(Batch {
            partition,
            messages_count,
            index,
            messages,
        });
        if partition == self.round_robin_partition {
            self.round_robin_partition =
                (self.round_robin_partition + 1) % self.settings.partitions_count;
        }
    }

    fn close_all(&mut self) {
        for partition in 0..self.settings.partitions_count {
            self.close(partition);
        }
    }
}

fn size_bytes(batch: &BatchBuilder) -> usize {
    batch.messages_count() as usize * INDEX_BYTES + batch.messages_bytes()
}
