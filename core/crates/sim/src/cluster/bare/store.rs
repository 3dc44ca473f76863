//! Journal of a process in the files of its node.
//!
//! Files are zeroed before they are used. A group commit is written after the previous one; the newest record of an
//! operation is valid. A file is removed when none of its operations is needed any more.

use std::collections::BTreeMap;

use headrace_buffer::Slice;
use headrace_vsr::frame::{Intake, PrepareFrame};
use headrace_vsr::journal::{
    BLOCK_BYTES, Cut, EraseStep, GroupCommit, HEAD_BYTES, RecordHeader, RecordedLog, Scan, Scanner,
    encode_seal, erase,
};
use headrace_vsr::superblock::Superblock;

use super::CLUSTER;
use crate::cluster::checks::FRAME_BYTES_MAX;
use crate::disk::Disk;
use crate::jobs::Step;

/// Size of a journal file, small so that even short runs use and remove several files.
const FILE_BYTES: usize = 128 * 1024;

/// Position of a record. Later positions compare greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    file: u64,
    offset: usize,
    bytes: usize,
    /// View of the prepare.
    view: u32,
    /// Operation up to which the head of the record declares earlier records durable.
    synced: u64,
}

#[derive(Debug)]
struct JournalFile {
    number: u64,
    bytes: usize,
    places: Vec<(u64, Place)>,
}

impl Place {
    /// File and offset, in the order in which records are written.
    pub(super) const fn order(self) -> (u64, usize) {
        (self.file, self.offset)
    }
}

/// Journal files and the position of each operation.
#[derive(Debug, Default)]
pub(super) struct Store {
    files: Vec<JournalFile>,
    /// Offset of the next group commit in the last file.
    position: usize,
    /// Newest record of each operation, durable or in flight.
    index: BTreeMap<u64, Place>,
    /// Newest durable record of each operation.
    durable: BTreeMap<u64, Place>,
    /// Highest operation up to which all records are durable.
    synced_through: u64,
    /// Log of the newest durable superblock.
    log: RecordedLog,
    /// True if more is durable than the newest record declares.
    unsealed: bool,
}

/// Name of a journal file.
fn name_of(number: u64) -> String {
    format!("wal-{number:020}.log")
}

/// Step of the simulated disk for a step of an erasure.
fn step_of(step: EraseStep) -> Step {
    match step {
        EraseStep::Write {
            file,
            offset,
            bytes,
        } => Step::Write {
            file: name_of(file),
            offset: whole(offset),
            bytes,
        },
        EraseStep::Sync { file } => Step::Sync(name_of(file)),
    }
}

impl Store {
    /// Allocate positions for the records. Returns the disk steps and the position of each operation.
    pub(super) fn append(&mut self, frames: &[PrepareFrame]) -> (Vec<Step>, Vec<(u64, Place)>) {
        let mut group = GroupCommit::new(self.synced_through, self.log.view);
        let offsets: Vec<usize> = frames.iter().map(|frame| group.push(frame)).collect();
        let bytes = group.finish();
        let mut steps = self.make_room(bytes.len());
        let file = self.files.last_mut().expect("there is room in it");
        let mut placed = Vec::new();
        for (frame, offset) in frames.iter().zip(offsets) {
            let place = Place {
                file: file.number,
                offset: self.position + offset,
                bytes: HEAD_BYTES + frame.size_bytes(),
                view: frame.header.view,
                synced: self.synced_through,
            };
            file.places.push((frame.header.op(), place));
            self.index.insert(frame.header.op(), place);
            placed.push((frame.header.op(), place));
        }
        let name = name_of(file.number);
        steps.push(Step::Write {
            file: name.clone(),
            offset: self.position,
            bytes: bytes.clone(),
        });
        steps.push(Step::Sync(name));
        self.position += bytes.len();
        (steps, placed)
    }

    fn make_room(&mut self, needed: usize) -> Vec<Step> {
        if self
            .files
            .last()
            .is_some_and(|file| self.position + needed <= file.bytes)
        {
            return Vec::new();
        }
        let number = self.files.last().map_or(1, |file| file.number + 1);
        let bytes = FILE_BYTES.max(needed);
        self.files.push(JournalFile {
            number,
            bytes,
            places: Vec::new(),
        });
        self.position = 0;
        let name = name_of(number);
        vec![
            Step::Create(name.clone()),
            Step::Resize(name.clone(), bytes),
            Step::Sync(name),
            Step::SyncNames,
        ]
    }

