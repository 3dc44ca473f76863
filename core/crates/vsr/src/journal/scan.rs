//! Reading the journal after a start.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::evidence::{Evidence, is_stray};
use super::{BLOCK_BYTES, HEAD_BYTES, RECORD_ALIGNMENT, RecordHead, durable_through};
use crate::api::RecoveredEntry;
use crate::frame::{HEADER_BYTES, Intake, PrepareHeader};
use crate::superblock::Superblock;

/// Where the record of an operation lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Operation.
    pub op: u64,
    /// Identity of the prepare; 0 when it is damaged.
    pub checksum: u128,
    /// The file, by the number that it was given to the scan with.
    pub file: u64,
    /// Where the record's head starts in the file.
    pub offset: u64,
    /// Bytes of the frame, which follows the head.
    pub frame_bytes: u32,
}

/// A torn record that has to be overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The file.
    pub file: u64,
    /// Where the record starts.
    pub offset: u64,
    /// How many bytes it has; the file may end before.
    pub len: u64,
    /// What its head says about other records, which stays true.
    seal: RecordHead,
}

impl Span {
    /// What to write over the record: a seal, then zeros.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.seal.encode().to_vec();
        bytes.resize(
            usize::try_from(self.len).expect("a frame fits into memory"),
            0,
        );
        bytes
    }
}

/// What a journal holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Operations above the checkpoint, ascending: intact ones, and those that were durable once and are damaged or gone.
    /// What is not listed was never here, or was torn by a crash before anybody was told of it.
    pub entries: Vec<RecoveredEntry>,
    /// All records that can be read, in the order in which they were written. The last one of an operation counts.
    pub places: Vec<Place>,
    /// The lowest operation of which a torn record was found, and forgotten.
    pub torn: Option<u64>,
    /// What has to be overwritten, and synced, before anything is appended.
    pub erase: Vec<Span>,
    /// Where the next group commit goes in the last file, in bytes.
    pub position: u64,
    /// Everything up to this operation was durable, as far as is known: what the next heads say, until more is.
    pub synced: u64,
    /// What was written up to this operation was durable here, as heads say.
    pub witnessed: u64,
    /// The log view of the superblock: what the next heads say, until another superblock is durable.
    pub log_view: u32,
}

impl Scan {
    /// Operations whose records were durable here and cannot be read any more.
    pub fn damaged(&self) -> impl Iterator<Item = u64> {
        let written: BTreeSet<u64> = self.places.iter().map(|place| place.op).collect();
        self.unreadable()
            .filter(move |op| *op <= self.witnessed && written.contains(op))
    }

    /// Operations that belong to the log and of which there is no record: those that had not come yet, and those of which
    /// nothing is left.
    pub fn missing(&self) -> usize {
        self.unreadable().count() - self.damaged().count()
    }

    fn unreadable(&self) -> impl Iterator<Item = u64> {
        let entries = self.entries.iter().filter(|entry| !entry.intact);
        entries.map(|entry| entry.op)
    }
}

/// A record, readable or not, whose head is intact.
#[derive(Clone, Copy, Debug)]
struct Record {
    place: Place,
    head: RecordHead,
    header: Option<PrepareHeader>,
    intact: bool,
}

impl Record {
    fn erasure(&self) -> Span {
        Span {
            file: self.place.file,
            offset: self.place.offset,
            len: HEAD_BYTES as u64 + u64::from(self.place.frame_bytes),
            seal: RecordHead::seal(self.head.synced, self.head.log_view),
        }
    }
}

/// Reads the files of a journal, one after the other.
#[derive(Debug)]
pub struct Scanner<'a> {
    superblock: &'a Superblock,
    intake: Intake,
    evidence: Evidence,
    records: Vec<Record>,
    position: u64,
}

impl<'a> Scanner<'a> {
    /// A scan of the journal that belongs to this superblock.
    pub fn new(superblock: &'a Superblock, intake: Intake) -> Self {
        Self {
            superblock,
            intake,
            evidence: Evidence::new(superblock),
            records: Vec::new(),
            position: 0,
        }
    }

    /// Reads the next file. Files come in the order in which they were written; `number` names this one in the result.
    pub fn file(&mut self, number: u64, bytes: &[u8]) {
        let mut at = 0;
        let mut end = 0;
        while at + HEAD_BYTES <= bytes.len() {
            let Some(head) = RecordHead::parse(&bytes[at..]) else {
                // Whatever is no head is looked through in small steps: behind damage there may be more records.
                at += RECORD_ALIGNMENT;
                continue;
            };
            let frame = at + HEAD_BYTES;
            self.evidence.head(head);
            if head.is_seal() {
                at = frame;
            } else {
                let frame_end = frame.saturating_add(head.len as usize);
                let record =
                    self.record(number, at, head, &bytes[frame..], frame_end <= bytes.len());
                // The head tells the truth about the length, also of a damaged frame. What lies in a frame is never looked
                // at for heads: somebody may have sent it.
                at = frame_end.next_multiple_of(RECORD_ALIGNMENT);
                self.records.push(record);
            }
            end = at;
        }
        // Appends go behind everything that is not zero, be it a record or not.
        let used = bytes
            .iter()
            .rposition(|&byte| byte != 0)
            .map_or(0, |last| last + 1);
        self.position = end.max(used).next_multiple_of(BLOCK_BYTES) as u64;
    }

