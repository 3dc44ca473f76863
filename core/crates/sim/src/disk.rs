//! Simulated disk: files with a durable image and the changes since the last sync, and names that become durable
//! separately.

use std::collections::BTreeMap;

use crate::plan::{Damage, Loss};
use crate::random::Draw;

/// Atomic unit of writes and losses of a device, in bytes.
pub const SECTOR: usize = 512;

/// Id of a file, unaffected by renames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileId(u64);

/// Bytes of a file as left by injected damage.
#[derive(Clone, Debug)]
pub struct DamagedBytes {
    file: FileId,
    start: usize,
    bytes: Vec<u8>,
}

impl DamagedBytes {
    /// Offset of the first of the bytes in the file.
    pub const fn start(&self) -> usize {
        self.start
    }
}

/// Files of one node.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    /// Names as visible to the running system.
    names: BTreeMap<String, FileId>,
    /// Names as of the last sync of the directory.
    durable_names: BTreeMap<String, FileId>,
    /// Changes of names since that sync.
    pending_names: Vec<NameChange>,
    files: BTreeMap<FileId, File>,
    created: u64,
    /// True if names become durable only with a sync of the directory.
    weak_names: bool,
    /// True if a lost write at the end of a file may leave its size behind, as zeros.
    weak_size: bool,
}

#[derive(Clone, Debug, Default)]
struct File {
    /// Contents after a power loss.
    durable: Vec<u8>,
    /// Contents visible to the running system.
    cache: Vec<u8>,
    /// Changes that lead from the durable image to the cache.
    pending: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Resize { len: usize },
}

#[derive(Clone, Debug)]
enum NameChange {
    Link { name: String, file: FileId },
    Unlink { name: String },
    Rename { from: String, to: String },
}

impl Disk {
    /// An empty disk; `weak_names` and `weak_size` as in [`DiskOptions`](crate::options::DiskOptions).
    pub fn new(weak_names: bool, weak_size: bool) -> Self {
        Self {
            weak_names,
            weak_size,
            ..Self::default()
        }
    }

    /// Names of all files, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    /// Contents of the file with this name.
    pub fn read(&self, name: &str) -> Option<&[u8]> {
        let file = self.names.get(name)?;
        self.files.get(file).map(|file| file.cache.as_slice())
    }

    /// Id of the file that has this name now.
    pub(crate) fn file(&self, name: &str) -> Option<FileId> {
        self.names.get(name).copied()
    }

    /// Contents of a file, whatever its name; `None` if it was removed.
    pub(crate) fn contents(&self, file: FileId) -> Option<&[u8]> {
        self.files.get(&file).map(|file| file.cache.as_slice())
    }

    /// Write bytes into a file, whatever its name.
    pub(crate) fn write_to(&mut self, file: FileId, offset: usize, bytes: &[u8]) {
        if let Some(file) = self.files.get_mut(&file) {
            let bytes = bytes.to_vec();
            let change = Change::Write { offset, bytes };
            carry_out(&mut file.cache, &change);
            file.pending.push(change);
        }
    }

    /// Make everything written to a file durable, whatever its name.
    pub(crate) fn sync_file(&mut self, file: FileId) {
        if let Some(file) = self.files.get_mut(&file) {
            for change in file.pending.drain(..) {
                carry_out(&mut file.durable, &change);
            }
        }
        if !self.weak_names {
            self.sync_names();
        }
    }

    /// Fail a sync like [`fail_sync`](Self::fail_sync), for a file whatever its name.
    pub(crate) fn fail_sync_of(&mut self, file: FileId) {
        if let Some(file) = self.files.get_mut(&file) {
            file.pending.clear();
            file.cache.clone_from(&file.durable);
        }
    }

    /// Fail a sync as Linux does: unsynced changes stay visible, and no later sync makes them durable.
    pub(crate) fn forget_unsynced(&mut self, name: &str) {
        if let Some(file) = self.file(name).and_then(|file| self.files.get_mut(&file)) {
            file.pending.clear();
        }
    }

    /// Sync a file, and show from `position` on what is durable.
    pub(crate) fn uncache(&mut self, name: &str, position: usize) {
        self.sync(name);
        if let Some(file) = self.file(name).and_then(|file| self.files.get_mut(&file)) {
            file.durable.resize(file.cache.len(), 0);
            let position = position.min(file.cache.len());
            file.cache[position..].copy_from_slice(&file.durable[position..]);
        }
    }

