//! Purposes of the storage operations that a log has under way.

use headrace_model::Offset;

use crate::storage::FileName;

/// Purpose of an operation under way.
#[derive(Debug)]
pub(crate) enum Pending {
    Recover(Step),
    Manifest,
    ManifestCopy,
    /// The manifest is being replaced by one that says where the log ends.
    Truncation,
    CreateLog(Offset),
    CreateIndex(Offset),
    Write {
        segment: Offset,
        bytes: u64,
        end: Offset,
    },
    Sync {
        segment: Offset,
        position: u64,
        end: Offset,
    },
    Save(Saving),
    /// Space is being reserved or released, or an index file is being replaced. Nothing depends on the outcome.
    Maintenance(Offset),
    Remove,
    Wipe,
    Read(ReadId),
    Load,
    /// The header of a segment's first message is being read.
    FirstMessage(Offset),
    /// The outcome makes no difference.
    Ignored,
}

impl Pending {
    /// Return whether the operation changes nothing.
    pub(crate) fn is_read(&self) -> bool {
        matches!(
            self,
            Self::Read(_) | Self::Load | Self::FirstMessage(_) | Self::Ignored
        )
    }
}

/// Operation that recovery waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    List,
    Manifest { file: FileName },
    SetAsideDirectory,
    RemoveTruncated { file: FileName },
    FirstMessage,
    Index { start: u64 },
    Uncache { position: u64 },
    Scan { asked: u32 },
    Rename { file: FileName, into: FileName },
    SetAside { into: FileName },
    Cut,
    Sync,
    CutIndex,
}

/// Index entries that are being written to an index file.
#[derive(Debug)]
pub(crate) struct Saving {
    pub(crate) segment: Offset,
    pub(crate) entries: usize,
    /// End of the messages, if an end entry is among the entries.
    pub(crate) end: Option<u64>,
}

/// Id of a read under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadId(pub(crate) u64);
