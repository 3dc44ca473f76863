//! Removal of whole partitions: their place becomes free at once, their contents go afterwards.
//!
//! A partition's directory is renamed before any file in it is removed. So a crash leaves all of a partition at its place
//! or nothing, never logs without the manifest that says whose they are: the next topic may get the same number
//! (LOG-14). What was renamed and is still there is removed after the next start.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    thread,
};

use headrace_log::{
    check::{MANIFEST_BYTES_MAX, other_owner},
    storage::FileName,
};
use headrace_model::{Level, Namespace};

use super::directory::{create_durably, sync};
use crate::events::Events;

/// Directory of what was renamed, among those of the streams, which may be a file system of their own.
const REMOVED: &str = "streams/removed";

/// Directory of what no partition owns, among those of the streams. It is never removed.
const SET_ASIDE: &str = "streams/set-aside";

/// Partition whose directory is removed.
#[derive(Debug, Clone, Copy)]
pub struct Removed {
    /// Number of the partition.
    pub namespace: Namespace,
    /// Identity of its catalog, 0 if unknown.
    pub catalog: u128,
    /// Incarnation that was deleted.
    pub incarnation: u64,
}

/// Directory of a partition that is to leave its place.
pub struct Removal {
    directory: PathBuf,
    /// Data directory.
    data: PathBuf,
    /// Name there, without the number that makes it unique.
    name: String,
}

impl Removal {
    pub(super) fn new(data: &Path, directory: PathBuf, name: String) -> Self {
        Self {
            directory,
            data: data.to_owned(),
            name,
        }
    }

    /// Remove the directory with its contents, and the parent directories that become empty, up to the stream's. A
    /// directory that is not the deleted partition's is set aside instead: returns where it is, and whose.
    pub fn run(&self, removed: Removed) -> io::Result<Option<(PathBuf, String)>> {
        if let Some(owner) = self.other_owner(removed)? {
            let moved = self.move_to(SET_ASIDE)?;
            self.remove_empty_parents()?;
            return Ok(moved.map(|moved| (moved, owner)));
        }
        if let Some(moved) = self.move_to(REMOVED)? {
            remove_all(&moved)?;
        }
        self.remove_empty_parents()?;
        Ok(None)
    }

