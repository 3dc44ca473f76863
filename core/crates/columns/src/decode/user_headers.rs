//! Decoding of user headers to a key and a list.

use std::io::Write;

use headrace_wire::headers::{Field, Pair, Value, pairs};

use super::growing::{Binary, Offsets, Validity};
use crate::KEY_HEADER;
use crate::array::Array;

/// Key of the row: the value of the first header with the reserved name. None also if the headers before it are not
/// readable, as clients may encrypt them.
#[inline]
pub(super) fn key_of(user_headers: &[u8]) -> Option<&[u8]> {
    for pair in pairs(user_headers) {
        let pair = pair.ok()?;
        if holds_key(&pair) {
            return Some(pair.value.bytes());
        }
    }
    None
}

fn holds_key(pair: &Pair<'_>) -> bool {
    matches!(pair.key.value(), Ok(Value::Text(KEY_HEADER)))
}

/// List of key-value pairs for each message.
#[derive(Debug, Default)]
pub(super) struct Lists {
    offsets: Offsets,
    validity: Validity,
    keys: Binary,
    values: Binary,
}

impl Lists {
    /// Append the headers of a message; null if they are not readable, or if a header's key cannot be written as text.
    #[inline]
    pub(super) fn push(&mut self, user_headers: &[u8]) {
        let is_readable = user_headers.is_empty() || self.push_pairs(user_headers).is_some();
        if !is_readable {
            self.keys.truncate(self.offsets.end());
            self.values.truncate(self.offsets.end());
        }
        self.validity.push(is_readable);
        self.offsets.push(self.keys.len());
    }

    fn push_pairs(&mut self, user_headers: &[u8]) -> Option<()> {
        let mut has_key = false;
        for pair in pairs(user_headers) {
            let pair = pair.ok()?;
            if !has_key && holds_key(&pair) {
                has_key = true;
                continue;
            }
            self.keys.write(|data| write_text(pair.key, data))?;
            self.values.push(pair.value.bytes());
        }
        Some(())
    }

    pub(super) fn finish(&mut self) -> Array {
        let pairs = Array {
            length: self.keys.len(),
            null_count: 0,
            buffers: vec![None],
            children: vec![self.keys.finish((0, None)), self.values.finish((0, None))],
        };
        let (null_count, validity) = self.validity.finish();
        Array {
            length: self.offsets.len(),
            null_count,
            buffers: vec![validity, Some(self.offsets.finish())],
            children: vec![pairs],
        }
    }
}

/// Write a header's key as text, numbers in decimal. None if the key is malformed, or raw bytes that are not UTF-8.
fn write_text(key: Field<'_>, out: &mut Vec<u8>) -> Option<()> {
    let written = match key.value().ok()? {
        Value::Raw(bytes) => {
            out.extend_from_slice(str::from_utf8(bytes).ok()?.as_bytes());
            Ok(())
        }
        Value::Text(text) => {
            out.extend_from_slice(text.as_bytes());
            Ok(())
        }
        Value::Bool(value) => write!(out, "{value}"),
        Value::Int8(value) => write!(out, "{value}"),
        Value::Int16(value) => write!(out, "{value}"),
        Value::Int32(value) => write!(out, "{value}"),
        Value::Int64(value) => write!(out, "{value}"),
        Value::Int128(value) => write!(out, "{value}"),
        Value::Uint8(value) => write!(out, "{value}"),
        Value::Uint16(value) => write!(out, "{value}"),
        Value::Uint32(value) => write!(out, "{value}"),
        Value::Uint64(value) => write!(out, "{value}"),
        Value::Uint128(value) => write!(out, "{value}"),
        Value::Float32(value) => write!(out, "{value}"),
        Value::Float64(value) => write!(out, "{value}"),
    };
    written.ok()
}
