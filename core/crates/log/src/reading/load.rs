//! Loading the index of a segment from its file, or rebuilding it from the log if the file is wrong (LOG-11).

use alloc::boxed::Box;
use alloc::vec::Vec;

use headrace_model::Offset;
use headrace_wire::message::HEADER_BYTES;

use crate::config::IndexCaching;
use crate::entry::{Codec, ENTRY_BYTES, Entry, Kind};
use crate::error::{Notice, ReadError};
use crate::index::push_coarse;
use crate::log::{Log, Pending};
use crate::manifest::KnownMessage;
use crate::reading::read::Job;
use crate::recovery::foreign::{Comparison, beginning, compare};
use crate::recovery::scan::{Progress, Scan};
use crate::segment::FirstMessage;
use crate::storage::{
    FileName, StorageError, StorageErrorKind, StorageOperation, StorageOutcome, StorageRequest,
};

/// Number of bytes of an index file that are read at once.
const READ_BYTES: u32 = 1024 * 1024;
/// Maximum number of sealed segments' indexes in memory, by default.
const LOADED_MAX: usize = 2;

/// State of a load. At most one load is under way per log.
#[derive(Debug)]
pub(crate) struct Load {
    segment: Offset,
    /// Entries that are kept in memory.
    entries: Vec<Entry>,
    /// The last valid entry.
    last: Entry,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// The index file, read up to this position.
    File { position: u64 },
    /// The log itself.
    Log { scan: Box<Scan>, asked: u32 },
    /// The first message of the log, which identifies the log. Then the index is loaded, if it is
    /// needed: from the log, or from its file.
    FirstMessage { then: Option<Then> },
    /// The last message, which identifies the log where the first message is damaged.
    LastMessage { then: Option<Then> },
}

/// Source of the index that is loaded after a comparison of the first message.
#[derive(Debug, Clone, Copy)]
enum Then {
    File,
    Log,
}

type Outcome = Result<StorageOutcome, StorageError>;

impl Log {
    /// Load the index of a segment, unless a load is under way. Waiting reads ask again when that load has ended.
    pub(crate) fn start_load(
        &mut self,
        segment: Offset,
        from_log: bool,
        out: &mut Vec<StorageRequest>,
    ) {
        if self.reads.load.is_some() {
            return;
        }
        let mut load = Box::new(Load {
            segment,
            entries: Vec::new(),
            last: Entry::start(segment),
            source: Source::File { position: 0 },
        });
        if self.needs_first_message(segment) {
            let then = if from_log { Then::Log } else { Then::File };
            load.source = Source::FirstMessage { then: Some(then) };
            self.reads.load = Some(load);
            return self.read_beginning(segment, HEADER_BYTES as u64, out);
        }
        if from_log {
            self.start_rebuild(load, out);
            return;
        }
        load.source = Source::File { position: 0 };
        self.reads.load = Some(load);
        self.read_index(segment, 0, out);
    }

    fn read_index(&mut self, segment: Offset, position: u64, out: &mut Vec<StorageRequest>) {
        let operation = StorageOperation::Read {
            file: FileName::Index(segment),
            position,
            length: READ_BYTES,
        };
        self.operations.start(Pending::Load, operation, out);
    }

    pub(crate) fn load_done(&mut self, outcome: Outcome, out: &mut Vec<StorageRequest>) {
        let Some(load) = self.reads.load.take() else {
            return;
        };
        if self.segment_index(load.segment).is_none() {
            return self.resume_waiting(load.segment, None, out);
        }
        if let Source::FirstMessage { then } = load.source {
            return self.first_message_compared((load, then), &outcome, out);
        }
        if let Source::LastMessage { then } = load.source {
            return self.last_message_compared((load, then), &outcome, out);
        }
        let is_file = matches!(load.source, Source::File { .. });
        match outcome {
            Ok(StorageOutcome::Read(bytes)) if is_file => self.index_read(load, &bytes, out),
            Ok(StorageOutcome::Read(bytes)) => self.log_read(load, &bytes, out),
            Err(error) if error.kind == StorageErrorKind::Exhausted => {
                self.resume_waiting(load.segment, Some(&ReadError::Busy), out);
            }
            Err(source) if !is_file => {
                let error = ReadError::Storage {
                    namespace: self.config.namespace,
                    file: FileName::Log(load.segment),
                    source,
                };
                self.resume_waiting(load.segment, Some(&error), out);
            }
            Ok(_) | Err(_) => self.start_rebuild(load, out),
        }
    }

