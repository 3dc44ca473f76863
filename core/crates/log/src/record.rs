//! Manifest on disk: contents, and the times at which it is replaced.
//!
//! It is replaced before a file is created that it does not list, before the first write of an opening, and before the
//! oldest segment is removed. Between those it is replaced some time after messages reached the device, and when the log
//! is closed, so that the next opening knows up to where no message can be a torn one (LOG-11).

use alloc::boxed::Box;
use alloc::vec::Vec;

use headrace_model::{Offset, Timestamp};

use crate::log::{Log, Pending};
use crate::manifest::{Listed, Manifest, Owner, SEGMENTS_LISTED_MAX, SyncedEnd};
use crate::segment::{FileState, Segment};
use crate::storage::{FileName, StorageError, StorageOperation, StorageRequest};

/// Microseconds between a sync and the record of it, if acknowledgements promised it or nothing of the segment is
/// recorded.
const RECORD_MICROS: u64 = 1_000_000;
/// Microseconds between any other sync and the record of it.
const RECORD_LATER_MICROS: u64 = 60_000_000;
/// Number of synced bytes that are recorded at once.
const RECORD_BYTES: u64 = 64 << 20;

/// State of the manifest on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ManifestFile {
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
#[derive(Debug, Default)]
pub(crate) struct Record {
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

impl Record {
    /// Take over the manifest that recovery found.
    pub(crate) fn found(&mut self, manifest: Manifest) {
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
    fn has_epoch(&self, epoch: u64) -> bool {
        let on_disk = self.on_disk.as_ref();
        on_disk.is_some_and(|manifest| manifest.epoch == epoch && manifest.owner.is_some())
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
}

impl Log {
    /// The partition whose directory this is.
    pub(crate) fn owner(&self) -> Owner {
        Owner {
            catalog: self.config.catalog,
            namespace: self.config.namespace,
        }
    }

    /// Return whether the manifest permits writes of this opening. If not, it is being replaced.
    pub(crate) fn is_epoch_recorded(&mut self, out: &mut Vec<StorageRequest>) -> bool {
        let is_recorded = self.record.has_epoch(self.epoch);
        if !is_recorded {
            self.require_manifest(out);
        }
        is_recorded
    }

    /// Replace the manifest unless it is being replaced. Work that needs it goes on then.
    pub(crate) fn require_manifest(&mut self, out: &mut Vec<StorageRequest>) {
        if !matches!(
            self.manifest_file,
            ManifestFile::Replacing | ManifestFile::Recording
        ) {
            self.replace_manifest(ManifestFile::Replacing, out);
        }
    }

    /// Replace the manifest by one that lists all segments, including those still to be removed.
    fn replace_manifest(&mut self, state: ManifestFile, out: &mut Vec<StorageRequest>) {
        self.manifest_file = state;
        self.record.due = None;
        let mut segments = self.listed_segments();
        if let Some(on_disk) = self.record.on_disk() {
            segments.extend(on_disk.segments.iter().flatten());
        }
        // The sort is stable: what is known now comes before what was recorded.
        segments.sort_by_key(|listed| listed.base);
        segments.dedup_by_key(|listed| listed.base);
        let manifest = Manifest {
            generation: self.generation,
            owner: Some(self.owner()),
            dropping: false,
            epoch: self.epoch,
            openings: Some(self.openings.to_vec()),
            first: self.record.first,
            synced: self.record.synced,
            segments: (segments.len() <= SEGMENTS_LISTED_MAX).then_some(segments),
        };
        let operation = StorageOperation::Replace {
            file: FileName::Manifest,
            contents: manifest.encode(),
        };
        self.record.next = Some(Box::new(manifest));
        self.operations
            .start_repeated(Pending::Manifest, operation, out);
    }

    fn listed_segments(&self) -> Vec<Listed> {
        let sealed = self.segments.len().saturating_sub(1);
        let listed = |(index, segment): (usize, &Segment)| Listed {
            base: segment.base,
            size: (index < sealed).then_some(segment.size),
            first_checksum: segment.first_message.recorded(),
            last: segment.last_message.filter(|_| index < sealed),
        };
        self.segments.iter().enumerate().map(listed).collect()
    }

    pub(crate) fn manifest_replaced(&mut self, result: Result<(), StorageError>, now: Timestamp) {
        let state = self.manifest_file;
        let next = self.record.next.take();
        match result {
            Ok(()) => {
                self.manifest_file = ManifestFile::Current;
                self.record.on_disk = next;
                self.record.removes_unrecorded = false;
                self.record.copy_due = true;
                self.retry_now();
            }
            Err(_) if state == ManifestFile::Recording => {
                // The manifest on disk stays good. The next sync records again; a closing log is closed without it.
                self.manifest_file = ManifestFile::Current;
                self.record.removes_unrecorded = true;
                if self.closing {
                    self.record.synced = self.record.recorded();
                }
            }
            Err(error) => {
                if self.fail_unless_out_of_space(now, "replacing", FileName::Manifest, error) {
                    self.manifest_file = ManifestFile::Outdated;
                }
            }
        }
    }

    /// Bring a manifest of an earlier format, or one that recovery found to be wrong, up to date.
    pub(crate) fn update_manifest(&mut self, out: &mut Vec<StorageRequest>) {
        let has_files = |log: &Self| {
            let front = log.segments.front();
            front.is_some_and(|oldest| oldest.log_file == FileState::Ready)
        };
        if self.manifest_file == ManifestFile::Outdated && has_files(self) {
            self.require_manifest(out);
        }
    }

    /// Record what is on the device if that is due, and copy the manifest.
    pub(crate) fn start_record(&mut self, now: Timestamp, out: &mut Vec<StorageRequest>) {
        let is_due =
            self.record.due.is_some_and(|due| due <= now) || self.closing && self.has_synced();
        if is_due && self.manifest_file == ManifestFile::Current && self.record.on_disk.is_some() {
            if self.record.recorded() == self.record.synced {
                self.record.due = None;
            } else {
                self.replace_manifest(ManifestFile::Recording, out);
            }
        }
        if self.record.copy_due
            && !self.record.copy_under_way
            && let Some(manifest) = self.record.on_disk()
        {
            let operation = StorageOperation::Replace {
                file: FileName::ManifestCopy,
                contents: manifest.encode(),
            };
            self.record.copy_due = false;
            self.record.copy_under_way = true;
            self.operations
                .start_repeated(Pending::ManifestCopy, operation, out);
        }
    }

    fn has_synced(&self) -> bool {
        self.tail.queued_bytes() == 0
            && self
                .segments
                .iter()
                .all(|segment| segment.synced == segment.size)
    }

    /// Return whether the manifest says that the segment is removed. If not, it is being replaced, unless there is no
    /// space for that: removing may be what frees some.
    pub(crate) fn is_removal_recorded(
        &mut self,
        base: Offset,
        out: &mut Vec<StorageRequest>,
    ) -> bool {
        let first = self.record.on_disk().map(|manifest| manifest.first);
        let is_recorded = first.is_none_or(|first| base < first) || base >= self.record.first;
        if is_recorded || self.record.removes_unrecorded {
            return true;
        }
        match self.manifest_file {
            ManifestFile::Outdated => true,
            ManifestFile::Replacing | ManifestFile::Recording => false,
            ManifestFile::Current => {
                self.replace_manifest(ManifestFile::Recording, out);
                false
            }
        }
    }
}
