//! File `transactions`: progress of publications.
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | `hdrtrans` |
//! | 8..12 | format version, 2; 1 if no intent follows |
//! | 12..16 | `u32` 1 if an intent follows, 0 if not |
//! | 16..24 | incarnation of the partition |
//! | 24..32 | number of the last complete publication |
//! | ... | intent: number, offset of its first message, number of messages, purge epoch, `u32` number of stages; of each, its id, number of messages, `u32` 1 if it is damaged |
//! | last 8 | XXH3-64 of the above |
//!
//! In version 1 an intent has only the ids of its stages.

use alloc::vec::Vec;

use headrace_model::{Offset, StageId};
use headrace_wire::hash::xxh3_64;

use super::file::{u32_at, u64_at};

const MAGIC: &[u8; 8] = b"hdrtrans";
const VERSION: u32 = 2;
/// Version without the messages of each stage. Records without an intent are still written like this, so that an
/// earlier release reads them.
const VERSION_OF_IDS: u32 = 1;
const FIXED_BYTES: usize = 32;
const INTENT_BYTES: usize = 36;
const PART_BYTES: usize = 28;
const CHECKSUM_BYTES: usize = 8;
/// Maximum size of a record; longer files are damaged.
pub(super) const RECORD_BYTES_MAX: u64 = 16 << 20;

/// Part of a publication: the messages of one stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) stage: StageId,
    /// Number of messages to be appended, or appended, if it is known.
    pub(super) messages: Option<u64>,
    /// True if not all messages of the stage can be read.
    pub(super) is_damaged: bool,
}

/// Intent of a publication: the messages to be appended, and their place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Intent {
    pub(super) number: u64,
    pub(super) base: Offset,
    pub(super) messages: u64,
    pub(super) purge_epoch: u64,
    pub(super) parts: Vec<Part>,
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
        let version = match self.intent {
            Some(_) => VERSION,
            None => VERSION_OF_IDS,
        };
        bytes.extend_from_slice(&version.to_le_bytes());
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
            let count = u32::try_from(intent.parts.len()).expect("stages are limited");
            bytes.extend_from_slice(&count.to_le_bytes());
            for part in &intent.parts {
                bytes.extend_from_slice(&part.stage.0.to_le_bytes());
                bytes.extend_from_slice(&part.messages.unwrap_or(0).to_le_bytes());
                bytes.extend_from_slice(&u32::from(part.is_damaged).to_le_bytes());
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
        if !is_whole {
            return Err(NoRecord::Damaged);
        }
        let decode_parts: fn(&[u8]) -> Option<Vec<Part>> = match u32_at(fields, 8) {
            VERSION => decode_parts,
            VERSION_OF_IDS => decode_ids,
            _ => return Err(NoRecord::Damaged),
        };
        if u64_at(fields, 16) != incarnation {
            return Err(NoRecord::Foreign);
        }
        let rest = &fields[FIXED_BYTES..];
        let intent = match (u32_at(fields, 12), rest.len()) {
            (0, 0) => None,
            (1, INTENT_BYTES..) => {
                Some(decode_intent(rest, decode_parts).ok_or(NoRecord::Damaged)?)
            }
            _ => return Err(NoRecord::Damaged),
        };
        Ok(Self {
            applied: u64_at(fields, 24),
            intent,
        })
    }
}

fn decode_intent(
    bytes: &[u8],
    decode_parts: impl Fn(&[u8]) -> Option<Vec<Part>>,
) -> Option<Intent> {
    let parts = decode_parts(&bytes[INTENT_BYTES..])?;
    (parts.len() == u32_at(bytes, 32) as usize).then(|| Intent {
        number: u64_at(bytes, 0),
        base: Offset(u64_at(bytes, 8)),
        messages: u64_at(bytes, 16),
        purge_epoch: u64_at(bytes, 24),
        parts,
    })
}

fn decode_parts(bytes: &[u8]) -> Option<Vec<Part>> {
    let (parts, rest) = bytes.as_chunks::<PART_BYTES>();
    let part = |bytes: &[u8; PART_BYTES]| {
        let (id, _) = bytes.split_first_chunk::<16>()?;
        Some(Part {
            stage: StageId(u128::from_le_bytes(*id)),
            messages: Some(u64_at(bytes, 16)),
            is_damaged: u32_at(bytes, 24) != 0,
        })
    };
    let parts = parts.iter().map(part).collect::<Option<Vec<_>>>();
    parts.filter(|_| rest.is_empty())
}

fn decode_ids(bytes: &[u8]) -> Option<Vec<Part>> {
    let (ids, rest) = bytes.as_chunks::<16>();
    let part = |id: &[u8; 16]| Part {
        stage: StageId(u128::from_le_bytes(*id)),
        messages: None,
        is_damaged: false,
    };
    rest.is_empty().then(|| ids.iter().map(part).collect())
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;

    fn intents() -> impl Strategy<Value = Intent> {
        let part = any::<(u128, u64, bool)>().prop_map(|(id, messages, is_damaged)| Part {
            stage: StageId(id),
            messages: Some(messages),
            is_damaged,
        });
        let parts = prop::collection::vec(part, 0..4);
        (any::<[u64; 4]>(), parts).prop_map(|(numbers, parts)| Intent {
            number: numbers[0],
            base: Offset(numbers[1]),
            messages: numbers[2],
            purge_epoch: numbers[3],
            parts,
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
    /// A record of version 1, as earlier releases wrote it: the ids of the stages, without their messages.
    #[test]
    fn an_intent_of_the_first_version_is_read() {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&1_u32.to_le_bytes());
        bytes.extend_from_slice(&1_u32.to_le_bytes());
        for field in [77_u64, 4, 5, 100, 30, 2] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        bytes.extend_from_slice(&2_u32.to_le_bytes());
        for id in [8_u128, 9] {
            bytes.extend_from_slice(&id.to_le_bytes());
        }
        let checksum = xxh3_64(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        let part = |id| Part {
            stage: StageId(id),
            messages: None,
            is_damaged: false,
        };
        let record = Record {
            applied: 4,
            intent: Some(Intent {
                number: 5,
                base: Offset(100),
                messages: 30,
                purge_epoch: 2,
                parts: vec![part(8), part(9)],
            }),
        };
        assert_eq!(Record::decode(&bytes, 77), Ok(record));
    }
}