    /// Return whether the file has no unsynced bytes.
    pub fn is_synced(&self, name: &str) -> bool {
        self.names
            .get(name)
            .and_then(|file| self.files.get(file))
            .is_none_or(|file| file.pending.is_empty())
    }

    /// Create an empty file, or truncate an existing one.
    pub fn create(&mut self, name: &str) {
        self.created += 1;
        let file = FileId(self.created);
        self.files.insert(file, File::default());
        self.change_name(NameChange::Link {
            name: name.to_owned(),
            file,
        });
    }

    /// Write bytes; the file grows as needed, gaps read as zeros.
    pub fn write(&mut self, name: &str, offset: usize, bytes: &[u8]) {
        self.change(
            name,
            Change::Write {
                offset,
                bytes: bytes.to_vec(),
            },
        );
    }

    /// Truncate a file, or extend it with zeros.
    pub fn resize(&mut self, name: &str, len: usize) {
        self.change(name, Change::Resize { len });
    }

    /// Make everything written to the file durable.
    pub fn sync(&mut self, name: &str) {
        match self.file(name) {
            Some(file) => self.sync_file(file),
            None if !self.weak_names => self.sync_names(),
            None => {}
        }
    }

    /// Fail a sync: the unsynced changes are dropped and the durable contents become visible.
    pub fn fail_sync(&mut self, name: &str) {
        if let Some(file) = self.file(name) {
            self.fail_sync_of(file);
        }
    }

    /// Rename a file, replacing an existing one.
    pub fn rename(&mut self, from: &str, to: &str) {
        self.change_name(NameChange::Rename {
            from: from.to_owned(),
            to: to.to_owned(),
        });
    }

    /// Remove a file.
    pub fn remove(&mut self, name: &str) {
        self.change_name(NameChange::Unlink {
            name: name.to_owned(),
        });
    }

    /// Make all current names durable.
    pub fn sync_names(&mut self) {
        for change in self.pending_names.drain(..) {
            rename_in(&mut self.durable_names, &change);
        }
        let (names, durable) = (&self.names, &self.durable_names);
        self.files.retain(|file, _| {
            names
                .values()
                .chain(durable.values())
                .any(|named| named == file)
        });
    }

    /// Lose the power: `loss` determines which unsynced changes survive.
    pub fn lose_power(&mut self, loss: Loss, draw: &mut Draw) {
        let kept = if self.weak_names {
            match loss {
                Loss::All => 0,
                Loss::None => self.pending_names.len(),
                Loss::Prefix | Loss::Sectors => below(draw, self.pending_names.len() + 1),
            }
        } else {
            self.pending_names.len()
        };
        self.pending_names.truncate(kept);
        for change in self.pending_names.drain(..) {
            rename_in(&mut self.durable_names, &change);
        }
        self.names.clone_from(&self.durable_names);
        let names = &self.names;
        self.files
            .retain(|file, _| names.values().any(|named| named == file));
        for file in self.files.values_mut() {
            file.lose_power(loss, self.weak_size, draw);
        }
    }

    /// Damage one durable sector within `start..end` of the file. Only bytes in that range change. Returns `None` if
    /// the range has no durable bytes.
    pub fn damage(
        &mut self,
        name: &str,
        start: usize,
        end: usize,
        damage: Damage,
        draw: &mut Draw,
    ) -> Option<DamagedBytes> {
        let id = self.file(name)?;
        let file = self.files.get_mut(&id)?;
        let end = end.min(file.durable.len()).min(file.cache.len());
        if start >= end {
            return None;
        }
        let first = (start + below(draw, end - start)) / SECTOR * SECTOR;
        let sector = first.max(start)..(first + SECTOR).min(end);
        let before = file.durable[sector.clone()].to_vec();
        match damage {
            Damage::Bits => {
                for _ in 0..draw.within(1, 16) {
                    let at = below(draw, sector.len());
                    file.durable[sector.start + at] ^= 1 << draw.below(8);
                }
            }
            Damage::Zeros => file.durable[sector.clone()].fill(0),
            Damage::Misdirected => {
                let from = below(draw, file.durable.len().saturating_sub(sector.len()) + 1)
                    / SECTOR
                    * SECTOR;
                let strange = file.durable[from..from + sector.len()].to_vec();
                file.durable[sector.clone()].copy_from_slice(&strange);
            }
            Damage::Unreadable => file.durable[sector.clone()].fill(0xa5),
        }
        if file.durable[sector.clone()] == before[..] {
            file.durable[sector.start] ^= 1;
        }
        let (durable, cache) = (&file.durable, &mut file.cache);
        let start = sector.start;
        cache[sector.clone()].copy_from_slice(&durable[sector.clone()]);
        Some(DamagedBytes {
            file: id,
            start,
            bytes: durable[sector].to_vec(),
        })
    }

