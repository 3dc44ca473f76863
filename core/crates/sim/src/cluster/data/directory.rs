//! Directories of the partitions of a node, on simulated disks.

use std::collections::BTreeMap;

use headrace_buffer::{BufferPool, Slice};
use headrace_log::storage::{
    FileName, StorageError, StorageErrorKind, StorageOperation, StorageOutcome,
};
use headrace_model::Namespace;
use headrace_wire::message::{Messages, checksum};

use crate::cluster::{CrashInStep, Storage, empty};
use crate::disk::{Disk, SECTOR};
use crate::mutants::Mutant;
use crate::options::Options;
use crate::plan::Loss;
use crate::random::Draw;

/// File that a replacement is written to before it gets its name.
const REPLACEMENT: &str = "replacement.tmp";
/// Share of the operations that a bug of a disk affects, per million.
const BUG_PPM: u32 = 30_000;

pub(super) type Outcome = Result<StorageOutcome, StorageError>;

/// Directories of all partitions of a node, each on a disk of its own, and faults that wait for an operation.
#[derive(Debug)]
pub(crate) struct DataDirectories {
    disks: BTreeMap<Namespace, Disk>,
    empty: Disk,
    bug: Option<Mutant>,
    pub(super) crash_in_step: Option<CrashInStep>,
    /// Number of operations that fail.
    pub(super) errors: u8,
    pub(super) executed: u64,
}

impl Storage for DataDirectories {
    fn misread(&mut self) {}

    fn spare(&mut self) {
        self.crash_in_step = None;
        self.errors = 0;
    }
}

/// Conditions under which an operation is executed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Conditions {
    pub(super) is_full: bool,
    /// True if the device fails to store what is to be synced.
    pub(super) sync_fails: bool,
    pub(super) fails: bool,
}

impl DataDirectories {
    pub(super) fn new(options: &Options, bug: Option<Mutant>) -> Self {
        Self {
            disks: BTreeMap::new(),
            empty: empty(options),
            bug,
            crash_in_step: None,
            errors: 0,
            executed: 0,
        }
    }

    pub(super) fn disk(&mut self, namespace: Namespace) -> &mut Disk {
        let empty = &self.empty;
        self.disks.entry(namespace).or_insert_with(|| empty.clone())
    }

    /// Lose the power of all disks.
    pub(super) fn lose_power(&mut self, loss: Loss, draw: &mut Draw) {
        for disk in self.disks.values_mut() {
            disk.lose_power(loss, draw);
        }
    }

    /// Execute an operation completely, or fail it.
    pub(super) fn execute(
        &mut self,
        namespace: Namespace,
        operation: &StorageOperation,
        (conditions, pool): (Conditions, &BufferPool),
        draw: &mut Draw,
    ) -> Outcome {
        self.executed += 1;
        let bug = self.bug;
        let is = |mutant: Mutant| bug == Some(mutant);
        let empty = &self.empty;
        let disk = self.disks.entry(namespace).or_insert_with(|| empty.clone());
        if conditions.is_full && grows(operation) {
            return Err(failed(StorageErrorKind::NoSpace, 28));
        }
        if conditions.fails {
            if is(Mutant::DataWriteErrorIgnored)
                && matches!(operation, StorageOperation::Write { .. })
            {
                return Ok(StorageOutcome::Done);
            }
            return Err(failed(StorageErrorKind::Other, 5));
        }
        let missing = Err(failed(StorageErrorKind::Missing, 2));
        if let Some(file) = existing(operation)
            && disk.read(&file.to_string()).is_none()
        {
            return missing;
        }
        match operation {
            StorageOperation::OpenDirectory => return Ok(StorageOutcome::Listed(list(disk, bug))),
            StorageOperation::SetAsideDirectory => disk.clone_from(empty),
            StorageOperation::Create { file } => {
                disk.create(&file.to_string());
                if !is(Mutant::DataCreateUnsynced) {
                    disk.sync_names();
                }
            }
            StorageOperation::Write {
                file,
                position,
                slices,
            } => write(disk, bug, *file, (place(*position), slices), draw),
            StorageOperation::Read {
                file,
                position,
                length,
            } => {
                let range = (place(*position), *length as usize);
                let bytes = read(disk, bug, *file, range, draw);
                let exhausted = |_| failed(StorageErrorKind::Exhausted, 12);
                let mut buffer = pool.acquire_to_read(range.1).map_err(exhausted)?;
                buffer[..bytes.len()].copy_from_slice(&bytes);
                buffer.set_len(bytes.len());
                return Ok(StorageOutcome::Read(buffer));
            }
            StorageOperation::Sync { file } | StorageOperation::Uncache { file, .. }
                if conditions.sync_fails =>
            {
                disk.forget_unsynced(&file.to_string());
                let is_sync = matches!(operation, StorageOperation::Sync { .. });
                if !(is_sync && is(Mutant::DataSyncErrorIgnored)) {
                    return Err(failed(StorageErrorKind::Other, 5));
                }
            }
            StorageOperation::Sync { file } => {
                let is_skipped = match file {
                    FileName::Log(_) => is(Mutant::DataSyncSkipped),
                    FileName::Offsets => is(Mutant::DataOffsetsUnsynced),
                    _ => false,
                };
                if !is_skipped {
                    disk.sync(&file.to_string());
                }
            }
            StorageOperation::Uncache { file, position } => {
                if !is(Mutant::DataCacheBelieved) {
                    disk.uncache(&file.to_string(), place(*position));
                }
            }
            StorageOperation::Truncate { file, length } => {
                disk.resize(&file.to_string(), place(*length));
            }
            StorageOperation::CutOff { file, length, into } => {
                cut_off(disk, *file, place(*length), *into);
            }
            StorageOperation::Allocate { .. } => {}
            StorageOperation::Replace { file, contents } => replace(disk, bug, *file, contents),
            StorageOperation::Rename { file, into } => {
                disk.rename(&file.to_string(), &into.to_string());
                disk.sync_names();
            }
            StorageOperation::Remove { file } => disk.remove(&file.to_string()),
        }
        Ok(StorageOutcome::Done)
    }

