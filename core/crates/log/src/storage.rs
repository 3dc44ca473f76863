//! Storage interface of a log: requests and completions.
//!
//! A log does no I/O. It emits [`StorageRequest`]s; the host executes them in any order and returns each one as exactly
//! one [`StorageCompletion`]. An operation that depends on another is requested only after the other has completed, so
//! a host never has to order operations.

use alloc::format;
use alloc::vec::Vec;
use core::fmt;

use headrace_buffer::{Buffer, Slice};
use headrace_model::{Offset, StageId};

/// Maximum number of bytes of one [`StorageOperation::Write`].
pub const WRITE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Step in which space is allocated ahead of the writer.
pub const ALLOCATE_STEP_BYTES: u64 = 32 * 1024 * 1024;

/// A file of one partition. The host maps it to a path; [`FileName`]'s `Display` is the name in the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileName {
    /// Messages of the segment that starts at this offset.
    Log(Offset),
    /// Index of that segment, derived from its log.
    Index(Offset),
    /// Bytes cut from the end of the segment's log; the number counts the cuts from 1. The file is never read.
    Cut(Offset, u32),
    /// Foreign log that had the name of this segment; the number counts such logs from 1. The file is never read.
    Foreign(Offset, u32),
    /// Stored offsets of consumers and groups.
    Offsets,
    /// Manifest: owner, log generation and segments.
    Manifest,
    /// Copy of the manifest, which replaces one that is lost, damaged or another partition's.
    ManifestCopy,
    /// Messages staged for a transaction.
    Stage(StageId),
    /// Stage of a committed transaction that is damaged. The file is never read.
    DamagedStage(StageId),
    /// Record of the transactions that were published.
    Transactions,
}

impl FileName {
    /// Parse a name written by `Display`. None for names that are not a partition's.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "offsets" => return Some(Self::Offsets),
            "partition.json" => return Some(Self::Manifest),
            "partition.copy.json" => return Some(Self::ManifestCopy),
            "transactions" => return Some(Self::Transactions),
            _ => {}
        }
        let (digits, extension) = name.split_once('.')?;
        match extension {
            "stage" => return parse_stage(digits).map(Self::Stage),
            "stage-damaged" => return parse_stage(digits).map(Self::DamagedStage),
            _ => {}
        }
        if digits.len() != 20 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let offset = Offset(digits.parse().ok()?);
        match extension {
            "log" => Some(Self::Log(offset)),
            "index" => Some(Self::Index(offset)),
            _ => {
                let (kind, number) = extension.split_once('-')?;
                let parsed = number.parse().ok()?;
                let is_plain = number == format!("{parsed}");
                match kind {
                    "cut" if is_plain => Some(Self::Cut(offset, parsed)),
                    "foreign" if is_plain => Some(Self::Foreign(offset, parsed)),
                    _ => None,
                }
            }
        }
    }
}

fn parse_stage(digits: &str) -> Option<StageId> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() != 32 || !digits.bytes().all(is_digit) {
        return None;
    }
    u128::from_str_radix(digits, 16).ok().map(StageId)
}

impl fmt::Display for FileName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(Offset(offset)) => write!(formatter, "{offset:020}.log"),
            Self::Index(Offset(offset)) => write!(formatter, "{offset:020}.index"),
            Self::Cut(Offset(offset), number) => write!(formatter, "{offset:020}.cut-{number}"),
            Self::Foreign(Offset(offset), number) => {
                write!(formatter, "{offset:020}.foreign-{number}")
            }
            Self::Offsets => formatter.write_str("offsets"),
            Self::Manifest => formatter.write_str("partition.json"),
            Self::ManifestCopy => formatter.write_str("partition.copy.json"),
            Self::Stage(StageId(stage)) => write!(formatter, "{stage:032x}.stage"),
            Self::DamagedStage(StageId(stage)) => write!(formatter, "{stage:032x}.stage-damaged"),
            Self::Transactions => formatter.write_str("transactions"),
        }
    }
}

/// An operation, to be answered with a [`StorageCompletion`] of the same id.
#[derive(Debug)]
pub struct StorageRequest {
    /// Request id, unique among the operations of the partition.
    pub id: u64,
    /// Operation to execute.
    pub operation: StorageOperation,
}

