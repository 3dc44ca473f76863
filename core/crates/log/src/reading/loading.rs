//! Loading the index of a segment from its file, or rebuilding it from the log if the file is wrong (LOG-11).

use alloc::boxed::Box;
use alloc::vec::Vec;

use headrace_model::Offset;
use headrace_wire::message::HEADER_BYTES;

use crate::entry::{Codec, ENTRY_BYTES, Entry, Kind};
use crate::error::{Notice, ReadError};
use crate::index::push_coarse;
use crate::manifest::KnownMessage;
use crate::operations::pending::Pending;
use crate::reading::Reader;
use crate::reading::job::Job;
use crate::reading::load::{Load, Source, Then, load_end, needs_first_message};
use crate::recovery::compare::{Comparison, beginning, compare};
use crate::recovery::scan::{Progress, Scan};
use crate::segment::FirstMessage;
use crate::state::LogState;
use crate::storage::{
    FileName, StorageError, StorageErrorKind, StorageOperation, StorageOutcome, StorageRequest,
};

/// Number of bytes of an index file that are read at once.
const READ_BYTES: u32 = 1024 * 1024;

type Outcome = Result<StorageOutcome, StorageError>;

impl Reader {
    /// Load the index of a segment, unless a load is under way. Waiting reads ask again when that load has ended.
    pub(crate) fn start_load(
        &mut self,
        segment: Offset,
        from_log: bool,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        if self.load.is_some() {
            return;
        }
        let mut load = Box::new(Load {
            segment,
            entries: Vec::new(),
            last: Entry::start(segment),
            source: Source::File { position: 0 },
        });
        if needs_first_message(state, segment) {
            let then = if from_log { Then::Log } else { Then::File };
            load.source = Source::FirstMessage { then: Some(then) };
            self.load = Some(load);
            return read_beginning(segment, HEADER_BYTES as u64, state, out);
        }
        if from_log {
            self.start_rebuild(load, state, out);
            return;
        }
        load.source = Source::File { position: 0 };
        self.load = Some(load);
        read_index(segment, 0, state, out);
    }

    pub(crate) fn load_done(
        &mut self,
        outcome: Outcome,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        let Some(load) = self.load.take() else {
            return;
        };
        if state.segments.index_of(load.segment).is_none() {
            return self.resume_waiting(load.segment, None, state, out);
        }
        if let Source::FirstMessage { then } = load.source {
            return self.first_message_compared((load, then), &outcome, state, out);
        }
        if let Source::LastMessage { then } = load.source {
            return self.last_message_compared((load, then), &outcome, state, out);
        }
        let is_file = matches!(load.source, Source::File { .. });
        match outcome {
            Ok(StorageOutcome::Read(bytes)) if is_file => self.index_read(load, &bytes, state, out),
            Ok(StorageOutcome::Read(bytes)) => self.log_read(load, &bytes, state, out),
            Err(error) if error.kind == StorageErrorKind::Exhausted => {
                self.resume_waiting(load.segment, Some(&ReadError::Busy), state, out);
            }
            Err(source) if !is_file => {
                let error = ReadError::Storage {
                    namespace: state.config.namespace,
                    file: FileName::Log(load.segment),
                    source,
                };
                self.resume_waiting(load.segment, Some(&error), state, out);
            }
            Ok(_) | Err(_) => self.start_rebuild(load, state, out),
        }
    }

    /// Let the read wait until the first message of the log has been compared with its record.
    pub(crate) fn wait_for_first_message(
        &mut self,
        job: &mut Job,
        segment: Offset,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        job.waits_for = Some(segment);
        if self.load.is_none() {
            self.load = Some(Box::new(Load {
                segment,
                entries: Vec::new(),
                last: Entry::start(segment),
                source: Source::FirstMessage { then: None },
            }));
            read_beginning(segment, HEADER_BYTES as u64, state, out);
        }
    }

    fn first_message_compared(
        &mut self,
        (mut load, then): (Box<Load>, Option<Then>),
        outcome: &Outcome,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        let base = load.segment;
        let Some(bytes) = bytes_to_compare(outcome) else {
            return self.resume_waiting(base, Some(&ReadError::Busy), state, out);
        };
        let size_recorded = state.record.listed(base).and_then(|listed| listed.size);
        let Some(segment) = state.segments.at_mut(base) else {
            return;
        };
        let is_longer = size_recorded.is_some_and(|size| segment.size > size);
        let recorded = segment.first_message.recorded();
        match compare(base, segment.size, recorded, bytes) {
            Comparison::Same(first) => {
                segment.first_message = first;
                self.log_identified((load, then), state, out);
            }
            Comparison::Damaged(recorded) => match segment.last_message {
                Some(_) if is_longer => self.log_exchanged(base, state, out),
                Some(last) => {
                    load.source = Source::LastMessage { then };
                    self.load = Some(load);
                    read_last_message((base, last), HEADER_BYTES as u64, state, out);
                }
                None => {
                    segment.first_message = FirstMessage::Checked(recorded);
                    self.log_identified((load, then), state, out);
                }
            },
            Comparison::Needs(length) => {
                self.load = Some(load);
                read_beginning(base, length, state, out);
            }
            Comparison::Another(_) => self.log_exchanged(base, state, out),
        }
    }

