//! Encoding of rows to batches: contents, partitions, and refused rows.

use std::collections::BTreeMap;

use headrace_columns::decode::Decoder;
use headrace_columns::encode::{Batch, Defect, EncodeError, Encoder, Settings, SettingsError};
use headrace_columns::{Binary, Column, Lists, Numbers, Positions, Rows, Validity, decode};
use headrace_wire::batch::validate;
use headrace_wire::message::{HeaderMut, MessageView, Messages};
use headrace_wire::{Partitioning, headers};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::layout::{BinaryBuffers, Buffers, Row, Style, style};
use crate::messages::{Said, seal, settings as decode_settings};
use crate::reading::assert_says;

const STYLE: Style = Style {
    before: 3,
    is_large: false,
};

fn settings(partitions_count: u32) -> Settings {
    Settings {
        partitions_count,
        partition_by_key: true,
        first_partition: 0,
        batch_bytes: 1 << 20,
        memory_bytes: 1 << 30,
        origin_timestamp: 77,
    }
}

fn row(partitions_count: u32) -> impl Strategy<Value = Row> {
    let header = ("[a-zé]{1,8}", vec(any::<u8>(), 1..12));
    (
        vec(any::<u8>(), 1..60),
        option::of(vec(any::<u8>(), 1..20)),
        option::of(vec(header, 0..4)),
        option::of(vec(any::<u8>(), 16)),
        option::of(0..i64::MAX),
        option::weighted(0.2, 0..i32::try_from(partitions_count).expect("few")),
    )
        .prop_map(|(value, key, headers, id, timestamp, partition)| Row {
            value,
            key,
            headers,
            id,
            timestamp,
            partition,
        })
}

fn messages(batch: &Batch) -> Vec<MessageView<'_>> {
    validate(&batch.index, &batch.messages, batch.messages_count)
        .expect("a batch that servers take");
    Messages::new(&batch.messages)
        .collect::<Result<_, _>>()
        .expect("whole messages")
}

/// Decode a row from its message.
fn read(message: &MessageView<'_>) -> Row {
    let mut pairs: Vec<(String, Vec<u8>)> = headers::pairs(message.user_headers())
        .map(|pair| {
            let pair = pair.expect("sound headers");
            let key = String::from_utf8(pair.key.bytes().to_vec()).expect("a text");
            (key, pair.value.bytes().to_vec())
        })
        .collect();
    let has_key = pairs
        .first()
        .is_some_and(|(key, _)| key == headrace_columns::KEY_HEADER);
    let id = message.header().id();
    let timestamp = message.header().origin_timestamp();
    Row {
        value: message.payload().to_vec(),
        key: has_key.then(|| pairs.remove(0).1),
        headers: Some(pairs),
        id: (id != 0).then(|| id.to_le_bytes().to_vec()),
        timestamp: Some(i64::try_from(timestamp).expect("63 bits")),
        partition: None,
    }
}

/// Row expected after encoding and decoding.
fn as_read(row: &Row) -> Row {
    Row {
        headers: Some(row.headers.clone().unwrap_or_default()),
        id: row.id.clone().filter(|id| *id != [0; 16]),
        timestamp: Some(row.timestamp.unwrap_or(77)),
        partition: None,
        ..row.clone()
    }
}

fn encoded(settings: Settings, rows: &[Row]) -> Vec<Batch> {
    let buffers = Buffers::new(STYLE, rows);
    let mut encoder = Encoder::new(settings).expect("sound settings");
    encoder.push(&buffers.rows()).expect("sound rows");
    encoder.finish()
}

