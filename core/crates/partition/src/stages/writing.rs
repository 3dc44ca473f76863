//! Writing stages: taking chunks, making a stage durable, and dropping it.

use alloc::vec::Vec;

use headrace_buffer::Slice;
use headrace_log::Notice;
use headrace_log::storage::{
    FileName, StorageError, StorageErrorKind, StorageOperation, StorageOutcome, StorageRequest,
};
use headrace_model::{StageId, Timestamp};

use super::Stages;
use super::file::{self, BLOCK_HEADER_BYTES, FOOTER_BYTES, Footer, HEADER_BYTES};
use super::stage::{Chunk, Fate, Stage, State, Until};
use super::state::Purpose;
use crate::api::{Outbox, PartitionError, RequestId, Response, respond};

impl Stages {
    /// Take a chunk. It is answered once it is written; the last one once the whole stage is on the device.
    pub(crate) fn take(
        &mut self,
        now: Timestamp,
        request_id: RequestId,
        chunk: Chunk,
    ) -> Result<(), PartitionError> {
        let known = match chunk.stage {
            Some(id) => {
                let stage = self
                    .all
                    .get_mut(&id)
                    .filter(|stage| stage.fate == Fate::Stays && stage.state != State::Unreadable)
                    .ok_or(PartitionError::StageNotFound)?;
                let is_last = stage.is_complete && chunk.number + 1 == stage.chunks;
                if chunk.number < stage.chunks && chunk.is_last == is_last {
                    // The chunk was taken before and its response was lost.
                    stage.wait(request_id, id, is_last);
                    self.ready_to_advance.push(id);
                    return Ok(());
                }
                if stage.is_complete || chunk.number != stage.chunks || stage.chunks == u32::MAX {
                    let expected = stage.chunks;
                    return Err(PartitionError::StageOutOfOrder { expected });
                }
                Some(stage.length)
            }
            None if chunk.number != 0 => {
                return Err(PartitionError::StageOutOfOrder { expected: 0 });
            }
            None => None,
        };
        let batch = chunk.batch;
        self.admit(known, batch.size_bytes() as u64)?;
        let messages_count = batch.messages_count();
        let messages = batch.freeze();
        let blocks = file::blocks(&messages, messages_count);
        let blocks = blocks.ok_or(PartitionError::MalformedBatch)?;
        let id = match chunk.stage {
            Some(id) => id,
            None => self.begin(now, chunk.lifetime_micros),
        };
        let stage = self.all.get_mut(&id).expect("begun, or known");
        let mut at = 0;
        for block in blocks {
            let end = at + block.bytes as usize;
            stage.queue.push_back(Slice::from_vec(block.encode()));
            stage.queue.push_back(messages.slice(at..end));
            at = end;
            let length = block.length() as u64;
            stage.length += length;
            self.bytes += length;
            self.queued_bytes += length;
        }
        stage.chunks += 1;
        stage.messages += u64::from(messages_count);
        stage.bytes += messages.len() as u64;
        stage.is_complete = chunk.is_last;
        stage.wait(request_id, id, chunk.is_last);
        self.ready_to_advance.push(id);
        Ok(())
    }

    /// Check that a stage of this length, or a new one, has room for that many more bytes.
    fn admit(&self, known: Option<u64>, bytes: u64) -> Result<(), PartitionError> {
        let limits = &self.limits;
        let empty = (HEADER_BYTES + FOOTER_BYTES) as u64;
        // Each block takes a little more space than its messages.
        let blocks = bytes / (file::WINDOW_BYTES / 2) as u64 + 1;
        let added = bytes + blocks * BLOCK_HEADER_BYTES as u64;
        let (length, begun) = match known {
            Some(length) => (length, 0),
            None if self.all.len() >= limits.count_max as usize => {
                return Err(PartitionError::StagesExhausted);
            }
            None => (empty, empty),
        };
        if length + added > limits.stage_bytes_max {
            return Err(PartitionError::StageTooLarge);
        }
        if self.bytes + begun + added > limits.bytes_max {
            return Err(PartitionError::StagesExhausted);
        }
        if self.queued_bytes > 0 && self.queued_bytes + bytes > self.queue_bytes_max {
            return Err(PartitionError::Busy);
        }
        Ok(())
    }

    fn begin(&mut self, now: Timestamp, lifetime_micros: u64) -> StageId {
        let lifetime = lifetime_micros.min(self.limits.lifetime_micros_max);
        let expires_at = Timestamp(now.0.saturating_add(lifetime));
        let id = loop {
            let id = StageId::new(expires_at, self.random.u64(1..));
            if !self.all.contains_key(&id) {
                break id;
            }
        };
        let stage = Stage::new(self.incarnation, id);
        self.bytes += stage.length;
        self.queued_bytes += stage.queued_bytes();
        self.all.insert(id, stage);
        id
    }

