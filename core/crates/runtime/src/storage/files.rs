//! Open files, and files that are being opened.

use std::{collections::BTreeMap, os::fd::OwnedFd, sync::Arc};

use headrace_log::storage::{FileName, StorageOperation};
use headrace_model::{Namespace, Offset};

/// An operation that waits for its file, with its id.
pub(super) type Waiting = (u64, StorageOperation);

/// Open files; the least recently used ones are closed to make room for others.
pub(super) struct Files {
    entries: BTreeMap<(Namespace, FileName), Entry>,
    open: usize,
    /// Number of handles that are reserved for files that are being opened.
    reserved: usize,
    handles_max: usize,
    clock: u64,
    unsynced_bytes: u64,
}

enum Entry {
    Opening(Vec<Waiting>),
    Open {
        file: Arc<OwnedFd>,
        used: u64,
        unsynced_bytes: u64,
    },
}

/// Result of looking up a file.
pub(super) enum Found<'a> {
    Open(&'a Arc<OwnedFd>),
    Opening(&'a mut Vec<Waiting>),
    Closed,
}

impl Files {
    pub(super) fn new(handles_max: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            open: 0,
            reserved: 0,
            handles_max,
            clock: 0,
            unsynced_bytes: 0,
        }
    }

    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// Number of bytes written to open files since their last sync.
    pub(super) fn unsynced_bytes(&self) -> u64 {
        self.unsynced_bytes
    }

    pub(super) fn find(&mut self, namespace: Namespace, name: FileName) -> Found<'_> {
        self.clock += 1;
        match self.entries.get_mut(&(namespace, name)) {
            None => Found::Closed,
            Some(Entry::Opening(waiting)) => Found::Opening(waiting),
            Some(Entry::Open { file, used, .. }) => {
                *used = self.clock;
                Found::Open(file)
            }
        }
    }

    /// Note that the file is being opened for `first`; other operations may join.
    pub(super) fn opening(&mut self, namespace: Namespace, name: FileName, first: Waiting) {
        self.entries
            .insert((namespace, name), Entry::Opening(vec![first]));
    }

    /// Note that opening failed. Returns the operations that waited for the file.
    pub(super) fn not_opened(&mut self, namespace: Namespace, name: FileName) -> Vec<Waiting> {
        match self.entries.get(&(namespace, name)) {
            Some(Entry::Opening(_)) => self.take_waiting(namespace, name),
            // The file was created while it was being opened.
            Some(Entry::Open { .. }) | None => Vec::new(),
        }
    }

    /// Reserve a handle for a file that is to be opened, for which an idle file may be closed. Returns false if all are
    /// in use: one becomes idle with the end of an operation.
    pub(super) fn reserve(&mut self) -> bool {
        while self.open + self.reserved >= self.handles_max {
            let Some((namespace, name)) = self.least_recently_used() else {
                return false;
            };
            self.close(namespace, name);
        }
        self.reserved += 1;
        true
    }

    /// Give a reserved handle back: its file is open now, or was not opened.
    pub(super) fn give_back(&mut self) {
        self.reserved -= 1;
    }

    /// Close all files that no operation uses, as the process has no descriptor left.
    pub(super) fn close_idle(&mut self) {
        while let Some((namespace, name)) = self.least_recently_used() {
            self.close(namespace, name);
        }
    }

    /// Keep an open file. Returns the operations that waited for it.
    pub(super) fn insert(
        &mut self,
        namespace: Namespace,
        name: FileName,
        file: Arc<OwnedFd>,
    ) -> Vec<Waiting> {
        self.close(namespace, name);
        let waiting = self.take_waiting(namespace, name);
        self.clock += 1;
        let entry = Entry::Open {
            file,
            used: self.clock,
            unsynced_bytes: 0,
        };
        self.entries.insert((namespace, name), entry);
        self.open += 1;
        waiting
    }

    fn take_waiting(&mut self, namespace: Namespace, name: FileName) -> Vec<Waiting> {
        match self.entries.remove(&(namespace, name)) {
            Some(Entry::Opening(waiting)) => waiting,
            Some(Entry::Open { .. }) | None => Vec::new(),
        }
    }

    /// Find the least recently used file that no operation uses: the others would stay open all the same. A linear
    /// scan, which is cheap compared to opening a file.
    fn least_recently_used(&self) -> Option<(Namespace, FileName)> {
        self.entries
            .iter()
            .filter_map(|(key, entry)| match entry {
                Entry::Open { file, used, .. } if Arc::strong_count(file) == 1 => Some((used, key)),
                Entry::Open { .. } | Entry::Opening(_) => None,
            })
            .min()
            .map(|(_, key)| *key)
    }

    pub(super) fn close(&mut self, namespace: Namespace, name: FileName) {
        if let Some(Entry::Open { unsynced_bytes, .. }) = self.entries.get(&(namespace, name)) {
            self.unsynced_bytes -= unsynced_bytes;
            self.open -= 1;
            self.entries.remove(&(namespace, name));
        }
    }

    pub(super) fn close_all(&mut self, namespace: Namespace) {
        let first = (namespace, FileName::Log(Offset(0)));
        let names: Vec<FileName> = self
            .entries
            .range(first..)
            .map(|(key, _)| *key)
            .take_while(|(of, _)| *of == namespace)
            .map(|(_, name)| name)
            .collect();
        for name in names {
            self.close(namespace, name);
        }
    }

    pub(super) fn written(&mut self, namespace: Namespace, name: FileName, bytes: u64) {
        if let Some(Entry::Open { unsynced_bytes, .. }) = self.entries.get_mut(&(namespace, name)) {
            *unsynced_bytes += bytes;
            self.unsynced_bytes += bytes;
        }
    }

    pub(super) fn unsynced_bytes_of(&self, namespace: Namespace, name: FileName) -> u64 {
        match self.entries.get(&(namespace, name)) {
            Some(Entry::Open { unsynced_bytes, .. }) => *unsynced_bytes,
            Some(Entry::Opening(_)) | None => 0,
        }
    }

    /// Count everything written so far as synced: no sync is expected.
    pub(super) fn forget_unsynced(&mut self) {
        for entry in self.entries.values_mut() {
            if let Entry::Open { unsynced_bytes, .. } = entry {
                *unsynced_bytes = 0;
            }
        }
        self.unsynced_bytes = 0;
    }

    /// Note the success of a sync that was started when `bytes` were not synced.
    pub(super) fn synced(&mut self, namespace: Namespace, name: FileName, bytes: u64) {
        if let Some(Entry::Open { unsynced_bytes, .. }) = self.entries.get_mut(&(namespace, name)) {
            // Fewer than at the start if another sync was in progress at the same time.
            let synced = bytes.min(*unsynced_bytes);
            *unsynced_bytes -= synced;
            self.unsynced_bytes -= synced;
        }
    }
}

