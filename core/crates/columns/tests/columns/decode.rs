//! Decoding with arbitrary settings, messages and division into payloads.

use headrace_columns::{
    Array, Column,
    decode::{Decoder, Settings, SettingsError},
};
use headrace_wire::headers::{self, Value};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::subsequence;

use crate::messages::{Said, message, part, payload, said, settings};
use crate::reading::{Cell, assert_says, cells};

fn columns() -> impl Strategy<Value = Vec<Column>> {
    subsequence(Column::ALL.to_vec(), 0..=Column::ALL.len()).prop_shuffle()
}

/// Decode one message to one column.
fn decoded(column: Column, bytes: &[u8]) -> Cell {
    let mut decoder = Decoder::new(Settings {
        columns: vec![column],
        ..settings()
    })
    .expect("sound settings");
    decoder.feed(&payload(1, bytes)).expect("a whole message");
    let batches = decoder.finish();
    cells(column, &batches[0].columns[0])
        .pop()
        .expect("one message")
}

fn plain() -> Said {
    Said {
        id: 1,
        timestamp: 2,
        origin_timestamp: 3,
        payload: b"payload".to_vec(),
        key: None,
        key_position: 0,
        headers: Vec::new(),
    }
}

proptest! {
    #[test]
    fn any_columns_of_any_range_in_any_pieces(
        said in vec(said(), 0..40),
        columns in columns(),
        base in prop_oneof![Just(0), 0..1_u64 << 62],
        // Ends of payloads, and the number of messages that a payload repeats of the one before.
        cuts in vec((0..=40_usize, 0..3_usize), 0..6),
        (from, to) in (0..45_usize, 0..45_usize),
        batch_rows in prop_oneof![1..8_usize, Just(1 << 20)],
        batch_bytes in prop_oneof![1..2000_usize, Just(1 << 30)],
        verify: bool,
    ) {
        let (from, to) = (from.min(to).min(said.len()), from.max(to));
        let mut decoder = Decoder::new(Settings {
            columns: columns.clone(),
            start: base + from as u64,
            end: base + to as u64,
            verify,
            batch_rows,
            batch_bytes,
            ..settings()
        }).expect("sound settings");
        let mut cuts: Vec<_> = cuts.into_iter().map(|(cut, again)| (cut.min(said.len()), again)).collect();
        cuts.push((said.len(), 0));
        cuts.sort_unstable();
        let mut batches = Vec::new();
        let mut begin = 0;
        for (cut, again) in cuts {
            decoder.feed(&part(&said, base, begin..cut)).expect("sound messages");
            batches.extend(decoder.take_full());
            begin = cut.saturating_sub(again);
        }
        let end = to.min(said.len());
        prop_assert_eq!(decoder.is_complete(), to <= said.len());
        prop_assert_eq!(decoder.next_offset(), base + end as u64);
        batches.extend(decoder.finish());
        assert_says(&columns, &batches, &said[from..end], base + from as u64);
        for batch in &batches {
            prop_assert!(batch.rows <= batch_rows);
            // Each column has one position more than rows, and bits are rounded up to bytes.
            let overhead = 16 * columns.len();
            let bytes: usize = batch.columns.iter().map(Array::size_bytes).sum();
            prop_assert!(batch.rows == 1 || bytes <= batch_bytes + overhead, "{bytes} B of {batch_bytes} B");
        }
        prop_assert!(decoder.finish().is_empty());
    }
}

/// Enough messages that columns are appended to in several runs.
#[test]
fn a_long_payload_becomes_full_batches_and_a_rest() {
    let said: Vec<Said> = (0..2500_u32)
        .map(|index| Said {
            payload: index.to_string().into_bytes(),
            key: (index % 3 == 0).then(|| vec![b'k'; 1 + index as usize % 20]),
            ..plain()
        })
        .collect();
    let columns = vec![Column::Offset, Column::Key, Column::Value];
    let mut decoder = Decoder::new(Settings {
        columns: columns.clone(),
        batch_rows: 1000,
        ..settings()
    })
    .expect("sound settings");
    decoder.feed(&part(&said, 0, 0..2500)).expect("sound");
    let mut batches = decoder.take_full();
    assert_eq!(batches.len(), 2);
    batches.extend(decoder.finish());
    let rows: Vec<usize> = batches.iter().map(|batch| batch.rows).collect();
    assert_eq!(rows, [1000, 1000, 500]);
    assert_says(&columns, &batches, &said, 0);
}

#[test]
fn nothing_is_no_message() {
    let mut decoder = Decoder::new(settings()).expect("sound settings");
    decoder.feed(&[]).expect("nothing");
    decoder
        .feed(&[0; 16])
        .expect("no messages, of no partition");
    assert_eq!(decoder.next_offset(), 0);
    assert!(decoder.finish().is_empty());
}