proptest! {
    #[test]
    fn every_row_is_in_its_partition_in_its_order(
        (partitions_count, mut pushes) in (1..6_u32).prop_flat_map(|count| {
            (Just(count), vec((style(), vec(row(count), 0..20)), 1..4))
        }),
        partition_by_key: bool,
        batch_bytes in prop_oneof![1..1000_usize, Just(1 << 20)],
        memory_bytes in prop_oneof![1..2000_usize, Just(1 << 30)],
    ) {
        // Make all rows distinct.
        for (row, number) in pushes.iter_mut().flat_map(|(_, rows)| rows).zip(0_u32..) {
            row.value.extend_from_slice(&number.to_le_bytes());
        }
        let mut encoder = Encoder::new(Settings {
            partition_by_key,
            batch_bytes,
            memory_bytes,
            ..settings(partitions_count)
        }).expect("sound settings");
        let mut batches = Vec::new();
        for (style, rows) in &pushes {
            encoder.push(&Buffers::new(*style, rows).rows()).expect("sound rows");
            batches.extend(encoder.take_full());
        }
        batches.extend(encoder.finish());
        prop_assert!(encoder.finish().is_empty());

        let mut said: BTreeMap<u32, Vec<Row>> = BTreeMap::new();
        for batch in &batches {
            prop_assert!(batch.messages_count == 1 || batch.size_bytes() <= batch_bytes.min(memory_bytes));
            said.entry(batch.partition).or_default().extend(messages(batch).iter().map(read));
        }
        let rows: Vec<&Row> = pushes.iter().flat_map(|(_, rows)| rows).collect();
        let assigned = |row: &Row| match (&row.partition, &row.key) {
            (Some(partition), _) => Some(partition.unsigned_abs()),
            (None, Some(key)) if partition_by_key => Partitioning::partition_for_key(key, partitions_count),
            _ => None,
        };
        // Assigned rows are in their partition, in order; the others are in any partition, in order within it.
        let mut unassigned: Vec<Row> = rows
            .iter()
            .filter(|row| assigned(row).is_none())
            .map(|row| as_read(row))
            .collect();
        for (partition, found) in &said {
            let mut expected = rows
                .iter()
                .filter(|row| assigned(row) == Some(*partition))
                .map(|row| as_read(row))
                .peekable();
            let mut behind = 0;
            for row in found {
                if expected.peek() == Some(row) {
                    expected.next();
                    continue;
                }
                let place = unassigned[behind..].iter().position(|other| other == row);
                prop_assert!(place.is_some(), "{row:?} is twice, or before others of its partition");
                behind += place.unwrap_or_default();
                unassigned.remove(behind);
            }
            prop_assert_eq!(expected.next(), None);
        }
        prop_assert_eq!(unassigned, []);
        prop_assert_eq!(said.values().map(Vec::len).sum::<usize>(), rows.len());
    }

    /// A partition stamps the messages that it receives; what it sends back decodes to the same columns.
    #[test]
    fn decoding_undoes_encoding(rows in vec(row(1), 1..20), style in style()) {
        let mut encoder = Encoder::new(settings(1)).expect("sound settings");
        encoder.push(&Buffers::new(style, &rows).rows()).expect("sound rows");
        let batches = encoder.finish();
        prop_assert_eq!(batches.len(), 1);
        let mut stamped = Vec::new();
        for (message, offset) in messages(&batches[0]).iter().zip(5..) {
            let start = stamped.len();
            stamped.extend_from_slice(message.bytes());
            let mut header = HeaderMut(stamped[start..].first_chunk_mut().expect("whole"));
            header.set_offset(offset);
            header.set_timestamp(9);
            seal(&mut stamped[start..]);
        }
        let mut decoder = Decoder::new(decode::Settings { start: 5, ..decode_settings() }).expect("sound settings");
        decoder.feed(&crate::messages::payload(rows.len(), &stamped)).expect("sound messages");
        let said: Vec<Said> = rows
            .iter()
            .map(|row| Said {
                id: row.id.as_ref().map_or(0, |id| u128::from_le_bytes(id[..].try_into().expect("16 bytes"))),
                timestamp: 9,
                origin_timestamp: row.timestamp.map_or(77, i64::unsigned_abs),
                payload: row.value.clone(),
                key: row.key.clone(),
                key_position: 0,
                headers: row.headers.clone().unwrap_or_default(),
            })
            .collect();
        assert_says(&Column::ALL, &decoder.finish(), &said, 5);
    }

    /// Buffers are not trusted.
    #[test]
    fn arbitrary_buffers_never_panic(
        bytes in vec(any::<u8>(), 0..200),
        cuts in vec(any::<prop::sample::Index>(), 8),
        first in prop_oneof![0..40_usize, any::<usize>()],
        width in prop_oneof![0..40_usize, any::<usize>()],
        count in 0..50_usize,
        kinds in vec(0..3_u8, 4),
    ) {
        let part = |index: usize| &bytes[cuts[index].index(bytes.len() + 1)..];
        let slots = |index: usize| Validity { validity: index.is_multiple_of(2).then(|| part(index)), first };
        let positions = |index: usize| match kinds[index % 4] {
            0 => Positions::Small(part(index)),
            1 => Positions::Large(part(index)),
            _ => Positions::Fixed(width),
        };
        let binary = |index: usize| Binary {
            slots: slots(index),
            positions: positions(index + 1),
            data: part(index),
        };
        let numbers = |index: usize| Numbers { slots: slots(index), values: part(index + 1) };
        let rows = Rows {
            count,
            value: binary(0),
            key: Some(binary(1)),
            headers: Some(Lists {
                slots: slots(2),
                positions: positions(3),
                pairs: slots(4),
                keys: binary(5),
                values: binary(6),
            }),
            id: None,
            timestamp: Some(numbers(3)),
            partition: Some(numbers(4)),
        };
        let mut encoder = Encoder::new(settings(3)).expect("sound settings");
        let outcome = encoder.push(&rows);
        let taken: usize = encoder.finish().iter().map(|batch| messages(batch).len()).sum();
        prop_assert_eq!(taken, outcome.map_or_else(|error| error.row, |()| count));
    }
}

