//! Benchmarks of decoding messages to columns and encoding columns to batches.
//!
//! Run with `cargo bench -p headrace-columns`. Throughput is in messages.

#![allow(missing_docs, reason = "the macro's function cannot carry any")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use headrace_columns::Column;
use headrace_columns::decode::{self, Decoder};
use headrace_columns::encode::{self, Encoder};
use headrace_columns::{Binary, Positions, Rows, Validity};
use headrace_wire::headers::{self, Value};
use headrace_wire::message::{CHECKSUM_BYTES, HEADER_BYTES, HeaderMut, checksum};
use headrace_wire::response::PolledHeader;

/// Total payload size of one response of a partition.
const CHUNK_BYTES: usize = 1 << 20;
/// Number of chunks in a range.
const CHUNKS: usize = 8;
const THREE: [Column; 3] = [Column::Offset, Column::Timestamp, Column::Value];

/// Make chunks of messages; `with_headers` adds a key and one header to each.
fn chunks(payload_bytes: usize, with_headers: bool) -> Vec<Vec<u8>> {
    let mut user_headers = Vec::new();
    if with_headers {
        let key = Value::Text(headrace_columns::KEY_HEADER);
        headers::push(key, Value::Raw(b"user-123"), &mut user_headers).expect("short");
        let trace = Value::Text("trace");
        headers::push(trace, Value::Raw(&[7; 16]), &mut user_headers).expect("short");
    }
    let per_chunk = CHUNK_BYTES / (HEADER_BYTES + payload_bytes + user_headers.len());
    let mut offsets = 0_u64..;
    let chunk = || {
        let header = PolledHeader {
            partition_id: 0,
            current_offset: 0,
            messages_count: u32::try_from(per_chunk).expect("few"),
        };
        let mut chunk = header.to_bytes().to_vec();
        for offset in offsets.by_ref().take(per_chunk) {
            let mut header = [0; HEADER_BYTES];
            let mut fields = HeaderMut(&mut header);
            fields.set_id(u128::from(offset) + 1);
            fields.set_offset(offset);
            fields.set_timestamp(1_800_000_000_000_000 + offset);
            fields.set_origin_timestamp(1_800_000_000_000_000);
            fields.set_payload_length(u32::try_from(payload_bytes).expect("short"));
            fields.set_user_headers_length(u32::try_from(user_headers.len()).expect("short"));
            let mut message = [&header[..], &vec![b'x'; payload_bytes], &user_headers].concat();
            let sum = checksum(&message[CHECKSUM_BYTES..]);
            message[..CHECKSUM_BYTES].copy_from_slice(&sum.to_le_bytes());
            chunk.extend_from_slice(&message);
        }
        chunk
    };
    std::iter::repeat_with(chunk).take(CHUNKS).collect()
}

fn decode(criterion: &mut Criterion) {
    for payload_bytes in [100, 1000] {
        for (name, columns, with_headers) in [
            ("three", THREE.to_vec(), false),
            ("all", Column::ALL.to_vec(), true),
        ] {
            let chunks = chunks(payload_bytes, with_headers);
            let per_chunk = u32::from_le_bytes(chunks[0][12..16].try_into().expect("four bytes"));
            let mut group = criterion.benchmark_group(format!("decode/{name}"));
            group.throughput(Throughput::Elements(u64::from(per_chunk) * CHUNKS as u64));
            for verify in [false, true] {
                let settings = decode::Settings {
                    columns: columns.clone(),
                    start: 0,
                    end: u64::MAX,
                    verify,
                    batch_rows: 16_384,
                    batch_bytes: 4 << 20,
                    stream: "shop".to_owned(),
                    topic: "orders".to_owned(),
                    partition: 0,
                };
                let id = BenchmarkId::new(
                    if verify { "verified" } else { "unverified" },
                    format!("{payload_bytes}B"),
                );
                group.bench_function(id, |bencher| {
                    bencher.iter(|| {
                        let mut decoder = Decoder::new(settings.clone()).expect("sound settings");
                        for chunk in &chunks {
                            decoder.feed(black_box(chunk)).expect("sound messages");
                            // Drop full batches before the next chunk, as in normal use.
                            black_box(decoder.take_full());
                        }
                        decoder.finish()
                    });
                });
            }
            group.finish();
        }
    }
}

/// Encode rows with values of the same length, with and without keys.
fn encode(criterion: &mut Criterion) {
    const ROWS: usize = 10_000;
    for payload_bytes in [100, 1000] {
        let values = vec![b'x'; ROWS * payload_bytes];
        let keys: Vec<u8> = (0..ROWS)
            .flat_map(|row| format!("user-{row:04}").into_bytes())
            .collect();
        let fixed = |data, width| Binary {
            slots: Validity::default(),
            positions: Positions::Fixed(width),
            data,
        };
        let mut group = criterion.benchmark_group("encode");
        group.throughput(Throughput::Elements(ROWS as u64));
        for (name, key) in [("values", None), ("keys", Some(fixed(&keys[..], 9)))] {
            let rows = Rows {
                count: ROWS,
                value: fixed(&values[..], payload_bytes),
                key,
                headers: None,
                id: None,
                timestamp: None,
                partition: None,
            };
            group.bench_function(
                BenchmarkId::new(name, format!("{payload_bytes}B")),
                |bencher| {
                    bencher.iter(|| {
                        let settings = encode::Settings {
                            partitions_count: 8,
                            partition_by_key: true,
                            first_partition: 0,
                            batch_bytes: 1 << 20,
                            memory_bytes: 64 << 20,
                            origin_timestamp: 1,
                        };
                        let mut encoder = Encoder::new(settings).expect("sound settings");
                        encoder.push(black_box(&rows)).expect("sound rows");
                        encoder.finish()
                    });
                },
            );
        }
        group.finish();
    }
}

criterion_group!(benches, decode, encode);
criterion_main!(benches);
