//! `StageMessages`: messages that stay invisible until a transaction commits them.

use super::{Payload, SendMessages};
use crate::Status;
use crate::reader::Reader;
use crate::writer::Writer;

/// Store messages of a transaction, one chunk per request.
///
/// Layout: `u128 stage · u32 lifetime_seconds · u32 chunk · u8 is_last · SendMessages`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageMessages<'a> {
    /// Stage to continue; 0 creates a new one.
    pub stage: u128,
    /// Time within which a new stage can be committed; 0 leaves it to the server.
    pub lifetime_seconds: u32,
    /// Number of the chunk, counted from 0 in each stage.
    pub chunk: u32,
    /// True for the last chunk.
    pub is_last: bool,
    /// Messages and their destination. The last chunk may have no messages.
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