    fn record(
        &self,
        file: u64,
        offset: usize,
        head: RecordHead,
        rest: &[u8],
        complete: bool,
    ) -> Record {
        let mine = |header: &PrepareHeader| {
            header.cluster == self.superblock.cluster
                && header.group == self.superblock.group
                && header.op() == head.op
                && header.size == head.len
        };
        let frame = complete.then(|| &rest[..head.len as usize]);
        let checked = frame
            .and_then(|frame| self.intake.check(frame).ok())
            .and_then(|header| header.as_prepare())
            .filter(mine);
        let header = checked.or_else(|| {
            let bytes = rest.first_chunk::<HEADER_BYTES>()?;
            PrepareHeader::decode(bytes).ok().filter(mine)
        });
        Record {
            head,
            place: Place {
                op: head.op,
                checksum: header.map_or(0, |header| header.checksum),
                file,
                offset: offset as u64,
                frame_bytes: head.len,
            },
            header,
            intact: checked.is_some(),
        }
    }

    /// Decides about every operation above the checkpoint.
    pub fn finish(self) -> Scan {
        let checkpoint_op = self.superblock.checkpoint.op;
        let mut newest = self.newest();
        newest.retain(|&op, _| op > checkpoint_op);
        let synced = self.evidence.synced();
        let limit = if self.superblock.replica_count() == 1 {
            limit_alone(&newest, checkpoint_op, synced)
        } else {
            self.known_committed(&newest).max(synced).max(checkpoint_op)
        };

        let mut entries = Vec::new();
        let holes = checkpoint_op + 1..=limit;
        let strays = newest.keys().copied().filter(|&op| op > limit);
        for op in holes.chain(strays) {
            let found = newest.get(&op);
            let intact = found.is_some_and(|record| record.intact);
            if intact && self.keeps_above(op, limit) || op <= limit {
                entries.push(RecoveredEntry {
                    op,
                    header: found.and_then(|record| record.header),
                    intact,
                });
            }
        }
        let forgotten = |record: &&Record| {
            let op = record.place.op;
            op > limit && !(self.keeps_above(op, limit) && newest[&op].intact)
        };
        let torn = self.records.iter().filter(forgotten);
        Scan {
            torn: torn.clone().map(|record| record.place.op).min(),
            erase: torn.map(Record::erasure).collect(),
            places: self
                .records
                .iter()
                .filter(|record| !forgotten(record))
                .map(|record| record.place)
                .collect(),
            position: self.position,
            // A start makes durable what it believes, and acknowledges it.
            synced: durable_through(synced, synced, |op| {
                newest.get(&op).is_some_and(|record| self.lives(record))
            }),
            witnessed: self.evidence.witnessed(),
            log_view: self.superblock.log_view,
            entries,
        }
    }

    /// The highest operation of which a record says that it is committed.
    ///
    /// That a record lies behind says nothing: the blocks of one write reach the disk in any order, and a loss of power may
    /// leave the later ones alone. If such a hole counted as damage, all replicas could lose the same operation of a group
    /// commit that was never acknowledged, and none of them could give it up.
    fn known_committed(&self, newest: &BTreeMap<u64, Record>) -> u64 {
        let living = newest.values().filter(|record| self.lives(record));
        living
            .filter_map(|record| record.header)
            .map(|header| header.area.commit)
            .max()
            .unwrap_or(0)
    }

    /// Whether a record is intact and has not lost its place.
    fn lives(&self, record: &Record) -> bool {
        record.intact
            && !record
                .header
                .is_some_and(|header| is_stray(self.superblock, &header))
    }

    /// Whether an intact record above the limit is kept: a stray of a group, which the protocol will cut.
    fn keeps_above(&self, op: u64, limit: u64) -> bool {
        op > limit && self.superblock.replica_count() > 1
    }

    /// The record of each operation that counts.
    fn newest(&self) -> BTreeMap<u64, Record> {
        let mut newest: BTreeMap<u64, Record> = BTreeMap::new();
        for record in &self.records {
            let op = record.place.op;
            let served_by_older = !record.intact
                && newest.get(&op).is_some_and(|older| {
                    older.intact && older.place.checksum == record.place.checksum
                });
            if !served_by_older {
                newest.insert(op, *record);
            }
        }
        newest
    }
}

/// The highest operation that the only replica of a group has to have.
///
/// Alone a damaged record ends the server, so it must have been acknowledged for sure. A loss of power in the midst of
/// one write leaves any of its blocks unwritten: records above such a hole, which no completed sync covers, were never
/// acknowledged either and are cut with it. With a hole below that the server will not start, and everything stays as
/// it is for whoever looks into it.
fn limit_alone(newest: &BTreeMap<u64, Record>, checkpoint_op: u64, synced: u64) -> u64 {
    let mut limit = checkpoint_op;
    while newest.get(&(limit + 1)).is_some_and(|record| record.intact) {
        limit += 1;
    }
    if limit < synced {
        limit = newest
            .keys()
            .last()
            .map_or(synced, |&last| last.max(synced));
    }
    limit
}
