//! Manifest: log generation that the files in the directory belong to, and list of its segments.
//!
//! Stream, topic and partition numbers are reused, so a directory may contain files of an earlier partition of the same
//! number. A purge must not leave half of the messages after a crash either. Files count only if the manifest names the
//! partition's incarnation and purge epoch and states that contents are kept. The manifest is replaced as a whole
//! before the first file of a generation is created, and before the files of an earlier one are removed.
//!
//! A segment's log does not name its partition. The manifest therefore lists the segments: it is replaced before a log
//! that it does not list is created, and a log that it does not list is not this partition's.

use alloc::format;
use alloc::vec::Vec;
use core::fmt::Write as _;

use headrace_model::Offset;
use headrace_wire::hash::xxh3_64;

/// Maximum size of a manifest: one line with a number for each segment.
pub(crate) const MANIFEST_BYTES_MAX: u64 = 1 << 20;
/// Maximum number of segments that are listed. With more segments the manifest has no list, because each new segment
/// would rewrite all numbers.
pub(crate) const SEGMENTS_LISTED_MAX: usize = 16 * 1024;

/// Generation of a log. A generation ends when the partition is deleted or purged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation {
    /// Incarnation: distinguishes the partitions that ever had this number.
    pub incarnation: u64,
    /// Number of purges so far.
    pub purge_epoch: u64,
}

impl Generation {
    /// Seed of the checksums of derived files, so that a file of another generation never looks valid.
    pub fn checksum_seed(self, salt: u64) -> u64 {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.purge_epoch.to_le_bytes());
        bytes[16..].copy_from_slice(&salt.to_le_bytes());
        xxh3_64(&bytes)
    }
}

/// Contents of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) generation: Generation,
    /// True if the other files are being removed; remaining ones do not count.
    pub(crate) dropping: bool,
    /// Base offsets of the segments, ascending. None if the manifest has no list.
    pub(crate) segments: Option<Vec<Offset>>,
}

impl Manifest {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let contents = if self.dropping { "dropped" } else { "kept" };
        // Format 1 has no list of segments and was written by earlier versions as well.
        let format = if self.segments.is_some() { 2 } else { 1 };
        let mut fields = format!(
            "{{\"format\":{format},\"incarnation\":{},\"purge_epoch\":{},\"contents\":\"{contents}\"",
            self.generation.incarnation, self.generation.purge_epoch
        );
        if let Some(segments) = &self.segments {
            fields.push_str(",\"segments\":[");
            for (index, Offset(base)) in segments.iter().enumerate() {
                let comma = if index > 0 { "," } else { "" };
                // Writing to a string never fails.
                let _ = write!(fields, "{comma}{base}");
            }
            fields.push(']');
        }
        let checksum = xxh3_64(fields.as_bytes());
        format!("{fields},\"checksum\":\"{checksum:016x}\"}}\n").into_bytes()
    }

    /// Decode exactly what `encode` writes; everything else is damage.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let text = core::str::from_utf8(bytes).ok()?;
        let rest = text.strip_prefix("{\"format\":")?;
        let (format, rest) = rest.split_once(",\"incarnation\":")?;
        let (incarnation, rest) = rest.split_once(",\"purge_epoch\":")?;
        let (purge_epoch, rest) = rest.split_once(",\"contents\":\"")?;
        let (contents, rest) = rest.split_once('"')?;
        let segments = if format == "2" {
            let list = rest.strip_prefix(",\"segments\":[")?;
            let (list, _) = list.split_once(']')?;
            let bases = list.split(',').filter(|base| !base.is_empty());
            let bases = bases.map(|base| base.parse().map(Offset));
            Some(bases.collect::<Result<_, _>>().ok()?)
        } else {
            None
        };
        let manifest = Self {
            generation: Generation {
                incarnation: incarnation.parse().ok()?,
                purge_epoch: purge_epoch.parse().ok()?,
            },
            dropping: contents == "dropped",
            segments,
        };
        (manifest.encode() == bytes).then_some(manifest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_is_one_line_that_people_can_read() {
        let manifest = Manifest {
            generation: Generation {
                incarnation: 7,
                purge_epoch: 2,
            },
            dropping: false,
            segments: Some([0, 40].map(Offset).to_vec()),
        };
        let text = manifest.encode();
        let text = core::str::from_utf8(&text).expect("text");
        assert!(text.starts_with(
            "{\"format\":2,\"incarnation\":7,\"purge_epoch\":2,\"contents\":\"kept\",\"segments\":[0,40],\"checksum\":\""
        ));
        assert!(text.ends_with("\"}\n"));
    }

    /// Format 1, written by servers before segments were listed, is still read.
    #[test]
    fn a_manifest_of_the_first_format_is_read() {
        let text = b"{\"format\":1,\"incarnation\":7,\"purge_epoch\":2,\"contents\":\"kept\",\"checksum\":\"194496b377eab5fa\"}\n";
        let life = Generation {
            incarnation: 7,
            purge_epoch: 2,
        };
        let manifest = Manifest {
            generation: life,
            dropping: false,
            segments: None,
        };
        assert_eq!(Manifest::decode(text), Some(manifest));
    }

    #[test]
    fn the_longest_manifest_fits() {
        let bases = (0..SEGMENTS_LISTED_MAX as u64).map(|index| Offset(u64::MAX - index));
        let manifest = Manifest {
            generation: Generation {
                incarnation: u64::MAX,
                purge_epoch: u64::MAX,
            },
            dropping: true,
            segments: Some(bases.collect()),
        };
        assert!(manifest.encode().len() as u64 <= MANIFEST_BYTES_MAX);
    }

    proptest! {
        #[test]
        fn a_manifest_survives_its_encoding(
            incarnation: u64, purge_epoch: u64, dropping: bool, segments: Option<Vec<u64>>,
        ) {
            let segments = segments.map(|bases| bases.into_iter().map(Offset).collect());
            let manifest = Manifest { generation: Generation { incarnation, purge_epoch }, dropping, segments };
            prop_assert_eq!(Manifest::decode(&manifest.encode()), Some(manifest.clone()));
        }

        /// LOG-14: damage at any byte is detected.
        #[test]
        fn a_changed_or_cut_manifest_is_refused(place: prop::sample::Index, mask in 1_u8.., cut: prop::sample::Index) {
            let life = Generation { incarnation: 12, purge_epoch: 3 };
            let manifest = Manifest { generation: life, dropping: false, segments: Some([0, 40, 77].map(Offset).to_vec()) };
            let mut bytes = manifest.encode();
            prop_assert_eq!(Manifest::decode(&bytes[..cut.index(bytes.len())]), None);
            let place = place.index(bytes.len());
            bytes[place] ^= mask;
            prop_assert_eq!(Manifest::decode(&bytes), None);
        }
    }
}