    /// Return whether a log was found on disk and has not been compared with the record of its first message.
    pub(crate) fn needs_first_message(&self, base: Offset) -> bool {
        self.segment_index(base).is_some_and(|index| {
            matches!(
                self.segments[index].first_message,
                FirstMessage::Recorded(_) | FirstMessage::Exchanged(_)
            )
        })
    }

    /// Let the read wait until the first message of the log has been compared with its record.
    pub(crate) fn wait_for_first_message(
        &mut self,
        job: &mut Job,
        segment: Offset,
        out: &mut Vec<StorageRequest>,
    ) {
        job.waits_for = Some(segment);
        if self.reads.load.is_none() {
            self.reads.load = Some(Box::new(Load {
                segment,
                entries: Vec::new(),
                last: Entry::start(segment),
                source: Source::FirstMessage { then: None },
            }));
            self.read_beginning(segment, HEADER_BYTES as u64, out);
        }
    }

    fn read_beginning(&mut self, segment: Offset, length: u64, out: &mut Vec<StorageRequest>) {
        self.operations
            .start(Pending::Load, beginning(segment, length), out);
    }

    fn first_message_compared(
        &mut self,
        (mut load, then): (Box<Load>, Option<Then>),
        outcome: &Outcome,
        out: &mut Vec<StorageRequest>,
    ) {
        let base = load.segment;
        let Some(bytes) = bytes_to_compare(outcome) else {
            return self.resume_waiting(base, Some(&ReadError::Busy), out);
        };
        let size_recorded = self.record.listed(base).and_then(|listed| listed.size);
        let Some(segment) = self.segment_mut(base) else {
            return;
        };
        let is_longer = size_recorded.is_some_and(|size| segment.size > size);
        let recorded = segment.first_message.recorded();
        match compare(base, segment.size, recorded, bytes) {
            Comparison::Same(first) => {
                segment.first_message = first;
                self.log_identified((load, then), out);
            }
            Comparison::Damaged(recorded) => match segment.last_message {
                Some(_) if is_longer => self.log_exchanged(base, out),
                Some(last) => {
                    load.source = Source::LastMessage { then };
                    self.reads.load = Some(load);
                    self.read_last_message((base, last), HEADER_BYTES as u64, out);
                }
                None => {
                    segment.first_message = FirstMessage::Checked(recorded);
                    self.log_identified((load, then), out);
                }
            },
            Comparison::Needs(length) => {
                self.reads.load = Some(load);
                self.read_beginning(base, length, out);
            }
            Comparison::Another(_) => self.log_exchanged(base, out),
        }
    }

    fn read_last_message(
        &mut self,
        (segment, last): (Offset, KnownMessage),
        length: u64,
        out: &mut Vec<StorageRequest>,
    ) {
        let operation = StorageOperation::Read {
            file: FileName::Log(segment),
            position: last.position,
            length: u32::try_from(length).expect("a message is smaller than 4 GiB"),
        };
        self.operations.start(Pending::Load, operation, out);
    }

