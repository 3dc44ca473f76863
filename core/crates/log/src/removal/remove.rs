//! Removal of the oldest segments, one by one, or of everything at once.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use headrace_model::{Offset, Timestamp};

use crate::log::{Log, Pending, Phase};
use crate::manifest::Manifest;
use crate::record::{ManifestFile, Record};
use crate::recovery::recover::Recovery;
use crate::segment::FileState;
use crate::storage::{FileName, StorageError, StorageOperation, StorageRequest};

/// Files that are removed one after the other, so that a crash never leaves a gap between segments.
#[derive(Debug, Default)]
pub(crate) struct Removals {
    queue: VecDeque<FileName>,
    in_flight: Option<FileName>,
    /// Files of removed segments that were given up, oldest first. They are removed before those of later segments.
    given_up: Vec<FileName>,
    requested: u64,
    done: u64,
    error: Option<(FileName, StorageError)>,
}

impl Removals {
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.in_flight.is_none()
    }

    /// Return whether a file is still to be removed. Until then no file of that name is created.
    pub(crate) fn contains(&self, file: FileName) -> bool {
        self.in_flight == Some(file) || self.queue.contains(&file)
    }

    pub(crate) fn push(&mut self, file: FileName) {
        self.queue.push_back(file);
        self.requested += 1;
    }

    fn take_all(&mut self) -> impl Iterator<Item = FileName> {
        self.done = self.requested;
        let in_flight = self.in_flight.take();
        core::mem::take(&mut self.given_up)
            .into_iter()
            .chain(in_flight)
            .chain(core::mem::take(&mut self.queue))
    }

    /// Give up this file, whose removal failed, and all queued ones: removing those of later segments would leave a
    /// gap. Only files of segments before `first` are removed later: other names may belong to new segments by then.
    fn give_up(&mut self, file: FileName, error: StorageError, first: Offset) {
        let mut files = core::mem::take(&mut self.given_up);
        files.push(file);
        files.extend(self.take_all());
        files.retain(|file| match file {
            FileName::Log(base) | FileName::Index(base) | FileName::Cut(base, _) => *base < first,
            _ => false,
        });
        self.given_up = files;
        self.error = Some((file, error));
    }

    /// Queue the files that were given up. They come before those of later segments, which are queued next.
    fn retry(&mut self) {
        for file in core::mem::take(&mut self.given_up) {
            self.push(file);
        }
    }
}

/// Removal of all contents of the directory.
///
/// The manifest first states that the contents are being dropped, so that none of them count after a crash in the
/// middle. This statement is replaced only before the first file of the new generation is created.
///
/// On a full disk there may be no space for the statement. Index files are then removed before it, which frees some:
/// they are derived, so the contents still count without them if the process ends before the statement is made.
#[derive(Debug)]
pub(crate) struct Wipe {
    files: Vec<FileName>,
    step: WipeStep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WipeStep {
    /// Operations of the previous generation are still under way.
    Draining,
    /// The manifest is being replaced.
    Marking,
    /// The manifest has no space, and there are index files whose removal frees some.
    OutOfSpace,
    /// This many removals of index files are under way.
    Freeing(usize),
    /// The manifest states that the contents are being dropped.
    Marked,
    /// This many removals are under way.
    Removing(usize),
}

impl Wipe {
    /// Drop these files. `is_marked` is true if the manifest on disk states so already.
    pub(crate) fn new(mut files: Vec<FileName>, is_marked: bool) -> Self {
        // Files may be listed twice if a purge follows another that is not complete.
        files.sort_unstable();
        files.dedup();
        let step = if is_marked {
            WipeStep::Marked
        } else {
            WipeStep::Draining
        };
        Self { files, step }
    }

    fn index_files(&self) -> impl Iterator<Item = FileName> {
        self.files.iter().copied().filter(is_index)
    }
}

fn is_index(file: &FileName) -> bool {
    matches!(file, FileName::Index(_))
}

/// Result of a request to remove segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemovalProgress {
    /// Mark for [`Log::removals_done`].
    pub sequence: u64,
    /// Number of further segments that may be removed once the oldest one, sealed just now, is on the device. Repeat
    /// the request then.
    pub remaining: u32,
}

