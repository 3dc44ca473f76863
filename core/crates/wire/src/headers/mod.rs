//! User headers of a message: key and value pairs, back to back, without count or end mark.
//!
//! One pair is `u8 key_kind · u32 key_length · key · u8 value_kind · u32 value_length · value`, both lengths 1 to 255.
//! Servers treat the block as opaque; this module is for clients and tools. Reading has two stages, as in the official
//! clients: the structure ([`pairs`], where damage makes all headers of the message unusable), and the type of a field
//! ([`Field::value`]).

use alloc::vec::Vec;

use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Malformed, Status};

/// A key or a value: its kind, which may be undefined, and 1 to 255 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Field<'a> {
    kind: u8,
    bytes: &'a [u8],
}

/// One header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair<'a> {
    /// The key, usually a text.
    pub key: Field<'a>,
    /// The value.
    pub value: Field<'a>,
}

/// A typed key or value. Numbers are little-endian on the wire.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// Kind 1, 1 to 255 bytes.
    Raw(&'a [u8]),
    /// Kind 2, 1 to 255 bytes.
    Text(&'a str),
    /// Kind 3.
    Bool(bool),
    /// Kind 4.
    Int8(i8),
    /// Kind 5.
    Int16(i16),
    /// Kind 6.
    Int32(i32),
    /// Kind 7.
    Int64(i64),
    /// Kind 8.
    Int128(i128),
    /// Kind 9.
    Uint8(u8),
    /// Kind 10.
    Uint16(u16),
    /// Kind 11.
    Uint32(u32),
    /// Kind 12.
    Uint64(u64),
    /// Kind 13.
    Uint128(u128),
    /// Kind 14.
    Float32(f32),
    /// Kind 15.
    Float64(f64),
}

/// Field whose bytes do not match its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// The kind is not defined (4040).
    #[error("header kind {0} is not defined")]
    UnknownKind(u8),
    /// The length does not match the kind, or a text is not UTF-8 (4018 for a key, 4019 for a value).
    #[error("{length} bytes are not a header of kind {kind}")]
    Invalid {
        /// The kind.
        kind: u8,
        /// Bytes of the field.
        length: usize,
    },
}

impl FieldError {
    /// Status with which a client reports this error in a key.
    pub fn key_status(self) -> Status {
        match self {
            Self::UnknownKind(_) => Status::INVALID_HEADER_KIND,
            Self::Invalid { .. } => Status::INVALID_HEADER_KEY,
        }
    }

    /// Status with which a client reports this error in a value.
    pub fn value_status(self) -> Status {
        match self {
            Self::UnknownKind(_) => Status::INVALID_HEADER_KIND,
            Self::Invalid { .. } => Status::INVALID_HEADER_VALUE,
        }
    }
}

/// Iterate over the headers of a message.
pub fn pairs(user_headers: &[u8]) -> Pairs<'_> {
    Pairs {
        reader: Reader::new(user_headers),
    }
}

/// Iterator over pairs; structural damage is reported once and ends the iteration.
///
/// Damage is kind 0, a length of 0 or above 255, and bytes that end inside a pair.
#[derive(Debug, Clone)]
pub struct Pairs<'a> {
    reader: Reader<'a>,
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Result<Pair<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let pair = Pair::read(&mut self.reader);
        if pair.is_err() {
            self.reader.rest();
        }
        Some(pair)
    }
}

impl core::iter::FusedIterator for Pairs<'_> {}

impl<'a> Pair<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            key: Field::read(reader)?,
            value: Field::read(reader)?,
        })
    }
}

impl<'a> Field<'a> {
    /// A field of any kind except 0 with 1 to 255 bytes; `None` for any other input.
    pub fn new(kind: u8, bytes: &'a [u8]) -> Option<Self> {
        (kind != 0 && (1..=255).contains(&bytes.len())).then_some(Self { kind, bytes })
    }

    /// Code of the kind, which may be undefined.
    pub fn kind(&self) -> u8 {
        self.kind
    }

