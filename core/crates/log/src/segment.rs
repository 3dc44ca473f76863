//! One segment: what of it is appended, written, synced, and where its files stand.

use headrace_model::Offset;

use crate::index::Index;
use crate::verified::Verified;

/// Where a file stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileState {
    /// Nothing was asked of the storage yet.
    Missing,
    /// Its creation is under way.
    Creating,
    /// It can be written to.
    Ready,
    /// Writing to it failed; it is left alone.
    Broken,
}

/// One segment. The last of a log is open, the ones before are sealed.
///
/// `synced <= written <= size`, all three in bytes from the segment's start.
#[derive(Debug)]
pub(crate) struct Segment {
    /// Offset of its first message.
    pub(crate) base: Offset,
    /// Offset after its last message.
    pub(crate) end: Offset,
    /// Bytes appended, those still in memory included.
    pub(crate) size: u64,
    /// Bytes whose write completed.
    pub(crate) written: u64,
    /// Bytes known to be on the device.
    pub(crate) synced: u64,
    /// Bytes for which space was asked for.
    pub(crate) allocated: u64,
    /// There may be space reserved behind its end.
    pub(crate) has_reserve: bool,
    pub(crate) log_file: FileState,
    pub(crate) index_file: FileState,
    /// Bytes of whole entries in the index file.
    pub(crate) index_length: u64,
    /// Operations under way that change one of its files as a whole.
    pub(crate) reshaping: u8,
    /// The index file says where the messages end, and that is where they still end.
    pub(crate) end_saved: bool,
    /// Timestamp of its first message, when known.
    pub(crate) first_timestamp: Option<u64>,
    /// Timestamp of its last message, when known: 0 before the first message.
    pub(crate) last_timestamp: Option<u64>,
    pub(crate) index: Index,
    pub(crate) verified: Verified,
}

impl Segment {
    /// A segment to be created.
    pub(crate) fn new(base: Offset, last_timestamp: u64) -> Self {
        Self {
            base,
            end: base,
            size: 0,
            written: 0,
            synced: 0,
            allocated: 0,
            has_reserve: false,
            log_file: FileState::Missing,
            index_file: FileState::Missing,
            index_length: 0,
            reshaping: 0,
            end_saved: false,
            first_timestamp: None,
            last_timestamp: Some(last_timestamp),
            index: Index::new(base, 0),
            verified: Verified::default(),
        }
    }

    /// A segment found on disk that is followed by one with messages, so that all of it is on the device.
    pub(crate) fn sealed(base: Offset, end: Offset, size: u64) -> Self {
        Self {
            end,
            size,
            written: size,
            synced: size,
            allocated: size,
            log_file: FileState::Ready,
            index_file: FileState::Ready,
            end_saved: true,
            last_timestamp: None,
            index: Index::new(base, size),
            ..Self::new(base, 0)
        }
    }

    /// Bytes that a loss of power would take.
    pub(crate) fn unsynced(&self) -> u64 {
        self.written - self.synced
    }

    /// Whether its files can be removed now.
    pub(crate) fn is_removable(&self) -> bool {
        self.is_settled() && self.reshaping == 0
    }

    /// Whether a sealed segment needs nothing more from the storage.
    pub(crate) fn is_settled(&self) -> bool {
        self.synced == self.size && (self.end_saved || self.index_file == FileState::Broken)
    }
}
