//! The manifest: which life of the partition the files in its folder belong to.
//!
//! Stream, topic and partition numbers are reused, so a folder may hold what an earlier partition of the same number
//! left behind; and a purge must not leave half of the messages after a crash. The manifest decides: files count
//! only when it names the partition's incarnation and purge epoch and says that contents are kept. It is replaced
//! as a whole before the first file of a life is created, and before the files of an earlier one are removed.

use alloc::format;
use alloc::vec::Vec;

use headrace_wire::hash::xxh3_64;

/// A manifest is one short line; anything longer is not one.
pub(crate) const MANIFEST_BYTES_MAX: u64 = 4096;

/// One life of a partition: it ends when the partition is deleted or purged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    /// Which partition among those that ever had its number.
    pub incarnation: u64,
    /// How often it was purged.
    pub purge_epoch: u64,
}

impl Life {
    /// A number that checksums of derived files start from, so that a file of another life never looks valid.
    pub fn tag(self, salt: u64) -> u64 {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.purge_epoch.to_le_bytes());
        bytes[16..].copy_from_slice(&salt.to_le_bytes());
        xxh3_64(&bytes)
    }
}

/// What a manifest says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) life: Life,
    /// The other files are being removed: whatever is left of them does not count.
    pub(crate) dropping: bool,
}

impl Manifest {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let contents = if self.dropping { "dropped" } else { "kept" };
        let fields = format!(
            "{{\"format\":1,\"incarnation\":{},\"purge_epoch\":{},\"contents\":\"{contents}\"",
            self.life.incarnation, self.life.purge_epoch
        );
        let checksum = xxh3_64(fields.as_bytes());
        format!("{fields},\"checksum\":\"{checksum:016x}\"}}\n").into_bytes()
    }

    /// Reads exactly what `encode` writes: anything else is damage.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let text = core::str::from_utf8(bytes).ok()?;
        let rest = text.strip_prefix("{\"format\":1,\"incarnation\":")?;
        let (incarnation, rest) = rest.split_once(",\"purge_epoch\":")?;
        let (purge_epoch, rest) = rest.split_once(",\"contents\":\"")?;
        let (contents, _) = rest.split_once('"')?;
        let manifest = Self {
            life: Life {
                incarnation: incarnation.parse().ok()?,
                purge_epoch: purge_epoch.parse().ok()?,
            },
            dropping: contents == "dropped",
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
            life: Life {
                incarnation: 7,
                purge_epoch: 2,
            },
            dropping: false,
        };
        let text = manifest.encode();
        let text = core::str::from_utf8(&text).expect("text");
        assert!(text.starts_with(
            "{\"format\":1,\"incarnation\":7,\"purge_epoch\":2,\"contents\":\"kept\",\"checksum\":\""
        ));
        assert!(text.ends_with("\"}\n"));
    }

    proptest! {
        #[test]
        fn a_manifest_survives_its_encoding(incarnation: u64, purge_epoch: u64, dropping: bool) {
            let manifest = Manifest { life: Life { incarnation, purge_epoch }, dropping };
            prop_assert_eq!(Manifest::decode(&manifest.encode()), Some(manifest));
        }

        /// LOG-14: damage is noticed, wherever it is.
        #[test]
        fn a_changed_or_cut_manifest_is_refused(place: prop::sample::Index, mask in 1_u8.., cut: prop::sample::Index) {
            let manifest = Manifest { life: Life { incarnation: 12, purge_epoch: 3 }, dropping: false };
            let mut bytes = manifest.encode();
            prop_assert_eq!(Manifest::decode(&bytes[..cut.index(bytes.len())]), None);
            let place = place.index(bytes.len());
            bytes[place] ^= mask;
            prop_assert_eq!(Manifest::decode(&bytes), None);
        }
    }
}
