//! Each documented status, the order of the checks, and agreement with a slow model.

use alloc::vec;
use alloc::vec::Vec;

use proptest::collection;
use proptest::prelude::*;

use super::*;
use crate::batch::BatchBuilder;
use crate::message::{HeaderMut, Messages};

/// Index block and message block that a test can damage.
#[derive(Debug, Clone)]
struct Blocks {
    indexes: Vec<u8>,
    messages: Vec<u8>,
    count: u32,
}

impl Blocks {
    fn new(messages: &[(&[u8], &[u8])]) -> Self {
        let mut builder = BatchBuilder::new();
        for (payload, user_headers) in messages {
            builder.push(1, 2, payload, user_headers).expect("fits");
        }
        let send = builder.request(0.into(), 0.into(), crate::Partitioning::Balanced);
        Self {
            indexes: send.indexes.to_vec(),
            messages: send.messages.to_vec(),
            count: send.messages_count,
        }
    }

    /// Three messages of 65, 67 and 64 bytes.
    fn three() -> Self {
        Self::new(&[(b"a", b""), (b"bb", b"c"), (b"", b"")])
    }

    fn validate(&self) -> Result<(), Status> {
        validate(&self.indexes, &self.messages, self.count)
    }

    fn set_index(&mut self, entry: usize, field: core::ops::Range<usize>, value: u64) {
        let width = field.len();
        let start = entry * INDEX_BYTES + field.start;
        self.indexes[start..start + width].copy_from_slice(&value.to_le_bytes()[..width]);
    }

    fn set_position(&mut self, entry: usize, position: u64) {
        self.set_index(entry, 4..8, position);
    }

    fn header(&mut self, start: usize) -> HeaderMut<'_> {
        HeaderMut(self.messages[start..].first_chunk_mut().expect("a header"))
    }
}

#[test]
fn a_sound_batch_is_accepted() {
    assert_eq!(Blocks::three().validate(), Ok(()));
    assert_eq!(Blocks::new(&[(b"", b"")]).validate(), Ok(()));
}

#[test]
fn no_messages_are_4009() {
    assert_eq!(validate(&[], &[], 0), Err(Status(4009)));
    // The count is checked first.
    assert_eq!(validate(&[1; 16], &[1; 64], 0), Err(Status(4009)));
}

#[test]
fn an_offset_in_the_index_is_4031() {
    for entry in 0..3 {
        let mut blocks = Blocks::three();
        blocks.set_index(entry, 0..4, 1);
        assert_eq!(blocks.validate(), Err(Status(4031)));
        // Checked before the timestamp of the same entry.
        blocks.set_index(entry, 8..16, 1);
        assert_eq!(blocks.validate(), Err(Status(4031)));
    }
}

#[test]
fn a_timestamp_in_the_index_is_4032() {
    for entry in 0..3 {
        let mut blocks = Blocks::three();
        blocks.set_index(entry, 8..16, 1 << 63);
        assert_eq!(blocks.validate(), Err(Status(4032)));
        // Checked before the position of the same entry.
        blocks.set_position(entry, 1_000_000);
        assert_eq!(blocks.validate(), Err(Status(4032)));
    }
}

#[test]
fn positions_that_delimit_no_message_are_4033() {
    let damaged = |damage: fn(&mut Blocks)| {
        let mut blocks = Blocks::three();
        damage(&mut blocks);
        blocks.validate()
    };
    let beyond_the_block = damaged(|blocks| blocks.set_position(1, 1_000_000));
    let backwards = damaged(|blocks| blocks.set_position(1, 64));
    let shorter_than_a_header = damaged(|blocks| blocks.set_position(0, 63));
    let empty = damaged(|blocks| blocks.set_position(0, 0));
    let cut_by_the_slice = damaged(|blocks| blocks.set_position(0, 64));
    let payload_beyond_the_slice = damaged(|blocks| blocks.header(0).set_payload_length(2));
    let headers_beyond_the_slice = damaged(|blocks| blocks.header(0).set_user_headers_length(1));
    let lengths_that_would_wrap = damaged(|blocks| {
        blocks.header(0).set_payload_length(u32::MAX);
        blocks.header(0).set_user_headers_length(u32::MAX);
    });
    let last_cut_by_the_block = damaged(|blocks| {
        blocks.messages.pop();
    });
    for result in [
        beyond_the_block,
        backwards,
        shorter_than_a_header,
        empty,
        cut_by_the_slice,
        payload_beyond_the_slice,
        headers_beyond_the_slice,
        lengths_that_would_wrap,
        last_cut_by_the_block,
    ] {
        assert_eq!(result, Err(Status(4033)));
    }
    assert_eq!(validate(&[0; 16], &[], 1), Err(Status(4033)));
}

