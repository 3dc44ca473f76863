//! A cursor over bytes that came from a peer.

use crate::{Identifier, Malformed};

/// Takes fields off the front of a slice; every method fails instead of reading past the end.
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

    /// Any non-zero byte is true.
    pub fn bool(&mut self) -> Result<bool, Malformed> {
        self.u8().map(|byte| byte != 0)
    }

    /// An optional flag: exactly 1 means present, anything else absent.
    pub fn is_present(&mut self) -> Result<bool, Malformed> {
        self.u8().map(|byte| byte == 1)
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

    /// `Name`: one length byte, 1 to 255 bytes of text.
    pub fn name(&mut self) -> Result<&'a str, Malformed> {
        let length = self.u8()?;
        if length == 0 {
            return Err(Malformed::InvalidLength);
        }
        self.text(usize::from(length))
    }

    /// `Pass`: like a name, but may be empty; the command checks the range.
    pub fn password(&mut self) -> Result<&'a str, Malformed> {
        let length = self.u8()?;
        self.text(usize::from(length))
    }

    /// `Str32`: a four-byte length, then possibly empty text.
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

    /// A four-byte length, then so many bytes.
    pub fn bytes32(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.u32()?;
        self.bytes(length as usize)
    }

    /// 0 or 1, and nothing else.
    pub fn flag(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            flag => Err(Malformed::UnknownCode(flag)),
        }
    }

    /// `OptPartition`: always five bytes; what follows an absent flag is ignored.
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

    /// Everything that has not been taken yet.
    pub fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.rest)
    }

    /// Refuse what was not taken.
    pub fn finish(&self) -> Result<(), Malformed> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(Malformed::TrailingBytes)
        }
    }
}
