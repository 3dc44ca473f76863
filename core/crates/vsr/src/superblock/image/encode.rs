//! Encoding of one copy of a superblock.
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 16 | checksum: XXH3-128 over bytes 32..16384; the same in all copies |
//! | 16 | 2 | number of the copy, 0 to 3 |
//! | 32 | 8 | magic |
//! | 40 | 4 | version of the format |
//! | 48 | 16 | checksum of the previous superblock |
//! | 64 | 8 | sequence |
//! | 72 | 8 | group |
//! | 80 | 16 | cluster |
//! | 96 | 8 | node |
//! | 104 | 8 | incarnation |
//! | 112 | 16 | boot |
//! | 128 | 4 | epoch |
//! | 132 | 4 | view |
//! | 136 | 4 | log view |
//! | 140 | 4 | loss view |
//! | 144 | 8 | head of the view |
//! | 152 | 8 | start of the view |
//! | 160 | 8 | highest committed op |
//! | 168 | 1 | replica |
//! | 169 | 1 | members |
//! | 171 | 1 | flags: bit 0, clean shutdown |
//! | 172 | 4 | headers of the suffix |
//! | 176 | 56 | nodes of the members (7 × 8) |
//! | 272 | 8 | checkpoint: op |
//! | 280 | 8 | checkpoint: name of the artifact |
//! | 288 | 8 | checkpoint: length of the artifact |
//! | 304 | 16 | checkpoint: digest of the state |
//! | 320 | 16 | checkpoint: digest of the artifact |
//! | 336 | 256 | checkpoint: header of the prepare |
//! | 4096 | 33 × 256 | headers of the suffix |
//!
//! All other bytes are zero. Of these, byte 170 and bytes 232 to 271 are reserved for learners, which are not built.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use thiserror::Error;
use twox_hash::XxHash3_128;

use super::{Checkpoint, Superblock};
use crate::frame::field::{Field, number};
use crate::frame::{HEADER_BYTES, MEMBERS_MAX, PrepareHeader, SUFFIX_MAX};
use crate::superblock::RecordedView;

/// Number of copies of a superblock.
pub const COPIES: usize = 4;

/// Length of one copy in bytes.
pub const COPY_BYTES: usize = 16 * 1024;

/// Length of all copies in bytes.
pub const SUPERBLOCK_BYTES: usize = COPIES * COPY_BYTES;

/// Version of the format.
pub const VERSION: u32 = 1;

const MAGIC: u64 = u64::from_le_bytes(*b"HRVSRSB1");
const CHECKSUM_SEED: u64 = 0x5653_5253_5542_0001;
const CHECKED_FROM: usize = 32;
const MEMBERS_OFFSET: usize = 176;
const CHECKPOINT_HEADER_OFFSET: usize = 336;
const CHECKPOINT_HEADER_END: usize = CHECKPOINT_HEADER_OFFSET + HEADER_BYTES;
const VIEW_HEADERS_OFFSET: usize = 4096;

/// Reason why a copy cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CopyError {
    /// The copy was never written.
    #[error("the copy is empty")]
    Empty,
    /// The copy is damaged or was written only in part.
    #[error("the checksum of the copy is wrong")]
    Checksum,
    /// The copy belongs to another position.
    #[error("the copy lies in the place of another")]
    Misplaced,
    /// The bytes are not a superblock.
    #[error("the copy is not a superblock")]
    Magic,
    /// The copy was written by another release.
    #[error("the superblock has version {0}, which this release does not know")]
    Version(u32),
    /// The fields contradict one another, although the checksum is valid.
    #[error("the superblock contradicts itself")]
    Content,
}

impl Superblock {
    /// Checksum of the superblock, identical in all of its copies.
    pub fn checksum(&self) -> u128 {
        number(&*self.encode(0), 0)
    }

