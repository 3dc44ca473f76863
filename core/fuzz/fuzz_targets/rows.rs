//! Columns to batches. Input: layouts and bounds (eight bytes), then the bytes for all buffers, each from another
//! position on.
#![no_main]

use headrace_columns::encode::{Encoder, Settings};
use headrace_columns::{Binary, Lists, Numbers, Positions, Rows, Validity};
use headrace_wire::batch::validate;
use libfuzzer_sys::fuzz_target;

const PARTITIONS: u32 = 3;

fuzz_target!(|bytes: &[u8]| {
    let Some((&[count, first, step, width, has_bits, layouts, columns, size], bytes)) =
        bytes.split_first_chunk()
    else {
        return;
    };
    let part = |index: usize| &bytes[(index * usize::from(step)).min(bytes.len())..];
    let slots = |index: usize| Validity {
        validity: (has_bits >> index & 1 == 1).then(|| part(index)),
        first: usize::from(first),
    };
    let positions = |index: usize| match layouts >> (2 * index) & 3 {
        0 | 1 => Positions::Small(part(index)),
        2 => Positions::Large(part(index)),
        _ => Positions::Fixed(usize::from(width)),
    };
    let binary = |index: usize| Binary {
        slots: slots(index),
        positions: positions(index % 4),
        data: bytes,
    };
    let numbers = |index: usize| Numbers {
        slots: slots(index),
        values: part(index),
    };
    let with = |index: usize| columns >> index & 1 == 1;
    let rows = Rows {
        count: usize::from(count),
        value: binary(0),
        key: with(0).then(|| binary(1)),
        headers: with(1).then(|| Lists {
            slots: slots(2),
            positions: positions(3),
            pairs: slots(3),
            keys: binary(4),
            values: binary(5),
        }),
        id: with(2).then(|| binary(6)),
        timestamp: with(3).then(|| numbers(7)),
        partition: with(4).then(|| numbers(4)),
    };
    let settings = Settings {
        partitions_count: PARTITIONS,
        partition_by_key: with(5),
        first_partition: 1,
        batch_bytes: usize::from(size) * 16 + 1,
        memory_bytes: 4096,
        origin_timestamp: 1,
    };
    let mut encoder = Encoder::new(settings).expect("sound settings");
    let outcome = encoder.push(&rows);
    let taken = outcome.map_or_else(|error| error.row, |()| rows.count);
    // Accepted rows are accepted by a server, whatever was refused.
    let mut found = 0;
    for batch in encoder.finish() {
        assert!(batch.partition < PARTITIONS);
        let valid = validate(&batch.index, &batch.messages, batch.messages_count);
        assert_eq!(valid, Ok(()));
        assert!(batch.messages_count == 1 || batch.size_bytes() <= settings.batch_bytes);
        found += batch.messages_count as usize;
    }
    assert_eq!(found, taken);
});
