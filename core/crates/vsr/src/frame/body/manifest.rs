//! Manifest: the contents of a checkpoint.

use alloc::vec::Vec;

use crate::frame::HEADER_BYTES;
use crate::frame::PrepareHeader;
use crate::frame::Reject;
use crate::frame::field::{Field, number};

const ARTIFACT_BYTES: usize = 48;

/// One part of a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Artifact {
    /// Type of the artifact; 0 is the entire state of a metadata group.
    pub kind: u16,
    /// Flags of the artifact type.
    pub flags: u16,
    /// Id within the checkpoint.
    pub id: u64,
    /// Length in bytes.
    pub len: u64,
    /// [`digest`](crate::frame::digest) of the bytes.
    pub digest: u128,
    /// Op, or offset, up to which the artifact reaches.
    pub frontier: u64,
}

/// Encode a manifest.
pub fn encode(checkpoint: &PrepareHeader, artifacts: &[Artifact]) -> Vec<u8> {
    let mut body = Vec::with_capacity(HEADER_BYTES + artifacts.len() * ARTIFACT_BYTES);
    body.extend_from_slice(&checkpoint.encode());
    for artifact in artifacts {
        let mut entry = [0; ARTIFACT_BYTES];
        artifact.kind.put(&mut entry[0..]);
        artifact.flags.put(&mut entry[2..]);
        artifact.id.put(&mut entry[8..]);
        artifact.len.put(&mut entry[16..]);
        artifact.digest.put(&mut entry[24..]);
        artifact.frontier.put(&mut entry[40..]);
        body.extend_from_slice(&entry);
    }
    body
}

/// Decode a manifest: header of the checkpoint's prepare, and the artifacts.
///
/// # Errors
/// [`Reject::Body`] if the body is not a manifest.
pub fn decode(body: &[u8]) -> Result<(PrepareHeader, Vec<Artifact>), Reject> {
    let (checkpoint, artifacts) = body.split_first_chunk().ok_or(Reject::Body)?;
    let checkpoint = PrepareHeader::decode(checkpoint).map_err(|_| Reject::Body)?;
    let (entries, rest) = artifacts.as_chunks::<ARTIFACT_BYTES>();
    if checkpoint.is_blank() || !rest.is_empty() {
        return Err(Reject::Body);
    }
    let artifacts = entries.iter().map(|entry| {
        if number::<u32>(entry, 4) != 0 {
            return Err(Reject::Body);
        }
        Ok(Artifact {
            kind: number(entry, 0),
            flags: number(entry, 2),
            id: number(entry, 8),
            len: number(entry, 16),
            digest: number(entry, 24),
            frontier: number(entry, 40),
        })
    });
    Ok((checkpoint, artifacts.collect::<Result<_, _>>()?))
}