#[test]
fn payloads_are_limited_to_64_million_bytes_by_4022() {
    let limit = PAYLOAD_SIZE_BYTES_MAX as usize;
    let mut blocks = Blocks {
        indexes: vec![0; INDEX_BYTES],
        messages: vec![0; HEADER_BYTES + limit + 1],
        count: 1,
    };
    blocks
        .header(0)
        .set_payload_length(PAYLOAD_SIZE_BYTES_MAX + 1);
    assert_eq!(blocks.validate(), Err(Status(4022)));
    blocks.messages.pop();
    blocks.header(0).set_payload_length(PAYLOAD_SIZE_BYTES_MAX);
    assert_eq!(blocks.validate(), Ok(()));
    // The header lengths reach beyond the slice, which is checked first.
    blocks
        .header(0)
        .set_payload_length(PAYLOAD_SIZE_BYTES_MAX + 1);
    assert_eq!(blocks.validate(), Err(Status(4033)));
}

#[test]
fn user_headers_are_limited_to_100_thousand_bytes_by_4017() {
    let limit = USER_HEADERS_SIZE_BYTES_MAX as usize;
    let mut blocks = Blocks::new(&[(b"x", &vec![0; limit])]);
    assert_eq!(blocks.validate(), Ok(()));
    blocks.messages.push(0);
    blocks
        .header(0)
        .set_user_headers_length(USER_HEADERS_SIZE_BYTES_MAX + 1);
    assert_eq!(blocks.validate(), Err(Status(4017)));
}

#[test]
fn decreasing_offsets_are_4100() {
    let mut blocks = Blocks::three();
    blocks.header(0).set_offset(5);
    blocks.header(65).set_offset(5);
    blocks.header(132).set_offset(6);
    assert_eq!(blocks.validate(), Ok(()));
    blocks.header(132).set_offset(4);
    assert_eq!(blocks.validate(), Err(Status(4100)));
    // Checked before the position of the same message.
    blocks.set_position(2, 0);
    assert_eq!(blocks.validate(), Err(Status(4100)));
}

#[test]
fn a_last_position_that_decreases_is_10011() {
    let mut blocks = Blocks::three();
    blocks.set_position(2, 131);
    assert_eq!(blocks.validate(), Err(Status(10011)));
    // Checked before the reserved field of the same message.
    blocks.header(132).set_reserved(1);
    assert_eq!(blocks.validate(), Err(Status(10011)));
    // Other values of the last position are ignored: the end of the block is used instead.
    blocks.header(132).set_reserved(0);
    for position in [132, 195, 197, u64::from(u32::MAX)] {
        blocks.set_position(2, position);
        assert_eq!(blocks.validate(), Ok(()));
    }
}

#[test]
fn a_reserved_field_is_4101() {
    for start in [0, 65, 132] {
        let mut blocks = Blocks::three();
        blocks.header(start).set_reserved(1 << 63);
        assert_eq!(blocks.validate(), Err(Status(4101)));
    }
}

#[test]
fn messages_smaller_than_the_block_are_4036() {
    let mut trailing = Blocks::three();
    trailing.messages.push(0);
    assert_eq!(trailing.validate(), Err(Status(4036)));
    let mut gap = Blocks::three();
    gap.header(0).set_payload_length(0);
    assert_eq!(gap.validate(), Err(Status(4036)));
}

#[test]
fn an_index_block_of_another_size_is_4035() {
    let blocks = Blocks::three();
    assert_eq!(
        validate(&blocks.indexes, &blocks.messages, 2),
        Err(Status(4035))
    );
    assert_eq!(
        validate(&blocks.indexes, &blocks.messages, u32::MAX),
        Err(Status(4035))
    );
    assert_eq!(
        validate(&blocks.indexes[..47], &blocks.messages, 3),
        Err(Status(4035))
    );
    assert_eq!(
        validate(&blocks.indexes[..47], &blocks.messages, 2),
        Err(Status(4035))
    );
    assert_eq!(validate(&[], &blocks.messages, 1), Err(Status(4035)));
}

/// Reference model: the documented rules one after another, over signed numbers that cannot wrap.
fn model(indexes: &[u8], messages: &[u8], count: u32) -> Result<(), Status> {
    let number = |bytes: &[u8], start: usize, width: usize| -> i128 {
        bytes[start..start + width]
            .iter()
            .rev()
            .fold(0, |number, &byte| number * 256 + i128::from(byte))
    };
    let block = i128::try_from(messages.len()).expect("fits");
    let count = count as usize;
    if count == 0 {
        return Err(Status(4009));
    }
    let mut sum = 0;
    let mut offset_before = 0;
    for i in 0..count {
        let entry = &indexes[i * 16..(i + 1) * 16];
        if number(entry, 0, 4) != 0 {
            return Err(Status(4031));
        }
        if number(entry, 8, 8) != 0 {
            return Err(Status(4032));
        }
        let before = if i == 0 {
            0
        } else {
            number(indexes, (i - 1) * 16 + 4, 4)
        };
        let position = number(entry, 4, 4);
        let end = if i + 1 == count { block } else { position };
        if before > end || end > block || end - before < 64 {
            return Err(Status(4033));
        }
        let start = usize::try_from(before).expect("within the block");
        let user_headers = number(messages, start + 48, 4);
        let payload = number(messages, start + 52, 4);
        let size = 64 + payload + user_headers;
        if size > end - before {
            return Err(Status(4033));
        }
        if payload > 64_000_000 {
            return Err(Status(4022));
        }
        if user_headers > 100_000 {
            return Err(Status(4017));
        }
        let offset = number(messages, start + 24, 8);
        if offset < offset_before {
            return Err(Status(4100));
        }
        if position < before {
            return Err(Status(10011));
        }
        if number(messages, start + 56, 8) != 0 {
            return Err(Status(4101));
        }
        offset_before = offset;
        sum += size;
    }
    if sum == block {
        Ok(())
    } else {
        Err(Status(4036))
    }
}

