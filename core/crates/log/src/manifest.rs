//! Manifest: what the files in a directory belong to, which segments there are, and how far they are on the device.
//!
//! Stream, topic and partition numbers are reused, directories are restored and exchanged by hand, and a purge must not
//! leave half of the messages after a crash. Files count only if the manifest names this partition of this catalog, its
//! incarnation and purge epoch, and states that contents are kept. The manifest is replaced as a whole before the first
//! file of a generation is created, and before the files of an earlier one are removed.
//!
//! A segment's log does not name its partition. The manifest therefore lists the segments, each with the checksum of
//! its first message, and once it is sealed, with that of its last one: it is replaced before a log that it does not list is created, and a log that it does not list, or
//! that begins with another message, is not this partition's. It is also replaced before the oldest segment is removed,
//! so a listed segment that is missing is a loss.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

use headrace_model::{Namespace, Offset, Opening, PartitionId, StreamId, TopicId};
use headrace_wire::hash::xxh3_64;

use crate::openings;

/// Maximum size of a manifest: one line with up to 110 bytes for each segment.
pub const MANIFEST_BYTES_MAX: u64 = 2 << 20;
/// Maximum number of segments that are listed. With more segments the manifest has no list, because each new segment
/// would rewrite all numbers.
pub(crate) const SEGMENTS_LISTED_MAX: usize = 16 * 1024;

/// Incarnation in a manifest that a repair wrote: the one that the catalog has. A partition's own is never 0.
pub(crate) const REPAIRED: u64 = 0;

/// Text of a field without a value.
const NULL: &str = "null";

/// Generation of a log. A generation ends when the partition is deleted or purged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation {
    /// Incarnation: distinguishes the partitions that ever had this number.
    pub incarnation: u64,
    /// Number of purges so far.
    pub purge_epoch: u64,
    /// Partition whose derived files these are. None in directories of servers that did not distinguish the partitions
    /// of a topic; it stays so until the next purge.
    pub partition: Option<Namespace>,
}

impl Generation {
    /// Seed of the checksums of derived files, so that a file of another generation or partition never looks valid.
    pub fn checksum_seed(self, salt: u64) -> u64 {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.purge_epoch.to_le_bytes());
        bytes[16..24].copy_from_slice(&salt.to_le_bytes());
        match self.partition {
            Some(partition) => {
                bytes[24..].copy_from_slice(&partition.packed().to_le_bytes());
                xxh3_64(&bytes)
            }
            None => xxh3_64(&bytes[..24]),
        }
    }
}

/// Partition that a directory belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Identity of the catalog, 0 if it has none.
    pub(crate) catalog: u128,
    pub(crate) namespace: Namespace,
}

/// Place up to which everything is on the device: below it no message is a torn one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SyncedEnd {
    pub(crate) segment: Offset,
    /// Offset after the last message.
    pub(crate) offset: Offset,
    /// Position after the last message in the segment's log.
    pub(crate) position: u64,
    /// Timestamp that no message before exceeds.
    pub(crate) timestamp: u64,
}

/// A message by its place and its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownMessage {
    /// Position of the first byte.
    pub position: u64,
    /// Checksum, which the message begins with.
    pub checksum: u64,
}

/// A segment in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) base: Offset,
    /// Size of a sealed segment, if known. It ends where the next one begins.
    pub(crate) size: Option<u64>,
    /// Checksum of the first message, if known.
    pub(crate) first_checksum: Option<u64>,
    /// Last message of a sealed segment, if known: it identifies the log where the first one is damaged.
    pub(crate) last: Option<KnownMessage>,
}

impl Listed {
    pub(crate) const fn new(base: Offset) -> Self {
        Self {
            base,
            size: None,
            first_checksum: None,
            last: None,
        }
    }
}

/// Contents of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) generation: Generation,
    /// None in manifests of earlier formats.
    pub(crate) owner: Option<Owner>,
    /// True if the other files are being removed; remaining ones do not count.
    pub(crate) dropping: bool,
    /// Number of the opening that wrote last, 0 in manifests of earlier formats.
    pub(crate) epoch: u64,
    /// Openings, ascending; the last one wrote last. None in manifests of earlier formats.
    pub(crate) openings: Option<Vec<Opening>>,
    /// Base offset of the first segment that is not removed or about to be.
    pub(crate) first: Offset,
    /// Set while the log is being truncated: messages from this offset on do not count.
    pub(crate) end: Option<Offset>,
    pub(crate) synced: Option<SyncedEnd>,
    /// Segments, ascending. None if the manifest has no list.
    pub(crate) segments: Option<Vec<Listed>>,
}

