//! Records of the file of stored offsets.
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | stored offset |
//! | 8..12 | consumer key or group id |
//! | 12 | 1 consumer, 2 group |
//! | 13 | 1 stored, 2 deleted |
//! | 14..16 | 0 |
//! | 16..24 | XXH3-64 of the above and of the log generation |

use alloc::vec::Vec;

use headrace_wire::hash::xxh3_64;

use crate::api::ConsumerKey;

/// Size of a record in bytes.
pub(crate) const RECORD_BYTES: usize = 24;

/// Change of a stored offset. A later record of the same consumer supersedes earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) consumer: ConsumerKey,
    /// New offset. None if the stored offset was deleted.
    pub(crate) offset: Option<u64>,
}

impl Record {
    pub(crate) fn encode(self, tag: u64, out: &mut Vec<u8>) {
        let (kind, id) = match self.consumer {
            ConsumerKey::Consumer(id) => (1, id),
            ConsumerKey::Group(id) => (2, id),
        };
        let mut bytes = [0; RECORD_BYTES];
        bytes[..8].copy_from_slice(&self.offset.unwrap_or(0).to_le_bytes());
        bytes[8..12].copy_from_slice(&id.to_le_bytes());
        bytes[12] = kind;
        bytes[13] = if self.offset.is_some() { 1 } else { 2 };
        let checksum = checksum(&bytes, tag);
        bytes[16..].copy_from_slice(&checksum.to_le_bytes());
        out.extend_from_slice(&bytes);
    }

    pub(crate) fn decode(bytes: &[u8; RECORD_BYTES], tag: u64) -> Option<Self> {
        let word =
            |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        if word(16) != checksum(bytes, tag) {
            return None;
        }
        let id = u32::from_le_bytes(bytes[8..12].try_into().expect("four bytes"));
        let consumer = match bytes[12] {
            1 => ConsumerKey::Consumer(id),
            2 => ConsumerKey::Group(id),
            _ => return None,
        };
        let offset = match bytes[13] {
            1 => Some(word(0)),
            2 => None,
            _ => return None,
        };
        Some(Self { consumer, offset })
    }
}

fn checksum(bytes: &[u8; RECORD_BYTES], tag: u64) -> u64 {
    let mut hashed = *bytes;
    hashed[16..].copy_from_slice(&tag.to_le_bytes());
    xxh3_64(&hashed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn consumers() -> impl Strategy<Value = ConsumerKey> {
        prop_oneof![
            any::<u32>().prop_map(ConsumerKey::Consumer),
            any::<u32>().prop_map(ConsumerKey::Group)
        ]
    }

    proptest! {
        /// LOG-10: records survive their encoding; damaged records and those of another generation are rejected.
        #[test]
        fn only_an_intact_record_of_this_life_is_read(
            consumer in consumers(), offset: Option<u64>, tag: u64, place in 0..RECORD_BYTES, mask in 1_u8..,
        ) {
            let record = Record { consumer, offset };
            let mut bytes = Vec::new();
            record.encode(tag, &mut bytes);
            let mut bytes: [u8; RECORD_BYTES] = bytes.try_into().expect("one record");
            prop_assert_eq!(Record::decode(&bytes, tag), Some(record));
            prop_assert_eq!(Record::decode(&bytes, tag.wrapping_add(1)), None);
            bytes[place] ^= mask;
            prop_assert_eq!(Record::decode(&bytes, tag), None);
        }
    }
}
