//! Messages to columns. Input: options (one bit for each column, rows of a batch, bytes of a batch, whether checksums
//! are corrected and verified; six bytes), then a payload as a partition sends it.
#![no_main]

use headrace_columns::decode::{Batch, DecodeError, Decoder, Settings};
use headrace_columns::{Array, Buffer, Column};
use headrace_wire::message::{CHECKSUM_BYTES, HEADER_BYTES, HeaderMut, HeaderView, checksum};
use libfuzzer_sys::fuzz_target;

const POLLED_HEADER_BYTES: usize = 16;

/// Assert the invariants that Arrow libraries rely on.
fn assert_sound(array: &Array, rows: usize) {
    assert_eq!(array.length, rows);
    if let Some(bits) = &array.buffers[0] {
        let bits = bits.as_bytes();
        assert_eq!(bits.len(), rows.div_ceil(8));
        let there: usize = bits.iter().map(|byte| byte.count_ones() as usize).sum();
        assert_eq!(there + array.null_count, rows);
    } else {
        assert_eq!(array.null_count, 0);
    }
    match (&array.buffers[1..], &array.children[..]) {
        ([Some(Buffer::Int64(values))], []) => assert_eq!(values.len(), rows),
        ([Some(Buffer::Int32(values))], []) => assert_eq!(values.len(), rows),
        ([Some(Buffer::Int32(positions)), Some(data)], []) => {
            assert_positions(positions, rows, data.as_bytes().len());
        }
        ([Some(Buffer::Int32(positions))], [pairs]) => {
            assert_positions(positions, rows, pairs.length);
            assert_sound(pairs, pairs.length);
        }
        ([], [keys, values]) => {
            assert_sound(keys, rows);
            assert_sound(values, rows);
            let text = keys.buffers[2].as_ref().expect("data").as_bytes();
            assert!(str::from_utf8(text).is_ok());
        }
        _ => panic!("no layout of a column"),
    }
}

fn assert_positions(positions: &[i32], rows: usize, end: usize) {
    assert_eq!(positions.len(), rows + 1);
    assert!(positions.is_sorted());
    assert_eq!((positions[0], positions[rows] as usize), (0, end));
}

fn decoded(settings: &Settings, payload: &[u8]) -> (Result<(), DecodeError>, u64, Vec<Batch>) {
    let mut decoder = Decoder::new(settings.clone()).expect("sound settings");
    let outcome = decoder.feed(payload);
    let mut batches = decoder.take_full();
    let next_offset = decoder.next_offset();
    batches.extend(decoder.finish());
    let mut behind = settings.start;
    for batch in &batches {
        assert_eq!(batch.first_offset, behind);
        assert!((1..=settings.batch_rows).contains(&batch.rows));
        behind += batch.rows as u64;
        assert_eq!(batch.columns.len(), settings.columns.len());
        for array in &batch.columns {
            assert_sound(array, batch.rows);
        }
    }
    assert_eq!(behind, next_offset);
    (outcome, next_offset, batches)
}

/// Correct the checksums, which would reject almost every input otherwise.
fn put_right(mut messages: &mut [u8]) {
    while let Some(header) = messages.first_chunk::<HEADER_BYTES>() {
        let bytes = HeaderView(header).message_bytes();
        let Some((message, rest)) = usize::try_from(bytes)
            .ok()
            .and_then(|bytes| messages.split_at_mut_checked(bytes))
        else {
            return;
        };
        let sum = checksum(&message[CHECKSUM_BYTES..]);
        HeaderMut(message.first_chunk_mut().expect("a header")).set_checksum(sum);
        messages = rest;
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&[columns_low, columns_high, rows, size_low, size_high, checks], payload)) =
        bytes.split_first_chunk()
    else {
        return;
    };
    let mut payload = payload.to_vec();
    let (Some(&partition), messages) = (
        payload.first_chunk(),
        payload.get(POLLED_HEADER_BYTES..).unwrap_or_default(),
    ) else {
        return;
    };
    let first = messages
        .first_chunk()
        .map_or(0, |header| HeaderView(header).offset());
    let asked = u16::from_le_bytes([columns_low, columns_high]);
    let settings = Settings {
        columns: Column::ALL
            .into_iter()
            .enumerate()
            .filter(|(index, _)| asked >> index & 1 == 1)
            .map(|(_, column)| column)
            .collect(),
        start: first.saturating_add(u64::from(checks >> 2)),
        end: u64::MAX,
        verify: checks & 1 == 1,
        batch_rows: usize::from(rows) + 1,
        batch_bytes: usize::from(u16::from_le_bytes([size_low, size_high])) + 1,
        stream: "stream".to_owned(),
        topic: "topic".to_owned(),
        partition: u32::from_le_bytes(partition),
    };
    if checks & 2 == 2 {
        put_right(payload.get_mut(POLLED_HEADER_BYTES..).unwrap_or_default());
    }
    // The batch size affects neither the messages taken nor the error.
    let (outcome, next_offset, _) = decoded(&settings, &payload);
    let whole = Settings {
        batch_rows: 1 << 30,
        batch_bytes: 1 << 30,
        ..settings
    };
    let (outcome_whole, next_offset_whole, batches_whole) = decoded(&whole, &payload);
    assert_eq!((outcome, next_offset), (outcome_whole, next_offset_whole));
    assert!(batches_whole.len() <= 1);
});
