//! Offline checks of a partition's files, for `headrace fsck`: every byte that has a checksum is compared with it.

use alloc::string::String;
use alloc::vec::Vec;

use headrace_model::{Namespace, Offset};

use crate::entry::{Codec, ENTRY_BYTES, Entry, Kind};
use crate::manifest::{Generation, Listed, Manifest, Owner, REPAIRED};
pub use crate::manifest::{KnownMessage, MANIFEST_BYTES_MAX};
use crate::recovery::relation::{Relation, relation};
use crate::recovery::scan::{Progress, Scan};

/// Contents of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestReport {
    /// Partition that it names, and its catalog, which is 0 if unknown. None in earlier formats.
    pub owner: Option<(Namespace, u128)>,
    /// Generation of the derived files.
    pub generation: Generation,
    /// True if the files are being dropped.
    pub dropping: bool,
    /// Base offset of the first segment that was not removed on request.
    pub first: Offset,
    /// Offset from which on messages do not count, if the log is being truncated: the next start removes what is left of
    /// them.
    pub end: Option<Offset>,
    /// Segment, offset and position up to which the log was on the device.
    pub synced: Option<(Offset, Offset, u64)>,
    /// Segments, if they are listed.
    pub segments: Option<Vec<SegmentReport>>,
}

/// A segment in the list of a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentReport {
    /// Offset of the first message.
    pub base: Offset,
    /// Size in bytes, if it is sealed and that is known.
    pub size: Option<u64>,
    /// Checksum of the first message, if known.
    pub first_checksum: Option<u64>,
    /// Last message of a sealed segment, if known.
    pub last: Option<KnownMessage>,
}

/// Decode a manifest. None if it is damaged.
pub fn read_manifest(bytes: &[u8]) -> Option<ManifestReport> {
    let manifest = Manifest::decode(bytes)?;
    let report = |listed: &Listed| SegmentReport {
        base: listed.base,
        size: listed.size,
        first_checksum: listed.first_checksum,
        last: listed.last,
    };
    Some(ManifestReport {
        owner: manifest.owner.map(|owner| (owner.namespace, owner.catalog)),
        generation: manifest.generation,
        dropping: manifest.dropping,
        first: manifest.first,
        end: manifest.end,
        synced: manifest
            .synced
            .map(|end| (end.segment, end.offset, end.position)),
        segments: manifest
            .segments
            .map(|segments| segments.iter().map(report).collect()),
    })
}

/// Explain whose a directory is, if it is not that of this partition: by its manifest, or by the copy if that is this
/// partition's. Directories without an intact manifest count as this partition's, and so do those of earlier ones.
pub fn other_owner(
    manifests: [Option<&[u8]>; 2],
    (namespace, catalog): (Namespace, u128),
    incarnation: u64,
) -> Option<String> {
    let own = Owner { catalog, namespace };
    let relations = manifests.map(|bytes| {
        let manifest = Manifest::decode(bytes?)?;
        Some(relation(&manifest, own, incarnation))
    });
    if matches!(relations, [_, Some(Relation::Own)]) {
        return None;
    }
    match relations.into_iter().flatten().next() {
        Some(Relation::Foreign(reason)) => Some(reason),
        Some(Relation::Own | Relation::Earlier) | None => None,
    }
}

/// Encode a manifest for logs whose manifest is lost: they belong to this partition, in the incarnation that the catalog
/// has.
pub fn rebuilt_manifest(namespace: Namespace, catalog: u128, logs: &[Offset]) -> Vec<u8> {
    Manifest {
        generation: Generation {
            incarnation: REPAIRED,
            purge_epoch: 0,
            partition: Some(namespace),
        },
        owner: Some(Owner { catalog, namespace }),
        dropping: false,
        epoch: 1,
        openings: None,
        first: logs.first().copied().unwrap_or_default(),
        end: None,
        synced: None,
        segments: Some(logs.iter().copied().map(Listed::new).collect()),
    }
    .encode()
}