#[test]
fn what_comes_behind_the_range_is_not_looked_at() {
    let mut bytes = plain().message(0);
    bytes.extend_from_slice(b"no message");
    let mut decoder = Decoder::new(Settings {
        end: 1,
        ..settings()
    })
    .expect("sound settings");
    decoder.feed(&payload(2, &bytes)).expect("in range");
    assert!(decoder.is_complete());
    assert_eq!(decoder.finish()[0].rows, 1);
}

/// Official clients can encrypt the headers of a message, which then has neither key nor headers.
#[test]
fn headers_that_cannot_be_read_are_null() {
    let mut good = Vec::new();
    headers::push(Value::Text("a"), Value::Uint8(7), &mut good).expect("short");
    let sound = message(&plain(), 0, &good);
    assert_eq!(
        decoded(Column::Headers, &sound),
        Cell::Pairs(vec![("a".to_owned(), vec![7])])
    );
    for user_headers in [
        b"cipher text".to_vec(),
        [&good[..], b"?"].concat(),
        // A key that is not text.
        [&good[..], &[1, 1, 0, 0, 0, 0xff, 1, 1, 0, 0, 0, 1]].concat(),
        // An undefined kind of value.
        [&good[..], &[99, 1, 0, 0, 0, b'a', 1, 1, 0, 0, 0, 1]].concat(),
    ] {
        let bytes = message(&plain(), 0, &user_headers);
        assert_eq!(decoded(Column::Headers, &bytes), Cell::Null);
        assert_eq!(decoded(Column::Key, &bytes), Cell::Null);
        // A partly decoded value leaves nothing behind.
        let mut decoder = Decoder::new(settings()).expect("sound settings");
        let both = [bytes, message(&plain(), 1, &good)].concat();
        decoder.feed(&payload(2, &both)).expect("whole messages");
        let batch = decoder.finish().pop().expect("a batch");
        let lists = cells(Column::Headers, &batch.columns[9]);
        assert_eq!(
            lists,
            [Cell::Null, Cell::Pairs(vec![("a".to_owned(), vec![7])])]
        );
    }
}

#[test]
fn keys_of_headers_become_text() {
    for (key, text) in [
        (Value::Raw(b"raw"), "raw"),
        (Value::Bool(true), "true"),
        (Value::Int32(-5), "-5"),
        (
            Value::Uint128(u128::MAX),
            "340282366920938463463374607431768211455",
        ),
        (Value::Float64(0.5), "0.5"),
    ] {
        let mut user_headers = Vec::new();
        headers::push(key, Value::Text("v"), &mut user_headers).expect("short");
        assert_eq!(
            decoded(Column::Headers, &message(&plain(), 0, &user_headers)),
            Cell::Pairs(vec![(text.to_owned(), b"v".to_vec())])
        );
    }
}

#[test]
fn the_first_of_several_keys_is_the_key() {
    let mut user_headers = Vec::new();
    for value in [b"one", b"two"] {
        headers::push(
            Value::Text(headrace_columns::KEY_HEADER),
            Value::Raw(value),
            &mut user_headers,
        )
        .expect("short");
    }
    let bytes = message(&plain(), 0, &user_headers);
    assert_eq!(decoded(Column::Key, &bytes), Cell::Bytes(b"one".to_vec()));
    assert_eq!(
        decoded(Column::Headers, &bytes),
        Cell::Pairs(vec![("headrace.key".to_owned(), b"two".to_vec())])
    );
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let refused = |settings: Settings| Decoder::new(settings).expect_err("refused");
    assert_eq!(
        refused(Settings {
            columns: vec![Column::Key, Column::Value, Column::Key],
            ..settings()
        }),
        SettingsError::ColumnTwice(Column::Key)
    );
    assert_eq!(
        refused(Settings {
            start: 2,
            end: 1,
            ..settings()
        }),
        SettingsError::Range { start: 2, end: 1 }
    );
    for value in [0, 1 << 31] {
        assert_eq!(
            refused(Settings {
                batch_rows: value,
                ..settings()
            }),
            SettingsError::Bound {
                name: "batch_rows",
                value
            }
        );
        assert_eq!(
            refused(Settings {
                batch_bytes: value,
                ..settings()
            }),
            SettingsError::Bound {
                name: "batch_bytes",
                value
            }
        );
    }
    assert_eq!(
        refused(Settings {
            topic: "t".repeat(256),
            ..settings()
        }),
        SettingsError::NameTooLong(256)
    );
}

#[test]
fn columns_have_names() {
    for column in Column::ALL {
        assert_eq!(Column::named(column.name()), Some(column));
    }
    assert_eq!(Column::named("Offset"), None);
}
