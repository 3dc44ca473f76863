//! Encoding of refusals, including all details that a refusal has within one process.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use headrace_model::{Offset, StageId};
use headrace_partition::storage::{FileName, StorageError, StorageErrorKind};
use headrace_partition::{Failure, PartitionError, ReadError};
use headrace_wire::Malformed;

use super::fields::Fields;
use super::reader::Reader;
use crate::Refusal;

/// First code of the refusals; smaller codes are responses.
pub(super) const FIRST: u8 = NOT_FOUND;

const NOT_FOUND: u8 = 16;
const NOTHING_ASSIGNED: u8 = 17;
const NOT_OWNER: u8 = 18;
const NOT_READY: u8 = 19;
const ELSEWHERE: u8 = 20;
const UNAVAILABLE: u8 = 21;
const TOPIC_FULL: u8 = 22;
const BUSY: u8 = 32;
const INVALID_OFFSET: u8 = 33;
const OFFSET_NOT_FOUND: u8 = 34;
const MALFORMED_BATCH: u8 = 35;
const READ_BUSY: u8 = 36;
const READ_DAMAGED: u8 = 37;
const READ_STORAGE: u8 = 38;
const REMOVE: u8 = 39;
const FAILED: u8 = 40;
const CLOSED: u8 = 41;
const STAGE_NOT_FOUND: u8 = 42;
const STAGE_OUT_OF_ORDER: u8 = 43;
const STAGE_TOO_LARGE: u8 = 44;
const STAGES_EXHAUSTED: u8 = 45;
const STORE: u8 = 46;
const TOO_MANY_CONSUMERS: u8 = 47;
const READ_TOO_LARGE: u8 = 48;
const OFFSET_OF_ANOTHER_USER: u8 = 49;

pub(super) fn write(out: &mut Vec<u8>, refusal: &Refusal) {
    match refusal {
        Refusal::NotFound => out.u8(NOT_FOUND),
        Refusal::NothingAssigned => out.u8(NOTHING_ASSIGNED),
        Refusal::NotOwner => out.u8(NOT_OWNER),
        Refusal::NotReady => out.u8(NOT_READY),
        Refusal::TopicFull => out.u8(TOPIC_FULL),
        Refusal::Elsewhere => out.u8(ELSEWHERE),
        Refusal::Unavailable => out.u8(UNAVAILABLE),
        Refusal::Partition(error) => write_error(out, error),
    }
}

fn write_error(out: &mut Vec<u8>, error: &PartitionError) {
    match error {
        PartitionError::Busy => out.u8(BUSY),
        PartitionError::InvalidOffset { requested } => {
            out.u8(INVALID_OFFSET);
            out.u64(requested.0);
        }
        PartitionError::OffsetNotFound => out.u8(OFFSET_NOT_FOUND),
        PartitionError::MalformedBatch => out.u8(MALFORMED_BATCH),
        PartitionError::Read(ReadError::Busy) => out.u8(READ_BUSY),
        PartitionError::Read(ReadError::TooLarge { bytes }) => {
            out.u8(READ_TOO_LARGE);
            out.u64(*bytes);
        }
        PartitionError::Read(ReadError::Damaged {
            namespace,
            offset,
            file,
            position,
        }) => {
            out.u8(READ_DAMAGED);
            out.namespace(*namespace);
            out.u64(offset.0);
            write_file(out, *file);
            out.u64(*position);
        }
        PartitionError::Read(ReadError::Storage {
            namespace,
            file,
            source,
        }) => {
            out.u8(READ_STORAGE);
            out.namespace(*namespace);
            write_file(out, *file);
            write_storage(out, *source);
        }
        PartitionError::Remove {
            namespace,
            file,
            source,
        } => {
            out.u8(REMOVE);
            out.namespace(*namespace);
            write_file(out, *file);
            write_storage(out, *source);
        }
        PartitionError::Failed(failure) => {
            out.u8(FAILED);
            out.namespace(failure.namespace);
            out.bool(failure.readable);
            let length = u32::try_from(failure.reason.len()).expect("reasons are sentences");
            out.u32(length);
            out.extend_from_slice(failure.reason.as_bytes());
        }
        PartitionError::Closed => out.u8(CLOSED),
        PartitionError::StageNotFound => out.u8(STAGE_NOT_FOUND),
        PartitionError::StageOutOfOrder { expected } => {
            out.u8(STAGE_OUT_OF_ORDER);
            out.u32(*expected);
        }
        PartitionError::StageTooLarge => out.u8(STAGE_TOO_LARGE),
        PartitionError::StagesExhausted => out.u8(STAGES_EXHAUSTED),
        PartitionError::TooManyConsumers => out.u8(TOO_MANY_CONSUMERS),
        PartitionError::OffsetOfAnotherUser => out.u8(OFFSET_OF_ANOTHER_USER),
        PartitionError::Store {
            namespace,
            file,
            source,
        } => {
            out.u8(STORE);
            out.namespace(*namespace);
            write_file(out, *file);
            write_storage(out, *source);
        }
    }
}

