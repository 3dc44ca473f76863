//! Checksums of frames.
//!
//! Replicas trust one another. Checksums detect accidental damage, and two different prepares must never have the same
//! checksum by accident. All 128 bits of XXH3 are sufficient for both, at memory speed.

use twox_hash::XxHash3_128;

use super::HEADER_BYTES;

// Header and body have different seeds, so that the bytes of one are never valid as the other.
const HEADER_SEED: u64 = 0x5653_5248_4452_0001;
const BODY_SEED: u64 = 0x5653_5242_4459_0001;
const ARTIFACT_SEED: u64 = 0x5653_5241_5254_0001;

/// Checksum of a header: covers every byte behind the checksum field.
pub fn checksum_header(header: &[u8; HEADER_BYTES]) -> u128 {
    XxHash3_128::oneshot_with_seed(HEADER_SEED, &header[16..])
}

/// Checksum of a body, including an empty one.
pub fn checksum_body(body: &[u8]) -> u128 {
    XxHash3_128::oneshot_with_seed(BODY_SEED, body)
}

/// Digest of an artifact: a checkpoint, or a part of the state.
pub fn digest(artifact: &[u8]) -> u128 {
    XxHash3_128::oneshot_with_seed(ARTIFACT_SEED, artifact)
}