    /// The bytes, 1 to 255.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The typed content. A boolean is true when its byte is not 0.
    pub fn value(&self) -> Result<Value<'a>, FieldError> {
        let invalid = FieldError::Invalid {
            kind: self.kind,
            length: self.bytes.len(),
        };
        macro_rules! number {
            ($type:ty, $variant:ident) => {
                self.bytes
                    .try_into()
                    .map(|bytes| Value::$variant(<$type>::from_le_bytes(bytes)))
                    .map_err(|_| invalid)
            };
        }
        match self.kind {
            1 => Ok(Value::Raw(self.bytes)),
            2 => core::str::from_utf8(self.bytes)
                .map(Value::Text)
                .map_err(|_| invalid),
            3 => match self.bytes {
                [byte] => Ok(Value::Bool(*byte != 0)),
                _ => Err(invalid),
            },
            4 => number!(i8, Int8),
            5 => number!(i16, Int16),
            6 => number!(i32, Int32),
            7 => number!(i64, Int64),
            8 => number!(i128, Int128),
            9 => number!(u8, Uint8),
            10 => number!(u16, Uint16),
            11 => number!(u32, Uint32),
            12 => number!(u64, Uint64),
            13 => number!(u128, Uint128),
            14 => number!(f32, Float32),
            15 => number!(f64, Float64),
            kind => Err(FieldError::UnknownKind(kind)),
        }
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let kind = reader.u8()?;
        if kind == 0 {
            return Err(Malformed::UnknownCode(0));
        }
        let length = reader.u32()?;
        if !(1..=255).contains(&length) {
            return Err(Malformed::InvalidLength);
        }
        Ok(Self {
            kind,
            bytes: reader.bytes(length as usize)?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u8(self.kind);
        out.count(self.bytes.len());
        out.bytes(self.bytes);
    }
}

/// Append headers in the order given; official clients write them by ascending key (kind, then bytes).
pub fn encode<'a>(pairs: impl IntoIterator<Item = Pair<'a>>, out: &mut Vec<u8>) {
    let mut writer = Writer::new(out);
    for pair in pairs {
        pair.key.write(&mut writer);
        pair.value.write(&mut writer);
    }
}

/// Append one header.
///
/// Fails with [`Status::INVALID_HEADER_KEY`] or [`Status::INVALID_HEADER_VALUE`] on a text or raw value that is empty
/// or longer than 255 bytes, and leaves `out` unchanged in that case.
pub fn push(key: Value<'_>, value: Value<'_>, out: &mut Vec<u8>) -> Result<(), Status> {
    let start = out.len();
    let mut writer = Writer::new(out);
    if !key.write(&mut writer) {
        return Err(Status::INVALID_HEADER_KEY);
    }
    if !value.write(&mut writer) {
        out.truncate(start);
        return Err(Status::INVALID_HEADER_VALUE);
    }
    Ok(())
}

impl Value<'_> {
    /// Write the field. Returns false and writes nothing if the field has no encoding.
    fn write(&self, out: &mut Writer<'_>) -> bool {
        let mut field = |kind, bytes: &[u8]| match Field::new(kind, bytes) {
            Some(field) => {
                field.write(out);
                true
            }
            None => false,
        };
        match *self {
            Self::Raw(bytes) => field(1, bytes),
            Self::Text(text) => field(2, text.as_bytes()),
            Self::Bool(value) => field(3, &[u8::from(value)]),
            Self::Int8(value) => field(4, &value.to_le_bytes()),
            Self::Int16(value) => field(5, &value.to_le_bytes()),
            Self::Int32(value) => field(6, &value.to_le_bytes()),
            Self::Int64(value) => field(7, &value.to_le_bytes()),
            Self::Int128(value) => field(8, &value.to_le_bytes()),
            Self::Uint8(value) => field(9, &value.to_le_bytes()),
            Self::Uint16(value) => field(10, &value.to_le_bytes()),
            Self::Uint32(value) => field(11, &value.to_le_bytes()),
            Self::Uint64(value) => field(12, &value.to_le_bytes()),
            Self::Uint128(value) => field(13, &value.to_le_bytes()),
            Self::Float32(value) => field(14, &value.to_le_bytes()),
            Self::Float64(value) => field(15, &value.to_le_bytes()),
        }
    }
}

#[cfg(test)]
mod tests;