    fn last_message_compared(
        &mut self,
        (load, then): (Box<Load>, Option<Then>),
        outcome: &Outcome,
        out: &mut Vec<StorageRequest>,
    ) {
        let base = load.segment;
        let Some(bytes) = bytes_to_compare(outcome) else {
            return self.resume_waiting(base, Some(&ReadError::Busy), out);
        };
        let Some(segment) = self.segment_mut(base) else {
            return;
        };
        let (Some(last), Some(recorded)) = (segment.last_message, segment.first_message.recorded())
        else {
            return self.log_identified((load, then), out);
        };
        let offset = Offset(segment.end.0.saturating_sub(1));
        let room = segment.size.saturating_sub(last.position);
        match compare(offset, room, Some(last.checksum), bytes) {
            Comparison::Needs(length) => {
                self.reads.load = Some(load);
                self.read_last_message((base, last), length, out);
            }
            Comparison::Another(_) => self.log_exchanged(base, out),
            // With both of them damaged nothing says that the log is another's.
            Comparison::Same(_) | Comparison::Damaged(_) => {
                segment.first_message = FirstMessage::Checked(recorded);
                self.log_identified((load, then), out);
            }
        }
    }

    /// The log is this partition's: go on with what needed to know it.
    fn log_identified(
        &mut self,
        (mut load, then): (Box<Load>, Option<Then>),
        out: &mut Vec<StorageRequest>,
    ) {
        let base = load.segment;
        match then {
            Some(Then::File) => {
                load.source = Source::File { position: 0 };
                self.reads.load = Some(load);
                self.read_index(base, 0, out);
            }
            Some(Then::Log) => self.start_rebuild(load, out),
            None => self.resume_waiting(base, None, out),
        }
    }

    /// The log is not this partition's: report that once, and refuse what needs it.
    fn log_exchanged(&mut self, base: Offset, out: &mut Vec<StorageRequest>) {
        let file = FileName::Log(base);
        let Some(segment) = self.segment_mut(base) else {
            return;
        };
        let was_reported = matches!(segment.first_message, FirstMessage::Exchanged(_));
        if let Some(recorded) = segment.first_message.recorded() {
            segment.first_message = FirstMessage::Exchanged(recorded);
        }
        if !was_reported {
            self.notices.push(Notice::Exchanged { file });
        }
        let error = ReadError::Damaged {
            namespace: self.config.namespace,
            offset: base,
            file,
            position: 0,
        };
        self.resume_waiting(base, Some(&error), out);
    }

    /// Take entries from the file as long as they are consistent.
    fn index_read(&mut self, mut load: Box<Load>, bytes: &[u8], out: &mut Vec<StorageRequest>) {
        let Source::File { position } = load.source else {
            return;
        };
        let (end, end_offset) = self.load_end(load.segment);
        let codec = Codec::new(self.generation, load.segment);
        let (entries, _) = bytes.as_chunks::<ENTRY_BYTES>();
        for (place, bytes) in entries.iter().enumerate() {
            let Some((entry, kind)) = codec.decode(bytes) else {
                return self.start_rebuild(load, out);
            };
            if entry.position == end && entry.offset == end_offset {
                // A second end entry means that the clock was set back there.
                let mut rest = entries[place..].iter().rev();
                let last = rest.find_map(|bytes| codec.decode(bytes));
                load.last = last.map_or(entry, |(last, _)| last);
                return self.loaded(*load, out);
            }
            // An end entry written before more was appended is a boundary like any other; the same boundary may occur
            // twice.
            let follows = entry.offset >= load.last.offset && entry.position >= load.last.position;
            if !follows || entry.offset >= end_offset || entry.position >= end {
                return self.start_rebuild(load, out);
            }
            load.last = entry;
            push_coarse(&mut load.entries, entry, kind);
        }
        if bytes.len() < READ_BYTES as usize {
            return self.start_rebuild(load, out);
        }
        let position = position + bytes.len() as u64;
        let segment = load.segment;
        load.source = Source::File { position };
        self.reads.load = Some(load);
        self.read_index(segment, position, out);
    }