fn plain() -> Row {
    Row {
        value: b"value".to_vec(),
        ..Row::default()
    }
}

/// The partition of a key is that of the server's hash.
#[test]
fn keys_go_where_the_server_would_send_them() {
    let keyed = Row {
        key: Some(b"user-123".to_vec()),
        ..plain()
    };
    assert_eq!(
        encoded(settings(3), std::slice::from_ref(&keyed))[0].partition,
        1
    );
    let by_turn = Settings {
        partition_by_key: false,
        first_partition: 5,
        ..settings(3)
    };
    assert_eq!(encoded(by_turn, &[keyed])[0].partition, 2);
}

#[test]
fn rows_without_a_place_fill_one_batch_after_the_other() {
    let rows = vec![plain(); 10];
    // Three messages of 16 + 64 + 5 bytes fit.
    let batches = encoded(
        Settings {
            first_partition: 1,
            batch_bytes: 3 * 85,
            ..settings(2)
        },
        &rows,
    );
    let shape: Vec<(u32, u32)> = batches
        .iter()
        .map(|batch| (batch.partition, batch.messages_count))
        .collect();
    assert_eq!(shape, [(1, 3), (0, 3), (1, 3), (0, 1)]);
}

#[test]
fn memory_is_bounded_however_many_partitions_there_are() {
    let rows: Vec<Row> = (0..100)
        .map(|index| Row {
            partition: Some(index % 50),
            ..plain()
        })
        .collect();
    let mut encoder = Encoder::new(Settings {
        memory_bytes: 10 * 85,
        ..settings(50)
    })
    .expect("sound settings");
    let buffers = Buffers::new(STYLE, &rows);
    encoder.push(&buffers.rows()).expect("sound rows");
    assert_eq!(encoder.take_full().len(), 90);
    assert_eq!(encoder.finish().len(), 10);
}

#[test]
fn columns_may_be_left_out_and_ids_be_of_fixed_size() {
    let value = BinaryBuffers::new(STYLE, [Some(&b"value"[..])].into_iter());
    let ids = *b"before..........0123456789abcdef";
    let rows = Rows {
        count: 1,
        value: value.array(),
        key: None,
        headers: None,
        id: Some(Binary {
            slots: Validity {
                validity: None,
                first: 1,
            },
            positions: Positions::Fixed(16),
            data: &ids,
        }),
        timestamp: None,
        partition: None,
    };
    let mut encoder = Encoder::new(settings(1)).expect("sound settings");
    encoder.push(&rows).expect("sound");
    let batches = encoder.finish();
    let message = messages(&batches[0])[0];
    assert_eq!(message.header().id().to_le_bytes(), ids[16..]);
    assert_eq!(message.header().origin_timestamp(), 77);
    assert!(message.user_headers().is_empty());
}

