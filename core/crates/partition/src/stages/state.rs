//! Operations on the files of stages, and the progress of loading these.

use alloc::string::String;
use alloc::vec::Vec;

use headrace_log::storage::{FileName, StorageError, StorageOutcome};
use headrace_model::StageId;

/// Purpose of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    ReadRecord,
    ReadEnd {
        stage: StageId,
        length: u64,
    },
    Create(StageId),
    Write {
        stage: StageId,
        bytes: u64,
    },
    Sync(StageId),
    Uncache(StageId),
    ReadEndAgain(StageId),
    Remove(StageId),
    SetAside(StageId),
    StoreRecord,
    ReadBlocks(BlockRead),
    /// The outcome makes no difference.
    Disowned,
}

/// Part of a stage that is read to be appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockRead {
    pub(super) number: u64,
    pub(super) stage: StageId,
    pub(super) asked: u64,
    /// Number of bytes from there to the end of the messages.
    pub(super) left: u64,
}

/// Effect of a completed operation on the partition.
#[derive(Debug)]
pub(crate) enum CompletionEffect {
    Nothing,
    /// A file cannot be read that the partition needs to be opened.
    NotLoaded(FileName, StorageError),
    /// Space is missing for the record of publications.
    LacksSpace(StorageError),
    /// A file is not valid.
    FileInvalid(String),
    /// Messages were read to be appended.
    Read(BlockRead, Result<StorageOutcome, StorageError>),
}

/// Progress of loading.
#[derive(Debug)]
pub(super) enum Loading {
    /// The files are not known yet.
    NotStarted,
    /// Files that remain to be read.
    Reading {
        files: Vec<(FileName, u64)>,
        is_under_way: bool,
    },
    Loaded,
}