/// Change of one field of a batch.
#[derive(Debug, Clone)]
enum Damage {
    IndexByte {
        place: prop::sample::Index,
        byte: u8,
    },
    Position {
        entry: prop::sample::Index,
        shift: i8,
    },
    HeaderByte {
        message: prop::sample::Index,
        place: usize,
        byte: u8,
    },
    MessageByte {
        place: prop::sample::Index,
        byte: u8,
    },
    Truncate {
        bytes: usize,
    },
    Extend {
        bytes: usize,
    },
}

fn damage() -> impl Strategy<Value = Damage> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        (index(), any::<u8>()).prop_map(|(place, byte)| Damage::IndexByte { place, byte }),
        (index(), any::<i8>()).prop_map(|(entry, shift)| Damage::Position { entry, shift }),
        // Fields that validation reads, most often with small values.
        (index(), 24_usize..64, prop_oneof![0_u8..4, any::<u8>()]).prop_map(
            |(message, place, byte)| Damage::HeaderByte {
                message,
                place,
                byte
            }
        ),
        (index(), any::<u8>()).prop_map(|(place, byte)| Damage::MessageByte { place, byte }),
        (0_usize..200).prop_map(|bytes| Damage::Truncate { bytes }),
        (0_usize..200).prop_map(|bytes| Damage::Extend { bytes }),
    ]
}

fn inflict(blocks: &mut Blocks, damage: &Damage) {
    let count = blocks.count as usize;
    match damage {
        Damage::IndexByte { place, byte } => {
            let place = place.index(blocks.indexes.len());
            blocks.indexes[place] = *byte;
        }
        Damage::Position { entry, shift } => {
            let start = entry.index(count) * INDEX_BYTES + 4;
            let field = blocks.indexes[start..]
                .first_chunk_mut::<4>()
                .expect("there");
            let position = u32::from_le_bytes(*field).wrapping_add_signed(i32::from(*shift));
            *field = position.to_le_bytes();
        }
        Damage::HeaderByte {
            message,
            place,
            byte,
        } => {
            let start = message.index(count).checked_sub(1).map_or(0, |entry| {
                let start = entry * INDEX_BYTES + 4;
                let field = blocks.indexes[start..].first_chunk::<4>().expect("there");
                u32::from_le_bytes(*field) as usize
            });
            if let Some(header_byte) = blocks.messages.get_mut(start + place) {
                *header_byte = *byte;
            }
        }
        Damage::MessageByte { place, byte } => {
            if !blocks.messages.is_empty() {
                let place = place.index(blocks.messages.len());
                blocks.messages[place] = *byte;
            }
        }
        Damage::Truncate { bytes } => {
            let length = blocks.messages.len().saturating_sub(*bytes);
            blocks.messages.truncate(length);
        }
        Damage::Extend { bytes } => blocks.messages.resize(blocks.messages.len() + bytes, 0),
    }
}

fn blocks() -> impl Strategy<Value = Blocks> {
    let part = || collection::vec(any::<u8>(), 0..40);
    collection::vec((part(), part()), 1..8).prop_map(|messages| {
        let messages: Vec<_> = messages
            .iter()
            .map(|(payload, user_headers)| (&payload[..], &user_headers[..]))
            .collect();
        Blocks::new(&messages)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn agrees_with_the_model(mut blocks in blocks(), damages in collection::vec(damage(), 0..4)) {
        for damage in &damages {
            inflict(&mut blocks, damage);
        }
        let result = blocks.validate();
        prop_assert_eq!(result, model(&blocks.indexes, &blocks.messages, blocks.count));
        if result.is_ok() {
            // Guarantees of validation for readers that do not use the index.
            let mut end = 0;
            let mut walked = 0;
            for (message, entry) in Messages::new(&blocks.messages)
                .zip(blocks.indexes.as_chunks::<INDEX_BYTES>().0)
            {
                end += message.expect("whole").bytes().len();
                walked += 1;
                prop_assert!(walked == blocks.count || Entry::parse(entry).position as usize == end);
            }
            prop_assert_eq!(walked, blocks.count);
            prop_assert_eq!(end, blocks.messages.len());
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(
        indexes in collection::vec(any::<u8>(), 0..100),
        messages in collection::vec(any::<u8>(), 0..300),
        count in 0_u32..8,
    ) {
        let result = validate(&indexes, &messages, count);
        if indexes.len() == count as usize * INDEX_BYTES {
            prop_assert_eq!(result, model(&indexes, &messages, count));
        }
    }
}
