//! File `transactions`: progress of publications.
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | `hdrtrans` |
//! | 8..12 | format version, 1 |
//! | 12..16 | `u32` 1 if an intent follows, 0 if not |
//! | 16..24 | incarnation of the partition |
//! | 24..32 | number of the last complete publication |
//! | ... | intent: number, offset of its first message, number of messages, purge epoch, `u32` number of stages, their ids |
//! | last 8 | XXH3-64 of the above |

use alloc::vec::Vec;

use headrace_model::{Offset, StageId};
use headrace_wire::hash::xxh3_64;

use super::file::{u32_at, u64_at};

const MAGIC: &[u8; 8] = b"hdrtrans";
const VERSION: u32 = 1;
const FIXED_BYTES: usize = 32;
const INTENT_BYTES: usize = 36;
const CHECKSUM_BYTES: usize = 8;
/// Maximum size of a record; longer files are damaged.
pub(super) const RECORD_BYTES_MAX: u64 = 16 << 20;

/// Intent of a publication: the messages to be appended, and their place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Intent {
    pub(super) number: u64,
    pub(super) base: Offset,
    pub(super) messages: u64,
    pub(super) purge_epoch: u64,
    pub(super) stages: Vec<StageId>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// Number of the last complete publication.
    pub(super) applied: u64,
    pub(super) intent: Option<Intent>,
}

/// Reason why bytes are not a valid record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoRecord {
    /// The record is another partition's.
    Foreign,
    Damaged,
}

impl Record {
    pub(super) fn encode(&self, incarnation: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&u32::from(self.intent.is_some()).to_le_bytes());
        for field in [incarnation, self.applied] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        if let Some(intent) = &self.intent {
            for field in [
                intent.number,
                intent.base.0,
                intent.messages,
                intent.purge_epoch,
            ] {
                bytes.extend_from_slice(&field.to_le_bytes());
            }
            let count = u32::try_from(intent.stages.len()).expect("stages are limited");
            bytes.extend_from_slice(&count.to_le_bytes());
            for stage in &intent.stages {
                bytes.extend_from_slice(&stage.0.to_le_bytes());
            }
        }
        let checksum = xxh3_64(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8], incarnation: u64) -> Result<Self, NoRecord> {
        let length = bytes.len().checked_sub(CHECKSUM_BYTES);
        let (fields, checksum) = bytes.split_at(length.ok_or(NoRecord::Damaged)?);
        let is_whole = fields.len() >= FIXED_BYTES
            && fields[..8] == *MAGIC
            && xxh3_64(fields) == u64_at(checksum, 0);
        if !is_whole || u32_at(fields, 8) != VERSION {
            return Err(NoRecord::Damaged);
        }
        if u64_at(fields, 16) != incarnation {
            return Err(NoRecord::Foreign);
        }
        let rest = &fields[FIXED_BYTES..];
        let intent = match (u32_at(fields, 12), rest.len()) {
            (0, 0) => None,
            (1, INTENT_BYTES..) => Some(decode_intent(rest).ok_or(NoRecord::Damaged)?),
            _ => return Err(NoRecord::Damaged),
        };
        Ok(Self {
            applied: u64_at(fields, 24),
            intent,
        })
    }
}

fn decode_intent(bytes: &[u8]) -> Option<Intent> {
    let (ids, rest) = bytes[INTENT_BYTES..].as_chunks::<16>();
    if !rest.is_empty() || ids.len() != u32_at(bytes, 32) as usize {
        return None;
    }
    Some(Intent {
        number: u64_at(bytes, 0),
        base: Offset(u64_at(bytes, 8)),
        messages: u64_at(bytes, 16),
        purge_epoch: u64_at(bytes, 24),
        stages: ids
            .iter()
            .map(|id| StageId(u128::from_le_bytes(*id)))
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn intents() -> impl Strategy<Value = Intent> {
        let stages = prop::collection::vec(any::<u128>().prop_map(StageId), 0..4);
        (any::<[u64; 4]>(), stages).prop_map(|(numbers, stages)| Intent {
            number: numbers[0],
            base: Offset(numbers[1]),
            messages: numbers[2],
            purge_epoch: numbers[3],
            stages,
        })
    }

    proptest! {
        #[test]
        fn a_record_survives_its_encoding_and_damage_is_noticed(
            applied: u64,
            intent in prop::option::of(intents()),
            incarnation: u64,
            place: prop::sample::Index,
            mask in 1_u8..,
        ) {
            let record = Record { applied, intent };
            let mut bytes = record.encode(incarnation);
            prop_assert_eq!(Record::decode(&bytes, incarnation), Ok(record));
            prop_assert_eq!(Record::decode(&bytes, incarnation ^ 1), Err(NoRecord::Foreign));
            let place = place.index(bytes.len());
            prop_assert_eq!(Record::decode(&bytes[..place], incarnation), Err(NoRecord::Damaged));
            bytes[place] ^= mask;
            prop_assert_eq!(Record::decode(&bytes, incarnation), Err(NoRecord::Damaged));
        }
    }
}
