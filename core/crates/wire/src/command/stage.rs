//! `StageMessages`: messages that nobody sees before a transaction commits them.

use super::{Payload, SendMessages};
use crate::Status;
use crate::reader::Reader;
use crate::writer::Writer;

/// Store messages of a transaction, a chunk at a time.
///
/// Layout: `u128 stage · u32 lifetime_seconds · u32 chunk · u8 is_last · SendMessages`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageMessages<'a> {
    /// Which stage goes on; 0: a new one.
    pub stage: u128,
    /// Of a new one: how long it can be committed; 0 leaves it to the server.
    pub lifetime_seconds: u32,
    /// Counted from 0 in each stage.
    pub chunk: u32,
    /// Nothing follows.
    pub is_last: bool,
    /// The messages, and where to. The last chunk may have none.
    pub batch: SendMessages<'a>,
}

impl<'a> Payload<'a> for StageMessages<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            stage: reader.u128()?,
            lifetime_seconds: reader.u32()?,
            chunk: reader.u32()?,
            is_last: reader.bool()?,
            batch: SendMessages::read(reader)?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u128(self.stage);
        out.u32(self.lifetime_seconds);
        out.u32(self.chunk);
        out.bool(self.is_last);
        self.batch.write(out);
    }
}