impl Log {
    /// Remove up to `count` sealed segments, oldest first, whose last message is not beyond `barrier`.
    pub fn delete_segments(&mut self, count: u32, barrier: Option<Offset>) -> RemovalProgress {
        let mut left = count;
        while left > 0 {
            let Some(oldest) = self.segments.front() else {
                left = 0;
                break;
            };
            let is_needed = barrier.is_some_and(|barrier| barrier.advanced_by(1) < oldest.end);
            // The next segment's file determines the next offset: without it, a crash would restart the log at offset
            // 0.
            let has_follower = self
                .segments
                .get(1)
                .is_some_and(|follower| follower.log_file == FileState::Ready);
            if !has_follower || is_needed {
                left = 0;
                break;
            }
            if !oldest.is_removable() {
                if self.failure.is_some() || self.closing {
                    left = 0;
                }
                break;
            }
            let base = oldest.base;
            self.size_bytes -= oldest.size;
            self.segments.pop_front();
            self.tail.drop_segment(base);
            self.reads.forget_segment(base);
            self.record.note_removed(self.first_offset());
            self.removals.retry();
            self.removals.push(FileName::Log(base));
            self.removals.push(FileName::Index(base));
            let is_its_own =
                |file: &mut FileName| matches!(file, FileName::Cut(of, _) if *of == base);
            for cut in self.set_aside_files.extract_if(.., is_its_own) {
                self.removals.push(cut);
            }
            left -= 1;
        }
        RemovalProgress {
            sequence: self.removals.requested,
            remaining: left,
        }
    }

    /// Try again to remove files of removed segments whose removal failed.
    pub fn retry_removals(&mut self) {
        if self.failure.is_none() || self.is_out_of_space() {
            self.removals.retry();
        }
    }

    /// Result of the removals up to `mark`, or the file that could not be removed. None while they are under way.
    pub fn removals_done(&self, mark: u64) -> Option<Result<(), (FileName, StorageError)>> {
        (self.removals.done >= mark).then(|| self.removals.error.map_or(Ok(()), Err))
    }

    pub(crate) fn start_removal(&mut self, out: &mut Vec<StorageRequest>) {
        let Some(file) = self.removals.queue.front().copied() else {
            return;
        };
        let is_recorded = match file {
            FileName::Log(base) => self.is_removal_recorded(base, out),
            _ => true,
        };
        if self.removals.in_flight.is_none() && is_recorded {
            self.removals.queue.pop_front();
            self.removals.in_flight = Some(file);
            self.operations
                .start_repeated(Pending::Remove, StorageOperation::Remove { file }, out);
        }
    }

    pub(crate) fn removed(&mut self, result: Result<(), StorageError>) {
        let Some(file) = self.removals.in_flight.take() else {
            return;
        };
        match result {
            Ok(()) => {
                self.removals.done += 1;
                self.removals.error = None;
                if let FileName::Log(base) = file {
                    self.record.remove(base);
                }
                self.retry_now();
            }
            Err(error) => {
                // The files stay until the next request to remove segments, or are found again at the next start.
                let first = self.first_offset();
                self.removals.give_up(file, error, first);
            }
        }
    }

    /// Drop all messages and restart at offset 0. No effect if this epoch has been reached before.
    pub fn purge(&mut self, epoch: u64, out: &mut Vec<StorageRequest>) {
        if epoch <= self.generation.purge_epoch || self.is_closed() {
            return;
        }
        self.generation.purge_epoch = epoch;
        self.config.purge_epoch = epoch;
        self.failure = None;
        self.shortage = None;
        self.ignore_operations_in_flight();
        if !self.is_open() {
            // Segments may have been recovered before a file of another component failed. All files are listed again.
            let _ = self.removals.take_all().count();
            self.wipe = None;
            self.set_aside_files.clear();
            self.reset_contents();
            self.phase = Phase::Opening(Box::new(Recovery::new(true)));
            self.begin_recovery(out);
            return;
        }
        let mut files: Vec<FileName> = self.removals.take_all().collect();
        if let Some(wipe) = self.wipe.take() {
            files.extend(wipe.files);
        }
        for segment in &self.segments {
            if segment.log_file != FileState::Missing {
                files.push(FileName::Log(segment.base));
                files.push(FileName::Index(segment.base));
            }
        }
        files.append(&mut self.set_aside_files);
        let has_files = !files.is_empty() || self.manifest_file != ManifestFile::Outdated;
        files.push(FileName::Offsets);
        files.push(FileName::ManifestCopy);
        self.reset_contents();
        if has_files {
            self.wipe = Some(Box::new(Wipe::new(files, false)));
        }
    }