    fn other_owner(&self, removed: Removed) -> io::Result<Option<String>> {
        let files = [FileName::Manifest, FileName::ManifestCopy];
        let mut manifests = [None, None];
        for (manifest, file) in manifests.iter_mut().zip(files) {
            *manifest = match File::open(self.directory.join(file.to_string())) {
                Ok(file) => {
                    let mut contents = Vec::new();
                    file.take(MANIFEST_BYTES_MAX).read_to_end(&mut contents)?;
                    Some(contents)
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            };
        }
        let [manifest, copy] = &manifests;
        Ok(other_owner(
            [manifest.as_deref(), copy.as_deref()],
            (removed.namespace, removed.catalog),
            removed.incarnation,
        ))
    }

    /// Keep the directory with its contents in another place, and create an empty one.
    pub(super) fn set_aside(&self) -> io::Result<()> {
        self.move_to(SET_ASIDE)?;
        create_durably(&self.directory)
    }

    /// Rename the directory durably to one in `place`; None if it does not exist.
    fn move_to(&self, place: &str) -> io::Result<Option<PathBuf>> {
        let place = self.data.join(place);
        create_durably(&place)?;
        let mut number = 0_u32;
        loop {
            let moved = place.join(format!("{}.{number}", self.name));
            match fs::rename(&self.directory, &moved) {
                Ok(()) => {
                    sync(&place)?;
                    if let Some(above) = self.directory.parent() {
                        sync_unless_removed(above)?;
                    }
                    return Ok(Some(moved));
                }
                // An earlier partition with this number is not removed yet.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => number += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    fn remove_empty_parents(&self) -> io::Result<()> {
        // `partitions`, the topic, `topics`, the stream; then `streams`, which stays.
        for (level, above) in self.directory.ancestors().skip(1).enumerate() {
            if level < 4 && fs::remove_dir(above).is_ok() {
                continue;
            }
            return sync_unless_removed(above);
        }
        Ok(())
    }
}

/// Sync a directory, which another shard may have removed meanwhile because it was empty.
fn sync_unless_removed(directory: &Path) -> io::Result<()> {
    match sync(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Number of directories that were set aside; 0 if they cannot be listed.
pub(crate) fn set_aside_directories(data: &Path) -> usize {
    fs::read_dir(data.join(SET_ASIDE)).map_or(0, Iterator::count)
}

/// Return the directories whose removal an earlier process has not finished.
fn unfinished(data: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(data.join(REMOVED)) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Remove what an earlier process has not finished removing, on a thread of its own. If this process ends before that is
/// done, the next one goes on.
pub fn finish_removals(data: &Path, events: &Events) -> io::Result<()> {
    let directories = unfinished(data)?;
    if directories.is_empty() {
        return Ok(());
    }
    let count = directories.len();
    events.push(
        Level::Info,
        format!("removing {count} deleted partitions that an earlier process has not removed"),
    );
    let reports = events.clone();
    let remove = move || {
        for directory in directories {
            if let Err(error) = remove_all(&directory) {
                let directory = directory.display();
                let message =
                    format!("{directory}, a deleted partition, cannot be removed: {error}");
                reports.push(Level::Warning, message);
            }
        }
    };
    let thread = thread::Builder::new().name("removal".to_owned());
    if let Err(error) = thread.spawn(remove) {
        let message = format!("deleted partitions stay on disk until the next start: {error}");
        events.push(Level::Warning, message);
    }
    Ok(())
}

fn remove_all(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use headrace_log::check::rebuilt_manifest;
    use headrace_model::{PartitionId, StreamId, TopicId};

    use super::{super::directory::prepare, *};

    fn removal(data: &Path, partition: u32) -> Removal {
        let directory = data.join(format!("streams/1/topics/2/partitions/{partition}"));
        Removal::new(data, directory, format!("1-2-{partition}"))
    }

    fn deleted(partition: u32) -> Removed {
        let partition = PartitionId(partition);
        Removed {
            namespace: Namespace::new(StreamId(1), TopicId(2), partition).unwrap(),
            catalog: 0xc0,
            incarnation: 7,
        }
    }

    fn written(removal: &Removal) {
        prepare(&removal.directory).unwrap();
        fs::write(removal.directory.join("00000000000000000000.log"), b"x").unwrap();
    }

    #[test]
    fn what_is_empty_goes_with_the_last_partition() {
        let root = tempfile::tempdir().unwrap();
        let [third, fourth] = [3, 4].map(|partition| removal(root.path(), partition));
        written(&third);
        prepare(&fourth.directory).unwrap();
        third.run(deleted(3)).unwrap();
        third.run(deleted(3)).unwrap();
        assert!(fourth.directory.exists() && !third.directory.exists());
        fourth.run(deleted(4)).unwrap();
        assert!(!root.path().join("streams/1").exists());
        assert!(unfinished(root.path()).unwrap().is_empty());
    }

    /// A process that is killed has moved the directory and removed a part of it, or nothing.
    #[test]
    fn a_place_is_free_before_its_files_go() {
        let root = tempfile::tempdir().unwrap();
        assert!(unfinished(root.path()).unwrap().is_empty());
        let removal = removal(root.path(), 3);
        let mut moved = Vec::new();
        for _ in 0..2 {
            written(&removal);
            moved.push(removal.move_to(REMOVED).unwrap().unwrap());
            assert!(!removal.directory.exists());
        }
        assert!(
            moved
                .iter()
                .all(|directory| directory.join("00000000000000000000.log").exists())
        );
        let mut found = unfinished(root.path()).unwrap();
        found.sort();
        assert_eq!(found, moved);
        // The next partition with this number is removed while those before it are still there.
        written(&removal);
        removal.run(deleted(3)).unwrap();
        let events = Events::default();
        finish_removals(root.path(), &events).unwrap();
        assert_eq!(events.take().len(), 1);
        let deadline = Instant::now() + Duration::from_secs(30);
        while !unfinished(root.path()).unwrap().is_empty() {
            assert!(Instant::now() < deadline);
            thread::yield_now();
        }
    }

    /// LOG-13: what is set aside stays, also if it happens again.
    #[test]
    fn what_is_set_aside_is_kept() {
        let root = tempfile::tempdir().unwrap();
        let removal = removal(root.path(), 3);
        for number in 0..2 {
            written(&removal);
            removal.set_aside().unwrap();
            assert_eq!(prepare(&removal.directory).unwrap(), []);
            let kept = root.path().join(SET_ASIDE).join(format!("1-2-3.{number}"));
            assert!(kept.join("00000000000000000000.log").exists());
        }
    }

    /// LOG-21: a directory that another partition or catalog owns is kept when the partition at its place is deleted.
    #[test]
    fn what_is_anothers_is_not_removed() {
        let of = |namespace: Namespace, catalog| rebuilt_manifest(namespace, catalog, &[]);
        let (own, other) = (deleted(3).namespace, deleted(4).namespace);
        let damaged = b"{}".to_vec();
        for (manifest, copy, is_kept) in [
            (Some(of(own, 0xc0)), None, false),
            (Some(of(own, 0)), None, false),
            (Some(of(other, 0xc0)), None, true),
            (Some(of(own, 0xc1)), Some(of(own, 0xc1)), true),
            (Some(of(other, 0xc0)), Some(of(own, 0xc0)), false),
            (Some(damaged.clone()), Some(of(other, 0xc0)), true),
            (Some(damaged.clone()), None, false),
            (None, None, false),
        ] {
            let root = tempfile::tempdir().unwrap();
            let removal = removal(root.path(), 3);
            written(&removal);
            for (name, contents) in [
                ("partition.json", &manifest),
                ("partition.copy.json", &copy),
            ] {
                if let Some(contents) = contents {
                    fs::write(removal.directory.join(name), contents).unwrap();
                }
            }
            let kept = removal.run(deleted(3)).unwrap();
            assert!(!root.path().join("streams/1").exists());
            assert_eq!(kept.is_some(), is_kept, "{manifest:?} {copy:?}");
            if let Some((kept, _)) = kept {
                assert!(kept.join("00000000000000000000.log").exists());
            }
            assert!(unfinished(root.path()).unwrap().is_empty());
        }
    }

    #[test]
    fn one_shard_may_make_what_another_removes() {
        let root = tempfile::tempdir().unwrap();
        thread::scope(|scope| {
            for partition in [3, 4] {
                let removal = removal(root.path(), partition);
                scope.spawn(move || {
                    for _ in 0..50 {
                        prepare(&removal.directory).unwrap();
                        assert!(removal.directory.exists());
                        removal.run(deleted(partition)).unwrap();
                    }
                });
            }
        });
    }
}