    /// Return whether the bytes are still as the damage has left them.
    pub fn is_still_damaged(&self, scar: &DamagedBytes) -> bool {
        let end = scar.start + scar.bytes.len();
        self.contents(scar.file)
            .and_then(|contents| contents.get(scar.start..end))
            == Some(&scar.bytes[..])
    }

    /// Truncate a file, immediately and durably.
    pub(crate) fn cut_short(&mut self, name: &str, len: usize) {
        if let Some(file) = self.file(name).and_then(|file| self.files.get_mut(&file)) {
            file.pending.clear();
            file.durable.truncate(len);
            file.cache.clone_from(&file.durable);
        }
    }

    /// Remove a file, immediately and durably.
    pub(crate) fn lose(&mut self, name: &str) {
        self.sync_names();
        self.names.remove(name);
        self.durable_names.remove(name);
    }

    /// Swap the contents of two files, immediately and durably.
    pub(crate) fn swap(&mut self, one: &str, other: &str) {
        self.sync_names();
        if let (Some(first), Some(second)) = (self.file(one), self.file(other)) {
            for names in [&mut self.names, &mut self.durable_names] {
                names.insert(one.to_owned(), second);
                names.insert(other.to_owned(), first);
            }
        }
    }

    fn change(&mut self, name: &str, change: Change) {
        let file = self
            .names
            .get(name)
            .expect("a host writes to files that it created");
        let file = self.files.get_mut(file).expect("a name leads to a file");
        carry_out(&mut file.cache, &change);
        file.pending.push(change);
    }

    fn change_name(&mut self, change: NameChange) {
        rename_in(&mut self.names, &change);
        self.pending_names.push(change);
    }
}

impl File {
    fn lose_power(&mut self, loss: Loss, weak_size: bool, draw: &mut Draw) {
        let pending = std::mem::take(&mut self.pending);
        let whole = match loss {
            Loss::All | Loss::Sectors => 0,
            Loss::None => pending.len(),
            Loss::Prefix => below(draw, pending.len() + 1),
        };
        for (index, change) in pending.iter().enumerate() {
            if index < whole {
                carry_out(&mut self.durable, change);
                continue;
            }
            if let (Change::Write { offset, bytes }, true) =
                (change, weak_size && draw.chance(300_000))
            {
                let len = self.durable.len().max(offset + bytes.len());
                self.durable.resize(len, 0);
            }
            match (loss, change) {
                (Loss::Prefix, Change::Write { offset, bytes }) if index == whole => {
                    let torn = below(draw, bytes.len() + 1);
                    let torn = ((offset + torn) / SECTOR * SECTOR).saturating_sub(*offset);
                    let change = Change::Write {
                        offset: *offset,
                        bytes: bytes[..torn].to_vec(),
                    };
                    carry_out(&mut self.durable, &change);
                }
                (Loss::Sectors, Change::Write { offset, bytes }) => {
                    let mut at = *offset;
                    while at < offset + bytes.len() {
                        let end = ((at / SECTOR + 1) * SECTOR).min(offset + bytes.len());
                        if draw.chance(500_000) {
                            let bytes = bytes[at - offset..end - offset].to_vec();
                            carry_out(&mut self.durable, &Change::Write { offset: at, bytes });
                        }
                        at = end;
                    }
                }
                (Loss::Sectors, Change::Resize { .. }) if draw.chance(500_000) => {
                    carry_out(&mut self.durable, change);
                }
                _ => {}
            }
        }
        self.cache.clone_from(&self.durable);
    }
}

fn carry_out(image: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { offset, bytes } => {
            if image.len() < offset + bytes.len() {
                image.resize(offset + bytes.len(), 0);
            }
            image[*offset..offset + bytes.len()].copy_from_slice(bytes);
        }
        Change::Resize { len } => image.resize(*len, 0),
    }
}

