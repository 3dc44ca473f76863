//! Messages of one partition to columns.

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

/// Messages that are looked at before their columns are: so many lie in the processor's cache.
const RUN_MESSAGES: usize = 256;

/// What is decoded, and to what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The columns of a batch, in their order; none of them twice. Without any, batches have a number of rows only.
    pub columns: Vec<Column>,
    /// Offset of the first message that is taken.
    pub start: u64,
    /// Behind the last message that is taken.
    pub end: u64,
    /// Whether checksums are compared, also of messages that are passed over.
    pub verify: bool,
    /// Rows that a batch has at most.
    pub batch_rows: usize,
    /// Bytes that a batch has at most, unless a single row has more.
    pub batch_bytes: usize,
    /// What the column `stream` says.
    pub stream: String,
    /// What the column `topic` says.
    pub topic: String,
    /// The partition that the messages are of.
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

    /// What a column of names says.
    fn text(&self, column: Column) -> &str {
        if column == Column::Stream {
            &self.stream
        } else {
            &self.topic
        }
    }
}

/// Some rows, column by column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Rows, which every column has.
    pub rows: usize,
    /// Offset of the first row. Offsets have no gaps.
    pub first_offset: u64,
    /// In the order in which they were asked for.
    pub columns: Vec<Array>,
}

/// Takes payloads as a partition sends them, and makes batches of a range of offsets.
///
/// A payload may begin before what comes next, because an index led there or because a call was made again: such messages are
/// passed over. It may not begin behind it: then messages are missing. What comes behind the end of the range is not looked
/// at.
///
/// After an error, messages before the one that is wrong are taken, and nothing else happened: [`Self::next_offset`] is
/// where another payload may go on.
#[derive(Debug)]
pub struct Decoder {
    settings: Settings,
    row_size: RowSize,
    builders: Vec<Builder>,
    /// Behind the last message that was taken.
    next_offset: u64,
    /// Of the batch that is being filled.
    rows: usize,
    /// Of the batch that is being filled, at most.
    size_bytes: usize,
    /// Batches that are full.
    full: Vec<Batch>,
}

impl Decoder {
    /// A decoder that has seen nothing.
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

    /// Offset of the message that comes next.
    pub fn next_offset(&self) -> u64 {
        self.next_offset
    }

    /// Whether the whole range was seen.
    pub fn is_complete(&self) -> bool {
        self.next_offset >= self.settings.end
    }

    /// Take the messages of `payload`: the answer to a poll, or nothing at all.
    pub fn feed(&mut self, payload: &[u8]) -> Result<(), DecodeError> {
        let mut run = Vec::with_capacity(RUN_MESSAGES);
        let outcome = self.take_messages(payload, &mut run);
        self.append(&mut run);
        outcome
    }

    /// The batches that have become full.
    pub fn take_full(&mut self) -> Vec<Batch> {
        mem::take(&mut self.full)
    }

    /// All batches that are left, the last one as it is.
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

    /// Whether this is a message that can be taken next.
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

    /// Add messages to the columns, which [`Self::take_messages`] has counted.
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
