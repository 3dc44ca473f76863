//! Foreign logs: log files in the directory that are not this partition's.
//!
//! Only the manifest identifies them: it does not list them, or they begin with another message than it says. A foreign
//! log is renamed and reported, and never read.

use alloc::vec::Vec;

use headrace_model::Offset;
use headrace_wire::message::{HEADER_BYTES, HeaderView};

use crate::error::Notice;
use crate::log::{Log, Pending};
use crate::recovery::recover::{Outcome, Step};
use crate::segment::FirstMessage;
use crate::storage::{FileName, StorageOperation, StorageOutcome, StorageRequest};
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

impl Log {
    /// Rename the first log that is not listed; continue recovery with the listed ones when none is left.
    pub(crate) fn rename_foreign_logs(&mut self, out: &mut Vec<StorageRequest>) {
        self.finish_removals();
        let logs = self.recovery().logs();
        let is_foreign = |base: Offset| !self.record.may_exist(base);
        let Some((base, size)) = logs.into_iter().find(|(base, _)| is_foreign(*base)) else {
            return self.choose_active(out);
        };
        let file = FileName::Log(base);
        if size == 0 {
            // An empty log has no contents to preserve.
            self.recovery().files.retain(|(other, _)| *other != file);
            self.removals.push(file);
            return self.rename_foreign_logs(out);
        }
        self.rename_foreign_log(base, out);
    }

    fn rename_foreign_log(&mut self, base: Offset, out: &mut Vec<StorageRequest>) {
        let file = FileName::Log(base);
        let number = self.recovery().next_number(|file| match file {
            FileName::Foreign(of, number) if of == base => Some(number),
            _ => None,
        });
        let into = FileName::Foreign(base, number);
        let step = Step::Rename { file, into };
        let operation = StorageOperation::Rename { file, into };
        self.operations
            .start_repeated(Pending::Recover(step), operation, out);
    }

    pub(crate) fn foreign_set_aside(
        &mut self,
        (file, into): (FileName, FileName),
        outcome: &Outcome,
        out: &mut Vec<StorageRequest>,
    ) {
        if let Err(error) = outcome {
            return self.fail_recovery(file, *error);
        }
        let files = &mut self.recovery().files;
        let renamed = files.iter_mut().find(|(other, _)| *other == file);
        let bytes = renamed.map_or(0, |(name, bytes)| {
            *name = into;
            *bytes
        });
        self.notices.push(Notice::Foreign {
            file,
            bytes,
            kept: into,
        });
        self.rename_foreign_logs(out);
    }

    /// Read the beginning of the log that is about to be scanned.
    pub(crate) fn read_first_message(&mut self, length: u64, out: &mut Vec<StorageRequest>) {
        let operation = beginning(self.recovery().scanned_segment.0, length);
        self.operations
            .start_repeated(Pending::Recover(Step::FirstMessage), operation, out);
    }

    pub(crate) fn first_message_found(&mut self, outcome: &Outcome, out: &mut Vec<StorageRequest>) {
        let (base, size) = self.recovery().scanned_segment;
        let recorded = self
            .record
            .listed(base)
            .and_then(|listed| listed.first_checksum);
        let bytes = match outcome {
            Ok(StorageOutcome::Read(bytes)) => &bytes[..],
            // The scan meets the same failure, if it comes to that place.
            Ok(_) | Err(_) => &[],
        };
        match compare(base, size, recorded, bytes) {
            Comparison::Same(first) => {
                self.recovery().first_message = first;
                self.read_active_index(out);
            }
            Comparison::Damaged(recorded) => {
                // The first read compares the last message, if the segment is sealed.
                self.recovery().first_message = FirstMessage::Recorded(recorded);
                self.read_active_index(out);
            }
            Comparison::Needs(length) => self.read_first_message(length, out),
            Comparison::Another(_) => self.rename_foreign_log(base, out),
        }
    }
}
