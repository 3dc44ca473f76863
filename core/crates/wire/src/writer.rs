//! Encoder of fields.

use alloc::vec::Vec;

use crate::{Identifier, NAME_BYTES_MAX, Partitioning, PollingStrategy};

/// Encoder that appends fields to a buffer. It remembers whether every value had an encoding, so that callers need no
/// error paths.
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    representable: bool,
}

macro_rules! integers {
    ($($name:ident: $type:ty),*) => {
        $(
            pub fn $name(&mut self, value: $type) {
                self.out.extend_from_slice(&value.to_le_bytes());
            }
        )*
    };
}

impl<'a> Writer<'a> {
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self {
            out,
            representable: true,
        }
    }

    /// Return whether every value written so far had an encoding. If false, the bytes written are meaningless.
    pub fn is_representable(&self) -> bool {
        self.representable
    }

    integers!(u8: u8, u16: u16, u32: u32, u64: u64, u128: u128, f32: f32);

    pub fn bool(&mut self, value: bool) {
        self.out.push(u8::from(value));
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Write a number of items or bytes as four bytes.
    pub fn count(&mut self, count: usize) {
        let count = self.fit_u32(count);
        self.u32(count);
    }

    /// Return the number of `items` as `u32`, for headers in which the count is not the last field.
    pub fn count_of<T>(&mut self, items: &[T]) -> u32 {
        self.fit_u32(items.len())
    }

    fn fit_u32(&mut self, count: usize) -> u32 {
        u32::try_from(count).unwrap_or_else(|_| {
            self.representable = false;
            0
        })
    }

    /// Write a `Name`: 1 to 255 bytes.
    pub fn name(&mut self, name: &str) {
        self.representable &= !name.is_empty();
        self.short(name.as_bytes());
    }

    /// Write a `Pass`: 0 to 255 bytes.
    pub fn password(&mut self, password: &str) {
        self.short(password.as_bytes());
    }

    /// Write a `Str32`.
    pub fn str32(&mut self, text: &str) {
        self.count(text.len());
        self.bytes(text.as_bytes());
    }

    /// Write a four-byte length and the bytes.
    pub fn bytes32(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.bytes(bytes);
    }

    /// Write a one-byte length and the bytes.
    pub fn short(&mut self, bytes: &[u8]) {
        let length = u8::try_from(bytes.len()).unwrap_or_else(|_| {
            self.representable = false;
            0
        });
        self.u8(length);
        self.bytes(bytes);
    }

    pub fn identifier(&mut self, identifier: Identifier<'_>) {
        match identifier {
            Identifier::Numeric(id) => {
                self.bytes(&[Identifier::KIND_NUMERIC, 4]);
                self.u32(id);
            }
            Identifier::Named(name) => {
                self.u8(Identifier::KIND_NAMED);
                self.name(name);
            }
        }
    }

    /// Write a field after its flag.
    pub fn optional<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.bool(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }

    pub fn optional_partition(&mut self, partition_id: Option<u32>) {
        self.bool(partition_id.is_some());
        self.u32(partition_id.unwrap_or(0));
    }

    pub fn polling(&mut self, strategy: PollingStrategy) {
        let (kind, value) = strategy.parts();
        self.u8(kind);
        self.u64(value);
    }

    pub fn partitioning(&mut self, partitioning: Partitioning<'_>) {
        match partitioning {
            Partitioning::Balanced => self.bytes(&[Partitioning::KIND_BALANCED, 0]),
            Partitioning::PartitionId(id) => {
                self.bytes(&[Partitioning::KIND_PARTITION_ID, 4]);
                self.u32(id);
            }
            Partitioning::MessagesKey(key) => {
                self.u8(Partitioning::KIND_MESSAGES_KEY);
                self.short(key);
            }
        }
    }
}

const _: () = assert!(
    NAME_BYTES_MAX == u8::MAX as usize,
    "a name's length is one byte"
);
