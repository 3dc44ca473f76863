//! Simulated disk that loses unsynced data, tears writes in progress, and fails on request. A failed sync loses what was
//! to be synced like that of Linux: reads return it from the cache, and no later sync stores it.

use std::collections::BTreeMap;

use fastrand::Rng;
use headrace_buffer::Buffer;
use headrace_model::limits::WRITE_SLICES_MAX;
use headrace_partition::storage::{
    FileName, StorageError, StorageErrorKind, StorageOperation, StorageOutcome, WRITE_BYTES_MAX,
};

/// Unit that a loss of power keeps or loses as a whole.
const SECTOR_BYTES: usize = 512;
/// Minimum number of bytes lost of a sector. Sectors of real devices are larger, so that a loss is seldom smaller.
const LOST_BYTES_MIN: usize = 32;

pub type Outcome = Result<StorageOutcome, StorageError>;

#[derive(Debug, Clone, Default)]
struct File {
    /// Contents visible to reads.
    content: Vec<u8>,
    /// Contents that survive a loss of power.
    durable: Vec<u8>,
    /// Changes that the next sync makes durable.
    unsynced: Vec<Change>,
    /// True if a failed sync has lost something.
    has_lost: bool,
}

#[derive(Debug, Clone)]
enum Change {
    /// Position and bytes.
    Write(usize, Vec<u8>),
    /// New length.
    Cut(usize),
}

impl File {
    fn write(&mut self, position: usize, bytes: &[u8]) {
        assert!(position <= self.content.len(), "a write leaves no hole");
        let end = position + bytes.len();
        if self.content.len() < end {
            self.content.resize(end, 0);
        }
        self.content[position..end].copy_from_slice(bytes);
        self.unsynced.push(Change::Write(position, bytes.to_vec()));
    }

    fn cut(&mut self, length: usize) -> Vec<u8> {
        assert!(length <= self.content.len(), "a cut never extends a file");
        self.unsynced.push(Change::Cut(length));
        self.content.split_off(length)
    }

    /// Make the changes durable that are not synced yet. Changes that a failed sync has lost leave the old contents or
    /// zeros.
    fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            match change {
                Change::Write(position, bytes) => {
                    let end = position + bytes.len();
                    self.durable.resize(self.durable.len().max(end), 0);
                    self.durable[position..end].copy_from_slice(&bytes);
                }
                Change::Cut(length) => self.durable.truncate(length),
            }
        }
        self.durable.resize(self.content.len(), 0);
        assert!(self.has_lost || self.durable == self.content);
    }

    fn fail_to_sync(&mut self) {
        self.unsynced
            .retain(|change| matches!(change, Change::Cut(_)));
        self.has_lost = true;
    }

    /// Drop the cache from `position` on.
    fn uncache(&mut self, position: usize) {
        self.sync();
        self.content[position..].copy_from_slice(&self.durable[position..]);
    }

    fn keep(&mut self) {
        *self = Self {
            durable: self.content.clone(),
            content: std::mem::take(&mut self.content),
            ..Self::default()
        };
    }

    /// Lose power: every unsynced sector independently keeps a prefix of its writes; other bytes keep their old
    /// contents or are zeros.
    fn lose_power(&mut self, random: &mut Rng) {
        let mut survivor = self.durable.clone();
        // The new length may have reached the disk fully, partly or not at all.
        let grown = self.content.len().max(survivor.len());
        let length = match random.u8(..3) {
            0 => survivor.len().min(self.content.len()),
            1 => grown,
            _ => random.usize(survivor.len().min(grown)..=grown),
        };
        survivor.resize(length, 0);
        let mut sectors: BTreeMap<usize, Vec<(usize, &[u8])>> = BTreeMap::new();
        for change in &self.unsynced {
            let Change::Write(position, bytes) = change else {
                continue;
            };
            let mut at = 0;
            while at < bytes.len() {
                let sector = (position + at) / SECTOR_BYTES;
                let end = ((sector + 1) * SECTOR_BYTES - position).min(bytes.len());
                let piece = (position + at, &bytes[at..end]);
                sectors.entry(sector).or_default().push(piece);
                at = end;
            }
        }
        for pieces in sectors.values() {
            let mut kept = random.usize(..=pieces.len());
            if let Some((lost, _)) = pieces.get(kept)
                && pieces.last().expect("one is lost").0
                    + pieces.last().expect("one is lost").1.len()
                    - lost
                    < LOST_BYTES_MIN
            {
                kept = pieces.len();
            }
            for (position, bytes) in &pieces[..kept] {
                let (from, to) = (
                    (*position).min(length),
                    (position + bytes.len()).min(length),
                );
                survivor[from..to].copy_from_slice(&bytes[..to - from]);
            }
        }
        self.content = survivor;
        self.keep();
    }
}

