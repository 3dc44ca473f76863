//! Stamping: the single pass over a batch that sets offset, timestamp, id, checksum and index entries.

use alloc::vec::Vec;

use fastrand::Rng;
use headrace_wire::message::{CHECKSUM_BYTES, HEADER_BYTES, HeaderMut, checksum};

use crate::entry::{Entry, INTERVAL_BYTES};
use crate::manifest::KnownMessage;
use crate::walk::is_plausible;

/// The batch is malformed: counts and lengths disagree, or a field is out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MalformedBatch;

/// Values that are set in the messages of one batch.
pub(crate) struct Stamp<'a> {
    /// Offset of the first message.
    pub(crate) base_offset: u64,
    /// Position of the first message in the log file.
    pub(crate) position: u64,
    /// Server timestamp of all messages.
    pub(crate) timestamp: u64,
    /// Timestamp of the message before, for the index.
    pub(crate) timestamp_before: u64,
    /// Position of the last index entry.
    pub(crate) entry_position: u64,
    /// Source of message ids if the client sent none.
    pub(crate) random: &'a mut Rng,
    /// Index entries; one is pushed about every [`INTERVAL_BYTES`].
    pub(crate) entries: &'a mut Vec<Entry>,
}

impl Stamp<'_> {
    /// Make `messages`, packed back to back, the next `count` messages of the log.
    ///
    /// After an error some messages may be stamped and some entries pushed: the caller drops both.
    /// Returns the last message.
    pub(crate) fn apply(
        mut self,
        messages: &mut [u8],
        count: u32,
    ) -> Result<KnownMessage, MalformedBatch> {
        let mut last = KnownMessage {
            position: self.position,
            checksum: 0,
        };
        let mut offset = self.base_offset;
        let mut position = self.position;
        let mut rest = messages;
        while let Some(header) = rest.first_chunk_mut::<HEADER_BYTES>() {
            let mut header = HeaderMut(header);
            if !is_plausible(header.view()) {
                return Err(MalformedBatch);
            }
            let length = header.view().message_bytes();
            header.set_offset(offset);
            header.set_timestamp(self.timestamp);
            if header.view().id() == 0 {
                header.set_id(random_id(self.random));
            }
            let end = usize::try_from(length).map_err(|_| MalformedBatch)?;
            let (message, following) = rest.split_at_mut_checked(end).ok_or(MalformedBatch)?;
            let (stored, covered) = message.split_at_mut(CHECKSUM_BYTES);
            let checksum = checksum(covered);
            stored.copy_from_slice(&checksum.to_le_bytes());
            last = KnownMessage { position, checksum };
            if position - self.entry_position >= INTERVAL_BYTES {
                self.entry_position = position;
                self.entries.push(Entry {
                    offset,
                    position,
                    timestamp: self.timestamp_before,
                });
            }
            self.timestamp_before = self.timestamp;
            position += length;
            offset += 1;
            rest = following;
        }
        if rest.is_empty() && count != 0 && offset - self.base_offset == u64::from(count) {
            Ok(last)
        } else {
            Err(MalformedBatch)
        }
    }
}

