//! Appending staged messages to the log, one read at a time, so that memory use does not depend on the size of a stage.

use alloc::boxed::Box;
use core::ops::Range;

use headrace_buffer::Buffer;
use headrace_log::storage::{
    FileName, StorageError, StorageErrorKind, StorageOperation, StorageOutcome,
};
use headrace_log::{AppendError, Batch, accepted_bytes};
use headrace_model::{Offset, Timestamp};

use super::Publisher;
use crate::api::Outbox;
use crate::retry::{FailingFile, may_try};
use crate::stages::file::{BLOCK_HEADER_BYTES, BlockHeader, FOOTER_BYTES, WINDOW_BYTES};
use crate::stages::publication::{Cursor, Step};
use crate::stages::record::Part;
use crate::stages::state::{BlockRead, Purpose};

/// Contents of complete blocks.
struct Unpacked {
    /// Size of the blocks in bytes.
    bytes: usize,
    /// Range of their messages in the buffer, without skipped ones.
    messages: Range<usize>,
    messages_count: u32,
    skip: u64,
    /// Size of the first incomplete block in bytes.
    needed: u64,
    is_damaged: bool,
}

/// Move the messages of all complete blocks together, in place.
fn unpack(buffer: &mut [u8], skip: u64) -> Unpacked {
    let mut unpacked = Unpacked {
        bytes: 0,
        messages: 0..0,
        messages_count: 0,
        skip,
        needed: 0,
        is_damaged: false,
    };
    while unpacked.bytes < buffer.len() {
        let rest = &buffer[unpacked.bytes..];
        if rest.len() < BLOCK_HEADER_BYTES {
            unpacked.needed = BLOCK_HEADER_BYTES as u64;
            break;
        }
        let Some(header) = BlockHeader::decode(rest) else {
            unpacked.is_damaged = true;
            break;
        };
        let Some(messages) = rest.get(BLOCK_HEADER_BYTES..header.length()) else {
            unpacked.needed = header.length() as u64;
            break;
        };
        if !header.is_of(messages) {
            unpacked.is_damaged = true;
            break;
        }
        let (mut skipped, mut count) = (0, header.messages);
        while unpacked.skip > 0 && count > 0 {
            skipped += accepted_bytes(&messages[skipped..]).expect("the block is what was stored");
            unpacked.skip -= 1;
            count -= 1;
        }
        let start = unpacked.bytes + BLOCK_HEADER_BYTES + skipped;
        let end = unpacked.bytes + header.length();
        buffer.copy_within(start..end, unpacked.messages.end);
        unpacked.messages.end += end - start;
        unpacked.messages_count += count;
        unpacked.bytes = end;
    }
    unpacked
}

impl Publisher<'_> {
    /// Request the next read of staged messages. Returns the end of the messages once all of them are in the log's
    /// queue.
    pub(super) fn append_staged(&mut self, now: Timestamp, out: &mut Outbox) -> Option<Offset> {
        loop {
            let stages = &mut *self.stages;
            let current = stages.publishing.current.as_mut()?;
            let Step::Appending(cursor) = &mut current.step else {
                return None;
            };
            if cursor.is_reading {
                return None;
            }
            let Some(Part { stage: id, .. }) = current.parts.get(cursor.index) else {
                return Some(self.log.next_offset());
            };
            let stage = stages.all.get(id).filter(|stage| stage.is_whole());
            let left = stage.map(|stage| stage.length - FOOTER_BYTES as u64 - cursor.position);
            let Some(left) = left.filter(|left| *left > 0) else {
                let is_damaged = stage.is_none();
                self.end_part(is_damaged);
                if self.stages.publishing.is_stored() {
                    continue;
                }
                return None;
            };
            let asked = left.min(cursor.needed.max(WINDOW_BYTES as u64));
            let bytes = u32::try_from(asked).ok()?;
            if stages.operations.is_backing_off() || !may_try(&mut stages.publishing.failing) {
                return None;
            }
            if !self.log.has_room_for(bytes as usize) {
                // A write of queued messages ends with a completion. Memory is released elsewhere, with no notice.
                if self.log.queued_bytes() == 0 {
                    stages.operations.back_off(now);
                }
                return None;
            }
            cursor.is_reading = true;
            let blocks = BlockRead {
                number: current.number,
                stage: *id,
                asked,
                left,
            };
            let operation = StorageOperation::Read {
                file: FileName::Stage(*id),
                position: cursor.position,
                length: bytes,
            };
            stages.operations.start_repeated(
                Purpose::ReadBlocks(blocks),
                operation,
                &mut out.storage,
            );
            return None;
        }
    }

    /// Handle the result of reading a part of a stage.
    pub(crate) fn staged_read(
        &mut self,
        now: Timestamp,
        blocks: BlockRead,
        result: Result<StorageOutcome, StorageError>,
        out: &mut Outbox,
    ) {
        let Some(cursor) = self.cursor_of(blocks) else {
            return;
        };
        cursor.is_reading = false;
        if self.is_closing || !self.log.is_open() {
            return;
        }
        match result {
            Ok(StorageOutcome::Read(buffer)) => {
                self.stages.publishing.recovered();
                self.append_read(now, blocks, buffer);
                self.log.end_of_turn(now, &mut out.storage);
            }
            Ok(_) => self.end_part(true),
            Err(error)
                if matches!(
                    error.kind,
                    StorageErrorKind::Missing | StorageErrorKind::Damaged
                ) =>
            {
                self.end_part(true);
            }
            Err(error) => {
                self.stages.publishing.failing = Some(Box::new(FailingFile::new(
                    FileName::Stage(blocks.stage),
                    error,
                    now,
                )));
            }
        }
    }

    /// Cursor of the publication, if it waits for this read.
    fn cursor_of(&mut self, blocks: BlockRead) -> Option<&mut Cursor> {
        let current = self.stages.publishing.current.as_mut()?;
        let is_it = current.number == blocks.number;
        match &mut current.step {
            Step::Appending(cursor) if is_it && cursor.is_reading => Some(cursor),
            _ => None,
        }
    }

    fn append_read(&mut self, now: Timestamp, blocks: BlockRead, mut buffer: Buffer) {
        let is_short = (buffer.len() as u64) < blocks.asked;
        let Some(cursor) = self.appending() else {
            return;
        };
        let unpacked = unpack(&mut buffer, cursor.skip);
        let is_whole = unpacked.bytes > 0 || unpacked.needed > blocks.asked;
        let is_damaged =
            unpacked.is_damaged || is_short || !is_whole || unpacked.needed > blocks.left;
        if unpacked.messages_count > 0 {
            let bytes = unpacked.messages.len() as u64;
            let batch = Batch::new(buffer, unpacked.messages, unpacked.messages_count);
            match self.log.append(now, batch) {
                Ok(appended) => {
                    self.appends
                        .add_staged(bytes, appended, self.log.visible_end());
                }
                // The part is read again later.
                Err(AppendError::Busy) => return self.stages.operations.back_off(now),
                Err(AppendError::Failed(_)) => return,
                Err(AppendError::Malformed) => return self.end_part(true),
            }
        }
        if let Some(cursor) = self.appending() {
            cursor.position += unpacked.bytes as u64;
            cursor.skip = unpacked.skip;
            cursor.needed = unpacked.needed;
        }
        if is_damaged {
            self.end_part(true);
        }
    }

    fn appending(&mut self) -> Option<&mut Cursor> {
        match &mut self.stages.publishing.current.as_mut()?.step {
            Step::Appending(cursor) => Some(cursor),
            _ => None,
        }
    }
}