    fn last_message_compared(
        &mut self,
        (load, then): (Box<Load>, Option<Then>),
        outcome: &Outcome,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        let base = load.segment;
        let Some(bytes) = bytes_to_compare(outcome) else {
            return self.resume_waiting(base, Some(&ReadError::Busy), state, out);
        };
        let Some(segment) = state.segments.at_mut(base) else {
            return;
        };
        let (Some(last), Some(recorded)) = (segment.last_message, segment.first_message.recorded())
        else {
            return self.log_identified((load, then), state, out);
        };
        let offset = Offset(segment.end.0.saturating_sub(1));
        let room = segment.size.saturating_sub(last.position);
        match compare(offset, room, Some(last.checksum), bytes) {
            Comparison::Needs(length) => {
                self.load = Some(load);
                read_last_message((base, last), length, state, out);
            }
            Comparison::Another(_) => self.log_exchanged(base, state, out),
            // With both of them damaged nothing says that the log is another's.
            Comparison::Same(_) | Comparison::Damaged(_) => {
                segment.first_message = FirstMessage::Checked(recorded);
                self.log_identified((load, then), state, out);
            }
        }
    }

    /// The log is this partition's: go on with what needed to know it.
    fn log_identified(
        &mut self,
        (mut load, then): (Box<Load>, Option<Then>),
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        let base = load.segment;
        match then {
            Some(Then::File) => {
                load.source = Source::File { position: 0 };
                self.load = Some(load);
                read_index(base, 0, state, out);
            }
            Some(Then::Log) => self.start_rebuild(load, state, out),
            None => self.resume_waiting(base, None, state, out),
        }
    }

    /// The log is not this partition's: report that once, and refuse what needs it.
    fn log_exchanged(&mut self, base: Offset, state: &mut LogState, out: &mut Vec<StorageRequest>) {
        let file = FileName::Log(base);
        let Some(segment) = state.segments.at_mut(base) else {
            return;
        };
        let was_reported = matches!(segment.first_message, FirstMessage::Exchanged(_));
        if let Some(recorded) = segment.first_message.recorded() {
            segment.first_message = FirstMessage::Exchanged(recorded);
        }
        if !was_reported {
            state.findings.notices.push(Notice::Exchanged { file });
        }
        let error = ReadError::Damaged {
            namespace: state.config.namespace,
            offset: base,
            file,
            position: 0,
        };
        self.resume_waiting(base, Some(&error), state, out);
    }

    /// Take entries from the file as long as they are consistent.
    fn index_read(
        &mut self,
        mut load: Box<Load>,
        bytes: &[u8],
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        let Source::File { position } = load.source else {
            return;
        };
        let (end, end_offset) = load_end(state, load.segment);
        let codec = Codec::new(state.record.generation, load.segment);
        let (entries, _) = bytes.as_chunks::<ENTRY_BYTES>();
        for (place, bytes) in entries.iter().enumerate() {
            let Some((entry, kind)) = codec.decode(bytes) else {
                return self.start_rebuild(load, state, out);
            };
            if entry.position == end && entry.offset == end_offset {
                // A second end entry means that the clock was set back there.
                let mut rest = entries[place..].iter().rev();
                let last = rest.find_map(|bytes| codec.decode(bytes));
                load.last = last.map_or(entry, |(last, _)| last);
                return self.loaded(*load, state, out);
            }
            // An end entry written before more was appended is a boundary like any other; the same boundary may occur
            // twice.
            let follows = entry.offset >= load.last.offset && entry.position >= load.last.position;
            if !follows || entry.offset >= end_offset || entry.position >= end {
                return self.start_rebuild(load, state, out);
            }
            load.last = entry;
            push_coarse(&mut load.entries, entry, kind);
        }
        if bytes.len() < READ_BYTES as usize {
            return self.start_rebuild(load, state, out);
        }
        let position = position + bytes.len() as u64;
        let segment = load.segment;
        load.source = Source::File { position };
        self.load = Some(load);
        read_index(segment, position, state, out);
    }

