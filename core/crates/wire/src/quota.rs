//! Quotas of users and topics.

use crate::Malformed;
use crate::reader::Reader;
use crate::writer::Writer;

/// Limits of what a user or a topic uses. 0 stands for no limit.
///
/// Layout: `u64 sent_bytes_per_second · u64 read_bytes_per_second · u64 held_bytes · u32 connections`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    /// Bytes of messages sent per second.
    pub sent_bytes_per_second: u64,
    /// Bytes of messages read per second.
    pub read_bytes_per_second: u64,
    /// Bytes that a topic holds; 0 for a user.
    pub held_bytes: u64,
    /// Connections that a user has at a time; 0 for a topic.
    pub connections: u32,
}

impl Quota {
    /// Smallest rate, in bytes per second: each request counts as that much at least.
    pub const RATE_BYTES_MIN: u64 = 1024;

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            sent_bytes_per_second: reader.u64()?,
            read_bytes_per_second: reader.u64()?,
            held_bytes: reader.u64()?,
            connections: reader.u32()?,
        })
    }

    pub(crate) fn write(self, out: &mut Writer<'_>) {
        out.u64(self.sent_bytes_per_second);
        out.u64(self.read_bytes_per_second);
        out.u64(self.held_bytes);
        out.u32(self.connections);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::Quota;

    /// Build a quota from arbitrary values.
    pub(crate) fn quota(large: u64, medium: u32) -> Quota {
        Quota {
            sent_bytes_per_second: large,
            read_bytes_per_second: large.rotate_left(7),
            held_bytes: large.rotate_left(11),
            connections: medium,
        }
    }
}
