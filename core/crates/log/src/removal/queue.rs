//! Files that are to be removed, and files that were set aside.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use headrace_model::Offset;

use crate::storage::{FileName, StorageError};

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
    /// Files of bytes cut from segments, and foreign logs. They are removed with their segment, or by a purge.
    pub(crate) set_aside: Vec<FileName>,
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

    /// Forget all files: they are listed again.
    pub(crate) fn clear(&mut self) {
        let _ = self.take_all().count();
        self.set_aside.clear();
    }

    /// Take the names of all files that are still to be removed: something else does so.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = FileName> {
        self.done = self.requested;
        let in_flight = self.in_flight.take();
        core::mem::take(&mut self.given_up)
            .into_iter()
            .chain(in_flight)
            .chain(core::mem::take(&mut self.queue))
    }

    /// Queue the files of the oldest segment, which is not one of the log's any more.
    pub(crate) fn push_segment(&mut self, base: Offset) {
        // They come before those of later segments.
        self.retry();
        self.push(FileName::Log(base));
        self.push(FileName::Index(base));
        let is_its_own = |file: &mut FileName| matches!(file, FileName::Cut(of, _) if *of == base);
        let cuts: Vec<_> = self.set_aside.extract_if(.., is_its_own).collect();
        for cut in cuts {
            self.push(cut);
        }
    }

    /// Mark of the requests so far, for [`done`](Self::done).
    pub(crate) fn requested(&self) -> u64 {
        self.requested
    }

    /// Result of the removals up to `mark`, or the file that could not be removed. None while they are under way.
    pub(crate) fn done(&self, mark: u64) -> Option<Result<(), (FileName, StorageError)>> {
        (self.done >= mark).then(|| self.error.map_or(Ok(()), Err))
    }

    /// The file to remove next.
    pub(crate) fn front(&self) -> Option<FileName> {
        self.queue.front().copied()
    }

    /// Take out the file to remove next, unless a removal is under way.
    pub(crate) fn begin(&mut self) -> Option<FileName> {
        if self.in_flight.is_none() {
            self.in_flight = self.queue.pop_front();
            return self.in_flight;
        }
        None
    }

    /// End the removal under way. `first` is the first offset retained. Returns the file that is gone.
    pub(crate) fn end(
        &mut self,
        result: Result<(), StorageError>,
        first: Offset,
    ) -> Option<FileName> {
        let file = self.in_flight.take()?;
        match result {
            Ok(()) => {
                self.done += 1;
                self.error = None;
                Some(file)
            }
            Err(error) => {
                // The files stay until the next request to remove segments, or are found again at the next start.
                self.give_up(file, error, first);
                None
            }
        }
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

    /// Return whether files were given up, which the next request to remove segments tries again.
    pub(crate) fn has_given_up(&self) -> bool {
        !self.given_up.is_empty()
    }

    /// Queue the files that were given up. They come before those of later segments, which are queued next.
    pub(crate) fn retry(&mut self) {
        for file in core::mem::take(&mut self.given_up) {
            self.push(file);
        }
    }
}