impl Manifest {
    /// Return whether a repair wrote this manifest, which does not know the incarnation.
    pub(crate) fn is_repaired(&self) -> bool {
        self.owner.is_some() && self.generation.incarnation == REPAIRED
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut text = match &self.owner {
            Some(owner) => self.fields(owner),
            None => self.earlier_fields(),
        };
        let checksum = xxh3_64(text.as_bytes());
        // Writing to a string never fails.
        let _ = writeln!(text, ",\"checksum\":\"{checksum:016x}\"}}");
        text.into_bytes()
    }

    fn contents(&self) -> &'static str {
        if self.dropping { "dropped" } else { "kept" }
    }

    fn fields(&self, owner: &Owner) -> String {
        let Generation {
            incarnation,
            purge_epoch,
            partition,
        } = self.generation;
        let mut text = format!(
            "{{\"format\":{},\"catalog\":\"{:032x}\",\"stream\":{},\"topic\":{},\"partition\":{}",
            match (self.end, &self.openings) {
                (Some(_), _) => 5,
                (None, Some(_)) => 4,
                (None, None) => 3,
            },
            owner.catalog,
            owner.namespace.stream(),
            owner.namespace.topic(),
            owner.namespace.partition(),
        );
        let tags = if partition.is_some() {
            "partition"
        } else {
            "incarnation"
        };
        let _ = write!(
            text,
            ",\"incarnation\":{incarnation},\"purge_epoch\":{purge_epoch},\"tags\":\"{tags}\",\"contents\":\"{}\"",
            self.contents(),
        );
        let _ = write!(text, ",\"epoch\":{}", self.epoch);
        if let Some(openings) = &self.openings {
            openings::encode(openings, &mut text);
        }
        let _ = write!(text, ",\"first\":{}", self.first);
        if let Some(end) = self.end {
            let _ = write!(text, ",\"end\":{end}");
        }
        match &self.synced {
            Some(end) => {
                let _ = write!(
                    text,
                    ",\"synced\":[{},{},{},{}]",
                    end.segment, end.offset, end.position, end.timestamp
                );
            }
            None => text.push_str(",\"synced\":null"),
        }
        match &self.segments {
            Some(segments) => {
                text.push_str(",\"segments\":[");
                for (index, segment) in segments.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    let _ = write!(text, "{comma}[{}", segment.base);
                    let _ = match segment.size {
                        Some(size) => write!(text, ",{size}"),
                        None => write!(text, ",null"),
                    };
                    let _ = match segment.first_checksum {
                        Some(checksum) => write!(text, ",\"{checksum:016x}\""),
                        None => write!(text, ",null"),
                    };
                    if let Some(last) = segment.last {
                        let KnownMessage { position, checksum } = last;
                        let _ = write!(text, ",{position},\"{checksum:016x}\"");
                    }
                    text.push(']');
                }
                text.push(']');
            }
            None => text.push_str(",\"segments\":null"),
        }
        text
    }

    /// Fields of format 2, or of format 1 without a list.
    fn earlier_fields(&self) -> String {
        let format = if self.segments.is_some() { 2 } else { 1 };
        let mut text = format!(
            "{{\"format\":{format},\"incarnation\":{},\"purge_epoch\":{},\"contents\":\"{}\"",
            self.generation.incarnation,
            self.generation.purge_epoch,
            self.contents()
        );
        if let Some(segments) = &self.segments {
            text.push_str(",\"segments\":[");
            for (index, segment) in segments.iter().enumerate() {
                let comma = if index > 0 { "," } else { "" };
                let _ = write!(text, "{comma}{}", segment.base);
            }
            text.push(']');
        }
        text
    }

    /// Decode exactly what `encode` writes, now or in earlier formats; everything else is damage.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let text = core::str::from_utf8(bytes).ok()?;
        let rest = text.strip_prefix("{\"format\":")?;
        let (format, rest) = rest.split_once(',')?;
        let manifest = match format {
            "1" | "2" => Self::decode_earlier(format, rest),
            "3" => Self::decode_fields(false, false, rest),
            "4" => Self::decode_fields(true, false, rest),
            "5" => Self::decode_fields(true, true, rest),
            _ => None,
        }?;
        (manifest.encode() == bytes).then_some(manifest)
    }

    fn decode_fields(has_openings: bool, has_end: bool, rest: &str) -> Option<Self> {
        let mut rest = Fields(rest);
        let catalog = u128::from_str_radix(rest.after("\"catalog\":\"", "\",")?, 16).ok()?;
        let stream = rest.after("\"stream\":", ",")?.parse().ok()?;
        let topic = rest.after("\"topic\":", ",")?.parse().ok()?;
        let partition = rest.after("\"partition\":", ",")?.parse().ok()?;
        let namespace =
            Namespace::new(StreamId(stream), TopicId(topic), PartitionId(partition)).ok()?;
        let incarnation = rest.after("\"incarnation\":", ",")?.parse().ok()?;
        let purge_epoch = rest.after("\"purge_epoch\":", ",")?.parse().ok()?;
        let tags = rest.after("\"tags\":\"", "\",")?;
        let dropping = rest.after("\"contents\":\"", "\",")? == "dropped";
        let epoch = rest.after("\"epoch\":", ",")?.parse().ok()?;
        let openings = if has_openings {
            Some(openings::decode(
                rest.after("\"openings\":[", "],\"first")?,
            )?)
        } else {
            None
        };
        let before = if has_openings { "\":" } else { "\"first\":" };
        let first = Offset(rest.after(before, ",")?.parse().ok()?);
        let end = if has_end {
            Some(Offset(rest.after("\"end\":", ",")?.parse().ok()?))
        } else {
            None
        };
        let synced = match rest.after_list("\"synced\":", "],")? {
            NULL => None,
            numbers => Some(decode_synced(numbers)?),
        };
        let segments = match rest.after_list("\"segments\":", "],\"checksum")? {
            NULL => None,
            "" => Some(Vec::new()),
            list => {
                let list = list.strip_prefix('[')?.strip_suffix(']')?;
                let segments = list.split("],[").map(decode_listed);
                Some(segments.collect::<Option<_>>()?)
            }
        };
        Some(Self {
            generation: Generation {
                incarnation,
                purge_epoch,
                partition: (tags == "partition").then_some(namespace),
            },
            owner: Some(Owner { catalog, namespace }),
            dropping,
            epoch,
            openings,
            first,
            end,
            synced,
            segments,
        })
    }

    fn decode_earlier(format: &str, rest: &str) -> Option<Self> {
        let mut rest = Fields(rest);
        let incarnation = rest.after("\"incarnation\":", ",")?.parse().ok()?;
        let purge_epoch = rest.after("\"purge_epoch\":", ",")?.parse().ok()?;
        let dropping = rest.after("\"contents\":\"", "\",")? == "dropped";
        let segments = if format == "2" {
            let list = rest.after("\"segments\":[", "],")?;
            let bases = list.split(',').filter(|base| !base.is_empty());
            let bases = bases.map(|base| base.parse().map(|base| Listed::new(Offset(base))));
            Some(bases.collect::<Result<_, _>>().ok()?)
        } else {
            None
        };
        Some(Self {
            generation: Generation {
                incarnation,
                purge_epoch,
                partition: None,
            },
            owner: None,
            dropping,
            epoch: 0,
            openings: None,
            first: Offset(0),
            end: None,
            synced: None,
            segments,
        })
    }
}