    /// Answer requests whose results are known, and start operations that are due.
    pub(crate) fn settle(&mut self, out: &mut Outbox) {
        while let Some(id) = self.ready_to_advance.pop() {
            let Some(stage) = self.all.get_mut(&id) else {
                continue;
            };
            stage.waiting.retain_mut(|waiting| {
                let is_done = match waiting.until {
                    Until::Written(position) => stage.written >= position,
                    Until::Sealed => stage.state == State::Sealed,
                } && stage.fate == Fate::Stays;
                if is_done {
                    let response = core::mem::replace(&mut waiting.response, Response::Done);
                    respond(out, waiting.request_id, Ok(response));
                } else if stage.fate != Fate::Stays {
                    respond(out, waiting.request_id, Err(PartitionError::StageNotFound));
                }
                !is_done && stage.fate == Fate::Stays
            });
            if let State::Unconfirmed(error) = stage.state {
                self.refuse(id, error, out);
            }
            self.advance(id, &mut out.storage);
        }
    }

    fn advance(&mut self, id: StageId, out: &mut Vec<StorageRequest>) {
        let Some(stage) = self.all.get_mut(&id) else {
            return;
        };
        if stage.is_busy {
            return;
        }
        let file = FileName::Stage(id);
        if stage.fate != Fate::Stays {
            if stage.state == State::Missing {
                self.all.remove(&id);
            } else {
                stage.is_busy = true;
                if stage.fate == Fate::SetAside {
                    let into = FileName::DamagedStage(id);
                    let operation = StorageOperation::Rename { file, into };
                    self.operations
                        .start_repeated(Purpose::SetAside(id), operation, out);
                } else {
                    self.remove(file, Purpose::Remove(id), out);
                }
            }
            return;
        }
        let is_written = stage.queue.is_empty();
        match stage.state {
            State::Missing => {
                let operation = StorageOperation::Create { file };
                self.operations
                    .start_repeated(Purpose::Create(id), operation, out);
            }
            State::Growing | State::Synced if !is_written => {
                let (slices, bytes) = stage.gather();
                let operation = StorageOperation::Write {
                    file,
                    position: stage.written,
                    slices,
                };
                let write = Purpose::Write { stage: id, bytes };
                self.operations.start_repeated(write, operation, out);
            }
            State::Growing if stage.is_complete => self.sync(id, out),
            State::Ended => self.sync(id, out),
            State::Found if !stage.waiting.is_empty() => {
                let position = stage.length - FOOTER_BYTES as u64;
                let operation = StorageOperation::Uncache { file, position };
                self.operations
                    .start_repeated(Purpose::Uncache(id), operation, out);
            }
            State::Uncached => {
                let operation = StorageOperation::Read {
                    file,
                    position: stage.length - FOOTER_BYTES as u64,
                    length: u32::try_from(FOOTER_BYTES).expect("a few bytes"),
                };
                self.operations
                    .start_repeated(Purpose::ReadEndAgain(id), operation, out);
            }
            State::Growing
            | State::Synced
            | State::Sealed
            | State::Found
            | State::Unconfirmed(_)
            | State::Unreadable => return,
        }
        if let Some(stage) = self.all.get_mut(&id) {
            stage.is_busy = true;
        }
    }

    fn sync(&mut self, id: StageId, out: &mut Vec<StorageRequest>) {
        let operation = StorageOperation::Sync {
            file: FileName::Stage(id),
        };
        self.operations.start(Purpose::Sync(id), operation, out);
    }

    pub(super) fn created(
        &mut self,
        id: StageId,
        result: Result<(), StorageError>,
        out: &mut Outbox,
    ) {
        let Some(stage) = self.ended(id) else {
            return;
        };
        // After a failure the file may exist.
        stage.state = State::Growing;
        self.fail_on_error(id, result, out);
    }

    pub(super) fn written(
        &mut self,
        (id, bytes): (StageId, u64),
        result: Result<(), StorageError>,
        out: &mut Outbox,
    ) {
        self.queued_bytes -= bytes;
        let Some(stage) = self.ended(id) else {
            return;
        };
        stage.written += bytes;
        if stage.state == State::Synced && stage.queue.is_empty() {
            stage.state = State::Ended;
        }
        self.fail_on_error(id, result, out);
    }