/// Kind of crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// The process dies: everything written is kept.
    Kill,
    /// The machine dies: unsynced data is lost in part.
    Power,
}

/// Operation that fails once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Write(StorageErrorKind),
    SetAside(StorageErrorKind),
    Rename(StorageErrorKind),
    Sync,
    Create,
    Replace,
    /// No space for one replacement.
    NoRoom,
    Remove,
    Read(FileName, StorageErrorKind),
    /// Any operation except a sync, which is never repeated.
    Exhausted,
    /// Any operation except a sync and a read.
    ExhaustedForChanges,
}

#[derive(Debug, Default)]
pub struct Disk {
    files: BTreeMap<FileName, File>,
    /// Contents of directories that were moved away.
    set_aside: Vec<BTreeMap<FileName, File>>,
    /// Names created, replaced or removed since the last sync of the directory, in order, with the file that each named
    /// before.
    unsynced_names: Vec<(FileName, Option<File>)>,
    pub faults: Vec<Fault>,
    /// True if there is no space for anything new.
    pub full: bool,
    /// Changes that fail, with kind `Other`, as long as this is set.
    pub refused: Option<fn(&StorageOperation) -> bool>,
    /// Number of operations executed.
    pub executed: usize,
    pub reads: usize,
}

impl Disk {
    pub fn files(&self) -> Vec<FileName> {
        self.files.keys().copied().collect()
    }

    /// Files of the directories that were moved away.
    pub fn files_set_aside(&self) -> Vec<FileName> {
        let directories = self.set_aside.iter();
        directories
            .flat_map(|files| files.keys().copied())
            .collect()
    }

    pub fn content(&self, file: FileName) -> &[u8] {
        &self.files[&file].content
    }

    pub fn set_content(&mut self, file: FileName, content: Vec<u8>) {
        self.files.insert(
            file,
            File {
                durable: content.clone(),
                content,
                ..File::default()
            },
        );
    }

    pub fn flip(&mut self, file: FileName, position: usize) {
        let file = self.files.get_mut(&file).expect("the file exists");
        file.content[position] ^= 0x40;
        if let Some(byte) = file.durable.get_mut(position) {
            *byte ^= 0x40;
        }
        for change in &mut file.unsynced {
            if let Change::Write(start, bytes) = change
                && let Some(at) = position.checked_sub(*start)
                && let Some(byte) = bytes.get_mut(at)
            {
                *byte ^= 0x40;
            }
        }
    }

    pub fn truncate(&mut self, file: FileName, length: usize) {
        let file = self.files.get_mut(&file).expect("the file exists");
        file.content.truncate(length);
        file.keep();
    }

    pub fn lose(&mut self, file: FileName) {
        self.files.remove(&file);
    }

    /// Execute an operation completely.
    pub fn execute(&mut self, operation: &StorageOperation) -> Outcome {
        self.executed += 1;
        if let Some(error) = self.take_fault(operation) {
            if let StorageOperation::Sync { file } | StorageOperation::Uncache { file, .. } =
                operation
                && let Some(file) = self.files.get_mut(file)
                && error.kind != StorageErrorKind::Exhausted
            {
                file.fail_to_sync();
            }
            return Err(error);
        }
        let missing = Err(failed(StorageErrorKind::Missing));
        match operation {
            StorageOperation::OpenDirectory => {
                self.unsynced_names.clear();
                let list = self
                    .files
                    .iter()
                    .map(|(name, file)| (*name, file.content.len() as u64));
                return Ok(StorageOutcome::Listed(list.collect()));
            }
            StorageOperation::SetAsideDirectory => {
                self.unsynced_names.clear();
                self.set_aside.push(std::mem::take(&mut self.files));
            }
            StorageOperation::Create { file } => {
                self.files.insert(*file, File::default());
                self.unsynced_names.clear();
            }
            StorageOperation::Write {
                file,
                position,
                slices,
            } => {
                let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
                assert!(slices.len() <= WRITE_SLICES_MAX && bytes.len() <= WRITE_BYTES_MAX);
                let Some(file) = self.files.get_mut(file) else {
                    return missing;
                };
                file.write(place(*position), &bytes);
            }
            StorageOperation::Read {
                file,
                position,
                length,
            } => {
                self.reads += 1;
                let Some(file) = self.files.get(file) else {
                    return missing;
                };
                let start = place(*position).min(file.content.len());
                let end = (start + *length as usize).min(file.content.len());
                return Ok(StorageOutcome::Read(Buffer::unpooled(
                    &file.content[start..end],
                )));
            }
            StorageOperation::Sync { file } => match self.files.get_mut(file) {
                Some(file) => file.sync(),
                None => return missing,
            },
            StorageOperation::Uncache { file, position } => match self.files.get_mut(file) {
                Some(file) => file.uncache(place(*position)),
                None => return missing,
            },
            StorageOperation::Truncate { file, length } => {
                let Some(file) = self.files.get_mut(file) else {
                    return missing;
                };
                file.cut(place(*length));
            }
            StorageOperation::CutOff { file, length, into } => {
                let Some(cut) = self.files.get_mut(file) else {
                    return missing;
                };
                let behind = cut.cut(place(*length));
                self.set_content(*into, behind);
            }
            StorageOperation::Allocate { file, .. } => {
                assert!(self.files.contains_key(file));
            }
            StorageOperation::Replace { file, contents } => {
                self.set_content(*file, contents.clone());
                self.unsynced_names.clear();
            }
            StorageOperation::Rename { file, into } => {
                let Some(renamed) = self.files.remove(file) else {
                    return missing;
                };
                self.files.insert(*into, renamed);
            }
            StorageOperation::Remove { file } => {
                if let Some(removed) = self.files.remove(file) {
                    self.unsynced_names.push((*file, Some(removed)));
                }
            }
        }
        Ok(StorageOutcome::Done)
    }