/// Rest of a text, from which fields are taken in their order.
struct Fields<'a>(&'a str);

impl<'a> Fields<'a> {
    /// Take the text between `before`, which must come next, and `end`.
    fn after(&mut self, before: &str, end: &str) -> Option<&'a str> {
        let (value, rest) = self.0.strip_prefix(before)?.split_once(end)?;
        self.0 = rest;
        Some(value)
    }

    /// Take the elements of a list, or `null`.
    fn after_list(&mut self, name: &str, end: &str) -> Option<&'a str> {
        let value = self.0.strip_prefix(name)?;
        if let Some(rest) = value.strip_prefix("null,") {
            self.0 = rest;
            return Some(NULL);
        }
        self.0 = value;
        self.after("[", end)
    }
}

fn decode_synced(numbers: &str) -> Option<SyncedEnd> {
    let mut numbers = numbers.split(',').map(str::parse);
    let mut next = || numbers.next()?.ok();
    Some(SyncedEnd {
        segment: Offset(next()?),
        offset: Offset(next()?),
        position: next()?,
        timestamp: next()?,
    })
}

fn decode_listed(fields: &str) -> Option<Listed> {
    let (base, rest) = fields.split_once(',')?;
    let (size, rest) = rest.split_once(',')?;
    let (first, last) = match rest.split_once(',') {
        Some((first, last)) => (first, Some(last)),
        None => (rest, None),
    };
    let last = match last {
        Some(last) => {
            let (position, checksum) = last.split_once(',')?;
            Some(KnownMessage {
                position: position.parse().ok()?,
                checksum: decode_checksum(checksum)?,
            })
        }
        None => None,
    };
    let size = match size {
        NULL => None,
        size => Some(size.parse().ok()?),
    };
    let first_checksum = match first {
        NULL => None,
        first => Some(decode_checksum(first)?),
    };
    Some(Listed {
        base: Offset(base.parse().ok()?),
        size,
        first_checksum,
        last,
    })
}

fn decode_checksum(text: &str) -> Option<u64> {
    let digits = text.strip_prefix('"')?.strip_suffix('"')?;
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests;
