//! Builders of columns, to which messages are added.

use headrace_wire::message::MessageView;

use super::growing::{Binary, Validity, hand_over};
use super::user_headers::{Lists, key_of};
use crate::array::{Array, Buffer};
use crate::{Column, decode::Settings};

/// Size of an id in bytes.
const ID_BYTES: usize = 16;
/// Size of a value's start position in bytes.
const POSITION_BYTES: usize = 4;

/// Builder of one column of the batch being filled.
#[derive(Debug)]
pub(super) enum Builder {
    /// Column with the same text in every row.
    Text(Column),
    Partition,
    Offset(Vec<i64>),
    Timestamp(Vec<i64>),
    OriginTimestamp(Vec<i64>, Validity),
    Id(Vec<u8>),
    Key(Binary, Validity),
    Value(Binary),
    Headers(Box<Lists>),
}

impl Builder {
    pub(super) fn new(column: Column) -> Self {
        match column {
            Column::Stream | Column::Topic => Self::Text(column),
            Column::Partition => Self::Partition,
            Column::Offset => Self::Offset(Vec::new()),
            Column::Timestamp => Self::Timestamp(Vec::new()),
            Column::OriginTimestamp => Self::OriginTimestamp(Vec::new(), Validity::default()),
            Column::Id => Self::Id(Vec::new()),
            Column::Key => Self::Key(Binary::default(), Validity::default()),
            Column::Value => Self::Value(Binary::default()),
            Column::Headers => Self::Headers(Box::default()),
        }
    }

    /// Append messages whose offsets and timestamps were checked.
    pub(super) fn append(&mut self, messages: &[MessageView<'_>]) {
        match self {
            Self::Text(_) | Self::Partition => {}
            Self::Offset(values) => values.extend(
                messages
                    .iter()
                    .map(|message| message.header().offset().cast_signed()),
            ),
            Self::Timestamp(values) => values.extend(
                messages
                    .iter()
                    .map(|message| message.header().timestamp().cast_signed()),
            ),
            Self::OriginTimestamp(values, validity) => {
                for message in messages {
                    let value = i64::try_from(message.header().origin_timestamp()).ok();
                    values.push(value.unwrap_or_default());
                    validity.push(value.is_some());
                }
            }
            Self::Id(data) => {
                for message in messages {
                    data.extend_from_slice(&message.header().id().to_le_bytes());
                }
            }
            Self::Key(values, validity) => {
                for message in messages {
                    let key = key_of(message.user_headers());
                    values.push(key.unwrap_or_default());
                    validity.push(key.is_some());
                }
            }
            Self::Value(values) => {
                values.reserve(messages.iter().map(|message| message.payload().len()).sum());
                for message in messages {
                    values.push(message.payload());
                }
            }
            Self::Headers(lists) => {
                for message in messages {
                    lists.push(message.user_headers());
                }
            }
        }
    }

    /// Finish the column of a batch with that many rows, and begin the next batch.
    pub(super) fn finish(&mut self, rows: usize, settings: &Settings) -> Array {
        match self {
            Self::Text(column) => {
                let text = settings.text(*column);
                fixed_width(rows, text.len(), text.as_bytes().repeat(rows))
            }
            Self::Partition => {
                let partition = settings.partition.cast_signed();
                Array::numbers(rows, Buffer::Int32(vec![partition; rows]))
            }
            Self::Offset(values) | Self::Timestamp(values) => {
                Array::numbers(rows, Buffer::Int64(hand_over(values)))
            }
            Self::OriginTimestamp(values, validity) => {
                let (null_count, validity) = validity.finish();
                Array {
                    length: rows,
                    null_count,
                    buffers: vec![validity, Some(Buffer::Int64(hand_over(values)))],
                    children: Vec::new(),
                }
            }
            Self::Id(data) => fixed_width(rows, ID_BYTES, hand_over(data)),
            Self::Key(values, validity) => values.finish(validity.finish()),
            Self::Value(values) => values.finish((0, None)),
            Self::Headers(lists) => lists.finish(),
        }
    }
}

/// Upper bound of the size of a message in a batch of columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowSize {
    fixed_bytes: usize,
    has_payload: bool,
    /// True if a column holds data of the user headers.
    has_user_headers: bool,
}

impl RowSize {
    pub(super) fn new(settings: &Settings) -> Self {
        let fixed_bytes = |column| match column {
            Column::Stream | Column::Topic => settings.text(column).len() + POSITION_BYTES,
            Column::Partition => 4,
            Column::Offset | Column::Timestamp => 8,
            Column::OriginTimestamp => 8 + 1,
            Column::Id => ID_BYTES + POSITION_BYTES,
            Column::Value => POSITION_BYTES,
            Column::Key | Column::Headers => POSITION_BYTES + 1,
        };
        let columns = &settings.columns;
        Self {
            fixed_bytes: columns.iter().copied().map(fixed_bytes).sum(),
            has_payload: columns.contains(&Column::Value),
            has_user_headers: columns.contains(&Column::Key) || columns.contains(&Column::Headers),
        }
    }

    /// Size bound of a message. A header takes more bytes in a message than in a list, and is in only one column.
    #[inline]
    pub(super) fn of(self, message: &MessageView<'_>) -> usize {
        let mut bytes = self.fixed_bytes;
        if self.has_payload {
            bytes += message.payload().len();
        }
        if self.has_user_headers {
            bytes += message.user_headers().len();
        }
        bytes
    }
}

/// Make an array of values with the same length.
fn fixed_width(rows: usize, width: usize, data: Vec<u8>) -> Array {
    let starts =
        (0..=rows).map(|row| i32::try_from(row * width).expect("a batch has less than 2 GiB"));
    Array {
        length: rows,
        null_count: 0,
        buffers: vec![
            None,
            Some(Buffer::Int32(starts.collect())),
            Some(Buffer::Bytes(data)),
        ],
        children: Vec::new(),
    }
}
