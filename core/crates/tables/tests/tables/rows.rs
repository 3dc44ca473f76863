//! Rows as messages: the same in every layout, and those that cannot be one named.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryArray, FixedSizeBinaryArray, Int32Array, Int64Array, MapArray,
    StringArray, StructArray, UInt64Array,
    builder::{MapBuilder, StringBuilder},
};
use arrow_buffer::OffsetBuffer;
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Fields};
use headrace_columns::{Column, KEY_HEADER};
use headrace_tables::{AddedHeader, Naming, Plan, Rows, batches::record_batch};
use headrace_wire::headers::{Value, push};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::samples::{decoded, header_pairs, read, table};

fn texts(values: Vec<Option<&str>>) -> ArrayRef {
    Arc::new(StringArray::from(values))
}

fn lists(lists: &[&[(&str, &str)]], kind: &DataType) -> ArrayRef {
    let pairs = lists.iter().flat_map(|list| list.iter());
    let (names, values): (Vec<_>, Vec<_>) = pairs.copied().unzip();
    let values = cast(&StringArray::from(values), kind).expect("texts are bytes");
    let fields = Fields::from(vec![
        Field::new("k", DataType::Utf8, false),
        Field::new("v", kind.clone(), true),
    ]);
    let pairs = StructArray::new(
        fields.clone(),
        vec![Arc::new(StringArray::from(names)), values],
        None,
    );
    let item = Arc::new(Field::new("item", DataType::Struct(fields), true));
    let ends = OffsetBuffer::from_lengths(lists.iter().map(|list| list.len()));
    Arc::new(arrow_array::ListArray::new(
        item,
        ends,
        Arc::new(pairs),
        None,
    ))
}

fn map(lists: &[&[(&str, &str)]]) -> MapArray {
    let mut builder = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    for list in lists {
        for (name, value) in *list {
            builder.keys().append_value(name);
            builder.values().append_value(value);
        }
        builder.append(true).expect("as many names as values");
    }
    builder.finish()
}

proptest! {
    #[test]
    fn every_layout_gives_the_same_messages(
        rows in vec((".{0,20}", option::of(".{1,20}")), 1..30), skipped in 0..5_usize
    ) {
        let skipped = skipped.min(rows.len());
        let payloads = texts(rows.iter().map(|row| Some(row.0.as_str())).collect());
        let keys = texts(rows.iter().map(|row| row.1.as_deref()).collect());
        let dictionary = |of| DataType::Dictionary(Box::new(DataType::Int16), Box::new(of));
        for kind in [
            DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View, DataType::Binary, DataType::LargeBinary,
            DataType::BinaryView, dictionary(DataType::Utf8), dictionary(DataType::LargeBinary),
        ] {
            let layout = |column| cast(column, &kind).expect("they are all byte strings");
            let batch = table(vec![("value", layout(&payloads)), ("key", layout(&keys))]);
            let batch = batch.slice(skipped, rows.len() - skipped);
            let keys_fit = rows[skipped..].iter().all(|row| row.1.as_ref().is_none_or(|key| key.len() <= 255));
            prop_assume!(keys_fit);
            let found = read(&batch, &Naming::default()).expect("they can be sent");
            prop_assert_eq!(found.len(), rows.len() - skipped);
            for (number, (payload, key)) in rows[skipped..].iter().enumerate() {
                let message = found.get(number);
                prop_assert_eq!(message.payload, payload.as_bytes());
                prop_assert_eq!(message.key, key.as_ref().map(String::as_bytes));
                prop_assert_eq!(message.headers.is_empty(), key.is_none());
            }
        }
    }
}

#[test]
fn headers_are_lists_or_maps_of_texts_or_bytes() {
    let given: [&[(&str, &str)]; 3] = [&[("a", "1"), ("b", "2")], &[], &[("a", "3")]];
    let value = texts(vec![Some("x"); 3]);
    let large = |column: ArrayRef| {
        let DataType::List(item) = column.data_type() else {
            panic!("it is a list");
        };
        cast(&column, &DataType::LargeList(Arc::clone(item))).expect("it is wider")
    };
    for (headers, prefix) in [
        (lists(&given, &DataType::Utf8), 't'),
        (lists(&given, &DataType::Utf8View), 't'),
        (lists(&given, &DataType::Binary), 'b'),
        (large(lists(&given, &DataType::LargeBinary)), 'b'),
        (Arc::new(map(&given)) as ArrayRef, 't'),
    ] {
        let batch = table(vec![("value", Arc::clone(&value)), ("headers", headers)]);
        let rows = read(&batch, &Naming::default()).expect("they can be sent");
        for (row, list) in given.iter().enumerate() {
            let expected = list.iter();
            let expected =
                expected.map(|(name, value)| ((*name).to_owned(), format!("{prefix}{value}")));
            let found = header_pairs(rows.get(row).headers);
            assert_eq!(found, expected.collect::<Vec<_>>());
        }
    }
}

