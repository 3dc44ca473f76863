//! Index entries and their layout in the index file.
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | offset of the message at the position |
//! | 8..16 | position in the log file; bit 63 marks the end of the messages, bit 62 the first message behind damage |
//! | 16..24 | timestamp of the message before the position, 0 if there is none |
//! | 24..32 | XXH3-64 of the above, of the log generation and of the segment's base offset |
//!
//! An entry is written only after everything in the log before its position is known to be on the device. The last
//! valid entry is therefore a place from which recovery may start, whatever else a crash destroyed.

use alloc::vec::Vec;

use headrace_model::Offset;
use headrace_wire::hash::xxh3_64;

use crate::manifest::Generation;

/// Size of an entry in the file.
pub(crate) const ENTRY_BYTES: usize = 32;
/// Minimum number of log bytes between two entries.
pub(crate) const INTERVAL_BYTES: u64 = 8 * 1024;
/// Minimum number of log bytes between two entries that are loaded for reading.
pub(crate) const COARSE_INTERVAL_BYTES: u64 = 64 * 1024;

const END_BIT: u64 = 1 << 63;
const RESUMED_BIT: u64 = 1 << 62;

/// A known message boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Offset of the message that starts here.
    pub(crate) offset: u64,
    /// Position of this message in the log file.
    pub(crate) position: u64,
    /// Timestamp of the message that ends here. No message before has a later one.
    pub(crate) timestamp: u64,
}

impl Entry {
    /// Boundary at the start of a segment.
    pub(crate) const fn start(base: Offset) -> Self {
        Self {
            offset: base.0,
            position: 0,
            timestamp: 0,
        }
    }
}

/// Meaning of an entry in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A message starts here.
    Boundary,
    /// A message starts here and cannot be reached from the boundary before, because the bytes between them are
    /// damaged.
    Resumed,
    /// The messages ended here when the log was closed or the segment sealed.
    End,
}

/// Codec for the entries of one segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Codec {
    tag: u64,
}

impl Codec {
    pub(crate) fn new(life: Generation, base: Offset) -> Self {
        Self {
            tag: life.checksum_seed(base.0),
        }
    }

    pub(crate) fn encode(self, entry: Entry, kind: Kind, out: &mut Vec<u8>) {
        let mut bytes = [0; ENTRY_BYTES];
        let position = match kind {
            Kind::Boundary => entry.position,
            Kind::Resumed => entry.position | RESUMED_BIT,
            Kind::End => entry.position | END_BIT,
        };
        bytes[..8].copy_from_slice(&entry.offset.to_le_bytes());
        bytes[8..16].copy_from_slice(&position.to_le_bytes());
        bytes[16..24].copy_from_slice(&entry.timestamp.to_le_bytes());
        let checksum = self.checksum(&bytes);
        bytes[24..].copy_from_slice(&checksum.to_le_bytes());
        out.extend_from_slice(&bytes);
    }

    pub(crate) fn decode(self, bytes: &[u8; ENTRY_BYTES]) -> Option<(Entry, Kind)> {
        let field =
            |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        if field(24) != self.checksum(bytes) {
            return None;
        }
        let position = field(8);
        let kind = match position & (END_BIT | RESUMED_BIT) {
            0 => Kind::Boundary,
            RESUMED_BIT => Kind::Resumed,
            END_BIT => Kind::End,
            _ => return None,
        };
        let entry = Entry {
            offset: field(0),
            position: position & !(END_BIT | RESUMED_BIT),
            timestamp: field(16),
        };
        Some((entry, kind))
    }

    fn checksum(self, bytes: &[u8; ENTRY_BYTES]) -> u64 {
        let mut hashed = *bytes;
        hashed[24..].copy_from_slice(&self.tag.to_le_bytes());
        xxh3_64(&hashed)
    }
}

#[cfg(test)]
mod tests {
    use headrace_model::Namespace;
    use proptest::prelude::*;

    use super::*;

    const GENERATION: Generation = Generation {
        incarnation: 1,
        purge_epoch: 0,
        partition: None,
    };

    fn encoded(codec: Codec, entry: Entry, kind: Kind) -> [u8; ENTRY_BYTES] {
        let mut bytes = Vec::new();
        codec.encode(entry, kind, &mut bytes);
        bytes.try_into().expect("one entry")
    }

    proptest! {
        #[test]
        fn an_entry_survives_its_encoding(offset: u64, position in 0..RESUMED_BIT, timestamp: u64, kind in 0..3) {
            let codec = Codec::new(GENERATION, Offset(5));
            let entry = Entry { offset, position, timestamp };
            let kind = [Kind::Boundary, Kind::Resumed, Kind::End][usize::try_from(kind).expect("small")];
            prop_assert_eq!(codec.decode(&encoded(codec, entry, kind)), Some((entry, kind)));
        }

        #[test]
        fn a_changed_entry_is_refused(place in 0..ENTRY_BYTES, mask in 1_u8..) {
            let codec = Codec::new(GENERATION, Offset(5));
            let mut bytes = encoded(codec, Entry::start(Offset(5)), Kind::Boundary);
            bytes[place] ^= mask;
            prop_assert_eq!(codec.decode(&bytes), None);
        }
    }

    /// LOG-14: an index left behind by another partition, an earlier generation or another segment is rejected.
    #[test]
    fn entries_of_other_lives_and_segments_are_refused() {
        let bytes = encoded(
            Codec::new(GENERATION, Offset(5)),
            Entry::start(Offset(5)),
            Kind::End,
        );
        let others = [
            Codec::new(GENERATION, Offset(6)),
            Codec::new(
                Generation {
                    incarnation: 2,
                    ..GENERATION
                },
                Offset(5),
            ),
            Codec::new(
                Generation {
                    purge_epoch: 1,
                    ..GENERATION
                },
                Offset(5),
            ),
            Codec::new(
                Generation {
                    partition: Namespace::from_packed(3),
                    ..GENERATION
                },
                Offset(5),
            ),
        ];
        assert!(others.iter().all(|codec| codec.decode(&bytes).is_none()));
    }
}
