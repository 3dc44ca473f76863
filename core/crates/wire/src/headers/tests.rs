use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use proptest::collection;
use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone, PartialEq)]
enum Owned {
    Raw(Vec<u8>),
    Text(String),
    Number(u8, u128),
}

impl Owned {
    fn value(&self) -> Value<'_> {
        match self {
            Self::Raw(bytes) => Value::Raw(bytes),
            Self::Text(text) => Value::Text(text),
            &Self::Number(kind, number) =>
            {
                #[allow(
                    clippy::cast_possible_truncation,
                    clippy::cast_possible_wrap,
                    reason = "any bits will do"
                )]
                match kind {
                    3 => Value::Bool(number & 1 == 1),
                    4 => Value::Int8(number as i8),
                    5 => Value::Int16(number as i16),
                    6 => Value::Int32(number as i32),
                    7 => Value::Int64(number as i64),
                    8 => Value::Int128(number as i128),
                    9 => Value::Uint8(number as u8),
                    10 => Value::Uint16(number as u16),
                    11 => Value::Uint32(number as u32),
                    12 => Value::Uint64(number as u64),
                    13 => Value::Uint128(number),
                    14 => Value::Float32(f32::from(number as i16)),
                    _ => Value::Float64(f64::from(number as i32)),
                }
            }
        }
    }
}

fn owned() -> impl Strategy<Value = Owned> {
    prop_oneof![
        collection::vec(any::<u8>(), 1..=255).prop_map(Owned::Raw),
        "\\PC{1,60}".prop_map(Owned::Text),
        (3_u8..=15, any::<u128>()).prop_map(|(kind, number)| Owned::Number(kind, number)),
    ]
}

/// One pair from raw parts.
fn raw_pair(key: (u8, u32, &[u8]), value: (u8, u32, &[u8])) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, length, content) in [key, value] {
        bytes.push(kind);
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(content);
    }
    bytes
}

#[test]
fn structural_damage_is_reported_once() {
    let sound = raw_pair((2, 1, b"k"), (9, 1, &[7]));
    for (damaged, malformed) in [
        (
            raw_pair((0, 1, b"k"), (9, 1, &[7])),
            Malformed::UnknownCode(0),
        ),
        (
            raw_pair((2, 1, b"k"), (0, 1, &[7])),
            Malformed::UnknownCode(0),
        ),
        (
            raw_pair((2, 0, b""), (9, 1, &[7])),
            Malformed::InvalidLength,
        ),
        (
            raw_pair((2, 256, &[b'k'; 256]), (9, 1, &[7])),
            Malformed::InvalidLength,
        ),
        (raw_pair((2, 1, b"k"), (9, 200, &[7])), Malformed::Truncated),
        // A key without a value.
        (sound[..6].to_vec(), Malformed::Truncated),
    ] {
        let mut bytes = sound.clone();
        bytes.extend_from_slice(&damaged);
        let results: Vec<_> = pairs(&bytes).collect();
        assert_eq!(results.len(), 2);
        assert!(results[0].is_ok());
        assert_eq!(results[1], Err(malformed));
    }
}

#[test]
fn a_field_must_have_the_size_of_its_kind() {
    let sizes = [1, 1, 1, 1, 2, 4, 8, 16, 1, 2, 4, 8, 16, 4, 8];
    for (kind, size) in (1_u8..).zip(sizes) {
        let bytes = vec![0; size];
        let field = Field::new(kind, &bytes).expect("a field");
        assert!(field.value().is_ok(), "kind {kind}");
        if kind > 2 {
            let longer = vec![0; size + 1];
            let error = Field::new(kind, &longer).expect("a field").value();
            let error = error.expect_err("too long for its kind");
            assert_eq!(error.key_status(), Status(4018));
            assert_eq!(error.value_status(), Status(4019));
        }
    }
    let unknown = Field::new(16, &[0]).expect("a field").value();
    let unknown = unknown.expect_err("an unknown kind");
    assert_eq!(unknown.key_status(), Status(4040));
    assert_eq!(unknown.value_status(), Status(4040));
    let text = Field::new(2, &[0xff]).expect("a field");
    assert_eq!(
        text.value().map_err(FieldError::value_status),
        Err(Status(4019))
    );
    assert_eq!(
        Field::new(3, &[2]).expect("a field").value(),
        Ok(Value::Bool(true))
    );
}

#[test]
fn values_without_an_encoding_leave_no_trace() {
    let long = "x".repeat(256);
    let mut out = vec![1];
    assert_eq!(
        push(Value::Text(""), Value::Uint8(1), &mut out),
        Err(Status(4018))
    );
    assert_eq!(
        push(Value::Text("k"), Value::Text(&long), &mut out),
        Err(Status(4019))
    );
    assert_eq!(out, [1]);
    assert_eq!(Field::new(0, b"x"), None);
}

proptest! {
    #[test]
    fn reading_undoes_writing(headers in collection::vec((owned(), owned()), 0..6)) {
        let mut bytes = Vec::new();
        for (key, value) in &headers {
            prop_assert_eq!(push(key.value(), value.value(), &mut bytes), Ok(()));
        }
        let read: Vec<_> = pairs(&bytes).collect::<Result<_, _>>().expect("sound");
        prop_assert_eq!(read.len(), headers.len());
        for (pair, (key, value)) in read.iter().zip(&headers) {
            prop_assert_eq!(pair.key.value(), Ok(key.value()));
            prop_assert_eq!(pair.value.value(), Ok(value.value()));
        }
        let mut again = Vec::new();
        encode(read, &mut again);
        prop_assert_eq!(again, bytes);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in collection::vec(any::<u8>(), 0..200)) {
        for pair in pairs(&bytes).flatten() {
            prop_assert_eq!(Field::new(pair.key.kind(), pair.key.bytes()), Some(pair.key));
            let _ = (pair.key.value(), pair.value.value());
        }
    }
}
