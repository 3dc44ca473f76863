//! Digest of messages that does not depend on their division into batches or files.
//!
//! The digests of parts add up, modulo 2^64, to that of the whole: two copies of a range have the same digest, whatever
//! pieces they are stored in. A digest detects accidental changes, not attacks.

use twox_hash::XxHash3_64;

use crate::Column;
use crate::input::{Binary, Numbers, OutOfBounds};

/// Columns that a digest covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contents<'a> {
    /// Number of messages.
    pub count: usize,
    /// Offsets, 64 bits.
    pub offset: Numbers<'a>,
    /// Append times, 64 bits, microseconds since the Unix epoch.
    pub timestamp: Numbers<'a>,
    /// Keys; a missing key counts as an empty one.
    pub key: Binary<'a>,
    /// Payloads.
    pub value: Binary<'a>,
}

/// Error for a message with a missing value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("row {row}, column {}: it is null, or its buffers do not hold it", .column.name())]
pub struct DigestError {
    /// Row of the message.
    pub row: usize,
    /// Column of the value.
    pub column: Column,
}

/// Compute the sum of XXH3-64 over the key of each message. The seed is the message's time plus XXH3-64 over its
/// payload, which in turn is seeded with its offset. All arithmetic is modulo 2^64.
///
/// # Errors
///
/// If a message has no offset, time or payload, or if buffers end too early.
pub fn digest(contents: &Contents<'_>) -> Result<u64, DigestError> {
    let mut sum = 0_u64;
    for row in 0..contents.count {
        let at = |column| move |OutOfBounds| DigestError { row, column };
        let absent = |column| DigestError { row, column };
        let offset = contents.offset.int64(row).map_err(at(Column::Offset))?;
        let offset = offset.ok_or_else(|| absent(Column::Offset))?;
        let time = contents
            .timestamp
            .int64(row)
            .map_err(at(Column::Timestamp))?;
        let time = time.ok_or_else(|| absent(Column::Timestamp))?;
        let value = contents.value.get(row).map_err(at(Column::Value))?;
        let value = value.ok_or_else(|| absent(Column::Value))?;
        let key = contents.key.get(row).map_err(at(Column::Key))?;
        let payload = XxHash3_64::oneshot_with_seed(offset.cast_unsigned(), value);
        let seed = payload.wrapping_add(time.cast_unsigned());
        sum = sum.wrapping_add(XxHash3_64::oneshot_with_seed(seed, key.unwrap_or_default()));
    }
    Ok(sum)
}
