//! Manifest on disk: contents, and the times at which it is replaced.
//!
//! It is replaced before a file is created that it does not list, before the first write of an opening, and before the
//! oldest segment is removed. Between those it is replaced some time after messages reached the device, and when the log
//! is closed, so that the next opening knows up to where no message can be a torn one (LOG-11).

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use headrace_model::{Offset, Opening, Timestamp};

use crate::manifest::{Generation, Listed, Manifest, Owner, SEGMENTS_LISTED_MAX, SyncedEnd};
use crate::openings;
use crate::operations::Operations;
use crate::operations::pending::Pending;
use crate::segment::{FileState, Segment};
use crate::state::segments::Segments;
use crate::storage::{FileName, StorageOperation, StorageRequest};

/// Microseconds between a sync and the record of it, if acknowledgements promised it or nothing of the segment is
/// recorded.
const RECORD_MICROS: u64 = 1_000_000;
/// Microseconds between any other sync and the record of it.
const RECORD_LATER_MICROS: u64 = 60_000_000;
/// Number of synced bytes that are recorded at once.
const RECORD_BYTES: u64 = 64 << 20;

/// State of the manifest on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ManifestFile {
    /// The manifest does not state that the files of this generation count. It has to be replaced before the first of
    /// them is created.
    Outdated,
    /// The manifest is being replaced, and work waits for it.
    Replacing,
    /// The manifest is being replaced. The one on disk is good enough.
    Recording,
    /// The manifest states that this generation's files count, and lists its segments.
    Current,
}

/// Manifest on disk, and what the next one has to say.
#[derive(Debug)]
pub(crate) struct Record {
    /// State of the file.
    file: ManifestFile,
    /// The partition whose directory this is.
    owner: Owner,
    /// Generation whose files count.
    pub(crate) generation: Generation,
    /// Number of this opening.
    epoch: u64,
    /// Openings up to this one.
    openings: Arc<[Opening]>,
    on_disk: Option<Box<Manifest>>,
    next: Option<Box<Manifest>>,
    /// Base offset of the first segment that was not removed on request. Earlier ones may be missing.
    first: Offset,
    /// End of what is on the device.
    synced: Option<SyncedEnd>,
    due: Option<Timestamp>,
    /// True if removals do not wait for the record of them: there is no space for it.
    removes_unrecorded: bool,
    copy_due: bool,
    copy_under_way: bool,
}

/// State of the manifest after a replacement has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replaced {
    /// The new manifest is on disk.
    Current,
    /// The replacement failed. The manifest on disk stays good.
    KeptEarlier,
    /// The replacement failed, and work waits for it.
    Missing,
}

impl Record {
    pub(crate) fn new(generation: Generation, owner: Owner) -> Self {
        Self {
            file: ManifestFile::Outdated,
            owner,
            generation,
            epoch: 1,
            openings: Arc::default(),
            on_disk: None,
            next: None,
            first: Offset(0),
            synced: None,
            due: None,
            removes_unrecorded: false,
            copy_due: false,
            copy_under_way: false,
        }
    }

    /// Forget the manifest on disk, and what was to be recorded: the contents are dropped. The opening stays the same.
    pub(crate) fn reset(&mut self) {
        *self = Self {
            epoch: self.epoch,
            ..Self::new(self.generation, self.owner)
        };
        self.name_partition();
    }

    /// Let derived files name their partition, once there are none of an earlier format.
    pub(crate) fn name_partition(&mut self) {
        self.generation.partition = Some(self.owner.namespace);
    }

    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    pub(crate) fn openings(&self) -> &Arc<[Opening]> {
        &self.openings
    }

    /// Note the time of this opening. What was read in an opening that has left no trace is another one's also without
    /// a record.
    pub(crate) fn begin_epoch(&mut self, now: Timestamp) {
        self.epoch = now.0.max(1);
    }

    /// Note that the log was opened at this end.
    pub(crate) fn note_opening(&mut self, end: Offset) {
        let manifest = self.on_disk();
        let earlier = manifest.and_then(|manifest| manifest.openings.as_deref());
        let opening = Opening {
            epoch: self.epoch,
            end,
        };
        self.openings = openings::with(earlier.unwrap_or_default(), opening).into();
    }

    /// The manifest states that the files of this generation count.
    pub(crate) fn is_current(&self) -> bool {
        self.file == ManifestFile::Current
    }

    /// The manifest has not been replaced by one of this generation, and is not being replaced.
    pub(crate) fn is_outdated(&self) -> bool {
        self.file == ManifestFile::Outdated
    }

    /// Have the manifest replaced before the next file is created.
    pub(crate) fn outdate(&mut self) {
        self.file = ManifestFile::Outdated;
    }

    /// Take over the manifest that recovery found.
    pub(crate) fn found(&mut self, manifest: Manifest, is_current: bool) {
        if is_current {
            self.file = ManifestFile::Current;
        } else {
            self.file = ManifestFile::Outdated;
        }
        self.epoch = self.epoch.max(manifest.epoch.saturating_add(1));
        self.first = manifest.first;
        self.on_disk = Some(Box::new(manifest));
    }