#[test]
fn added_headers_give_way_to_those_of_the_row() {
    let headers = lists(&[&[("trace", "own")], &[]], &DataType::Utf8);
    let batch = table(vec![
        ("value", texts(vec![Some("x"); 2])),
        ("headers", headers),
    ]);
    let plan = Plan::new(batch.schema_ref(), &Naming::default()).expect("it is valid");
    let mut encoded = Vec::new();
    push(Value::Text("trace"), Value::Text("hook"), &mut encoded).expect("short");
    let name = "trace".to_owned();
    let added = [AddedHeader { name, encoded }];
    let rows = Rows::new(&plan, &batch, 0, &added, true).expect("they can be sent");
    let found = [0, 1].map(|row| header_pairs(rows.get(row).headers)[0].1.clone());
    assert_eq!(found, ["town", "thook"]);
}

#[test]
fn a_key_chooses_the_partition_even_if_it_is_not_stored() {
    let batch = table(vec![
        ("value", texts(vec![Some("x")])),
        ("key", texts(vec![Some("k")])),
    ]);
    let plan = Plan::new(batch.schema_ref(), &Naming::default()).expect("it is valid");
    let rows = Rows::new(&plan, &batch, 0, &[], false).expect("they can be sent");
    assert_eq!(
        (rows.get(0).key, rows.get(0).headers),
        (Some(&b"k"[..]), &[][..])
    );
}

#[test]
fn ids_and_partitions_are_integers_of_any_width() {
    let value = texts(vec![Some("x"); 2]);
    let bytes = 7_u128.to_le_bytes();
    let binary = BinaryArray::from(vec![Some(&bytes[..]), None]);
    let fixed =
        FixedSizeBinaryArray::try_from_sparse_iter_with_size([Some(bytes), None].into_iter(), 16);
    for id in [
        Arc::new(binary) as ArrayRef,
        Arc::new(fixed.expect("16 bytes each")),
        Arc::new(Int32Array::from(vec![Some(7), None])),
        Arc::new(UInt64Array::from(vec![Some(7), None])),
    ] {
        let batch = table(vec![("value", Arc::clone(&value)), ("id", id)]);
        let rows = read(&batch, &Naming::default()).expect("they can be sent");
        assert_eq!([0, 1].map(|row| rows.get(row).id), [7, 0]);
    }
    for kind in [
        DataType::Int8,
        DataType::UInt32,
        DataType::Int64,
        DataType::UInt64,
    ] {
        let partition = cast(&Int64Array::from(vec![Some(1), None]), &kind).expect("small");
        let batch = table(vec![
            ("value", Arc::clone(&value)),
            ("partition", partition),
        ]);
        let rows = read(&batch, &Naming::default()).expect("they can be sent");
        assert_eq!([0, 1].map(|row| rows.get(row).partition), [Some(1), None]);
    }
}

#[test]
fn a_row_that_cannot_be_a_message_is_named() {
    let long = "k".repeat(256);
    let bad_id = BinaryArray::from(vec![&[1; 16][..], &[1; 3]]);
    let cases: Vec<(&str, ArrayRef, &str)> = vec![
        (
            "value",
            texts(vec![Some("a"), None]),
            "it is null, and a message has a payload",
        ),
        (
            "key",
            texts(vec![None, Some("")]),
            "the key has 0 bytes, 1 to 255 are allowed",
        ),
        (
            "key",
            texts(vec![None, Some(&long)]),
            "the key has 256 bytes, 1 to 255 are allowed",
        ),
        ("id", Arc::new(bad_id), "the id has 3 bytes, an id has 16"),
        (
            "id",
            Arc::new(Int64Array::from(vec![1, -1])),
            "the id is -1, and ids have no sign",
        ),
        (
            "partition",
            Arc::new(Int64Array::from(vec![1, -1])),
            "-1 is no id of a partition; they are 0 to 4294967295",
        ),
        (
            "partition",
            Arc::new(UInt64Array::from(vec![1, u64::MAX])),
            "9223372036854775807 is no id of a partition; they are 0 to 4294967295",
        ),
        (
            "headers",
            lists(&[&[], &[(KEY_HEADER, "x")]], &DataType::Utf8),
            "header \"headrace.key\" holds the key of a message; give it as a column of keys",
        ),
        (
            "headers",
            lists(&[&[], &[("a", "")]], &DataType::Utf8),
            "names and values of headers have 1 to 255 bytes, header \"a\" has 1 and 0",
        ),
    ];
    for (name, column, text) in cases {
        let mut columns = vec![(name, column)];
        if name != "value" {
            columns.push(("value", texts(vec![Some("x"); 2])));
        }
        let problem = read(&table(columns), &Naming::default()).expect_err("row 1 is wrong");
        let expected = format!("row 101, column {name:?}: {text}");
        assert_eq!(problem.to_string(), expected);
    }
}

#[test]
fn a_table_of_messages_gives_the_messages() {
    let mut headers = Vec::new();
    push(Value::Text(KEY_HEADER), Value::Raw(b"anna"), &mut headers).expect("short");
    push(Value::Text("gift"), Value::Raw(b"yes"), &mut headers).expect("short");
    let messages: [(u128, &[u8], &[u8]); 2] = [(1, b"tea", &headers), (u128::MAX, b"milk", b"")];
    let batch = record_batch(&Column::ALL, decoded(&Column::ALL, &messages).remove(0));
    let rows = read(&batch, &Naming::default()).expect("they can be sent");
    for (row, (id, payload, user_headers)) in messages.into_iter().enumerate() {
        let found = rows.get(row);
        assert_eq!(
            (found.id, found.payload, found.headers),
            (id, payload, user_headers)
        );
        assert_eq!(found.partition, Some(3));
    }
}