    /// Execute an operation wholly, partly or not at all, because the process has died during it.
    pub(super) fn execute_partly(
        &mut self,
        namespace: Namespace,
        operation: &StorageOperation,
        (conditions, pool): (Conditions, &BufferPool),
        draw: &mut Draw,
    ) {
        if draw.chance(400_000) {
            // The process does not see the result any more.
            let _ = self.execute(namespace, operation, (conditions, pool), draw);
            return;
        }
        if conditions.is_full && grows(operation) {
            return;
        }
        let disk = self.disk(namespace);
        let some = |draw: &mut Draw, len: usize| {
            usize::try_from(draw.below(len as u64 + 1)).expect("an index")
        };
        match operation {
            StorageOperation::Write {
                file,
                position,
                slices,
            } => {
                let name = file.to_string();
                let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
                let written = some(draw, bytes.len());
                if disk.read(&name).is_some() {
                    disk.write(&name, place(*position), &bytes[..written]);
                }
            }
            StorageOperation::Create { file } => disk.create(&file.to_string()),
            StorageOperation::Replace { file, contents } => {
                disk.create(REPLACEMENT);
                let written = some(draw, contents.len());
                disk.write(REPLACEMENT, 0, &contents[..written]);
                if written == contents.len() {
                    disk.sync(REPLACEMENT);
                    disk.rename(REPLACEMENT, &file.to_string());
                }
            }
            StorageOperation::CutOff { file, length, into } => {
                let contents = disk.read(&file.to_string()).unwrap_or_default();
                let bytes = contents[place(*length).min(contents.len())..].to_vec();
                let written = some(draw, bytes.len());
                disk.create(&into.to_string());
                disk.write(&into.to_string(), 0, &bytes[..written]);
            }
            _ => {}
        }
    }
}

/// Make the names durable, and list the files.
fn list(disk: &mut Disk, bug: Option<Mutant>) -> Vec<(FileName, u64)> {
    disk.sync_names();
    let names = disk.names().filter_map(|name| {
        let bytes = disk.read(name).map_or(0, <[u8]>::len);
        Some((FileName::parse(name)?, bytes as u64))
    });
    let mut files: Vec<_> = names.collect();
    files.sort_unstable();
    if bug == Some(Mutant::DataFileOverlooked) {
        let is_log = |(file, _): &(FileName, u64)| matches!(file, FileName::Log(_));
        files
            .iter()
            .rposition(is_log)
            .map(|last| files.remove(last));
    }
    files
}

