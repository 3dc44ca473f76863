//! One number for what messages hold, which does not depend on how they are cut into batches or files.
//!
//! Digests of parts add up, modulo 2^64, to that of the whole: two copies of a range agree whatever the pieces are in which
//! they are kept. It finds accidents, not attacks.

use twox_hash::XxHash3_64;

use crate::Column;
use crate::input::{Binary, Numbers, OutOfBounds};

/// Columns of messages that a digest is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contents<'a> {
    /// How many messages there are.
    pub count: usize,
    /// Offsets, 64 bits.
    pub offset: Numbers<'a>,
    /// Times at which they were appended, 64 bits, microseconds since the Unix epoch.
    pub timestamp: Numbers<'a>,
    /// Keys; a message without one counts as one with an empty key.
    pub key: Binary<'a>,
    /// Payloads.
    pub value: Binary<'a>,
}

/// A message lacks something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("row {row}, column {}: it is null, or its buffers do not hold it", .column.name())]
pub struct DigestError {
    /// Which row.
    pub row: usize,
    /// Which of its columns.
    pub column: Column,
}

/// The sum of XXH3-64 over the key of each message, seeded with its time added to XXH3-64 over its payload, which is
/// seeded with its offset. Everything is modulo 2^64.
///
/// # Errors
///
/// A message has no offset, time or payload, or buffers end too early.
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