    /// Rebuild the index from the log: if a part of the file is wrong, the rest is not trusted either.
    fn start_rebuild(
        &mut self,
        mut load: Box<Load>,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        let (end, end_offset) = load_end(state, load.segment);
        load.entries = Vec::new();
        load.last = Entry::start(load.segment);
        let scan = Scan::skipping_damage(load.last, end, end_offset);
        let progress = scan.begin();
        load.source = Source::Log {
            scan: Box::new(scan),
            asked: 0,
        };
        self.follow_rebuild(load, progress, state, out);
    }

    fn log_read(
        &mut self,
        mut load: Box<Load>,
        bytes: &[u8],
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        let Source::Log { scan, asked } = &mut load.source else {
            return;
        };
        let progress = scan.feed(bytes, *asked);
        self.follow_rebuild(load, progress, state, out);
    }

    fn follow_rebuild(
        &mut self,
        mut load: Box<Load>,
        progress: Progress,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        let Source::Log { scan, asked } = &mut load.source else {
            return;
        };
        if let Progress::Read { position, length } = progress {
            *asked = length;
            let operation = StorageOperation::Read {
                file: FileName::Log(load.segment),
                position,
                length,
            };
            self.load = Some(load);
            return state.operations.start(Pending::Load, operation, out);
        }
        let reached = scan.reached;
        let found = core::mem::take(&mut scan.entries);
        replace_index(load.segment, &found, reached, state, out);
        for (entry, kind) in found {
            push_coarse(&mut load.entries, entry, kind);
        }
        load.last.timestamp = reached.timestamp;
        if let Some(segment) = state.segments.at_mut(load.segment) {
            segment.index.rebuilt = true;
        }
        self.loaded(*load, state, out);
    }

    fn loaded(&mut self, load: Load, state: &mut LogState, out: &mut Vec<StorageRequest>) {
        self.clock += 1;
        let clock = self.clock;
        let is_sealed = state
            .segments
            .back()
            .is_some_and(|open| open.base != load.segment);
        if let Some(segment) = state.segments.at_mut(load.segment) {
            segment.index.set_older(load.entries);
            segment.index.used = clock;
            if is_sealed && segment.last_timestamp.is_none() {
                segment.last_timestamp = Some(load.last.timestamp);
            }
        }
        state.unload_beyond_limit();
        self.resume_waiting(load.segment, None, state, out);
    }
}

fn read_index(segment: Offset, position: u64, state: &mut LogState, out: &mut Vec<StorageRequest>) {
    let operation = StorageOperation::Read {
        file: FileName::Index(segment),
        position,
        length: READ_BYTES,
    };
    state.operations.start(Pending::Load, operation, out);
}

fn read_beginning(
    segment: Offset,
    length: u64,
    state: &mut LogState,
    out: &mut Vec<StorageRequest>,
) {
    state
        .operations
        .start(Pending::Load, beginning(segment, length), out);
}

fn read_last_message(
    (segment, last): (Offset, KnownMessage),
    length: u64,
    state: &mut LogState,
    out: &mut Vec<StorageRequest>,
) {
    let operation = StorageOperation::Read {
        file: FileName::Log(segment),
        position: last.position,
        length: u32::try_from(length).expect("a message is smaller than 4 GiB"),
    };
    state.operations.start(Pending::Load, operation, out);
}

/// Replace a sealed segment's index file by the rebuilt entries. If that fails, the next load rebuilds them again.
fn replace_index(
    base: Offset,
    found: &[(Entry, Kind)],
    reached: Entry,
    state: &mut LogState,
    out: &mut Vec<StorageRequest>,
) {
    let Some(index) = state.segments.index_of(base) else {
        return;
    };
    let segment = &state.segments[index];
    let is_sealed = state.segments.is_sealed(index);
    if !is_sealed || !segment.is_removable() {
        return;
    }
    let codec = Codec::new(state.record.generation, base);
    let mut contents = Vec::with_capacity((found.len() + 1) * ENTRY_BYTES);
    for (entry, kind) in found {
        codec.encode(*entry, *kind, &mut contents);
    }
    if reached.offset == segment.end.0 && reached.position == segment.size {
        codec.encode(reached, Kind::End, &mut contents);
    }
    let operation = StorageOperation::Replace {
        file: FileName::Index(base),
        contents,
    };
    state.start_maintenance(base, operation, out);
}

/// Return the bytes that a message is compared by, or `None` if the read has to be tried again.
fn bytes_to_compare(outcome: &Outcome) -> Option<&[u8]> {
    match outcome {
        Ok(StorageOutcome::Read(bytes)) => Some(bytes),
        Err(error) if error.kind == StorageErrorKind::Exhausted => None,
        // Reads of these messages meet the same failure; others can be read.
        Ok(_) | Err(_) => Some(&[]),
    }
}
