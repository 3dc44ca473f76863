//! Columns to batches, as a partition takes them.

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

/// What a message takes in a batch beside its payload and user headers.
const PER_MESSAGE_BYTES: usize = INDEX_BYTES + HEADER_BYTES;

/// How rows become batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Partitions of the topic.
    pub partitions_count: u32,
    /// Whether a row goes to the partition that its key hashes to, as the server's partitioning by key has it.
    pub partition_by_key: bool,
    /// Where rows go first that nothing assigns to a partition.
    pub first_partition: u32,
    /// Bytes that a batch has at most, index included, unless a single message has more.
    pub batch_bytes: usize,
    /// Bytes that wait in all partitions at most: then all batches are closed as they are.
    pub memory_bytes: usize,
    /// Of rows that have no timestamp, microseconds since the Unix epoch.
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
    /// Messages, at least one.
    pub messages_count: u32,
    /// 16 bytes for each message. Index and messages are what `SendMessages` has behind its metadata.
    pub index: Vec<u8>,
    /// The messages.
    pub messages: Vec<u8>,
}

impl Batch {
    /// Bytes of index and messages.
    pub fn size_bytes(&self) -> usize {
        self.index.len() + self.messages.len()
    }
}

/// Takes rows, and makes batches of them by partition.
///
/// A row goes to the partition that it names, else to the one that its key hashes to, else to the one whose turn it is:
/// that changes with every batch, so that batches become as large as they may.
#[derive(Debug)]
pub struct Encoder {
    settings: Settings,
    /// By partition.
    open: Vec<Option<Box<BatchBuilder>>>,
    /// Of all open batches together.
    open_bytes: usize,
    /// Whose turn it is.
    turn: u32,
    full: Vec<Batch>,
    /// Of the row that is being encoded.
    user_headers: Vec<u8>,
}

impl Encoder {
    /// An encoder without rows.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        settings.check()?;
        let mut open = Vec::new();
        open.resize_with(settings.partitions_count as usize, || None);
        Ok(Self {
            settings,
            open,
            open_bytes: 0,
            turn: settings.first_partition % settings.partitions_count,
            full: Vec::new(),
            user_headers: Vec::new(),
        })
    }

    /// Take all rows, or those before the one that is refused.
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

    /// The batches that have become full.
    pub fn take_full(&mut self) -> Vec<Batch> {
        mem::take(&mut self.full)
    }

    /// All batches that are left, by partition.
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
        // When a batch is closed it may be another partition's turn.
        let partition = loop {
            let partition = assigned.unwrap_or(self.turn);
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

    /// Bytes that the batch of a partition still takes; an empty one takes anything.
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
        if partition == self.turn {
            self.turn = (self.turn + 1) % self.settings.partitions_count;
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
