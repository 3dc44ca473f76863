//! State of one segment: appended, written and synced bytes, and its files.

use headrace_model::Offset;

use crate::index::Index;
use crate::manifest::KnownMessage;
use crate::reading::verified::Verified;

/// Segment size from which space is allocated ahead: most partitions are small and numerous.
pub(crate) const ALLOCATE_FROM_BYTES: u64 = 4 * 1024 * 1024;

/// State of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileState {
    /// Creation was not requested yet.
    Missing,
    /// Creation is under way.
    Creating,
    /// Writable.
    Ready,
    /// A write failed; the file is not used any more.
    Broken,
}

/// Knowledge of the first message in a segment's log; the checksum of that message identifies the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstMessage {
    /// Unknown: empty, or of a server that did not record it.
    Unknown,
    /// This is its checksum.
    Checked(u64),
    /// This should be its checksum, which is compared before the first read.
    Recorded(u64),
    /// The log begins with another message than the one with this checksum.
    Exchanged(u64),
}

impl FirstMessage {
    /// The checksum to record.
    pub(crate) const fn recorded(self) -> Option<u64> {
        match self {
            Self::Unknown => None,
            Self::Checked(checksum) | Self::Recorded(checksum) | Self::Exchanged(checksum) => {
                Some(checksum)
            }
        }
    }
}

/// The file with a segment's index entries, which is derived from the log.
#[derive(Debug)]
pub(crate) struct IndexFile {
    pub(crate) state: FileState,
    /// Size in bytes of the whole entries in the file.
    pub(crate) length: u64,
    /// True if the file has the end of the messages, and it is still current.
    pub(crate) has_end: bool,
}

impl IndexFile {
    const MISSING: Self = Self {
        state: FileState::Missing,
        length: 0,
        has_end: false,
    };
}

/// One segment. The last segment of a log is open, the ones before are sealed.
///
/// Invariant: `synced <= written <= size`, in bytes from the segment's start.
#[derive(Debug)]
pub(crate) struct Segment {
    /// Offset of the first message.
    pub(crate) base: Offset,
    /// Offset after the last message.
    pub(crate) end: Offset,
    /// Number of bytes appended, including those still in memory.
    pub(crate) size: u64,
    /// Number of bytes whose write completed.
    pub(crate) written: u64,
    /// Number of bytes known to be on the device.
    pub(crate) synced: u64,
    /// Number of bytes for which space was requested.
    pub(crate) allocated: u64,
    /// True if space may be reserved behind the end.
    pub(crate) has_reserve: bool,
    pub(crate) log_file: FileState,
    pub(crate) index_file: IndexFile,
    /// Number of operations under way that change one of the files as a whole.
    pub(crate) maintenance_in_flight: u8,
    pub(crate) first_message: FirstMessage,
    /// Last message, if known.
    pub(crate) last_message: Option<KnownMessage>,
    /// Timestamp of the first message, if known.
    pub(crate) first_timestamp: Option<u64>,
    /// Timestamp of the last message, if known; 0 before the first message.
    pub(crate) last_timestamp: Option<u64>,
    pub(crate) index: Index,
    pub(crate) verified: Verified,
}

impl Segment {
    /// Segment that has no files yet.
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
            index_file: IndexFile::MISSING,
            maintenance_in_flight: 0,
            first_message: FirstMessage::Unknown,
            last_message: None,
            first_timestamp: None,
            last_timestamp: Some(last_timestamp),
            index: Index::new(base, 0),
            verified: Verified::default(),
        }
    }

    /// Segment found on disk and followed by one with messages, so that all of it is on the device.
    pub(crate) fn sealed(base: Offset, end: Offset, size: u64) -> Self {
        Self {
            end,
            size,
            written: size,
            synced: size,
            allocated: size,
            log_file: FileState::Ready,
            index_file: IndexFile {
                state: FileState::Ready,
                length: 0,
                has_end: true,
            },
            last_timestamp: None,
            index: Index::new(base, size),
            ..Self::new(base, 0)
        }
    }

    /// Number of bytes that a loss of power would lose.
    pub(crate) fn unsynced(&self) -> u64 {
        self.written - self.synced
    }

    /// Return whether the files can be removed now.
    pub(crate) fn is_removable(&self) -> bool {
        self.needs_no_storage() && self.maintenance_in_flight == 0
    }

    /// Return whether a sealed segment needs no more storage operations.
    pub(crate) fn needs_no_storage(&self) -> bool {
        self.synced == self.size
            && (self.index_file.has_end || self.index_file.state == FileState::Broken)
    }
}
