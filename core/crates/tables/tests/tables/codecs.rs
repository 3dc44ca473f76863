//! Payloads that are made of all columns.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Int64Array, RecordBatch, StringArray,
    builder::{Int64Builder, MapBuilder},
};
use arrow_ipc::reader::StreamReader;
use headrace_tables::{Codec, Naming};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::samples::{read, table};

fn coded(codec: Codec) -> Naming {
    Naming {
        codec: Some(codec),
        ..Naming::default()
    }
}

#[test]
fn each_row_is_an_object_of_all_columns_but_those_that_say_how_it_is_sent() {
    let batch = table(vec![
        (
            "name",
            Arc::new(StringArray::from(vec![Some("a\nb"), None])) as ArrayRef,
        ),
        ("price", Arc::new(Int64Array::from(vec![1, 2]))),
        ("to", Arc::new(Int64Array::from(vec![1, 0]))),
    ]);
    let naming = Naming {
        key: Some("name".to_owned()),
        partition: Some("to".to_owned()),
        ..coded(Codec::Json)
    };
    let rows = read(&batch, &naming).expect("all of it can be sent");
    assert_eq!(rows.get(0).payload, br#"{"name":"a\nb","price":1}"#);
    assert_eq!(rows.get(1).payload, br#"{"name":null,"price":2}"#);
    assert_eq!(
        (rows.get(0).key, rows.get(1).key),
        (Some(&b"a\nb"[..]), None)
    );
    assert_eq!(rows.get(0).partition, Some(1));
}

#[test]
fn a_column_that_a_codec_has_no_form_for_is_named() {
    let mut numbers = MapBuilder::new(None, Int64Builder::new(), Int64Builder::new());
    numbers.keys().append_value(1);
    numbers.values().append_value(2);
    numbers.append(true).expect("as many keys as values");
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("name", Arc::new(StringArray::from(vec!["a"]))),
        ("odd", Arc::new(numbers.finish())),
    ];
    let problem =
        read(&table(columns), &coded(Codec::Json)).expect_err("keys of objects are texts");
    let text = problem.to_string();
    assert!(text.starts_with("codec: column \"odd\" is Map("), "{text}");
    assert!(text.contains("which cannot be encoded: "), "{text}");
}

fn joined(payloads: &[&[u8]]) -> Vec<RecordBatch> {
    let streams = payloads
        .iter()
        .flat_map(|payload| StreamReader::try_new(*payload, None).expect("a payload is a stream"));
    streams.map(|batch| batch.expect("it is whole")).collect()
}

#[test]
fn many_rows_are_a_stream_and_too_many_are_several() {
    let long = "x".repeat(300_000);
    let names: ArrayRef = Arc::new(StringArray::from(vec![
        Some(&*long),
        None,
        Some(&long),
        Some("b"),
    ]));
    let batch = table(vec![("name", names)]);
    let rows = read(&batch, &coded(Codec::Arrow)).expect("all of it can be sent");
    let payloads: Vec<_> = (0..rows.len()).map(|row| rows.get(row).payload).collect();
    assert_eq!(payloads.len(), 2, "two long texts do not share a message");
    let found = joined(&payloads);
    let lengths: Vec<_> = found.iter().map(RecordBatch::num_rows).collect();
    assert_eq!(lengths, [2, 2]);
    let parts: Vec<&dyn Array> = found.iter().map(|part| part.column(0).as_ref()).collect();
    assert_eq!(parts[0].to_data(), batch.column(0).slice(0, 2).to_data());
    assert_eq!(rows.get(0).key, None);
    let none = read(&batch.slice(0, 0), &coded(Codec::Arrow)).expect("it is empty");
    assert!(none.is_empty());
}

proptest! {
    #[test]
    fn objects_say_what_the_rows_say(rows in prop::collection::vec((any::<Option<String>>(), any::<i64>()), 0..40)) {
        let (names, prices): (Vec<_>, Vec<_>) = rows.iter().cloned().unzip();
        let batch = table(vec![
            ("name", Arc::new(StringArray::from(names)) as ArrayRef),
            ("price", Arc::new(Int64Array::from(prices))),
        ]);
        let sent = read(&batch, &coded(Codec::Json)).expect("all of it can be sent");
        prop_assert_eq!(sent.len(), rows.len());
        for (row, (name, price)) in rows.iter().enumerate() {
            let found: Value = serde_json::from_slice(sent.get(row).payload).expect("it is JSON");
            prop_assert_eq!(found, json!({"name": name, "price": price}));
        }
    }
}