    fn reset_contents(&mut self) {
        self.segments.clear();
        self.tail.clear();
        self.reads.abort_all();
        self.retention_request = None;
        self.size_bytes = 0;
        self.last_timestamp = 0;
        for end in [
            &mut self.next_offset,
            &mut self.issued_end,
            &mut self.written_end,
            &mut self.synced_end,
            &mut self.flush_target,
            &mut self.sync_target,
        ] {
            *end = Offset(0);
        }
        self.flush_deadline = None;
        self.sync_deadline = None;
        self.manifest_file = ManifestFile::Outdated;
        self.record = Record::default();
        self.note_opening();
        self.generation.partition = Some(self.config.namespace);
        self.offsets_bytes_found = Some(0);
    }

    /// Defer the removal of files while other files in the directory are still being written (`held`).
    pub fn defer_wipe(&mut self, held: bool) {
        self.wipe_held = held;
    }

    /// Return whether a purge is still in progress.
    pub fn is_wiping(&self) -> bool {
        self.wipe.is_some()
    }

    pub(crate) fn advance_wipe(&mut self, now: Timestamp, out: &mut Vec<StorageRequest>) {
        if self.wipe.is_none() || !self.may_wipe(now) {
            return;
        }
        let is_drained = self.operations.is_empty() && !self.wipe_held;
        let Some(wipe) = &mut self.wipe else {
            return;
        };
        match wipe.step {
            WipeStep::Draining if is_drained => {
                wipe.step = WipeStep::Marking;
                let manifest = Manifest {
                    generation: self.generation,
                    owner: Some(self.owner()),
                    dropping: true,
                    epoch: self.epoch,
                    openings: Some(self.openings.to_vec()),
                    first: Offset(0),
                    synced: None,
                    segments: None,
                };
                let operation = StorageOperation::Replace {
                    file: FileName::Manifest,
                    contents: manifest.encode(),
                };
                self.operations
                    .start_repeated(Pending::Wipe, operation, out);
            }
            WipeStep::OutOfSpace if is_drained => {
                let files: Vec<FileName> = wipe.index_files().collect();
                wipe.step = WipeStep::Freeing(files.len());
                self.start_wipe_removals(files, out);
            }
            WipeStep::Marked if wipe.files.is_empty() => self.wipe = None,
            WipeStep::Marked => {
                wipe.step = WipeStep::Removing(wipe.files.len());
                // Keep the list: a following purge cannot know which of these removals succeeded.
                let files = wipe.files.clone();
                self.start_wipe_removals(files, out);
            }
            WipeStep::Draining
            | WipeStep::Marking
            | WipeStep::OutOfSpace
            | WipeStep::Freeing(_)
            | WipeStep::Removing(_) => {}
        }
    }

    fn start_wipe_removals(&mut self, files: Vec<FileName>, out: &mut Vec<StorageRequest>) {
        for file in files {
            let operation = StorageOperation::Remove { file };
            self.operations
                .start_repeated(Pending::Wipe, operation, out);
        }
    }

    pub(crate) fn wipe_step_done(&mut self, result: Result<(), StorageError>) {
        let Some(wipe) = &mut self.wipe else {
            return;
        };
        if let Err(error) = result {
            let (what, file) = ("dropping what was purged from", FileName::Manifest);
            if wipe.step != WipeStep::Marking {
                return self.fail_writes(what, file, error);
            }
            let may_free_some = wipe.index_files().next().is_some();
            wipe.step = if may_free_some {
                WipeStep::OutOfSpace
            } else {
                WipeStep::Draining
            };
            if self.fail_unless_out_of_space(self.now, what, file, error) && may_free_some {
                self.retry_now();
            }
            return;
        }
        match wipe.step {
            WipeStep::Marking => {
                wipe.step = WipeStep::Marked;
                self.end_shortage();
            }
            WipeStep::Freeing(1) => {
                wipe.files.retain(|file| !is_index(file));
                wipe.step = WipeStep::Draining;
                self.retry_now();
            }
            WipeStep::Freeing(remaining) => wipe.step = WipeStep::Freeing(remaining - 1),
            WipeStep::Removing(1) => self.wipe = None,
            WipeStep::Removing(remaining) => wipe.step = WipeStep::Removing(remaining - 1),
            WipeStep::Draining | WipeStep::OutOfSpace | WipeStep::Marked => {}
        }
    }
}
