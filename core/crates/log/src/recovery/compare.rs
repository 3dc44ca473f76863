//! Comparison of a log with the record of its first message, which identifies the log.

use headrace_model::Offset;
use headrace_wire::message::{HEADER_BYTES, HeaderView};

use crate::segment::FirstMessage;
use crate::storage::{FileName, StorageOperation};
use crate::walk::verified_message_at;

/// Finding about the first message of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// The log is the one that was recorded, or nothing speaks against it.
    Same(FirstMessage),
    /// A read of the whole message, of this length, is needed.
    Needs(u64),
    /// The log begins with an intact message that is another one.
    Another(u64),
    /// The first message is damaged, so that it cannot say whose the log is.
    Damaged(u64),
}

/// Read of this many bytes from the beginning of a segment's log.
pub(crate) fn beginning(base: Offset, length: u64) -> StorageOperation {
    StorageOperation::Read {
        file: FileName::Log(base),
        position: 0,
        length: u32::try_from(length).expect("a message is smaller than 4 GiB"),
    }
}

/// Compare the beginning of a log with the checksum of its first message. The last message decides where that is damaged.
pub(crate) fn compare(base: Offset, size: u64, recorded: Option<u64>, bytes: &[u8]) -> Comparison {
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>().map(HeaderView) else {
        let unknown = Comparison::Same(FirstMessage::Unknown);
        return recorded.map_or(unknown, Comparison::Damaged);
    };
    let Some(recorded) = recorded else {
        let is_first = header.offset() == base.0;
        return Comparison::Same(if is_first {
            FirstMessage::Checked(header.checksum())
        } else {
            FirstMessage::Unknown
        });
    };
    let length = header.message_bytes();
    if header.checksum() == recorded {
        return Comparison::Same(FirstMessage::Checked(recorded));
    }
    if header.offset() != base.0 || length > size {
        return Comparison::Damaged(recorded);
    }
    if length > bytes.len() as u64 {
        return Comparison::Needs(length);
    }
    match verified_message_at(bytes, base.0) {
        Ok(_) => Comparison::Another(recorded),
        Err(_) => Comparison::Damaged(recorded),
    }
}