fn write(
    disk: &mut Disk,
    bug: Option<Mutant>,
    file: FileName,
    (mut position, slices): (usize, &[Slice]),
    draw: &mut Draw,
) {
    let mut bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
    let is_log = matches!(file, FileName::Log(_));
    match bug {
        Some(Mutant::DataShortWrite) if is_log && draw.chance(BUG_PPM) => {
            bytes.truncate(bytes.len() / 2);
        }
        Some(Mutant::DataWriteMisdirected) if is_log && draw.chance(BUG_PPM) => {
            position = position.saturating_sub(SECTOR);
        }
        Some(Mutant::DataOffsetsForgotten) if file == FileName::Offsets => return,
        _ => {}
    }
    disk.write(&file.to_string(), position, &bytes);
}

fn read(
    disk: &Disk,
    bug: Option<Mutant>,
    file: FileName,
    (position, length): (usize, usize),
    draw: &mut Draw,
) -> Vec<u8> {
    let name = file.to_string();
    let contents = disk.read(&name).unwrap_or_default();
    let start = position.min(contents.len());
    let end = (start + length).min(contents.len());
    let mut bytes = contents[start..end].to_vec();
    match bug {
        _ if !matches!(file, FileName::Log(_)) => bytes,
        Some(Mutant::DataReadElsewhere) if draw.chance(BUG_PPM) => {
            let half = bytes.len() / 2;
            bytes.rotate_left(half);
            bytes
        }
        Some(Mutant::DataChecksumSkipped) => with_checksums(bytes),
        _ => bytes,
    }
}

fn cut_off(disk: &mut Disk, file: FileName, length: usize, into: FileName) {
    let (name, behind) = (file.to_string(), into.to_string());
    let contents = disk.read(&name).unwrap_or_default();
    let bytes = contents[length.min(contents.len())..].to_vec();
    disk.create(&behind);
    disk.write(&behind, 0, &bytes);
    disk.sync(&behind);
    disk.sync_names();
    disk.resize(&name, length);
}

fn replace(disk: &mut Disk, bug: Option<Mutant>, file: FileName, contents: &[u8]) {
    if bug == Some(Mutant::DataManifestForgotten) && file == FileName::Manifest {
        return;
    }
    disk.create(REPLACEMENT);
    disk.write(REPLACEMENT, 0, contents);
    if bug != Some(Mutant::DataReplacementUnsynced) {
        disk.sync(REPLACEMENT);
    }
    disk.rename(REPLACEMENT, &file.to_string());
    disk.sync_names();
}

/// Give every message in these bytes the checksum of what it says: damage looks like data.
fn with_checksums(mut bytes: Vec<u8>) -> Vec<u8> {
    let mut ends = Vec::new();
    let mut start = 0;
    for message in Messages::new(&bytes).map_while(Result::ok) {
        let end = start + message.bytes().len();
        ends.push(start..end);
        start = end;
    }
    for message in ends {
        let sum = checksum(&bytes[message.start + 8..message.end]);
        bytes[message.start..message.start + 8].copy_from_slice(&sum.to_le_bytes());
    }
    bytes
}

fn place(position: u64) -> usize {
    usize::try_from(position).expect("files are small")
}

const fn failed(kind: StorageErrorKind, os_error: i32) -> StorageError {
    StorageError { kind, os_error }
}

/// Return whether the operation needs space.
const fn grows(operation: &StorageOperation) -> bool {
    matches!(
        operation,
        StorageOperation::Create { .. }
            | StorageOperation::Write { .. }
            | StorageOperation::Replace { .. }
            | StorageOperation::CutOff { .. }
    )
}

/// File that must exist for the operation.
const fn existing(operation: &StorageOperation) -> Option<FileName> {
    match operation {
        StorageOperation::Write { file, .. }
        | StorageOperation::Read { file, .. }
        | StorageOperation::Sync { file }
        | StorageOperation::Uncache { file, .. }
        | StorageOperation::Truncate { file, .. }
        | StorageOperation::CutOff { file, .. }
        | StorageOperation::Allocate { file, .. }
        | StorageOperation::Rename { file, .. } => Some(*file),
        StorageOperation::OpenDirectory
        | StorageOperation::SetAsideDirectory
        | StorageOperation::Create { .. }
        | StorageOperation::Replace { .. }
        | StorageOperation::Remove { .. } => None,
    }
}