    pub(crate) fn on_disk(&self) -> Option<&Manifest> {
        self.on_disk.as_deref()
    }

    /// Entry of a segment in the manifest on disk.
    pub(crate) fn listed(&self, base: Offset) -> Option<Listed> {
        let listed = self.on_disk.as_ref()?.segments.as_ref()?;
        let index = listed.binary_search_by_key(&base, |listed| listed.base);
        index.ok().map(|index| listed[index])
    }

    /// Return true if the log file of this segment may exist.
    pub(crate) fn may_exist(&self, base: Offset) -> bool {
        let list = self
            .on_disk
            .as_ref()
            .and_then(|manifest| manifest.segments.as_ref());
        list.is_none() || self.listed(base).is_some()
    }

    /// Note that the segments before this offset are to be removed.
    pub(crate) fn note_removed(&mut self, first: Offset) {
        self.first = self.first.max(first);
    }

    /// Remove a segment whose log file is gone.
    pub(crate) fn remove(&mut self, base: Offset) {
        for manifest in [&mut self.on_disk, &mut self.next].into_iter().flatten() {
            if let Some(listed) = &mut manifest.segments {
                listed.retain(|listed| listed.base != base);
            }
        }
    }

    /// Forget the listed segments from this offset on, except these: they were listed and never begun.
    pub(crate) fn forget_from(&mut self, base: Offset, except: impl Fn(Offset) -> bool) {
        if let Some(manifest) = &mut self.on_disk
            && let Some(listed) = &mut manifest.segments
        {
            listed.retain(|listed| listed.base < base || except(listed.base));
        }
    }

    /// Return whether the manifest states that this opening writes.
    fn has_epoch(&self) -> bool {
        let on_disk = self.on_disk.as_ref();
        on_disk.is_some_and(|manifest| manifest.epoch == self.epoch && manifest.owner.is_some())
    }

    fn recorded(&self) -> Option<SyncedEnd> {
        self.on_disk.as_ref().and_then(|manifest| manifest.synced)
    }

    /// Return whether nothing has to be recorded, or copied, before the log is closed.
    pub(crate) fn is_complete(&self) -> bool {
        (self.on_disk.is_none() || self.recorded() == self.synced)
            && !self.copy_due
            && !self.copy_under_way
    }