    pub(super) fn synced(
        &mut self,
        id: StageId,
        result: Result<(), StorageError>,
        out: &mut Outbox,
    ) {
        let incarnation = self.incarnation;
        let Some(stage) = self.ended(id) else {
            return;
        };
        match (stage.state, result) {
            (State::Growing, Ok(())) => {
                let footer = Footer {
                    messages: stage.messages,
                    bytes: stage.bytes,
                    length: stage.length,
                    chunks: stage.chunks,
                };
                let end = footer.encode(incarnation, id);
                self.queued_bytes += end.len() as u64;
                if let Some(stage) = self.all.get_mut(&id) {
                    stage.state = State::Synced;
                    stage.queue.push_back(Slice::from_vec(end));
                }
            }
            (_, Ok(())) => stage.state = State::Sealed,
            (_, Err(error)) => self.fail_on_error(id, Err(error), out),
        }
    }

    pub(super) fn uncached(&mut self, id: StageId, result: Result<(), StorageError>) {
        if let Some(stage) = self.ended(id) {
            stage.state = match result {
                Ok(()) => State::Uncached,
                Err(error) => State::Unconfirmed(error),
            };
        }
    }

    pub(super) fn end_read_again(
        &mut self,
        id: StageId,
        result: Result<StorageOutcome, StorageError>,
    ) {
        let incarnation = self.incarnation;
        let Some(stage) = self.ended(id) else {
            return;
        };
        let is_footer =
            |bytes: &[u8]| Footer::decode(bytes, incarnation, id, stage.length).is_some();
        stage.state = match result {
            Ok(StorageOutcome::Read(bytes)) if is_footer(&bytes) => State::Sealed,
            Ok(_) => State::Unconfirmed(StorageError {
                kind: StorageErrorKind::Damaged,
                os_error: 0,
            }),
            Err(error) => State::Unconfirmed(error),
        };
    }

    /// Note that an operation on the file of this stage has ended.
    fn ended(&mut self, id: StageId) -> Option<&mut Stage> {
        self.ready_to_advance.push(id);
        let stage = self.all.get_mut(&id)?;
        stage.is_busy = false;
        Some(stage)
    }

    /// Drop a stage that cannot be stored; the partition stays in service.
    fn fail_on_error(&mut self, id: StageId, result: Result<(), StorageError>, out: &mut Outbox) {
        if let Err(error) = result {
            self.refuse(id, error, out);
            self.drop_stage(id);
        }
    }

    fn refuse(&mut self, id: StageId, source: StorageError, out: &mut Outbox) {
        let Some(stage) = self.all.get_mut(&id) else {
            return;
        };
        for waiting in stage.waiting.drain(..) {
            let error = PartitionError::Store {
                namespace: self.namespace,
                file: FileName::Stage(id),
                source,
            };
            respond(out, waiting.request_id, Err(error));
        }
    }

    /// Drop a stage, if it exists, and remove its file.
    pub(super) fn drop_stage(&mut self, id: StageId) {
        self.end_stage(id, Fate::Dropped);
    }

    /// Drop a stage of a committed transaction that cannot be published: its file is kept under another name if it is
    /// damaged. A partial stage was never complete.
    pub(super) fn drop_damaged(&mut self, id: StageId) {
        let is_damaged = |stage: &Stage| stage.is_whole() || stage.state == State::Unreadable;
        let fate = match self.all.get(&id) {
            Some(stage) if is_damaged(stage) => Fate::SetAside,
            _ => Fate::Dropped,
        };
        self.end_stage(id, fate);
    }

    fn end_stage(&mut self, id: StageId, fate: Fate) {
        let Some(stage) = self.all.get_mut(&id) else {
            return;
        };
        if stage.fate != Fate::Stays {
            return;
        }
        stage.fate = fate;
        self.bytes -= stage.length;
        self.queued_bytes -= stage.queued_bytes();
        stage.queue.clear();
        self.ready_to_advance.push(id);
    }

    pub(super) fn was_set_aside(
        &mut self,
        id: StageId,
        result: Result<(), StorageError>,
        out: &mut Outbox,
    ) {
        self.all.remove(&id);
        // A file that could not be renamed is found again at the next start.
        if result.is_ok() {
            self.set_aside.push(id);
            out.notices.push(Notice::DamagedStage {
                file: FileName::Stage(id),
                kept: FileName::DamagedStage(id),
            });
        }
    }

    /// Drop the given stages that no publication names.
    pub(crate) fn drop_unpublished(&mut self, ids: &[StageId]) {
        for id in ids {
            if !self.publishing.is_stage_pending(*id) {
                self.drop_stage(*id);
            }
        }
    }

    /// Stages that have expired at time `by`, according to their ids.
    pub(crate) fn expired(&self, by: Timestamp) -> Vec<StageId> {
        let expired = self.all.range(..=StageId::new(by, u64::MAX));
        expired.map(|(id, _)| *id).collect()
    }
}
