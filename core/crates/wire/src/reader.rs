//! Cursor over untrusted bytes from a peer.

use crate::{Identifier, Malformed};

/// Cursor that takes fields off the front of a slice; every method fails instead of reading past the end.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

macro_rules! integers {
    ($($name:ident: $type:ty),*) => {
        $(
            pub fn $name(&mut self) -> Result<$type, Malformed> {
                self.array().map(|bytes| <$type>::from_le_bytes(*bytes))
            }
        )*
    };
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    integers!(u8: u8, u16: u16, u32: u32, u64: u64, u128: u128, f32: f32);

    /// Read a boolean: any non-zero byte is true.
    pub fn bool(&mut self) -> Result<bool, Malformed> {
        self.u8().map(|byte| byte != 0)
    }

    /// Read the flag of an optional field: exactly 1 means present, any other value absent.
    pub fn is_present(&mut self) -> Result<bool, Malformed> {
        self.u8().map(|byte| byte == 1)
    }

    /// Read a field after its flag.
    pub fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        if self.is_present()? {
            read(self).map(Some)
        } else {
            Ok(None)
        }
    }

    pub fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], Malformed> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(array)
    }

    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Read a `Name`: one length byte, 1 to 255 bytes of text.
    pub fn name(&mut self) -> Result<&'a str, Malformed> {
        let length = self.u8()?;
        if length == 0 {
            return Err(Malformed::InvalidLength);
        }
        self.text(usize::from(length))
    }

    /// Read a `Pass`: like a name, but may be empty; the command checks the range.
    pub fn password(&mut self) -> Result<&'a str, Malformed> {
        let length = self.u8()?;
        self.text(usize::from(length))
    }

    /// Read a `Str32`: a four-byte length, followed by possibly empty text.
    pub fn str32(&mut self) -> Result<&'a str, Malformed> {
        let length = self.u32()?;
        self.text(length as usize)
    }

    pub fn text(&mut self, length: usize) -> Result<&'a str, Malformed> {
        core::str::from_utf8(self.bytes(length)?).map_err(|_| Malformed::InvalidUtf8)
    }

    pub fn identifier(&mut self) -> Result<Identifier<'a>, Malformed> {
        Identifier::read(self)
    }

    /// Read a four-byte length and that many bytes.
    pub fn bytes32(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.u32()?;
        self.bytes(length as usize)
    }

    /// Read a flag: exactly 0 or 1.
    pub fn flag(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            flag => Err(Malformed::UnknownCode(flag)),
        }
    }

    /// Read an `OptPartition`: always five bytes; the value after an absent flag is ignored.
    pub fn optional_partition(&mut self) -> Result<Option<u32>, Malformed> {
        let present = self.is_present()?;
        let partition_id = self.u32()?;
        Ok(present.then_some(partition_id))
    }

    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Take all remaining bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.rest)
    }

    /// Fail if bytes remain.
    pub fn finish(&self) -> Result<(), Malformed> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(Malformed::TrailingBytes)
        }
    }
}