fn rename_in(names: &mut BTreeMap<String, FileId>, change: &NameChange) {
    match change {
        NameChange::Link { name, file } => {
            names.insert(name.clone(), *file);
        }
        NameChange::Unlink { name } => {
            names.remove(name);
        }
        NameChange::Rename { from, to } => {
            if let Some(file) = names.remove(from) {
                names.insert(to.clone(), file);
            }
        }
    }
}

fn below(draw: &mut Draw, bound: usize) -> usize {
    usize::try_from(draw.below(bound as u64)).expect("below a usize")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Domain, Fates};

    fn draw(count: u64) -> Draw {
        Fates::new(1).draw(Domain::Loss, 0, 0, count)
    }

    fn disk() -> Disk {
        let mut disk = Disk::new(true, false);
        disk.create("log");
        disk.write("log", 0, &[1; 2_048]);
        disk.sync("log");
        disk.sync_names();
        disk
    }

    #[test]
    fn synced_data_survives_power_loss() {
        for (loss, kept) in [(Loss::All, 1), (Loss::None, 2)] {
            let mut disk = disk();
            disk.write("log", 0, &[2; 2_048]);
            assert_eq!(disk.read("log").unwrap(), [2; 2_048]);
            disk.lose_power(loss, &mut draw(0));
            assert_eq!(disk.read("log").unwrap(), [kept; 2_048]);
        }
    }

    #[test]
    fn a_torn_write_keeps_leading_sectors_whole() {
        let mut seen = Vec::new();
        for count in 0..64 {
            let mut disk = disk();
            disk.write("log", 0, &[2; 2_048]);
            disk.lose_power(Loss::Prefix, &mut draw(count));
            let bytes = disk.read("log").unwrap();
            let new = bytes.iter().take_while(|byte| **byte == 2).count();
            assert_eq!(new % SECTOR, 0);
            assert!(bytes[new..].iter().all(|byte| *byte == 1));
            seen.push(new);
        }
        assert!(seen.contains(&0) && seen.contains(&512) && seen.contains(&2_048));
    }

    #[test]
    fn sectors_may_persist_in_any_combination() {
        let mut later_without_earlier = false;
        for count in 0..64 {
            let mut disk = disk();
            disk.write("log", 0, &[2; 2_048]);
            disk.lose_power(Loss::Sectors, &mut draw(count));
            let bytes = disk.read("log").unwrap();
            later_without_earlier |= bytes[0] == 1 && bytes[2_047] == 2;
            assert!(
                bytes
                    .chunks(SECTOR)
                    .all(|sector| sector.iter().all(|byte| *byte == sector[0]))
            );
        }
        assert!(later_without_earlier);
    }

    #[test]
    fn names_need_a_sync_of_the_directory() {
        let mut disk = disk();
        disk.create("new");
        disk.write("new", 0, b"x");
        disk.sync("new");
        disk.rename("new", "log");
        disk.lose_power(Loss::All, &mut draw(0));
        assert_eq!(disk.names().collect::<Vec<_>>(), ["log"]);
        assert_eq!(
            disk.read("log").unwrap().len(),
            2_048,
            "the rename was lost"
        );

        disk.create("new");
        disk.sync("new");
        disk.rename("new", "log");
        disk.sync_names();
        disk.lose_power(Loss::All, &mut draw(0));
        assert_eq!(disk.read("log").unwrap().len(), 0);
    }

    #[test]
    fn a_failed_sync_shows_the_old_contents() {
        let mut disk = disk();
        disk.write("log", 0, &[2; 10]);
        disk.fail_sync("log");
        assert_eq!(disk.read("log").unwrap(), [1; 2_048]);
    }

    #[test]
    fn damage_hits_its_range_only() {
        for (count, damage) in [
            Damage::Bits,
            Damage::Zeros,
            Damage::Misdirected,
            Damage::Unreadable,
        ]
        .into_iter()
        .enumerate()
        {
            let mut disk = disk();
            disk.damage("log", 600, 700, damage, &mut draw(count as u64));
            let bytes = disk.read("log").unwrap();
            assert!(bytes[600..700].iter().any(|byte| *byte != 1), "{damage:?}");
            assert!(
                bytes[..600]
                    .iter()
                    .chain(&bytes[700..])
                    .all(|byte| *byte == 1),
                "{damage:?}"
            );
        }
    }
}