    /// Encode copy number `copy`.
    ///
    /// # Panics
    /// If `copy` is not below [`COPIES`], or there are more members or headers than fit.
    pub fn encode(&self, copy: usize) -> Box<[u8; COPY_BYTES]> {
        assert!(copy < COPIES, "there are {COPIES} copies");
        assert!(
            self.members.len() <= MEMBERS_MAX && self.view.headers.len() <= SUFFIX_MAX,
            "members and headers have limits"
        );
        let mut bytes: Box<[u8; COPY_BYTES]> = vec![0; COPY_BYTES]
            .into_boxed_slice()
            .try_into()
            .expect("it has just this length");
        let count = |length: usize| u8::try_from(length).expect("checked above");
        MAGIC.put(&mut bytes[32..]);
        VERSION.put(&mut bytes[40..]);
        self.parent.put(&mut bytes[48..]);
        self.sequence.put(&mut bytes[64..]);
        self.group.put(&mut bytes[72..]);
        self.cluster.put(&mut bytes[80..]);
        self.node_id.put(&mut bytes[96..]);
        self.incarnation.put(&mut bytes[104..]);
        self.boot_id.put(&mut bytes[112..]);
        self.epoch.put(&mut bytes[128..]);
        self.view.number.put(&mut bytes[132..]);
        self.view.log_view.put(&mut bytes[136..]);
        self.view.loss_view.put(&mut bytes[140..]);
        self.view.head_op.put(&mut bytes[144..]);
        self.view.start_op.put(&mut bytes[152..]);
        self.commit_max.put(&mut bytes[160..]);
        bytes[168] = self.replica;
        bytes[169] = count(self.members.len());
        bytes[171] = u8::from(self.clean_shutdown);
        u32::from(count(self.view.headers.len())).put(&mut bytes[172..]);
        put_nodes(&self.members, &mut bytes[MEMBERS_OFFSET..]);
        self.checkpoint.op.put(&mut bytes[272..]);
        self.checkpoint.artifact.put(&mut bytes[280..]);
        self.checkpoint.len.put(&mut bytes[288..]);
        self.checkpoint.id.put(&mut bytes[304..]);
        self.checkpoint.digest.put(&mut bytes[320..]);
        bytes[CHECKPOINT_HEADER_OFFSET..CHECKPOINT_HEADER_END]
            .copy_from_slice(&self.checkpoint.header.encode());
        let (places, _) = bytes[VIEW_HEADERS_OFFSET..].as_chunks_mut::<HEADER_BYTES>();
        for (place, header) in places.iter_mut().zip(&self.view.headers) {
            *place = header.encode();
        }
        let checksum = checksum_copy(&bytes);
        checksum.put(&mut bytes[0..]);
        u16::from(count(copy)).put(&mut bytes[16..]);
        bytes
    }

    /// Decode copy number `copy`.
    ///
    /// # Errors
    /// The reason why the bytes are not that copy of a superblock.
    pub fn decode(bytes: &[u8; COPY_BYTES], copy: usize) -> Result<Self, CopyError> {
        if bytes.iter().all(|&byte| byte == 0) {
            return Err(CopyError::Empty);
        }
        if number::<u128>(bytes, 0) != checksum_copy(bytes) {
            return Err(CopyError::Checksum);
        }
        if usize::from(number::<u16>(bytes, 16)) != copy || bytes[18..32] != [0; 14] {
            return Err(CopyError::Misplaced);
        }
        if number::<u64>(bytes, 32) != MAGIC {
            return Err(CopyError::Magic);
        }
        let version = number::<u32>(bytes, 40);
        if version != VERSION {
            return Err(CopyError::Version(version));
        }
        let superblock = read(bytes).ok_or(CopyError::Content)?;
        // The comparison also detects reserved bytes that are not zero.
        if *superblock.encode(copy) != *bytes || !superblock.is_consistent() {
            return Err(CopyError::Content);
        }
        Ok(superblock)
    }
}

/// Compute the checksum of a copy, which its first 16 bytes must hold. The checksum does not cover the number of the
/// copy: it is identical in all copies of a superblock.
pub fn checksum_copy(bytes: &[u8; COPY_BYTES]) -> u128 {
    XxHash3_128::oneshot_with_seed(CHECKSUM_SEED, &bytes[CHECKED_FROM..])
}

fn put_nodes(nodes: &[u64], bytes: &mut [u8]) {
    for (place, node) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(nodes) {
        *place = node.to_le_bytes();
    }
}

fn nodes(bytes: &[u8], count: usize) -> Vec<u64> {
    let places = bytes.as_chunks::<8>().0;
    let nodes = places[..count].iter().copied();
    nodes.map(u64::from_le_bytes).collect()
}

fn read(bytes: &[u8; COPY_BYTES]) -> Option<Superblock> {
    let members = usize::from(bytes[169]);
    let header_count = number::<u32>(bytes, 172) as usize;
    if members > MEMBERS_MAX || header_count > SUFFIX_MAX {
        return None;
    }
    let checkpoint_header = bytes[CHECKPOINT_HEADER_OFFSET..].first_chunk()?;
    let (headers, _) = bytes[VIEW_HEADERS_OFFSET..].as_chunks::<HEADER_BYTES>();
    let headers = headers[..header_count].iter();
    Some(Superblock {
        sequence: number(bytes, 64),
        parent: number(bytes, 48),
        cluster: number(bytes, 80),
        group: number(bytes, 72),
        node_id: number(bytes, 96),
        replica: bytes[168],
        epoch: number(bytes, 128),
        members: nodes(&bytes[MEMBERS_OFFSET..], members),
        view: RecordedView {
            number: number(bytes, 132),
            log_view: number(bytes, 136),
            head_op: number(bytes, 144),
            start_op: number(bytes, 152),
            loss_view: number(bytes, 140),
            headers: headers
                .map(|header| PrepareHeader::decode(header).ok())
                .collect::<Option<_>>()?,
        },
        commit_max: number(bytes, 160),
        incarnation: number(bytes, 104),
        boot_id: number(bytes, 112),
        clean_shutdown: bytes[171] == 1,
        checkpoint: Checkpoint {
            op: number(bytes, 272),
            header: PrepareHeader::decode(checkpoint_header).ok()?,
            id: number(bytes, 304),
            artifact: number(bytes, 280),
            len: number(bytes, 288),
            digest: number(bytes, 320),
        },
    })
}
