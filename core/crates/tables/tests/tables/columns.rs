//! Columns by what they are for: found by name, checked by type, and none lost.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, Int64Array, ListArray, StringArray, TimestampMicrosecondArray,
    types::Int64Type,
};
use headrace_tables::{Codec, Naming};

use crate::samples::{planned, table};

fn texts() -> ArrayRef {
    Arc::new(StringArray::from(vec!["a", "b"]))
}

fn numbers() -> ArrayRef {
    Arc::new(Int64Array::from(vec![1, 2]))
}

fn named(part: &str, name: &str) -> Naming {
    let name = Some(name.to_owned());
    let none = Naming::default();
    match part {
        "payload" => Naming {
            payload: name,
            ..none
        },
        "key" => Naming { key: name, ..none },
        "headers" => Naming {
            headers: name,
            ..none
        },
        "id" => Naming { id: name, ..none },
        _ => Naming {
            partition: name,
            ..none
        },
    }
}

#[track_caller]
fn refused(columns: Vec<(&str, ArrayRef)>, naming: &Naming, text: &str) {
    let problem = planned(&table(columns), naming).expect_err("the table is wrong");
    assert_eq!(problem.to_string(), text);
}

#[test]
fn columns_that_the_server_writes_are_left_out() {
    let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![1, 2]));
    let batch = table(vec![
        ("stream", texts()),
        ("topic", texts()),
        ("partition", numbers()),
        ("offset", numbers()),
        ("timestamp", Arc::clone(&times)),
        ("origin_timestamp", times),
        (
            "id",
            Arc::new(BinaryArray::from(vec![&[1; 16][..], &[2; 16]])),
        ),
        ("key", texts()),
        ("value", texts()),
    ]);
    planned(&batch, &Naming::default()).expect("a table of messages can be sent");
}

#[test]
fn a_missing_column_is_named_with_those_that_exist() {
    refused(
        vec![("a", texts()), ("b", texts())],
        &Naming::default(),
        "payload: no column is named \"value\" or \"payload\", there are a, b; name one by `payload`, or use a codec",
    );
    refused(
        vec![("value", texts())],
        &named("key", "customer"),
        "key: there is no column \"customer\"; there are value",
    );
    refused(
        vec![("value", texts()), ("payload", texts())],
        &Naming::default(),
        "payload: there is a column \"value\" and a column \"payload\"; name one of them by `payload`",
    );
    refused(
        vec![("value", texts()), ("value", texts())],
        &Naming::default(),
        "payload: two columns are named \"value\"",
    );
}

#[test]
fn a_column_that_would_be_lost_is_refused() {
    refused(
        vec![("value", texts()), ("price", numbers())],
        &Naming::default(),
        "column \"price\" (Int64) would not be sent; leave it out of the table, name what it is for, or use a codec",
    );
}

#[test]
fn a_wrong_type_is_named_with_those_that_are_taken() {
    let bytes = "binary and string, in any layout, and dictionaries of them";
    let lists = "lists of structs of a name (string) and a value (string or binary), and maps from string to string or \
                 binary";
    for (part, column, found, taken) in [
        ("payload", numbers(), "Int64", bytes),
        ("key", numbers(), "Int64", bytes),
        ("headers", texts(), "Utf8", lists),
        ("id", texts(), "Utf8", "binary of 16 bytes and integers"),
        ("partition", texts(), "Utf8", "integers"),
    ] {
        let mut columns = vec![("x", column)];
        if part != "payload" {
            columns.push(("value", texts()));
        }
        let text = format!("{part}: column \"x\" is {found}; taken are {taken}");
        refused(columns, &named(part, "x"), &text);
    }
    let lists_of_numbers = ListArray::from_iter_primitive::<Int64Type, _, _>(vec![
        Some(vec![Some(1)]),
        None::<Vec<Option<i64>>>,
    ]);
    let columns = vec![
        ("headers", Arc::new(lists_of_numbers) as ArrayRef),
        ("value", texts()),
    ];
    let problem = planned(&table(columns), &Naming::default()).expect_err("numbers");
    assert!(
        problem
            .to_string()
            .starts_with("headers: column \"headers\" is List(")
    );
}

#[test]
fn a_codec_makes_the_payloads_alone() {
    let both = Naming {
        codec: Some(Codec::Json),
        ..named("payload", "value")
    };
    refused(
        vec![("value", texts())],
        &both,
        "payload: column \"value\" and a codec exclude each other; a codec makes the payloads of all columns",
    );
    for part in ["key", "id", "partition"] {
        let naming = Naming {
            codec: Some(Codec::Arrow),
            ..named(part, "x")
        };
        let column = if part == "key" { texts() } else { numbers() };
        let text = format!(
            "{part}: codec \"arrow\" sends many rows in a message, so no column \"x\" decides about one"
        );
        refused(vec![("x", column)], &naming, &text);
    }
    assert_eq!(Codec::named("json"), Some(Codec::Json));
    assert_eq!(Codec::named("arrow"), Some(Codec::Arrow));
    assert_eq!(Codec::named("avro"), None);
}
