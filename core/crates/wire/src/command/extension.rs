//! Commands that the classic protocol does not have: only clients that ask for them meet them.

use super::{Payload, PollMessages};
use crate::Status;
use crate::reader::Reader;
use crate::writer::Writer;

/// Read messages, and wait for them when there are not enough.
///
/// Layout: `PollMessages · u32 minimum_bytes · u64 maximum_wait_micros`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitMessages<'a> {
    /// What to read. It is answered in the same form.
    pub poll: PollMessages<'a>,
    /// Bytes of messages that are worth an answer before the time is over; 0 for an answer at once.
    pub minimum_bytes: u32,
    /// Microseconds after which the answer is what there is; the server has a limit of its own.
    pub maximum_wait_micros: u64,
}

impl<'a> Payload<'a> for WaitMessages<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            poll: PollMessages::read(reader)?,
            minimum_bytes: reader.u32()?,
            maximum_wait_micros: reader.u64()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        self.poll.write(out);
        out.u32(self.minimum_bytes);
        out.u64(self.maximum_wait_micros);
    }
}