    /// Time of the next record.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        self.due
    }

    pub(crate) fn copied(&mut self) {
        self.copy_under_way = false;
    }

    /// Note what is on the device, which is recorded some time later.
    pub(crate) fn note_synced(&mut self, end: SyncedEnd, is_promised: bool, now: Timestamp) {
        self.synced = Some(end);
        let recorded = self
            .recorded()
            .filter(|recorded| recorded.segment == end.segment);
        let is_new = recorded.is_none();
        let bytes =
            end.position - recorded.map_or(0, |recorded| recorded.position.min(end.position));
        let delay = if bytes >= RECORD_BYTES {
            0
        } else if is_new || is_promised {
            RECORD_MICROS
        } else {
            RECORD_LATER_MICROS
        };
        let due = Timestamp(now.0 + delay);
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
    }

    /// Note what recovery found on the device.
    pub(crate) fn set_synced(&mut self, end: SyncedEnd) {
        self.synced = Some(end);
    }

    /// The manifest that states that the contents are being dropped.
    pub(crate) fn dropping(&self) -> Manifest {
        Manifest {
            generation: self.generation,
            owner: Some(self.owner),
            dropping: true,
            epoch: self.epoch,
            openings: Some(self.openings.to_vec()),
            first: Offset(0),
            end: None,
            synced: None,
            segments: None,
        }
    }

    /// Base offset of the first segment that was not removed on request.
    pub(crate) fn first(&self) -> Offset {
        self.first
    }

    /// The manifest that states that only the messages from `first` up to `end` count.
    pub(crate) fn truncating(&self, first: Offset, end: Offset, segments: &Segments) -> Manifest {
        let last = segments.iter().rev().find(|segment| segment.base < end);
        let synced = self.synced.and_then(|synced| {
            if synced.offset <= end {
                return Some(synced);
            }
            // The position of the end is not known; but what is before a segment with messages is on the device.
            let base = last?.base;
            Some(SyncedEnd {
                segment: base,
                offset: base,
                position: 0,
                ..synced
            })
        });
        Manifest {
            dropping: false,
            first,
            end: Some(end),
            synced,
            segments: self.list(segments),
            ..self.dropping()
        }
    }

    /// All segments, including those still to be removed, unless they are too many.
    fn list(&self, segments: &Segments) -> Option<Vec<Listed>> {
        let mut segments = listed(segments);
        if let Some(on_disk) = self.on_disk() {
            segments.extend(on_disk.segments.iter().flatten());
        }
        // The sort is stable: what is known now comes before what was recorded.
        segments.sort_by_key(|listed| listed.base);
        segments.dedup_by_key(|listed| listed.base);
        (segments.len() <= SEGMENTS_LISTED_MAX).then_some(segments)
    }

    /// Return whether the manifest permits writes of this opening. If not, it is being replaced.
    pub(crate) fn is_epoch_recorded(
        &mut self,
        segments: &Segments,
        operations: &mut Operations<Pending>,
        out: &mut Vec<StorageRequest>,
    ) -> bool {
        let is_recorded = self.has_epoch();
        if !is_recorded {
            self.require(segments, operations, out);
        }
        is_recorded
    }

    /// Replace the manifest unless it is being replaced. Work that needs it goes on then.
    pub(crate) fn require(
        &mut self,
        segments: &Segments,
        operations: &mut Operations<Pending>,
        out: &mut Vec<StorageRequest>,
    ) {
        if !matches!(self.file, ManifestFile::Replacing | ManifestFile::Recording) {
            self.replace(ManifestFile::Replacing, segments, operations, out);
        }
    }

    /// Replace the manifest by one that lists all segments, including those still to be removed.
    fn replace(
        &mut self,
        state: ManifestFile,
        segments: &Segments,
        operations: &mut Operations<Pending>,
        out: &mut Vec<StorageRequest>,
    ) {
        self.file = state;
        self.due = None;
        let manifest = Manifest {
            dropping: false,
            first: self.first,
            synced: self.synced,
            segments: self.list(segments),
            ..self.dropping()
        };
        let operation = StorageOperation::Replace {
            file: FileName::Manifest,
            contents: manifest.encode(),
        };
        self.next = Some(Box::new(manifest));
        operations.start_repeated(Pending::Manifest, operation, out);
    }

    /// Handle the end of a replacement.
    pub(crate) fn replaced(&mut self, succeeded: bool, closing: bool) -> Replaced {
        let next = self.next.take();
        if succeeded {
            self.file = ManifestFile::Current;
            self.on_disk = next;
            self.removes_unrecorded = false;
            self.copy_due = true;
            return Replaced::Current;
        }
        if self.file == ManifestFile::Recording {
            // The next sync records again; a closing log is closed without it.
            self.file = ManifestFile::Current;
            self.removes_unrecorded = true;
            if closing {
                self.synced = self.recorded();
            }
            return Replaced::KeptEarlier;
        }
        Replaced::Missing
    }

    /// Bring a manifest of an earlier format, or one that recovery found to be wrong, up to date.
    pub(crate) fn update(
        &mut self,
        segments: &Segments,
        operations: &mut Operations<Pending>,
        out: &mut Vec<StorageRequest>,
    ) {
        let has_files = segments
            .front()
            .is_some_and(|oldest| oldest.log_file == FileState::Ready);
        if self.is_outdated() && has_files {
            self.require(segments, operations, out);
        }
    }

    /// Record what is on the device if that is due, or if it is the `last` record, and copy the manifest.
    pub(crate) fn start(
        &mut self,
        (now, is_last): (Timestamp, bool),
        segments: &Segments,
        operations: &mut Operations<Pending>,
        out: &mut Vec<StorageRequest>,
    ) {
        let is_due = self.due.is_some_and(|due| due <= now) || is_last;
        if is_due && self.is_current() && self.on_disk.is_some() {
            if self.recorded() == self.synced {
                self.due = None;
            } else {
                self.replace(ManifestFile::Recording, segments, operations, out);
            }
        }
        if self.copy_due
            && !self.copy_under_way
            && let Some(manifest) = self.on_disk()
        {
            let operation = StorageOperation::Replace {
                file: FileName::ManifestCopy,
                contents: manifest.encode(),
            };
            self.copy_due = false;
            self.copy_under_way = true;
            operations.start_repeated(Pending::ManifestCopy, operation, out);
        }
    }

    /// Return whether the manifest says that the segment is removed. If not, it is being replaced, unless there is no
    /// space for that: removing may be what frees some.
    pub(crate) fn is_removal_recorded(
        &mut self,
        base: Offset,
        segments: &Segments,
        operations: &mut Operations<Pending>,
        out: &mut Vec<StorageRequest>,
    ) -> bool {
        let first = self.on_disk().map(|manifest| manifest.first);
        let is_recorded = first.is_none_or(|first| base < first) || base >= self.first;
        if is_recorded || self.removes_unrecorded {
            return true;
        }
        match self.file {
            ManifestFile::Outdated => true,
            ManifestFile::Replacing | ManifestFile::Recording => false,
            ManifestFile::Current => {
                self.replace(ManifestFile::Recording, segments, operations, out);
                false
            }
        }
    }
}

/// Entries of the segments in a manifest.
fn listed(segments: &Segments) -> Vec<Listed> {
    let entry = |(index, segment): (usize, &Segment)| {
        let is_sealed = segments.is_sealed(index);
        Listed {
            base: segment.base,
            size: is_sealed.then_some(segment.size),
            first_checksum: segment.first_message.recorded(),
            last: segment.last_message.filter(|_| is_sealed),
        }
    };
    segments.iter().enumerate().map(entry).collect()
}
