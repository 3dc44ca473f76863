//! Record head: the metadata in front of each record.

use twox_hash::XxHash3_64;

use crate::frame::field::{Field, number};

/// Length of a head in bytes.
pub const HEAD_BYTES: usize = 32;

const MAGIC: u32 = u32::from_le_bytes(*b"HRVJ");
const CHECKSUM_SEED: u64 = 0x5653_524a_4844_0001;
const CHECKSUM_OFFSET: usize = 28;

/// Metadata in front of each record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// Length of the frame behind the head in bytes; 0 in a seal.
    pub len: u32,
    /// Operation of the prepare; 0 in a seal.
    pub op: u64,
    /// Highest operation whose sync had completed when the head was written.
    pub synced: u64,
    /// Log view of the newest durable superblock when the head was written: the log to which `synced` refers.
    pub log_view: u32,
}

impl RecordHeader {
    /// Head without a record.
    pub const fn seal(synced: u64, log_view: u32) -> Self {
        Self {
            len: 0,
            op: 0,
            synced,
            log_view,
        }
    }

    /// Return whether the head has no record.
    pub const fn is_seal(&self) -> bool {
        self.op == 0
    }

    /// Encode the head.
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        MAGIC.put(&mut bytes[0..]);
        self.len.put(&mut bytes[4..]);
        self.op.put(&mut bytes[8..]);
        self.synced.put(&mut bytes[16..]);
        self.log_view.put(&mut bytes[24..]);
        checksum(&bytes).put(&mut bytes[CHECKSUM_OFFSET..]);
        bytes
    }

    /// Decode the head at the start of `bytes`, if there is one.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<HEAD_BYTES>()?;
        // Cheap test first: a scan of a damaged file calls this for every eighth byte.
        if number::<u32>(bytes, 0) != MAGIC
            || number::<u32>(bytes, CHECKSUM_OFFSET) != checksum(bytes)
        {
            return None;
        }
        let head = Self {
            len: number(bytes, 4),
            op: number(bytes, 8),
            synced: number(bytes, 16),
            log_view: number(bytes, 24),
        };
        (head.is_seal() == (head.len == 0)).then_some(head)
    }
}

/// Lower half of XXH3-64. Together with the magic number it suffices to recognise a head; the frame has its own
/// checksum.
fn checksum(bytes: &[u8; HEAD_BYTES]) -> u32 {
    let whole = XxHash3_64::oneshot_with_seed(CHECKSUM_SEED, &bytes[..CHECKSUM_OFFSET]);
    number(&whole.to_le_bytes(), 0)
}
