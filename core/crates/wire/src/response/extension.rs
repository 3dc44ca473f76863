//! Answers to the commands that the classic protocol does not have.

use alloc::vec::Vec;

use super::part::{Part, payload};
use super::{read_counted, write_all};
use crate::Malformed;
use crate::reader::Reader;
use crate::writer::Writer;

/// What a server offers beyond the classic protocol: the answer to `Capabilities`.
///
/// Layout: `u32 version · u32 codes_count · u32 code[codes_count] · u32 limits_count · Limit[limits_count]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// Grows when the meaning of an extension changes.
    pub version: u32,
    /// The commands, ascending.
    pub codes: Vec<u32>,
    /// Limits, ascending by kind. A client passes over those that it does not know.
    pub limits: Vec<Limit>,
}

/// One limit of a server. Layout: `u32 kind · u64 value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The number of a [`LimitKind`], or of one that came later.
    pub kind: u32,
    /// In the unit of its kind.
    pub value: u64,
}

/// What a [`Limit`] limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum LimitKind {
    /// Bytes in the payload of a request other than `SendMessages`.
    RequestBytes = 1,
    /// Bytes in the payload of `SendMessages`.
    SendBytes = 2,
    /// Bytes of messages in one answer; a single message may be larger.
    PollBytes = 3,
    /// Microseconds that `WaitMessages` waits.
    WaitMicros = 4,
    /// Partitions that the requests of one shard may wait for in all.
    WaitedPartitions = 5,
}

impl Capabilities {
    /// The value of a limit that the server has told.
    pub fn limit(&self, kind: LimitKind) -> Option<u64> {
        let found = self.limits.iter().find(|limit| limit.kind == kind as u32);
        found.map(|limit| limit.value)
    }
}

payload!(Capabilities);

impl Part<'_> for Capabilities {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let version = reader.u32()?;
        let codes_count = reader.u32()?;
        let codes = read_counted(reader, codes_count)?;
        let limits_count = reader.u32()?;
        Ok(Self {
            version,
            codes,
            limits: read_counted(reader, limits_count)?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u32(self.version);
        out.count(self.codes.len());
        write_all(&self.codes, out);
        out.count(self.limits.len());
        write_all(&self.limits, out);
    }
}

impl Part<'_> for u32 {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.u32()
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u32(*self);
    }
}

impl Part<'_> for Limit {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            kind: reader.u32()?,
            value: reader.u64()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u32(self.kind);
        out.u64(self.value);
    }
}