/// Operation on a partition's directory or one of its files.
#[derive(Debug, Clone)]
pub enum StorageOperation {
    /// Create the directory if it is missing. Completes as [`StorageOutcome::Listed`] once the directory, its own name
    /// and those in it are durable: a process that was killed may have created names without syncing them.
    OpenDirectory,
    /// Move the directory, with everything in it, durably to the place for what no partition owns, and create an empty
    /// one.
    SetAsideDirectory,
    /// Create an empty file; previous contents are dropped. The directory is synced before this completes.
    Create {
        /// The file.
        file: FileName,
    },
    /// Write all slices, one after the other, completely or with an error. At most 1024 slices and [`WRITE_BYTES_MAX`].
    Write {
        /// An existing file.
        file: FileName,
        /// Position of the first byte.
        position: u64,
        /// The bytes.
        slices: Vec<Slice>,
    },
    /// Read bytes. Completes as [`StorageOutcome::Read`], short only at the end of the file.
    Read {
        /// An existing file.
        file: FileName,
        /// Position of the first byte.
        position: u64,
        /// Number of bytes.
        length: u32,
    },
    /// Make completed writes of this file survive a loss of power (`fdatasync`).
    Sync {
        /// An existing file.
        file: FileName,
    },
    /// Sync the file and drop its cached bytes, so that later reads return what is on the device: after a failed sync the
    /// cache may have bytes that the device does not have, and another sync succeeds. Unlike a sync it may be repeated.
    Uncache {
        /// An existing file.
        file: FileName,
        /// Position of the first byte to drop; bytes before it may stay in the cache.
        position: u64,
    },
    /// Truncate the file to this length. Space allocated beyond it is released.
    Truncate {
        /// An existing file.
        file: FileName,
        /// New length.
        length: u64,
    },
    /// Truncate the file to this length after the bytes behind it are in another file, on the device.
    CutOff {
        /// An existing file.
        file: FileName,
        /// New length.
        length: u64,
        /// The other file, which is created. Previous contents are dropped.
        into: FileName,
    },
    /// Reserve space without changing the file's length. Advisory: may fail without consequence.
    Allocate {
        /// An existing file.
        file: FileName,
        /// Start of the space.
        position: u64,
        /// Number of bytes.
        length: u64,
    },
    /// Replace the contents atomically and durably: after a loss of power the file has either the old or the new
    /// contents.
    Replace {
        /// The file, which need not exist.
        file: FileName,
        /// All new contents.
        contents: Vec<u8>,
    },
    /// Rename the file durably. An existing file of the new name is dropped.
    Rename {
        /// An existing file.
        file: FileName,
        /// New name.
        into: FileName,
    },
    /// Remove the file; succeeds if it is missing.
    Remove {
        /// The file.
        file: FileName,
    },
}

/// The single answer to a [`StorageRequest`].
#[derive(Debug)]
pub struct StorageCompletion {
    /// Id of the request.
    pub id: u64,
    /// Result of the operation.
    pub result: Result<StorageOutcome, StorageError>,
}

/// Result of a successful operation.
#[derive(Debug)]
pub enum StorageOutcome {
    /// The partition's files with their sizes in bytes, ascending by name as [`FileName`] orders them.
    Listed(Vec<(FileName, u64)>),
    /// The bytes read: `len()` of them.
    Read(Buffer),
    /// Success without data.
    Done,
}

/// Failure of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{kind} (os error {os_error})")]
pub struct StorageError {
    /// Meaning for the partition.
    pub kind: StorageErrorKind,
    /// Error number of the operating system, 0 if there is none.
    pub os_error: i32,
}

/// Meaning of a failure for the partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StorageErrorKind {
    /// The file does not exist.
    #[error("the file is missing")]
    Missing,
    /// The device or a quota is full.
    #[error("no space is left")]
    NoSpace,
    /// The device reports that stored bytes cannot be read.
    #[error("the device reports damage")]
    Damaged,
    /// No memory or no handle is free at present. The operation is repeated later or answered as busy, except a sync,
    /// whose failure is final.
    #[error("resources are exhausted")]
    Exhausted,
    /// Anything else.
    #[error("the operation failed")]
    Other,
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    /// LOG-2, LOG-13: file names on disk have the 20-digit start offset.
    #[test]
    fn names_are_parsed_back() {
        for (file, name) in [
            (FileName::Log(Offset(0)), "00000000000000000000.log"),
            (FileName::Index(Offset(1234)), "00000000000000001234.index"),
            (FileName::Log(Offset(u64::MAX)), "18446744073709551615.log"),
            (FileName::Cut(Offset(40), 3), "00000000000000000040.cut-3"),
            (
                FileName::Foreign(Offset(40), 1),
                "00000000000000000040.foreign-1",
            ),
            (FileName::Offsets, "offsets"),
            (FileName::Manifest, "partition.json"),
            (FileName::ManifestCopy, "partition.copy.json"),
            (
                FileName::Stage(StageId(0xab << 64 | 1)),
                "00000000000000ab0000000000000001.stage",
            ),
            (
                FileName::DamagedStage(StageId(0xab << 64 | 1)),
                "00000000000000ab0000000000000001.stage-damaged",
            ),
            (FileName::Transactions, "transactions"),
        ] {
            assert_eq!(file.to_string(), name);
            assert_eq!(FileName::parse(name), Some(file));
        }
        for name in [
            "",
            "0.log",
            "offsets.tmp",
            "00000000000000000000.LOG",
            "00000000000000000000.cut-",
            "00000000000000000000.cut-01",
            "00000000000000000000.kept-1",
            "00000000000000000000.foreign",
            "00000000000000000000.cut-+1",
            "99999999999999999999.log",
            "+0000000000000000000.log",
            "00000000000000AB0000000000000001.stage",
            "0.stage",
            "transactions.tmp",
        ] {
            assert_eq!(FileName::parse(name), None, "{name}");
        }
    }
}