#[test]
fn a_row_that_no_server_takes_is_named_and_placed() {
    let with = |change: fn(&mut Row)| {
        let mut row = plain();
        change(&mut row);
        row
    };
    let long = |bytes: usize| vec![b'x'; bytes];
    let headers = |pairs: &[(&str, &[u8])]| Row {
        headers: Some(
            pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), value.to_vec()))
                .collect(),
        ),
        ..plain()
    };
    let key = |key: Vec<u8>| Row {
        key: Some(key),
        ..plain()
    };
    let too_long = |bytes, bytes_max| Defect::TooLong { bytes, bytes_max };
    let many: Vec<(&str, &[u8])> = vec![("k", &[0; 200]); 500];
    for (refused, column, defect) in [
        (with(|row| row.value.clear()), Column::Value, Defect::Empty),
        (
            with(|row| row.value = vec![0; 64_000_001]),
            Column::Value,
            too_long(64_000_001, 64_000_000),
        ),
        (key(Vec::new()), Column::Key, Defect::Empty),
        (key(long(256)), Column::Key, too_long(256, 255)),
        (
            with(|row| row.id = Some(vec![1; 15])),
            Column::Id,
            Defect::IdLength { bytes: 15 },
        ),
        (
            with(|row| row.timestamp = Some(-1)),
            Column::Timestamp,
            Defect::Negative,
        ),
        (
            with(|row| row.partition = Some(3)),
            Column::Partition,
            Defect::NoPartition {
                partition: 3,
                partitions_count: 3,
            },
        ),
        (
            with(|row| row.partition = Some(-1)),
            Column::Partition,
            Defect::NoPartition {
                partition: -1,
                partitions_count: 3,
            },
        ),
        (headers(&[("", b"v")]), Column::Headers, Defect::Empty),
        (headers(&[("k", b"")]), Column::Headers, Defect::Empty),
        (
            headers(&[("k", &[0; 256])]),
            Column::Headers,
            too_long(256, 255),
        ),
        (
            headers(&[("headrace.key", b"v")]),
            Column::Headers,
            Defect::Reserved,
        ),
        // 211 bytes each.
        (
            headers(&many),
            Column::Headers,
            too_long(474 * 211, 100_000),
        ),
    ] {
        let rows = [plain(), refused, plain()];
        let buffers = Buffers::new(STYLE, &rows);
        let mut encoder = Encoder::new(settings(3)).expect("sound settings");
        let error = EncodeError {
            row: 1,
            column,
            defect,
        };
        assert_eq!(encoder.push(&buffers.rows()), Err(error));
        // The row before it was encoded.
        assert_eq!(encoder.finish().len(), 1);
    }
}

#[test]
fn null_is_refused_where_there_has_to_be_something() {
    let rows = [plain(), headers_row()];
    let mut buffers = Buffers::new(STYLE, &rows);
    buffers.header_values.validity = Some(vec![0]);
    let refused = |buffers: &Buffers| {
        Encoder::new(settings(1))
            .expect("sound settings")
            .push(&buffers.rows())
            .expect_err("refused")
    };
    assert_eq!(
        refused(&buffers).to_string(),
        "row 1, column headers: it is null"
    );
    buffers.header_values.validity = None;
    buffers.header_keys.data[0] = 0xff;
    assert_eq!(
        refused(&buffers).to_string(),
        "row 1, column headers: the key of a header is not UTF-8"
    );
    buffers.value.validity = Some(vec![0]);
    assert_eq!(
        refused(&buffers).to_string(),
        "row 0, column value: it is null"
    );
    buffers.value.validity = Some(Vec::new());
    assert_eq!(
        refused(&buffers).to_string(),
        "row 0, column value: its buffers do not hold it"
    );
}

fn headers_row() -> Row {
    Row {
        headers: Some(vec![("k".to_owned(), b"v".to_vec())]),
        ..plain()
    }
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let refused = |settings: Settings| Encoder::new(settings).expect_err("refused");
    for partitions_count in [0, (1 << 20) + 1] {
        assert_eq!(
            refused(settings(partitions_count)),
            SettingsError::Partitions(partitions_count)
        );
    }
    assert_eq!(
        refused(Settings {
            batch_bytes: 0,
            ..settings(1)
        })
        .to_string(),
        "batch_bytes is 0, 1 to 2147483647 are allowed"
    );
    assert_eq!(
        refused(Settings {
            memory_bytes: 1 << 31,
            ..settings(1)
        })
        .to_string(),
        "memory_bytes is 2147483648, 1 to 2147483647 are allowed"
    );
}
