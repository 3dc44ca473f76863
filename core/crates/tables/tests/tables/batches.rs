//! Decoded columns as record batches, without copies, and in the types that are asked for.

use std::sync::Arc;

use arrow_array::{Array, cast::AsArray, types::Int64Type};
use arrow_schema::{DataType, Field, Schema};
use headrace_columns::{Buffer, Column, KEY_HEADER};
use headrace_tables::batches::{RequestError, conformed, record_batch, requested, schema};
use headrace_wire::headers::{Value, push};

use crate::samples::decoded;

fn with_key() -> Vec<u8> {
    let mut encoded = Vec::new();
    push(Value::Text(KEY_HEADER), Value::Raw(b"anna"), &mut encoded).expect("short");
    push(Value::Text("gift"), Value::Raw(b"yes"), &mut encoded).expect("short");
    encoded
}

#[test]
fn every_column_has_its_type_and_its_values() {
    let headers = with_key();
    let messages: [(u128, &[u8], &[u8]); 3] =
        [(1, b"tea", &headers), (2, b"", b""), (3, b"milk", &[9; 3])];
    let found = decoded(&Column::ALL, &messages).remove(0);
    let batch = record_batch(&Column::ALL, found);
    assert_eq!(batch.schema(), schema(&Column::ALL));
    assert_eq!(batch.num_rows(), 3);
    let column = |name| batch.column_by_name(name).expect("it was asked for");
    assert_eq!(column("stream").as_string::<i32>().value(2), "shop");
    assert_eq!(
        column("offset").as_primitive::<Int64Type>().values(),
        &[7, 8, 9]
    );
    let values: Vec<_> = column("value").as_binary::<i32>().iter().collect();
    assert_eq!(values, [Some(&b"tea"[..]), Some(b""), Some(b"milk")]);
    let keys: Vec<_> = column("key").as_binary::<i32>().iter().collect();
    assert_eq!(keys, [Some(&b"anna"[..]), None, None]);
    let headers = column("headers").as_list::<i32>();
    assert_eq!(headers.value_offsets(), [0, 1, 1, 1]);
    assert!(headers.is_null(2), "unreadable headers are null");
    let pairs = headers.values().as_struct();
    assert_eq!(pairs.column(0).as_string::<i32>().value(0), "gift");
    assert_eq!(pairs.column(1).as_binary::<i32>().value(0), b"yes");
}

#[test]
fn memory_is_taken_over_and_not_copied() {
    let found = decoded(&[Column::Value, Column::Offset], &[(1, b"tea", b"")]).remove(0);
    let Some(Buffer::Bytes(data)) = &found.columns[0].buffers[2] else {
        panic!("values have data");
    };
    let Some(Buffer::Int64(offsets)) = &found.columns[1].buffers[1] else {
        panic!("offsets are numbers");
    };
    let places = (data.as_ptr(), offsets.as_ptr().cast::<u8>());
    let batch = record_batch(&[Column::Value, Column::Offset], found);
    let data = batch.column(0).as_binary::<i32>().value_data().as_ptr();
    let offsets = batch.column(1).as_primitive::<Int64Type>().values();
    assert_eq!((data, offsets.as_ptr().cast::<u8>()), places);
}

#[test]
fn without_columns_there_are_rows() {
    let found = decoded(&[], &[(1, b"tea", b""), (2, b"milk", b"")]).remove(0);
    assert_eq!(record_batch(&[], found).num_rows(), 2);
}

#[test]
fn a_requested_schema_chooses_columns_and_types() {
    let wanted = Arc::new(Schema::new(vec![
        Field::new("value", DataType::Utf8View, false),
        Field::new("offset", DataType::UInt32, true),
    ]));
    let columns = requested(&wanted).expect("they exist");
    assert_eq!(columns, [Column::Value, Column::Offset]);
    let messages: [(u128, &[u8], &[u8]); 1] = [(1, b"tea", b"")];
    let batch = record_batch(&columns, decoded(&columns, &messages).remove(0));
    let given = conformed(&batch, &wanted).expect("the values fit");
    assert_eq!(given.schema(), wanted);
    assert_eq!(given.column(0).as_string_view().value(0), "tea");

    let messages: [(u128, &[u8], &[u8]); 1] = [(1, &[0xff], b"")];
    let batch = record_batch(&columns, decoded(&columns, &messages).remove(0));
    assert!(matches!(
        conformed(&batch, &wanted),
        Err(RequestError::Value(_))
    ));
}

#[test]
fn a_schema_of_other_columns_or_types_is_refused() {
    for (name, kind, text) in [
        (
            "price",
            DataType::Int64,
            "column \"price\" is none of stream, topic,",
        ),
        ("headers", DataType::Date32, "column \"headers\" is List("),
    ] {
        let schema = Schema::new(vec![Field::new(name, kind, true)]);
        let problem = requested(&schema)
            .expect_err("it cannot be given")
            .to_string();
        assert!(problem.starts_with(text), "{problem}");
    }
}
