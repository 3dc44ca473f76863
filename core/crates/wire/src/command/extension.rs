//! Trace contexts of requests.

use super::Payload;
use crate::Status;
use crate::reader::Reader;
use crate::writer::Writer;

/// Set the trace context of the next request on this connection, as defined by W3C Trace Context.
///
/// Layout: `u8[16] trace_id · u8[8] span_id · u8 flags`, the ids in the order of their hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetTraceContext {
    /// Trace id.
    pub trace_id: u128,
    /// Parent span of the request.
    pub span_id: u64,
    /// Flags; bit 0: the trace is sampled.
    pub flags: u8,
}

impl<'a> Payload<'a> for SetTraceContext {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            trace_id: u128::from_be_bytes(*reader.array()?),
            span_id: u64::from_be_bytes(*reader.array()?),
            flags: reader.u8()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.bytes(&self.trace_id.to_be_bytes());
        out.bytes(&self.span_id.to_be_bytes());
        out.u8(self.flags);
    }
}