    /// Execute an operation fully, partly or not at all, because the process died during it.
    pub fn execute_partly(&mut self, operation: &StorageOperation, random: &mut Rng) {
        if random.bool() {
            let _ = self.execute(operation);
            return;
        }
        match operation {
            StorageOperation::Write {
                file,
                position,
                slices,
            } => {
                if let Some(file) = self.files.get_mut(file) {
                    let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
                    let written = random.usize(..=bytes.len());
                    file.write(place(*position), &bytes[..written]);
                }
            }
            // The directory is not synced.
            StorageOperation::Create { file } | StorageOperation::Replace { file, .. }
                if random.bool() =>
            {
                let before = self.files.get(file).cloned();
                let names = std::mem::take(&mut self.unsynced_names);
                let _ = self.execute(operation);
                self.unsynced_names = names;
                self.unsynced_names.push((*file, before));
            }
            _ => {}
        }
    }

    pub fn lose_power(&mut self, random: &mut Rng) {
        // Changes of names reach the disk in order; the last ones may be lost.
        let kept = random.usize(..=self.unsynced_names.len());
        for (name, before) in self.unsynced_names.drain(..).skip(kept).rev() {
            match before {
                Some(file) => self.files.insert(name, file),
                None => self.files.remove(&name),
            };
        }
        for file in self.files.values_mut() {
            file.lose_power(random);
        }
    }

    fn take_fault(&mut self, operation: &StorageOperation) -> Option<StorageError> {
        let grows = matches!(
            operation,
            StorageOperation::Create { .. }
                | StorageOperation::Write { .. }
                | StorageOperation::Replace { .. }
                | StorageOperation::CutOff { .. }
        );
        if self.full && grows {
            return Some(failed(StorageErrorKind::NoSpace));
        }
        if self.refused.is_some_and(|is_refused| is_refused(operation)) {
            return Some(failed(StorageErrorKind::Other));
        }
        let index = self.faults.iter().position(|fault| {
            matches!(
                (fault, operation),
                (
                    Fault::Write(_),
                    StorageOperation::Write {
                        file: FileName::Log(_),
                        ..
                    }
                ) | (Fault::SetAside(_), StorageOperation::CutOff { .. })
                    | (Fault::Rename(_), StorageOperation::Rename { .. })
                    | (
                        Fault::Sync,
                        StorageOperation::Sync { .. } | StorageOperation::Uncache { .. }
                    )
                    | (Fault::Create, StorageOperation::Create { .. })
                    | (
                        Fault::Replace | Fault::NoRoom,
                        StorageOperation::Replace { .. }
                    )
                    | (Fault::Remove, StorageOperation::Remove { .. })
            ) || matches!(
                (fault, operation),
                (Fault::Read(wanted, _), StorageOperation::Read { file, .. }) if wanted == file
            ) || match fault {
                Fault::Exhausted => !matches!(operation, StorageOperation::Sync { .. }),
                Fault::ExhaustedForChanges => !matches!(
                    operation,
                    StorageOperation::Sync { .. } | StorageOperation::Read { .. }
                ),
                _ => false,
            }
        })?;
        let kind = match self.faults.remove(index) {
            Fault::Write(kind)
            | Fault::SetAside(kind)
            | Fault::Rename(kind)
            | Fault::Read(_, kind) => kind,
            Fault::Exhausted | Fault::ExhaustedForChanges => StorageErrorKind::Exhausted,
            Fault::NoRoom => StorageErrorKind::NoSpace,
            _ => StorageErrorKind::Other,
        };
        Some(failed(kind))
    }
}

fn failed(kind: StorageErrorKind) -> StorageError {
    StorageError { kind, os_error: 5 }
}

fn place(position: u64) -> usize {
    usize::try_from(position).expect("test files are small")
}
