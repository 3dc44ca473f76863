//! Reader of payload fields.

use headrace_model::Namespace;
use headrace_wire::Malformed;

/// Cursor that takes fields off the front of a payload. Every method fails instead of reading past the end.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

macro_rules! integers {
    ($($name:ident: $type:ty),*) => {
        $(
            pub(super) fn $name(&mut self) -> Result<$type, Malformed> {
                self.array().map(<$type>::from_le_bytes)
            }
        )*
    };
}

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    integers!(u8: u8, u16: u16, u32: u32, u64: u64, u128: u128, i32: i32);

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(*array)
    }

    /// Read a boolean: exactly 0 or 1.
    pub(super) fn bool(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            code => Err(Malformed::UnknownCode(code)),
        }
    }

    /// Read a packed namespace, whose unused bits must be 0.
    pub(super) fn namespace(&mut self) -> Result<Namespace, Malformed> {
        Namespace::from_packed(self.u64()?).ok_or(Malformed::ReservedNotZero)
    }

    /// Read a four-byte length and the text.
    pub(super) fn text(&mut self) -> Result<&'a str, Malformed> {
        let length = self.u32()? as usize;
        let (text, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(Malformed::Truncated)?;
        self.rest = rest;
        core::str::from_utf8(text).map_err(|_| Malformed::InvalidUtf8)
    }

    /// Number of bytes not read yet.
    pub(super) const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Fail if bytes remain.
    pub(super) const fn finish(&self) -> Result<(), Malformed> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(Malformed::TrailingBytes)
        }
    }
}