fn write_file(out: &mut Vec<u8>, file: FileName) {
    let (kind, offset) = match file {
        FileName::Log(offset) => (1, offset.0),
        FileName::Index(offset) => (2, offset.0),
        FileName::Offsets => (3, 0),
        FileName::Manifest => (4, 0),
        FileName::Transactions => (5, 0),
        FileName::ManifestCopy => (10, 0),
        FileName::Stage(stage) => {
            out.u8(6);
            return out.u128(stage.0);
        }
        FileName::DamagedStage(stage) => {
            out.u8(9);
            return out.u128(stage.0);
        }
        FileName::Cut(offset, number) => {
            out.u8(7);
            out.u64(offset.0);
            return out.u32(number);
        }
        FileName::Foreign(offset, number) => {
            out.u8(8);
            out.u64(offset.0);
            return out.u32(number);
        }
    };
    out.u8(kind);
    out.u64(offset);
}

fn write_storage(out: &mut Vec<u8>, error: StorageError) {
    out.u8(match error.kind {
        StorageErrorKind::Missing => 1,
        StorageErrorKind::NoSpace => 2,
        StorageErrorKind::Damaged => 3,
        StorageErrorKind::Exhausted => 4,
        StorageErrorKind::Other => 5,
    });
    out.i32(error.os_error);
}

/// Read the refusal that follows its code.
pub(super) fn read(code: u8, reader: &mut Reader<'_>) -> Result<Refusal, Malformed> {
    Ok(match code {
        NOT_FOUND => Refusal::NotFound,
        NOTHING_ASSIGNED => Refusal::NothingAssigned,
        NOT_OWNER => Refusal::NotOwner,
        NOT_READY => Refusal::NotReady,
        TOPIC_FULL => Refusal::TopicFull,
        ELSEWHERE => Refusal::Elsewhere,
        UNAVAILABLE => Refusal::Unavailable,
        code => Refusal::Partition(read_error(code, reader)?),
    })
}

fn read_error(code: u8, reader: &mut Reader<'_>) -> Result<PartitionError, Malformed> {
    Ok(match code {
        BUSY => PartitionError::Busy,
        INVALID_OFFSET => PartitionError::InvalidOffset {
            requested: reader.offset()?,
        },
        OFFSET_NOT_FOUND => PartitionError::OffsetNotFound,
        MALFORMED_BATCH => PartitionError::MalformedBatch,
        READ_BUSY => PartitionError::Read(ReadError::Busy),
        READ_TOO_LARGE => PartitionError::Read(ReadError::TooLarge {
            bytes: reader.u64()?,
        }),
        READ_DAMAGED => PartitionError::Read(ReadError::Damaged {
            namespace: reader.namespace()?,
            offset: reader.offset()?,
            file: read_file(reader)?,
            position: reader.u64()?,
        }),
        READ_STORAGE => PartitionError::Read(ReadError::Storage {
            namespace: reader.namespace()?,
            file: read_file(reader)?,
            source: read_storage(reader)?,
        }),
        REMOVE => PartitionError::Remove {
            namespace: reader.namespace()?,
            file: read_file(reader)?,
            source: read_storage(reader)?,
        },
        FAILED => PartitionError::Failed(Arc::new(Failure {
            namespace: reader.namespace()?,
            readable: reader.bool()?,
            reason: String::from(reader.text()?),
        })),
        CLOSED => PartitionError::Closed,
        STAGE_NOT_FOUND => PartitionError::StageNotFound,
        STAGE_OUT_OF_ORDER => PartitionError::StageOutOfOrder {
            expected: reader.u32()?,
        },
        STAGE_TOO_LARGE => PartitionError::StageTooLarge,
        STAGES_EXHAUSTED => PartitionError::StagesExhausted,
        TOO_MANY_CONSUMERS => PartitionError::TooManyConsumers,
        OFFSET_OF_ANOTHER_USER => PartitionError::OffsetOfAnotherUser,
        STORE => PartitionError::Store {
            namespace: reader.namespace()?,
            file: read_file(reader)?,
            source: read_storage(reader)?,
        },
        code => return Err(Malformed::UnknownCode(code)),
    })
}

fn read_file(reader: &mut Reader<'_>) -> Result<FileName, Malformed> {
    let kind = reader.u8()?;
    if kind == 6 {
        return Ok(FileName::Stage(StageId(reader.u128()?)));
    }
    if kind == 9 {
        return Ok(FileName::DamagedStage(StageId(reader.u128()?)));
    }
    if kind == 7 {
        return Ok(FileName::Cut(reader.offset()?, reader.u32()?));
    }
    if kind == 8 {
        return Ok(FileName::Foreign(reader.offset()?, reader.u32()?));
    }
    match (kind, reader.u64()?) {
        (1, offset) => Ok(FileName::Log(Offset(offset))),
        (2, offset) => Ok(FileName::Index(Offset(offset))),
        (3, 0) => Ok(FileName::Offsets),
        (4, 0) => Ok(FileName::Manifest),
        (5, 0) => Ok(FileName::Transactions),
        (10, 0) => Ok(FileName::ManifestCopy),
        (3..=5 | 10, _) => Err(Malformed::ReservedNotZero),
        (kind, _) => Err(Malformed::UnknownCode(kind)),
    }
}

fn read_storage(reader: &mut Reader<'_>) -> Result<StorageError, Malformed> {
    Ok(StorageError {
        kind: match reader.u8()? {
            1 => StorageErrorKind::Missing,
            2 => StorageErrorKind::NoSpace,
            3 => StorageErrorKind::Damaged,
            4 => StorageErrorKind::Exhausted,
            5 => StorageErrorKind::Other,
            code => return Err(Malformed::UnknownCode(code)),
        },
        os_error: reader.i32()?,
    })
}