#[cfg(test)]
mod tests {
    use headrace_model::{PartitionId, StageId, StreamId, Timestamp, TopicId};

    use super::*;

    fn file() -> Arc<OwnedFd> {
        Arc::new(tempfile::tempfile().unwrap().into())
    }

    fn namespace(partition: u32) -> Namespace {
        Namespace::new(StreamId(0), TopicId(0), PartitionId(partition)).unwrap()
    }

    fn is_open(files: &mut Files, partition: u32, name: FileName) -> bool {
        matches!(files.find(namespace(partition), name), Found::Open(_))
    }

    #[test]
    fn the_least_recently_used_file_that_is_idle_is_closed() {
        let mut files = Files::new(3);
        let busy = file();
        let open = |files: &mut Files, partition, file| {
            assert!(files.reserve());
            files.insert(namespace(partition), FileName::Offsets, file);
            files.give_back();
        };
        open(&mut files, 0, Arc::clone(&busy));
        open(&mut files, 1, file());
        open(&mut files, 2, file());
        assert!(is_open(&mut files, 1, FileName::Offsets));
        open(&mut files, 3, file());
        assert_eq!(files.open(), 3);
        assert!(!is_open(&mut files, 2, FileName::Offsets));
        assert!(
            is_open(&mut files, 0, FileName::Offsets),
            "an operation uses it"
        );
        assert!(is_open(&mut files, 1, FileName::Offsets));
    }

    #[test]
    fn no_handle_is_reserved_while_all_are_in_use() {
        let mut files = Files::new(2);
        let busy = file();
        assert!(files.reserve());
        files.insert(namespace(0), FileName::Offsets, Arc::clone(&busy));
        files.give_back();
        assert!(files.reserve());
        assert!(!files.reserve());
        files.give_back();
        assert!(files.reserve());
        drop(busy);
        assert!(files.reserve());
        assert_eq!(files.open(), 0);
        files.insert(namespace(1), FileName::Offsets, file());
        files.close_idle();
        assert_eq!(files.open(), 0);
    }

    #[test]
    fn unsynced_bytes_follow_writes_syncs_and_closing() {
        let mut files = Files::new(10);
        let log = FileName::Log(Offset(0));
        files.insert(namespace(1), log, file());
        files.insert(namespace(2), log, file());
        let stage = FileName::Stage(StageId::new(Timestamp(1), 2));
        files.insert(namespace(2), stage, file());
        files.insert(namespace(2), FileName::Transactions, file());
        files.written(namespace(1), log, 100);
        let begun = files.unsynced_bytes_of(namespace(1), log);
        files.written(namespace(1), log, 50);
        files.written(namespace(2), log, 7);
        files.synced(namespace(1), log, begun);
        assert_eq!(files.unsynced_bytes_of(namespace(1), log), 50);
        files.synced(namespace(1), log, begun);
        assert_eq!(files.unsynced_bytes(), 7);
        files.close_all(namespace(2));
        assert_eq!((files.unsynced_bytes(), files.open()), (0, 1));
        files.close_all(namespace(1));
        assert_eq!(files.open(), 0);
    }

    /// No waiting operation is forgotten, whichever way the file comes to be open.
    #[test]
    fn waiting_operations_are_returned() {
        let mut files = Files::new(10);
        let name = FileName::Offsets;
        let wait = || (7, StorageOperation::Sync { file: name });
        files.opening(namespace(1), name, wait());
        assert!(matches!(files.find(namespace(1), name), Found::Opening(_)));
        assert_eq!(files.insert(namespace(1), name, file()).len(), 1);
        assert_eq!(files.not_opened(namespace(1), name).len(), 0);
        assert!(is_open(&mut files, 1, name));
        files.opening(namespace(2), name, wait());
        files.close_all(namespace(2));
        assert_eq!(files.not_opened(namespace(2), name).len(), 1);
        assert!(matches!(files.find(namespace(2), name), Found::Closed));
    }
}