    /// Record that a superblock became durable.
    pub(super) fn recorded(&mut self, log: RecordedLog) {
        self.synced_through = self.log.succeed(log, self.synced_through);
    }

    /// Record that appended records became durable.
    pub(super) fn appended(&mut self, placed: &[(u64, Place)]) {
        self.unsealed = true;
        for (op, place) in placed {
            // The log may have been truncated in the meantime.
            if self.index.get(op).is_some_and(|newest| newest >= place) {
                let durable = self.durable.entry(*op).or_insert(*place);
                *durable = (*durable).max(*place);
                self.synced_through = (self.log).durable_through(self.synced_through, *op, |op| {
                    self.durable.get(&op).map(|record| record.view)
                });
            }
        }
    }

    /// Remove all records of `from_op` and above, and seal what remains.
    pub(super) fn truncate(&mut self, from_op: u64) -> Vec<Step> {
        let cut = Cut::new(from_op, self.synced_through, self.log.view);
        let mut spans = Vec::new();
        for file in &mut self.files {
            let file_bytes = file.bytes as u64;
            let gone = file.places.extract_if(.., |(op, _)| cut.includes(*op));
            spans.extend(gone.map(|(_, place)| {
                let frame_bytes = u32::try_from(place.bytes - HEAD_BYTES).expect("files are small");
                cut.span(place.file, place.offset as u64, frame_bytes, file_bytes)
            }));
        }
        self.index.split_off(&from_op);
        self.durable.split_off(&from_op);
        self.synced_through = cut.synced();
        self.unsealed = true;
        let mut steps: Vec<Step> = erase(&spans).map(step_of).collect();
        steps.extend(self.seal());
        steps.extend(
            self.files
                .last()
                .map(|file| Step::Sync(name_of(file.number))),
        );
        steps
    }

    /// Remove the oldest files that contain only operations below `below_op`.
    pub(super) fn collect(&mut self, below_op: u64) -> Vec<Step> {
        let kept_back = self.files.len().saturating_sub(1);
        let superfluous = |file: &&JournalFile| file.places.iter().all(|(op, _)| *op < below_op);
        let gone = self.files[..kept_back]
            .iter()
            .take_while(superfluous)
            .count();
        let mut steps: Vec<Step> = self
            .files
            .drain(..gone)
            .map(|file| Step::Remove(name_of(file.number)))
            .collect();
        if gone > 0 {
            let first = self.files.first().map_or(0, |file| file.number);
            self.index.retain(|_, place| place.file >= first);
            self.durable.retain(|_, place| place.file >= first);
            steps.push(Step::SyncNames);
        }
        steps
    }

    /// Read the record of an operation; `None` if it is missing or its checksum is wrong.
    pub(super) fn read(&self, disk: &Disk, op: u64, checksum: u128) -> Option<PrepareFrame> {
        self.read_from(disk, op, checksum, 0)
    }

    /// Read like [`read`](Self::read), but from `before` bytes earlier.
    pub(super) fn read_from(
        &self,
        disk: &Disk,
        op: u64,
        checksum: u128,
        before: usize,
    ) -> Option<PrepareFrame> {
        let place = self.durable.get(&op)?;
        let start = (place.offset + HEAD_BYTES).saturating_sub(before);
        let bytes = disk
            .read(&name_of(place.file))?
            .get(start..start + place.bytes - HEAD_BYTES)?;
        let frame = INTAKE
            .decode(&Slice::from_vec(bytes.to_vec()))
            .ok()?
            .into_prepare()?;
        (frame.header.checksum == checksum).then_some(frame)
    }

    /// Newest operation, if no head may state yet that it is durable.
    pub(super) fn newest_unsealed(&self) -> Option<(u64, Place)> {
        let newest = self.durable.last_key_value().filter(|_| self.unsealed);
        newest.map(|(op, place)| (*op, *place))
    }

    /// Checksum of the durable prepare of an operation.
    pub(super) fn checksum(&self, disk: &Disk, op: u64) -> Option<u128> {
        let place = self.durable.get(&op)?;
        let bytes = disk.read(&name_of(place.file))?;
        let frame = bytes.get(place.offset + HEAD_BYTES..place.offset + place.bytes)?;
        let frame = INTAKE.decode(&Slice::from_vec(frame.to_vec())).ok()?;
        Some(frame.into_prepare()?.header.checksum)
    }

