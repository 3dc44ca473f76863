//! Responses to the extension commands.

use alloc::sync::Arc;
use alloc::vec::Vec;

use headrace_model::{Offset, Opening};

use super::part::{Part, payload};
use super::{Capabilities, WatchedPartition, read_counted, write_all};
use crate::Malformed;
use crate::reader::Reader;
use crate::writer::Writer;

/// Quantity that a [`Limit`] bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum LimitKind {
    /// Maximum number of bytes in the payload of a request other than `SendMessages`.
    RequestBytes = 1,
    /// Maximum number of bytes in the payload of `SendMessages`.
    SendBytes = 2,
    /// Maximum number of bytes of messages in one response; a single message may be larger.
    PollBytes = 3,
    /// Maximum wait of `WaitMessages`, in microseconds.
    WaitMicros = 4,
    /// Maximum number of partitions that the connections of one shard may wait for and watch in total.
    WaitedPartitions = 5,
}

/// State of a watched partition, and the openings of its log: the notifications of a connection that asks for them.
///
/// Layout: `WatchedPartition state · u32 openings_count · (u64 epoch · u64 end)[openings_count]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedLog {
    /// State as in other notifications.
    pub state: WatchedPartition,
    /// Openings of the log, ascending; the last one is the present. None if they are unknown. See
    /// [`headrace_model::cut_since`].
    pub openings: Arc<[Opening]>,
}

impl Capabilities {
    /// Value of a limit that the server announced.
    pub fn limit(&self, kind: LimitKind) -> Option<u64> {
        let found = self.limits.iter().find(|limit| limit.kind == kind as u32);
        found.map(|limit| limit.value)
    }
}

payload!(WatchedLog);

impl Part<'_> for u32 {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.u32()
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u32(*self);
    }
}

impl From<WatchedPartition> for WatchedLog {
    /// The openings are unknown.
    fn from(state: WatchedPartition) -> Self {
        Self {
            state,
            openings: Arc::default(),
        }
    }
}

impl Part<'_> for WatchedLog {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let state = WatchedPartition::read(reader)?;
        let count = reader.u32()?;
        let openings: Vec<Opening> = read_counted(reader, count)?;
        Ok(Self {
            state,
            openings: openings.into(),
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        self.state.write(out);
        out.count(self.openings.len());
        write_all(&self.openings, out);
    }
}

impl Part<'_> for Opening {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            epoch: reader.u64()?,
            end: Offset(reader.u64()?),
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u64(self.epoch);
        out.u64(self.end.0);
    }
}
