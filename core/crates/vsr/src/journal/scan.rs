//! Journal recovery: the scan after a start.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::evidence::Evidence;
use super::recorded::durable_through;
use super::{BLOCK_BYTES, HEAD_BYTES, RECORD_ALIGNMENT, RecordHeader, RecordedLog, Span};
use crate::api::RecoveredEntry;
use crate::frame::{HEADER_BYTES, Intake, PrepareHeader};
use crate::superblock::Superblock;

/// Location of the record of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Operation of the record.
    pub op: u64,
    /// Checksum of the prepare; 0 if the record is damaged.
    pub checksum: u128,
    /// View of the prepare; 0 if the record is damaged.
    pub view: u32,
    /// Number of the file, as passed to the scan.
    pub file: u64,
    /// Offset of the record's head in the file.
    pub offset: u64,
    /// Length of the frame behind the head in bytes.
    pub frame_bytes: u32,
}

/// Result of the scan of a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Operations above the checkpoint, ascending: intact ones, and those that were durable once and are damaged or
    /// gone. An operation not listed was never stored here, or its append was torn by a crash before it was
    /// acknowledged.
    pub entries: Vec<RecoveredEntry>,
    /// All readable records, in the order in which they were written. The last one of an operation counts.
    pub places: Vec<Place>,
    /// Lowest operation of which a torn record was found and forgotten.
    pub torn: Option<u64>,
    /// Records that must be [erased](super::erase) before any append.
    pub erase: Vec<Span>,
    /// Offset of the next group commit in the last file, in bytes.
    pub position: u64,
    /// Highest operation up to which everything is known to have been durable; the value for new heads until a later
    /// sync completes.
    pub synced: u64,
    /// Highest operation up to which the written records were durable here, by the evidence of heads.
    pub witnessed: u64,
    /// Log of the superblock, to which new heads refer until a newer superblock is durable.
    pub log: RecordedLog,
}

impl Scan {
    /// Operations whose records were durable here and are no longer readable.
    pub fn damaged(&self) -> impl Iterator<Item = u64> {
        let written: BTreeSet<u64> = self.places.iter().map(|place| place.op).collect();
        self.unreadable()
            .filter(move |op| *op <= self.witnessed && written.contains(op))
    }

    /// Number of operations of the log without a record: either not received yet, or lost completely.
    pub fn missing(&self) -> usize {
        self.unreadable().count() - self.damaged().count()
    }

    fn unreadable(&self) -> impl Iterator<Item = u64> {
        let entries = self.entries.iter().filter(|entry| !entry.intact);
        entries.map(|entry| entry.op)
    }
}

/// Record with an intact head, readable or not.
#[derive(Clone, Copy, Debug)]
struct Record {
    place: Place,
    head: RecordHeader,
    header: Option<PrepareHeader>,
    intact: bool,
    /// Length of the file in bytes.
    file_bytes: u64,
}

impl Record {
    /// Erasure that keeps the evidence of the head about other records.
    fn erasure(&self) -> Span {
        let Place {
            file,
            offset,
            frame_bytes,
            ..
        } = self.place;
        let seal = RecordHeader::seal(self.head.synced, self.head.log_view);
        Span::new(file, offset, frame_bytes, self.file_bytes, seal)
    }
}

/// Reader of the files of a journal, one after the other.
#[derive(Debug)]
pub struct Scanner<'a> {
    superblock: &'a Superblock,
    intake: Intake,
    evidence: Evidence,
    records: Vec<Record>,
    position: u64,
}

impl<'a> Scanner<'a> {
    /// Start a scan of the journal that belongs to this superblock.
    pub fn new(superblock: &'a Superblock, intake: Intake) -> Self {
        Self {
            superblock,
            intake,
            evidence: Evidence::new(superblock),
            records: Vec::new(),
            position: 0,
        }
    }

    /// Read the next file. Files must be passed in the order in which they were written; `number` identifies the file
    /// in the result.
    pub fn file(&mut self, number: u64, bytes: &[u8]) {
        let mut at = 0;
        let mut end = 0;
        while at + HEAD_BYTES <= bytes.len() {
            let Some(head) = RecordHeader::parse(&bytes[at..]) else {
                // Bytes that are not a head are scanned in small steps: more records may follow the damage.
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
                // The length in the head is correct even if the frame is damaged. The bytes of a frame are never
                // searched for heads, because their content comes from clients.
                at = frame_end.next_multiple_of(RECORD_ALIGNMENT);
                self.records.push(record);
            }
            end = at;
        }
        // Appends go behind the last non-zero byte, whether or not that byte belongs to a record.
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
        head: RecordHeader,
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
                view: header.map_or(0, |header| header.view),
                file,
                offset: offset as u64,
                frame_bytes: head.len,
            },
            header,
            intact: checked.is_some(),
            file_bytes: (offset + HEAD_BYTES + rest.len()) as u64,
        }
    }

    /// Decide about every operation above the checkpoint.
    pub fn finish(self) -> Scan {
        let checkpoint_op = self.superblock.checkpoint.op;
        let mut newest = self.newest();
        newest.retain(|&op, _| op > checkpoint_op);
        let synced = self.evidence.synced();
        let limit = if self.superblock.replica_count() == 1 {
            limit_of_single_replica(&newest, checkpoint_op, synced)
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
            // A start makes everything durable that it recovers, and acknowledges it.
            synced: durable_through(synced, synced, |op| {
                newest.get(&op).is_some_and(|record| self.is_live(record))
            }),
            witnessed: self.evidence.witnessed(),
            log: RecordedLog::of(self.superblock),
            entries,
        }
    }

    /// Highest operation that some record states to be committed.
    ///
    /// A later record alone is no evidence: the blocks of one write reach the disk in any order, and a power loss may
    /// keep only the later ones. If such a hole counted as damage, all replicas could lose the same operation of a
    /// group commit that was never acknowledged, and none of them could nack it.
    fn known_committed(&self, newest: &BTreeMap<u64, Record>) -> u64 {
        let living = newest.values().filter(|record| self.is_live(record));
        living
            .filter_map(|record| record.header)
            .map(|header| header.area.commit)
            .max()
            .unwrap_or(0)
    }

    /// Return whether a record is intact and still has its place in the log.
    fn is_live(&self, record: &Record) -> bool {
        record.intact
            && !record
                .header
                .is_some_and(|header| self.superblock.view.has_lost(&header))
    }

    /// Return whether an intact record above the limit is kept: in a group it is a stray, which the protocol will cut.
    fn keeps_above(&self, op: u64, limit: u64) -> bool {
        op > limit && self.superblock.replica_count() > 1
    }

    /// Record that counts for each operation.
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

/// Highest operation that the only replica of a group must have.
///
/// With a single replica a damaged record stops the server, so the record must certainly have been acknowledged. A
/// power loss during one write leaves any of its blocks unwritten. Records above such a hole that no completed sync
/// covers were never acknowledged either and are cut with it. If the hole lies below the synced operation, the server
/// refuses to start and leaves the files unchanged for the operator.
fn limit_of_single_replica(newest: &BTreeMap<u64, Record>, checkpoint_op: u64, synced: u64) -> u64 {
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