/// Random UUID (version 4) as the number whose little-endian bytes are the UUID's bytes in their usual order.
fn random_id(random: &mut Rng) -> u128 {
    let mut bytes = random.u128(..).to_le_bytes();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    u128::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use headrace_wire::message::{HeaderView, Messages};

    use super::*;

    fn message(id: u128, payload: &[u8]) -> Vec<u8> {
        let mut header = [0; HEADER_BYTES];
        let mut fields = HeaderMut(&mut header);
        fields.set_id(id);
        fields.set_origin_timestamp(99);
        fields.set_payload_length(u32::try_from(payload.len()).expect("short"));
        let mut bytes = header.to_vec();
        bytes.extend_from_slice(payload);
        bytes
    }

    fn stamp(
        messages: &mut [u8],
        count: u32,
    ) -> (Result<KnownMessage, MalformedBatch>, Vec<Entry>) {
        let mut entries = Vec::new();
        let stamp = Stamp {
            base_offset: 10,
            position: 1000,
            timestamp: 5000,
            timestamp_before: 4000,
            entry_position: 0,
            random: &mut Rng::with_seed(1),
            entries: &mut entries,
        };
        (stamp.apply(messages, count), entries)
    }

    /// LOG-3: fields set by the server, and fields left unchanged.
    #[test]
    fn a_batch_gets_dense_offsets_one_timestamp_and_checksums() {
        let mut batch = [message(7, b"one"), message(0, b"")].concat();
        stamp(&mut batch, 2).0.expect("well-formed");
        let messages: Vec<_> = Messages::new(&batch).map(|m| m.expect("whole")).collect();
        for (index, message) in messages.iter().enumerate() {
            assert_eq!(message.header().offset(), 10 + index as u64);
            assert_eq!(message.header().timestamp(), 5000);
            assert_eq!(message.header().origin_timestamp(), 99);
            assert!(message.checksum_matches());
        }
        assert_eq!(messages[0].header().id(), 7);
        let id = messages[1].header().id().to_le_bytes();
        assert_eq!((id[6] >> 4, id[8] >> 6), (4, 2), "a version 4 UUID");
    }

    /// Example of the protocol reference, section 8: message 0 stored at offset 0.
    #[test]
    fn the_checksum_is_that_of_the_published_example() {
        let mut bytes = message(1, b"hi\x02\x01\0\0\0\x6b\x0b\x04\0\0\0\x07\0\0\0");
        let header = bytes.first_chunk_mut::<HEADER_BYTES>().expect("a header");
        let mut header = HeaderMut(header);
        header.set_origin_timestamp(1_700_000_000_000_000);
        header.set_payload_length(2);
        header.set_user_headers_length(15);
        let stamp = Stamp {
            base_offset: 0,
            position: 0,
            timestamp: 1_700_000_001_000_000,
            timestamp_before: 0,
            entry_position: 0,
            random: &mut Rng::with_seed(1),
            entries: &mut Vec::new(),
        };
        stamp.apply(&mut bytes, 1).expect("well-formed");
        assert_eq!(bytes[..8], [0x01, 0xa0, 0x7a, 0x02, 0x2f, 0x25, 0x99, 0x31]);
    }

    /// LOG-2: entries are sparse and have the timestamp of the message before them.
    #[test]
    fn entries_come_about_every_eight_kibibytes() {
        let mut batch = message(1, &[0; 936]).repeat(20);
        let (result, entries) = stamp(&mut batch, 20);
        result.expect("well-formed");
        let first = Entry {
            offset: 18,
            position: 9000,
            timestamp: 5000,
        };
        let second = Entry {
            offset: 27,
            position: 18_000,
            timestamp: 5000,
        };
        assert_eq!(entries, [first, second]);
    }

    #[test]
    fn what_disagrees_with_itself_is_refused() {
        let good = [message(1, b"abc"), message(2, b"")].concat();
        assert!(stamp(&mut good.clone(), 1).0.is_err());
        assert!(stamp(&mut good.clone(), 3).0.is_err());
        assert!(stamp(&mut [], 0).0.is_err());
        for cut in 1..good.len() {
            assert!(stamp(&mut good[..cut].to_vec(), 2).0.is_err());
        }
        let mut reserved = good.clone();
        reserved[56] = 1;
        assert!(stamp(&mut reserved, 2).0.is_err());
        let mut long = good;
        long[52..56].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(stamp(&mut long, 2).0.is_err());
    }

    #[test]
    fn random_ids_differ() {
        let mut batch = message(0, b"").repeat(100);
        stamp(&mut batch, 100).0.expect("well-formed");
        let ids: alloc::collections::BTreeSet<u128> = batch
            .chunks_exact(64)
            .map(|bytes| HeaderView(bytes.try_into().expect("64")).id())
            .collect();
        assert_eq!(ids.len(), 100);
    }
}
