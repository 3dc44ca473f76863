//! Decoding of messages of one partition to columns.

mod builder;
mod error;
mod growing;
mod user_headers;
mod walk;

use std::mem;

use headrace_model::limits::{PAYLOAD_SIZE_BYTES_MAX, USER_HEADERS_SIZE_BYTES_MAX};
use headrace_wire::NAME_BYTES_MAX;
use headrace_wire::message::MessageView;

pub use error::{DecodeError, Defect, SettingsError};

use builder::{Builder, RowSize};
use walk::Walk;

use crate::{Array, Column};

/// Number of messages that are checked before their columns are built; that many fit the processor's cache.
const RUN_MESSAGES: usize = 256;

/// Settings of a decoder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Columns of a batch, in their order, each at most once. Without columns, batches have only a number of rows.
    pub columns: Vec<Column>,
    /// Offset of the first message to decode.
    pub start: u64,
    /// Offset after the last message to decode.
    pub end: u64,
    /// True to verify checksums, including those of skipped messages.
    pub verify: bool,
    /// Maximum number of rows of a batch.
    pub batch_rows: usize,
    /// Maximum size of a batch in bytes, unless a single row is larger.
    pub batch_bytes: usize,
    /// Value of the column `stream`.
    pub stream: String,
    /// Value of the column `topic`.
    pub topic: String,
    /// Partition of the messages.
    pub partition: u32,
}

impl Settings {
    fn check(&self) -> Result<(), SettingsError> {
        for (index, &column) in self.columns.iter().enumerate() {
            if self.columns[..index].contains(&column) {
                return Err(SettingsError::ColumnTwice(column));
            }
        }
        if self.end < self.start {
            return Err(SettingsError::Range {
                start: self.start,
                end: self.end,
            });
        }
        for (name, value) in [
            ("batch_rows", self.batch_rows),
            ("batch_bytes", self.batch_bytes),
        ] {
            if value == 0 || i32::try_from(value).is_err() {
                return Err(SettingsError::Bound { name, value });
            }
        }
        for name in [&self.stream, &self.topic] {
            if name.len() > NAME_BYTES_MAX {
                return Err(SettingsError::NameTooLong(name.len()));
            }
        }
        Ok(())
    }

    /// Value of a name column.
    fn text(&self, column: Column) -> &str {
        if column == Column::Stream {
            &self.stream
        } else {
            &self.topic
        }
    }
}

/// A batch of rows, column by column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Number of rows in every column.
    pub rows: usize,
    /// Offset of the first row. Offsets have no gaps.
    pub first_offset: u64,
    /// Columns in the selected order.
    pub columns: Vec<Array>,
}

/// Decoder of payloads, as sent by a partition, into batches of a range of offsets.
///
/// A payload may begin before the next offset, because of an index or a repeated call: such messages are skipped. A
/// payload that begins behind the next offset is an error, because messages are missing. Messages behind the end of the
/// range are ignored.
///
/// After an error, the messages before the defective one are decoded, with no other effect: [`Self::next_offset`] is
/// where another payload may continue.
#[derive(Debug)]
pub struct Decoder {
    settings: Settings,
    row_size: RowSize,
    builders: Vec<Builder>,
    /// Offset after the last decoded message.
    next_offset: u64,
    /// Number of rows of the batch being filled.
    rows: usize,
    /// Upper bound of the size of the batch being filled.
    size_bytes: usize,
    /// Full batches.
    full: Vec<Batch>,
}

impl Decoder {
    /// Make a decoder at the start of its range.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        settings.check()?;
        Ok(Self {
            row_size: RowSize::new(&settings),
            builders: settings.columns.iter().copied().map(Builder::new).collect(),
            next_offset: settings.start,
            rows: 0,
            size_bytes: 0,
            full: Vec::new(),
            settings,
        })
    }

    /// Offset of the next message.
    pub fn next_offset(&self) -> u64 {
        self.next_offset
    }

    /// Return whether the whole range was decoded.
    pub fn is_complete(&self) -> bool {
        self.next_offset >= self.settings.end
    }

    /// Decode the messages of `payload`: the response to a poll, or nothing.
    pub fn feed(&mut self, payload: &[u8]) -> Result<(), DecodeError> {
        let mut run = Vec::with_capacity(RUN_MESSAGES);
        let outcome = self.take_messages(payload, &mut run);
        self.append(&mut run);
        outcome
    }

    /// Take the batches that are full.
    pub fn take_full(&mut self) -> Vec<Batch> {
        mem::take(&mut self.full)
    }

    /// Take all remaining batches, including a partly filled one.
    pub fn finish(&mut self) -> Vec<Batch> {
        self.close_batch();
        self.take_full()
    }

    fn take_messages<'a>(
        &mut self,
        payload: &'a [u8],
        run: &mut Vec<MessageView<'a>>,
    ) -> Result<(), DecodeError> {
        let Some(mut walk) = Walk::begin(payload, self.settings.partition, self.settings.verify)?
        else {
            return Ok(());
        };
        while !self.is_complete()
            && let Some(message) = walk.next()?
        {
            let offset = message.header().offset();
            if offset < self.next_offset {
                continue;
            }
            self.check(&message)
                .map_err(|defect| walk.error_at(&message, defect))?;
            let row_bytes = self.row_size.of(&message);
            if self.rows == self.settings.batch_rows
                || (self.rows > 0
                    && row_bytes > self.settings.batch_bytes.saturating_sub(self.size_bytes))
            {
                self.append(run);
                self.close_batch();
            }
            run.push(message);
            self.rows += 1;
            self.size_bytes += row_bytes;
            self.next_offset = offset + 1;
            if run.len() == RUN_MESSAGES {
                self.append(run);
            }
        }
        Ok(())
    }

    /// Check that this is the next message and valid.
    #[inline]
    fn check(&self, message: &MessageView<'_>) -> Result<(), Defect> {
        let header = message.header();
        if header.offset() != self.next_offset {
            return Err(Defect::Offset {
                expected: self.next_offset,
            });
        }
        if i64::try_from(header.offset()).is_err() {
            return Err(Defect::OffsetRange);
        }
        let (payload_bytes, user_headers_bytes) =
            (header.payload_length(), header.user_headers_length());
        if payload_bytes > PAYLOAD_SIZE_BYTES_MAX
            || user_headers_bytes > USER_HEADERS_SIZE_BYTES_MAX
        {
            return Err(Defect::Size {
                payload_bytes,
                user_headers_bytes,
            });
        }
        if header.reserved() != 0 {
            return Err(Defect::Reserved);
        }
        if i64::try_from(header.timestamp()).is_err() {
            return Err(Defect::TimestampRange);
        }
        Ok(())
    }

    /// Append messages to the columns; [`Self::take_messages`] has counted them.
    fn append(&mut self, run: &mut Vec<MessageView<'_>>) {
        for builder in &mut self.builders {
            builder.append(run);
        }
        run.clear();
    }

    fn close_batch(&mut self) {
        let rows = mem::take(&mut self.rows);
        self.size_bytes = 0;
        if rows == 0 {
            return;
        }
        let columns = self
            .builders
            .iter_mut()
            .map(|builder| builder.finish(rows, &self.settings));
        self.full.push(Batch {
            rows,
            first_offset: self.next_offset - rows as u64,
            columns: columns.collect(),
        });
    }
}
