//! Reading and validation of one row.

use headrace_model::limits::{PAYLOAD_SIZE_BYTES_MAX, USER_HEADERS_SIZE_BYTES_MAX};
use headrace_wire::headers::{self, Value};

use super::Settings;
use super::error::{Defect, EncodeError};
use crate::input::Rows;
use crate::{Column, KEY_HEADER};

/// Maximum size of the key or the value of a header in bytes.
const FIELD_BYTES_MAX: usize = 255;

/// Contents of a message.
#[derive(Debug)]
pub(super) struct Row<'a> {
    pub(super) value: &'a [u8],
    pub(super) key: Option<&'a [u8]>,
    /// Message id; 0 for none.
    pub(super) id: u128,
    pub(super) origin_timestamp: u64,
    /// Partition that the row names.
    pub(super) partition: Option<u32>,
    /// Encoded user headers: the key first.
    pub(super) user_headers: Vec<u8>,
}

impl<'a> Row<'a> {
    /// Read a row; `memory` is reused for its user headers.
    #[inline]
    pub(super) fn read(
        rows: &Rows<'a>,
        index: usize,
        settings: &Settings,
        memory: Vec<u8>,
    ) -> Result<Self, EncodeError> {
        let at = |column| {
            move |defect| EncodeError {
                row: index,
                column,
                defect,
            }
        };
        let mut row = Row {
            value: value(rows, index).map_err(at(Column::Value))?,
            key: key(rows, index).map_err(at(Column::Key))?,
            id: id(rows, index).map_err(at(Column::Id))?,
            origin_timestamp: origin_timestamp(rows, index)
                .map_err(at(Column::Timestamp))?
                .unwrap_or(settings.origin_timestamp),
            partition: partition(rows, index, settings).map_err(at(Column::Partition))?,
            user_headers: memory,
        };
        row.user_headers.clear();
        if let Some(key) = row.key {
            write_header(KEY_HEADER, key, &mut row.user_headers);
        }
        write_headers(rows, index, &mut row.user_headers).map_err(at(Column::Headers))?;
        Ok(row)
    }
}

fn value<'a>(rows: &Rows<'a>, row: usize) -> Result<&'a [u8], Defect> {
    let value = rows.value.get(row)?.ok_or(Defect::Null)?;
    // Empty payloads are refused: servers accept them, but official clients refuse to read them.
    bounded(value, PAYLOAD_SIZE_BYTES_MAX as usize)
}

fn key<'a>(rows: &Rows<'a>, row: usize) -> Result<Option<&'a [u8]>, Defect> {
    let Some(keys) = &rows.key else {
        return Ok(None);
    };
    keys.get(row)?
        .map(|key| bounded(key, FIELD_BYTES_MAX))
        .transpose()
}

fn id(rows: &Rows<'_>, row: usize) -> Result<u128, Defect> {
    let Some(ids) = &rows.id else {
        return Ok(0);
    };
    let Some(id) = ids.get(row)? else {
        return Ok(0);
    };
    let bytes = id.len();
    let id = id.try_into().map_err(|_| Defect::IdLength { bytes })?;
    Ok(u128::from_le_bytes(id))
}

fn origin_timestamp(rows: &Rows<'_>, row: usize) -> Result<Option<u64>, Defect> {
    let Some(timestamps) = &rows.timestamp else {
        return Ok(None);
    };
    timestamps
        .int64(row)?
        .map(|micros| u64::try_from(micros).map_err(|_| Defect::Negative))
        .transpose()
}

fn partition(rows: &Rows<'_>, row: usize, settings: &Settings) -> Result<Option<u32>, Defect> {
    let Some(partitions) = &rows.partition else {
        return Ok(None);
    };
    let partitions_count = settings.partitions_count;
    let Some(named) = partitions.int32(row)? else {
        return Ok(None);
    };
    u32::try_from(named)
        .ok()
        .filter(|&partition| partition < partitions_count)
        .map(Some)
        .ok_or(Defect::NoPartition {
            partition: named,
            partitions_count,
        })
}

fn write_headers(rows: &Rows<'_>, row: usize, out: &mut Vec<u8>) -> Result<(), Defect> {
    let Some(lists) = &rows.headers else {
        return Ok(());
    };
    for pair in lists.get(row)? {
        let (key, value) = lists.pair(pair)?.ok_or(Defect::Null)?;
        let key = bounded(key, FIELD_BYTES_MAX)?;
        let key = str::from_utf8(key).map_err(|_| Defect::NoText)?;
        if key == KEY_HEADER {
            return Err(Defect::Reserved);
        }
        write_header(key, bounded(value, FIELD_BYTES_MAX)?, out);
        within(out.len(), USER_HEADERS_SIZE_BYTES_MAX as usize)?;
    }
    Ok(())
}

fn write_header(key: &str, value: &[u8], out: &mut Vec<u8>) {
    headers::push(Value::Text(key), Value::Raw(value), out).expect("both have 1 to 255 bytes");
}

/// Check that a value is neither empty nor too large.
fn bounded(value: &[u8], bytes_max: usize) -> Result<&[u8], Defect> {
    if value.is_empty() {
        return Err(Defect::Empty);
    }
    within(value.len(), bytes_max)?;
    Ok(value)
}

fn within(bytes: usize, bytes_max: usize) -> Result<(), Defect> {
    if bytes > bytes_max {
        return Err(Defect::TooLong { bytes, bytes_max });
    }
    Ok(())
}
