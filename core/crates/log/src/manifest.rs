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
            if self.openings.is_some() { 4 } else { 3 },
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
            "3" | "4" => Self::decode_fields(format == "4", rest),
            _ => None,
        }?;
        (manifest.encode() == bytes).then_some(manifest)
    }

    fn decode_fields(has_openings: bool, rest: &str) -> Option<Self> {
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn namespace() -> Namespace {
        Namespace::new(StreamId(1), TopicId(2), PartitionId(3)).expect("small numbers")
    }

    fn opening((epoch, end): (u64, u64)) -> Opening {
        Opening {
            epoch,
            end: Offset(end),
        }
    }

    fn manifest() -> Manifest {
        Manifest {
            generation: Generation {
                incarnation: 7,
                purge_epoch: 2,
                partition: Some(namespace()),
            },
            owner: Some(Owner {
                catalog: 0xab,
                namespace: namespace(),
            }),
            dropping: false,
            epoch: 5,
            openings: Some([(2, 17), (5, 45)].map(opening).to_vec()),
            first: Offset(0),
            synced: Some(SyncedEnd {
                segment: Offset(40),
                offset: Offset(45),
                position: 900,
                timestamp: 11,
            }),
            segments: Some(
                [
                    Listed {
                        base: Offset(0),
                        size: Some(1000),
                        first_checksum: Some(0xc0),
                        last: Some(KnownMessage {
                            position: 936,
                            checksum: 0xc9,
                        }),
                    },
                    Listed {
                        size: Some(900),
                        first_checksum: Some(0xc1),
                        ..Listed::new(Offset(20))
                    },
                    Listed::new(Offset(40)),
                ]
                .to_vec(),
            ),
        }
    }

    #[test]
    fn it_is_one_line_that_people_can_read() {
        let text = manifest().encode();
        let text = core::str::from_utf8(&text).expect("text");
        let expected = concat!(
            "{\"format\":4,\"catalog\":\"000000000000000000000000000000ab\",\"stream\":1,\"topic\":2,\"partition\":3,",
            "\"incarnation\":7,\"purge_epoch\":2,\"tags\":\"partition\",\"contents\":\"kept\",\"epoch\":5,",
            "\"openings\":[[2,17],[5,45]],\"first\":0,",
            "\"synced\":[40,45,900,11],\"segments\":[[0,1000,\"00000000000000c0\",936,\"00000000000000c9\"],[20,900,\"00000000000000c1\"],",
            "[40,null,null]],\"checksum\":\""
        );
        assert!(text.starts_with(expected), "{text}");
        assert!(text.ends_with("\"}\n"));
    }

    /// Formats 1 and 2, written by earlier servers, are still read.
    #[test]
    fn manifests_of_earlier_formats_are_read() {
        let first = b"{\"format\":1,\"incarnation\":7,\"purge_epoch\":2,\"contents\":\"kept\",\"checksum\":\"194496b377eab5fa\"}\n";
        let earlier = Manifest {
            generation: Generation {
                incarnation: 7,
                purge_epoch: 2,
                partition: None,
            },
            owner: None,
            dropping: false,
            epoch: 0,
            openings: None,
            first: Offset(0),
            synced: None,
            segments: None,
        };
        assert_eq!(Manifest::decode(first), Some(earlier.clone()));
        let second = b"{\"format\":2,\"incarnation\":7,\"purge_epoch\":2,\"contents\":\"kept\",\"segments\":[0,40],\"checksum\":\"4c3966ec2485b166\"}\n";
        let listed = [0, 40].map(|base| Listed::new(Offset(base))).to_vec();
        let earlier = Manifest {
            segments: Some(listed),
            ..earlier
        };
        assert_eq!(Manifest::decode(second), Some(earlier));
    }

    #[test]
    fn the_longest_manifest_fits() {
        let longest = |index| Listed {
            base: Offset(u64::MAX - index),
            size: Some(u64::MAX),
            first_checksum: Some(u64::MAX),
            last: Some(KnownMessage {
                position: u64::MAX,
                checksum: u64::MAX,
            }),
        };
        let longest_opening = opening((u64::MAX, u64::MAX));
        let manifest = Manifest {
            openings: Some([longest_opening; openings::OPENINGS_MAX].to_vec()),
            segments: Some((0..SEGMENTS_LISTED_MAX as u64).map(longest).collect()),
            ..manifest()
        };
        assert!(manifest.encode().len() as u64 <= MANIFEST_BYTES_MAX);
    }

    fn listed() -> impl Strategy<Value = Listed> {
        let fields = any::<(u64, Option<u64>, Option<u64>, Option<(u64, u64)>)>();
        fields.prop_map(|(base, size, first_checksum, last)| Listed {
            base: Offset(base),
            size,
            first_checksum,
            last: last.map(|(position, checksum)| KnownMessage { position, checksum }),
        })
    }

    proptest! {
        #[test]
        fn a_manifest_survives_its_encoding(
            numbers: (u64, u64, u64, u64), catalog: u128, flags: (bool, bool, bool),
            synced: Option<(u64, u64, u64, u64)>,
            openings in prop::option::of(prop::collection::vec(any::<(u64, u64)>(), 0..4)),
            segments in prop::option::of(prop::collection::vec(listed(), 0..5)),
        ) {
            let (incarnation, purge_epoch, epoch, first) = numbers;
            let (dropping, is_tagged, is_earlier) = flags;
            let mut manifest = Manifest {
                generation: Generation { incarnation, purge_epoch, partition: is_tagged.then_some(namespace()) },
                owner: Some(Owner { catalog, namespace: namespace() }),
                dropping,
                epoch,
                openings: openings.map(|openings| openings.into_iter().map(opening).collect()),
                first: Offset(first),
                synced: synced.map(|(segment, offset, position, timestamp)| SyncedEnd {
                    segment: Offset(segment), offset: Offset(offset), position, timestamp,
                }),
                segments,
            };
            if is_earlier {
                let bases = |listed: Vec<Listed>| listed.iter().map(|listed| Listed::new(listed.base)).collect();
                manifest = Manifest {
                    generation: Generation { partition: None, ..manifest.generation },
                    owner: None, epoch: 0, openings: None, first: Offset(0), synced: None,
                    segments: manifest.segments.map(bases),
                    ..manifest
                };
            }
            prop_assert_eq!(Manifest::decode(&manifest.encode()), Some(manifest.clone()));
        }

        /// LOG-14: damage at any byte is detected.
        #[test]
        fn a_changed_or_cut_manifest_is_refused(place: prop::sample::Index, mask in 1_u8.., cut: prop::sample::Index) {
            let mut bytes = manifest().encode();
            prop_assert_eq!(Manifest::decode(&bytes[..cut.index(bytes.len())]), None);
            let place = place.index(bytes.len());
            bytes[place] ^= mask;
            prop_assert_eq!(Manifest::decode(&bytes), None);
        }
    }
}
