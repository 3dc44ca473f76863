//! What a log asks of its storage, and what it hears back.
//!
//! A log does no I/O. It emits [`StorageRequest`]s; the host executes them in any order and hands each one back as
//! exactly one [`StorageCompletion`]. Whatever depends on another operation is only requested when that one has
//! completed, so a host never has to order anything.

use alloc::format;
use alloc::vec::Vec;
use core::fmt;

use headrace_buffer::{Buffer, Slice};
use headrace_model::{Offset, StageId};

/// Bytes of one [`StorageOperation::Write`], at most.
pub const WRITE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Step in which space is allocated ahead of the writer.
pub const ALLOCATE_STEP_BYTES: u64 = 32 * 1024 * 1024;

/// A file of one partition. The host maps it to a path: see [`FileName`]'s `Display` for the name in the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileName {
    /// Messages of the segment that starts at this offset.
    Log(Offset),
    /// Positions within that segment, derived from its log.
    Index(Offset),
    /// Bytes cut from the end of the segment's log, the first time, the second time and so on. Nothing reads it.
    Cut(Offset, u32),
    /// A log by the name of this segment that is not this partition's, the first one, the second one and so on. Nothing
    /// reads it.
    Foreign(Offset, u32),
    /// Stored offsets of consumers and groups.
    Offsets,
    /// Which life of the partition the files belong to.
    Manifest,
    /// Messages that wait for their transaction.
    Stage(StageId),
    /// Which transactions have been published.
    Transactions,
}

impl FileName {
    /// The file that `Display` writes as `name`; none for names that are not a partition's.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "offsets" => return Some(Self::Offsets),
            "partition.json" => return Some(Self::Manifest),
            "transactions" => return Some(Self::Transactions),
            _ => {}
        }
        let (digits, extension) = name.split_once('.')?;
        if extension == "stage" {
            return parse_stage(digits).map(Self::Stage);
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
            Self::Stage(StageId(stage)) => write!(formatter, "{stage:032x}.stage"),
            Self::Transactions => formatter.write_str("transactions"),
        }
    }
}

/// One operation, to be answered with a [`StorageCompletion`] of the same id.
#[derive(Debug)]
pub struct StorageRequest {
    /// Unique among the operations of its partition.
    pub id: u64,
    /// What to do.
    pub operation: StorageOperation,
}

/// What to do with a partition's folder or one of its files.
#[derive(Debug, Clone)]
pub enum StorageOperation {
    /// Create the folder if it is missing. Completes as [`StorageOutcome::Listed`] when the folder, its own name and those
    /// in it are durable: a process that was killed may have made some and not synced them.
    Prepare,
    /// Create the file, empty; what was there is dropped. The folder is synced before this completes.
    Create {
        /// The file.
        file: FileName,
    },
    /// Write all slices, one after the other; whole or an error. At most 1024 slices and [`WRITE_BYTES_MAX`].
    Write {
        /// An existing file.
        file: FileName,
        /// Where the first byte goes.
        position: u64,
        /// The bytes.
        slices: Vec<Slice>,
    },
    /// Read. Completes as [`StorageOutcome::Read`] with as many bytes as there are, short only at the end of the file.
    Read {
        /// An existing file.
        file: FileName,
        /// The first byte wanted.
        position: u64,
        /// Bytes wanted.
        length: u32,
    },
    /// Make completed writes of this file survive a loss of power (`fdatasync`).
    Sync {
        /// An existing file.
        file: FileName,
    },
    /// Cut the file to this length. Space allocated beyond it is given back.
    Truncate {
        /// An existing file.
        file: FileName,
        /// Its new length.
        length: u64,
    },
    /// Cut the file to this length when what was behind is in another file, on the device.
    SetAside {
        /// An existing file.
        file: FileName,
        /// Its new length.
        length: u64,
        /// The other file, which is created. What was there is dropped.
        into: FileName,
    },
    /// Advice to reserve space without changing the file's length. May fail without consequence.
    Allocate {
        /// An existing file.
        file: FileName,
        /// Where the space begins.
        position: u64,
        /// How much of it.
        length: u64,
    },
    /// Give the file these contents in one step that survives a loss of power: either the old or the new are there.
    Replace {
        /// The file, which need not exist.
        file: FileName,
        /// All of its new contents.
        contents: Vec<u8>,
    },
    /// Give the file another name, on the device. What was there is dropped.
    Rename {
        /// An existing file.
        file: FileName,
        /// Its name from now on.
        into: FileName,
    },
    /// Remove the file; fine when it is missing.
    Remove {
        /// The file.
        file: FileName,
    },
}

/// The one answer to a [`StorageRequest`].
#[derive(Debug)]
pub struct StorageCompletion {
    /// The request's id.
    pub id: u64,
    /// What became of it.
    pub result: Result<StorageOutcome, StorageError>,
}

/// What a successful operation yields.
#[derive(Debug)]
pub enum StorageOutcome {
    /// The partition's files with their sizes in bytes, ascending by name as [`FileName`] orders them.
    Listed(Vec<(FileName, u64)>),
    /// The bytes read: `len()` of them.
    Read(Buffer),
    /// Nothing but success.
    Done,
}

/// Why an operation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{kind} (os error {os_error})")]
pub struct StorageError {
    /// What it means.
    pub kind: StorageErrorKind,
    /// The system's number, 0 when there is none.
    pub os_error: i32,
}

/// What a failure means to the partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StorageErrorKind {
    /// The file is not there.
    #[error("the file is missing")]
    Missing,
    /// The device is full, or a quota is.
    #[error("no space is left")]
    NoSpace,
    /// The device reports that it cannot give back what was stored.
    #[error("the device reports damage")]
    Damaged,
    /// No memory or no handle is free just now. Whatever it was is repeated later, or answered as busy; never for a
    /// sync, the failure of which is final.
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

    /// LOG-2, LOG-13: the names on disk are those of the 20-digit start offset.
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
            (
                FileName::Stage(StageId(0xab << 64 | 1)),
                "00000000000000ab0000000000000001.stage",
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
