//! Records of the file of stored offsets.
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | stored offset, or id of a user |
//! | 8..12 | consumer key or group id |
//! | 12 | 1 consumer, 2 group |
//! | 13 | 1 stored, 2 deleted, 3 owner: the stored offsets behind this record belong to the user |
//! | 14..16 | 0 |
//! | 16..24 | XXH3-64 of the above and of the log generation |
//!
//! A consumer without an owner record has no owner: earlier versions wrote none. They pass over such records as
//! damaged ones, and so read the same offsets.

use alloc::vec::Vec;

use headrace_model::UserId;
use headrace_wire::hash::xxh3_64;

use crate::api::ConsumerKey;

/// Seed of the checksums of stored offsets, which distinguishes them from those of index files.
pub(crate) const OFFSETS_SALT: u64 = u64::MAX;
/// Size of a record in bytes.
pub(crate) const RECORD_BYTES: usize = 24;

/// A record. A later one of the same consumer supersedes earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) consumer: ConsumerKey,
    pub(crate) content: Content,
}

/// Content of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// The offset was stored.
    Stored(u64),
    /// The stored offset was deleted, and has no owner.
    Deleted,
    /// The stored offset belongs to this user.
    Owner(UserId),
}

impl Record {
    pub(crate) fn encode(self, tag: u64, out: &mut Vec<u8>) {
        let (kind, id) = match self.consumer {
            ConsumerKey::Consumer(id) => (1, id),
            ConsumerKey::Group(id) => (2, id),
        };
        let (state, value) = match self.content {
            Content::Stored(offset) => (1, offset),
            Content::Deleted => (2, 0),
            Content::Owner(user) => (3, u64::from(user.0)),
        };
        let mut bytes = [0; RECORD_BYTES];
        bytes[..8].copy_from_slice(&value.to_le_bytes());
        bytes[8..12].copy_from_slice(&id.to_le_bytes());
        bytes[12] = kind;
        bytes[13] = state;
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
        let content = match bytes[13] {
            1 => Content::Stored(word(0)),
            2 => Content::Deleted,
            3 => Content::Owner(UserId(u32::try_from(word(0)).ok()?)),
            _ => return None,
        };
        Some(Self { consumer, content })
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

    fn contents() -> impl Strategy<Value = Content> {
        prop_oneof![
            any::<u64>().prop_map(Content::Stored),
            Just(Content::Deleted),
            any::<u32>().prop_map(|user| Content::Owner(UserId(user)))
        ]
    }

    proptest! {
        /// LOG-10: records survive their encoding; damaged records and those of another generation are rejected.
        #[test]
        fn only_an_intact_record_of_this_life_is_read(
            consumer in consumers(), content in contents(), tag: u64, place in 0..RECORD_BYTES, mask in 1_u8..,
        ) {
            let record = Record { consumer, content };
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