/// Region of a log without whole, intact messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DamagedRegion {
    /// Offset of the first damaged message.
    pub offset: Offset,
    /// Number of damaged messages; None at the end of an open segment.
    pub messages_count: Option<u64>,
    /// Position of the first byte.
    pub start: u64,
    /// Position after the last byte.
    pub end: u64,
}

/// Check of one log, which verifies every message.
#[derive(Debug)]
pub struct LogCheck {
    scan: Scan,
    base: Offset,
    size: u64,
    end: Option<Offset>,
    progress: Progress,
}

impl LogCheck {
    /// Check the log of the segment that starts at `base` and has `size` bytes; `end` is the offset after its last
    /// message, if it is sealed.
    pub fn new(base: Offset, size: u64, end: Option<Offset>) -> Self {
        let end_offset = end.map_or(u64::MAX, |end| end.0);
        let mut scan = Scan::skipping_damage(Entry::start(base), size, end_offset);
        scan.regions = Some(Vec::new());
        let progress = scan.begin();
        Self {
            scan,
            base,
            size,
            end,
            progress,
        }
    }

    /// Position and number of the bytes to read next; None if the check is complete.
    pub fn wanted(&self) -> Option<(u64, u32)> {
        match self.progress {
            Progress::Read { position, length } => Some((position, length)),
            Progress::Complete | Progress::Stopped => None,
        }
    }

    /// Take the bytes read; fewer than wanted at the end of the file.
    pub fn feed(&mut self, bytes: &[u8]) {
        if let Some((_, length)) = self.wanted() {
            self.progress = self.scan.feed(bytes, length);
        }
    }

    /// Offset after the last intact message.
    pub fn next_offset(&self) -> Offset {
        Offset(self.scan.reached.offset)
    }

    /// Damaged regions, ascending.
    pub fn damaged(&self) -> Vec<DamagedRegion> {
        let regions = self.scan.regions.iter().flatten();
        let mut damaged: Vec<_> = regions
            .map(|(end, region)| DamagedRegion {
                offset: Offset(region.offset),
                messages_count: Some(region.messages_count),
                start: region.position,
                end: *end,
            })
            .collect();
        let reached = self.scan.reached;
        let missing = self.end.map(|end| end.0.saturating_sub(reached.offset));
        if reached.position < self.size || missing.is_some_and(|missing| missing > 0) {
            damaged.push(DamagedRegion {
                offset: Offset(reached.offset),
                messages_count: missing,
                start: reached.position,
                end: self.size,
            });
        }
        damaged
    }

    /// Contents of an index file for the messages found.
    pub fn index(&self, generation: Generation) -> Vec<u8> {
        let codec = Codec::new(generation, self.base);
        let mut contents = Vec::new();
        for (entry, kind) in &self.scan.entries {
            codec.encode(*entry, *kind, &mut contents);
        }
        let is_whole = self.scan.reached.position == self.size;
        if is_whole
            && self
                .end
                .is_some_and(|end| end.0 == self.scan.reached.offset)
        {
            codec.encode(self.scan.reached, Kind::End, &mut contents);
        }
        contents
    }
}

/// Positions of the damaged entries of an index file.
pub fn damaged_entries(bytes: &[u8], generation: Generation, base: Offset) -> Vec<u64> {
    let codec = Codec::new(generation, base);
    let (entries, rest) = bytes.as_chunks::<ENTRY_BYTES>();
    let is_damaged = |entry: &&[u8; ENTRY_BYTES]| codec.decode(entry).is_none();
    let positions = entries
        .iter()
        .zip((0..).step_by(ENTRY_BYTES))
        .filter(|(entry, _)| is_damaged(entry))
        .map(|(_, position)| position);
    let cut = (!rest.is_empty()).then_some((bytes.len() - rest.len()) as u64);
    positions.chain(cut).collect()
}
