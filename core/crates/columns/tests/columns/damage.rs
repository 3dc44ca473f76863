//! Invalid bytes cause typed errors with their place, and never a panic.

use headrace_columns::decode::{DecodeError, Decoder, Defect, Settings};
use headrace_wire::message::HeaderMut;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::messages::{PARTITION, Said, part, payload, said, seal, settings};
use crate::reading::assert_says;

/// Messages with the offsets 10 to 12, of 100 bytes each.
fn three() -> Vec<Said> {
    (0..3)
        .map(|index| Said {
            id: index,
            timestamp: 5,
            origin_timestamp: 6,
            payload: vec![b'x'; 36],
            key: None,
            key_position: 0,
            headers: Vec::new(),
        })
        .collect()
}

fn from_ten() -> Decoder {
    Decoder::new(Settings {
        start: 10,
        ..settings()
    })
    .expect("sound settings")
}

/// Error for three messages, the second of which was changed and has a correct checksum again.
fn second_changed(change: impl FnOnce(&mut HeaderMut<'_>)) -> DecodeError {
    let mut bytes = part(&three(), 10, 0..3);
    let second = &mut bytes[116..216];
    change(&mut HeaderMut(second.first_chunk_mut().expect("whole")));
    seal(second);
    let mut decoder = from_ten();
    let error = decoder.feed(&bytes).expect_err("damaged");
    // The first message was decoded, and decoding can continue behind it.
    assert_eq!(decoder.next_offset(), 11);
    decoder.feed(&part(&three(), 10, 0..3)).expect("sound");
    assert_says(&settings().columns, &decoder.finish(), &three(), 10);
    error
}

fn at(defect: Defect, offset: impl Into<Option<u64>>, byte: usize) -> DecodeError {
    DecodeError {
        defect,
        offset: offset.into(),
        byte,
    }
}

#[test]
fn a_header_that_is_wrong_is_named_and_placed() {
    let offset = |expected| Defect::Offset { expected };
    assert_eq!(
        second_changed(|header| header.set_offset(12)),
        at(offset(11), 12, 116)
    );
    assert_eq!(
        second_changed(|header| header.set_offset(10)),
        at(offset(11), 10, 116)
    );
    assert_eq!(
        second_changed(|header| header.set_reserved(1)),
        at(Defect::Reserved, 11, 116)
    );
    assert_eq!(
        second_changed(|header| header.set_timestamp(1 << 63)),
        at(Defect::TimestampRange, 11, 116)
    );
    // The changed message extends beyond the end of the payload.
    assert_eq!(
        second_changed(|header| header.set_payload_length(137)),
        at(Defect::Truncated, 11, 116)
    );
    // The changed message extends over the whole third message, which its checksum does not cover.
    let swallowed = second_changed(|header| header.set_payload_length(136));
    assert!(matches!(swallowed.defect, Defect::Checksum { .. }));
    assert_eq!((swallowed.offset, swallowed.byte), (Some(11), 116));
}

#[test]
fn messages_are_missing_where_a_payload_begins_too_late() {
    let mut decoder = from_ten();
    decoder.feed(&part(&three(), 10, 0..1)).expect("sound");
    let expected = at(Defect::Offset { expected: 11 }, 12, 16);
    let behind = decoder.feed(&part(&three(), 10, 2..3));
    assert_eq!(behind, Err(expected));
    assert_eq!(
        expected.to_string(),
        "byte 16 of the payload, message with offset 12: its offset should be 11"
    );
}

#[test]
fn a_payload_has_as_many_messages_as_it_says() {
    let messages: Vec<u8> = part(&three(), 10, 0..3).split_off(16);
    for (announced, found, byte) in [(2, 3, 216), (4, 3, 316), (0, 1, 16)] {
        let counted = from_ten().feed(&payload(announced, &messages));
        let announced = u32::try_from(announced).expect("few");
        assert_eq!(
            counted,
            Err(at(Defect::Count { announced, found }, None, byte))
        );
    }
}

#[test]
fn a_payload_is_of_the_partition_that_is_read() {
    let mut bytes = part(&three(), 10, 0..3);
    bytes[0] = 4;
    let defect = Defect::Partition {
        expected: PARTITION,
        found: 4,
    };
    assert_eq!(from_ten().feed(&bytes), Err(at(defect, None, 0)));
}

#[test]
fn offsets_have_63_bits() {
    let last = u64::MAX >> 1;
    let mut decoder = Decoder::new(Settings {
        start: last,
        ..settings()
    })
    .expect("sound settings");
    let refused = decoder.feed(&part(&three(), last, 0..2));
    assert_eq!(refused, Err(at(Defect::OffsetRange, last + 1, 116)));
    assert_says(&settings().columns, &decoder.finish(), &three()[..1], last);
}

#[test]
fn larger_than_any_message_is_refused() {
    let mut big = three();
    big[1].payload = vec![0; 64_000_001];
    let defect = Defect::Size {
        payload_bytes: 64_000_001,
        user_headers_bytes: 0,
    };
    assert_eq!(
        from_ten().feed(&part(&big, 10, 0..2)),
        Err(at(defect, 11, 116))
    );
}

proptest! {
    /// One changed byte is detected at its place, unless it is in the one field that is not checked: the offset of the
    /// partition's last message.
    #[test]
    fn a_changed_byte_is_found(
        said in vec(said(), 1..12),
        place: prop::sample::Index,
        flip in 1..=u8::MAX,
    ) {
        let mut bytes = part(&said, 7, 0..said.len());
        let place = place.index(bytes.len());
        bytes[place] ^= flip;
        let mut decoder = Decoder::new(Settings { start: 7, ..settings() }).expect("sound settings");
        let outcome = decoder.feed(&bytes);
        if (4..12).contains(&place) {
            prop_assert_eq!(outcome, Ok(()));
            assert_says(&settings().columns, &decoder.finish(), &said, 7);
            return Ok(());
        }
        let error = outcome.expect_err("a byte was changed");
        let taken = usize::try_from(decoder.next_offset() - 7).expect("few");
        assert_says(&settings().columns, &decoder.finish(), &said[..taken], 7);
        let start = |index: usize| part(&said, 7, 0..index).len();
        if place >= 16 {
            prop_assert!(start(taken) <= place && place < start(taken + 1), "{error}");
            prop_assert_eq!(error.byte, start(taken));
            prop_assert!(matches!(error.defect, Defect::Checksum { .. } | Defect::Truncated), "{error}");
        } else {
            prop_assert!(matches!(error.defect, Defect::Count { .. } | Defect::Partition { .. }), "{error}");
        }
    }

    #[test]
    fn a_cut_payload_is_noticed(said in vec(said(), 1..12), cut: prop::sample::Index) {
        let bytes = part(&said, 0, 0..said.len());
        let cut = cut.index(bytes.len());
        let mut decoder = Decoder::new(settings()).expect("sound settings");
        let outcome = decoder.feed(&bytes[..cut]);
        let taken = usize::try_from(decoder.next_offset()).expect("few");
        assert_says(&settings().columns, &decoder.finish(), &said[..taken], 0);
        if cut == 0 {
            prop_assert_eq!(outcome, Ok(()));
            return Ok(());
        }
        let error = outcome.expect_err("something is missing");
        prop_assert!(matches!(error.defect, Defect::Truncated | Defect::Count { .. }), "{error}");
        if cut >= 16 {
            prop_assert_eq!(error.byte, part(&said, 0, 0..taken).len());
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        mut payloads in vec(vec(any::<u8>(), 0..400), 1..4),
        partition: bool,
        verify: bool,
        batch_rows in 1..4_usize,
    ) {
        let mut decoder = Decoder::new(Settings { verify, batch_rows, ..settings() }).expect("sound settings");
        for payload in &mut payloads {
            if partition && payload.len() > 4 {
                payload[..4].copy_from_slice(&PARTITION.to_le_bytes());
            }
            let _ = decoder.feed(payload);
            let next_offset = decoder.next_offset();
            let rows: usize = decoder.finish().iter().map(|batch| batch.rows).sum();
            prop_assert!(rows as u64 <= next_offset);
        }
    }
}