    /// Newest durable record of each operation.
    pub(super) fn durable_records(&self) -> Vec<(u64, Place)> {
        self.durable
            .iter()
            .map(|(op, place)| (*op, *place))
            .collect()
    }

    /// Return whether the head of the record `witness` declares `op` durable.
    pub(super) const fn vouches_for(witness: Place, op: u64) -> bool {
        op <= witness.synced
    }

    /// Return whether a complete record of the operation is at this position, which may happen if damage restored the
    /// bytes of an older one.
    pub(super) fn is_whole(disk: &Disk, op: u64, place: Place) -> bool {
        let frame = || {
            let bytes = disk.read(&name_of(place.file))?;
            let record = bytes.get(place.offset..place.offset + place.bytes)?;
            RecordHeader::parse(record).filter(|head| head.op == op)?;
            let frame = Slice::from_vec(record[HEAD_BYTES..].to_vec());
            INTAKE.decode(&frame).ok()?.into_prepare()
        };
        frame().is_some_and(|frame| frame.header.op() == op)
    }

    /// File name and byte range of a record.
    pub(super) fn range(place: Place) -> (String, usize, usize) {
        (
            name_of(place.file),
            place.offset,
            place.offset + place.bytes,
        )
    }

    /// Append a seal that declares how far the journal is durable, unless a record already does. Not waited for.
    pub(super) fn seal(&mut self) -> Vec<Step> {
        if self.files.is_empty() || !std::mem::take(&mut self.unsealed) {
            return Vec::new();
        }
        let mut steps = self.make_room(BLOCK_BYTES);
        steps.extend(self.files.last().map(|file| Step::Write {
            file: name_of(file.number),
            offset: self.position,
            bytes: encode_seal(self.synced_through, self.log.view),
        }));
        self.position += BLOCK_BYTES;
        steps
    }

    /// Scan the files as they are.
    pub(super) fn scan(disk: &Disk, superblock: &Superblock) -> Scan {
        let mut scanner = Scanner::new(superblock, INTAKE);
        for name in disk.names().filter(|name| name.starts_with("wal-")) {
            let digits = name.trim_start_matches("wal-").trim_end_matches(".log");
            if let Ok(number) = digits.parse() {
                scanner.file(number, disk.read(name).unwrap_or_default());
            }
        }
        scanner.finish()
    }

    /// Recover the journal and its contents above the checkpoint from the disk.
    ///
    /// With `sync`, the bytes are made durable before they are trusted: the previous process may have written them
    /// without a sync.
    pub(super) fn recover(disk: &mut Disk, superblock: &Superblock, sync: bool) -> (Self, Scan) {
        let names: Vec<String> = disk
            .names()
            .filter(|name| name.starts_with("wal-"))
            .map(str::to_owned)
            .collect();
        if sync {
            disk.sync_names();
        }
        let mut files = Vec::new();
        let mut scanner = Scanner::new(superblock, INTAKE);
        for name in names {
            let Some(number) = name
                .strip_prefix("wal-")
                .and_then(|rest| rest.strip_suffix(".log")?.parse().ok())
            else {
                continue;
            };
            if sync {
                disk.sync(&name);
            }
            let bytes = disk.read(&name).unwrap_or_default();
            scanner.file(number, bytes);
            files.push(JournalFile {
                number,
                bytes: bytes.len(),
                places: Vec::new(),
            });
        }
        let scan = scanner.finish();
        for step in erase(&scan.erase) {
            step_of(step).carry_out(disk);
        }
        let mut store = Self {
            files,
            position: whole(scan.position),
            synced_through: scan.synced,
            log: scan.log,
            unsealed: true,
            ..Self::default()
        };
        for place in &scan.places {
            let offset = whole(place.offset);
            let head = disk
                .read(&name_of(place.file))
                .and_then(|bytes| RecordHeader::parse(bytes.get(offset..)?));
            let at = Place {
                file: place.file,
                offset,
                bytes: HEAD_BYTES + place.frame_bytes as usize,
                view: place.view,
                synced: head.map_or(0, |head| head.synced),
            };
            store.index.insert(place.op, at);
            if let Some(file) = store
                .files
                .iter_mut()
                .find(|file| file.number == place.file)
            {
                file.places.push((place.op, at));
            }
        }
        store.durable = store.index.clone();
        (store, scan)
    }
}

fn whole(number: u64) -> usize {
    usize::try_from(number).expect("files of a simulation are small")
}

const INTAKE: Intake = Intake {
    cluster: CLUSTER,
    message_size_max: FRAME_BYTES_MAX,
};
