//! State of one read, and its result.

use alloc::vec::Vec;

use headrace_buffer::Slice;
use headrace_model::{Offset, Timestamp};

use crate::error::ReadError;
use crate::operations::pending::ReadId;
use crate::reading::cursor::Place;

/// Start of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFrom {
    /// Start at this offset, or at the first one retained if that is larger.
    Offset(Offset),
    /// Start at the first message whose server timestamp is not smaller.
    Timestamp(Timestamp),
}

/// Messages read, back to back, in ascending order of offset.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Messages {
    /// The bytes.
    pub slices: Vec<Slice>,
    /// Number of messages.
    pub messages_count: u32,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Offset of the last message, if there is one.
    pub last_offset: Option<Offset>,
}

/// The result of [`Log::read`](crate::Log::read).
#[derive(Debug)]
pub enum Started {
    /// All messages were in memory.
    Done(Result<Messages, ReadError>),
    /// The storage is read; [`Log::take_finished_read`](crate::Log::take_finished_read) will return the result.
    Pending(ReadId),
}

/// State of one read.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) id: ReadId,
    pub(crate) skip: SkipUntil,
    pub(crate) count: u32,
    pub(crate) bytes: u64,
    /// Limit that not even the first message may exceed.
    pub(crate) bytes_max: u64,
    pub(crate) found: Messages,
    /// Place at which the read continues, once known.
    pub(crate) place: Option<Place>,
    /// Bytes read from `place` on.
    pub(crate) read_ahead: Slice,
    /// Size in bytes of the next message.
    pub(crate) needed: u64,
    pub(crate) asked: u64,
    /// Maximum number of bytes to request at once.
    pub(crate) asked_max: u64,
    /// True if memory was lacking and the read has to be repeated.
    pub(crate) waits_for_memory: bool,
    pub(crate) message_bytes: u64,
    pub(crate) sequential: u8,
    /// The segment whose index has to be loaded first.
    pub(crate) waits_for: Option<Offset>,
    pub(crate) has_rebuilt: bool,
}

/// Condition by which leading messages are skipped.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SkipUntil {
    Until(u64),
    OlderThan(u64),
}