    /// End of the range of entries to be loaded: messages behind it were appended since the log was opened.
    pub(crate) fn load_end(&self, base: Offset) -> (u64, u64) {
        let index = self.segment_index(base).expect("checked by the caller");
        let segment = &self.segments[index];
        let end = segment.index.recent_start();
        let entry = segment.index.floor_by_position(end);
        if entry.position == end && end < segment.size {
            (end, entry.offset)
        } else {
            (end, segment.end.0)
        }
    }

    /// Rebuild the index from the log: if a part of the file is wrong, the rest is not trusted either.
    fn start_rebuild(&mut self, mut load: Box<Load>, out: &mut Vec<StorageRequest>) {
        let (end, end_offset) = self.load_end(load.segment);
        load.entries = Vec::new();
        load.last = Entry::start(load.segment);
        let scan = Scan::skipping_damage(load.last, end, end_offset);
        let progress = scan.begin();
        load.source = Source::Log {
            scan: Box::new(scan),
            asked: 0,
        };
        self.follow_rebuild(load, progress, out);
    }

    fn log_read(&mut self, mut load: Box<Load>, bytes: &[u8], out: &mut Vec<StorageRequest>) {
        let Source::Log { scan, asked } = &mut load.source else {
            return;
        };
        let progress = scan.feed(bytes, *asked);
        self.follow_rebuild(load, progress, out);
    }

    fn follow_rebuild(
        &mut self,
        mut load: Box<Load>,
        progress: Progress,
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
            self.reads.load = Some(load);
            return self.operations.start(Pending::Load, operation, out);
        }
        let reached = scan.reached;
        let found = core::mem::take(&mut scan.entries);
        self.replace_index(load.segment, &found, reached, out);
        for (entry, kind) in found {
            push_coarse(&mut load.entries, entry, kind);
        }
        load.last.timestamp = reached.timestamp;
        if let Some(segment) = self.segment_mut(load.segment) {
            segment.index.rebuilt = true;
        }
        self.loaded(*load, out);
    }

    /// Replace a sealed segment's index file by the rebuilt entries. If that fails, the next load rebuilds them again.
    fn replace_index(
        &mut self,
        base: Offset,
        found: &[(Entry, Kind)],
        reached: Entry,
        out: &mut Vec<StorageRequest>,
    ) {
        let Some(index) = self.segment_index(base) else {
            return;
        };
        let segment = &self.segments[index];
        let is_sealed = index + 1 < self.segments.len();
        if !is_sealed || !segment.is_removable() {
            return;
        }
        let codec = Codec::new(self.generation, base);
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
        self.start_maintenance(base, operation, out);
    }

    fn loaded(&mut self, load: Load, out: &mut Vec<StorageRequest>) {
        self.reads.clock += 1;
        let clock = self.reads.clock;
        let is_sealed = self
            .segments
            .back()
            .is_some_and(|open| open.base != load.segment);
        if let Some(segment) = self.segment_mut(load.segment) {
            segment.index.set_older(load.entries);
            segment.index.used = clock;
            if is_sealed && segment.last_timestamp.is_none() {
                segment.last_timestamp = Some(load.last.timestamp);
            }
        }
        self.unload_beyond_limit();
        self.resume_waiting(load.segment, None, out);
    }

    /// Unload the least recently used indexes beyond the limit (LOG-5).
    pub(crate) fn unload_beyond_limit(&mut self) {
        self.held.indexes_changed();
        let limit = match self.config.index_caching {
            IndexCaching::All => return,
            IndexCaching::OpenSegment => LOADED_MAX,
            IndexCaching::None => 1,
        };
        loop {
            let sealed = self.segments.len().saturating_sub(1);
            let loaded = || {
                let sealed = self.segments.iter().take(sealed);
                sealed.filter(|segment| segment.index.is_loaded() && segment.needs_no_storage())
            };
            if loaded().count() <= limit {
                return;
            }
            let Some(oldest) = loaded().min_by_key(|segment| segment.index.used) else {
                return;
            };
            let base = oldest.base;
            if let Some(segment) = self.segment_mut(base) {
                segment.index.unload(segment.size);
            }
        }
    }
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
