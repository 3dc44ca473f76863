//! Checksums.
//!
//! Replicas trust one another; what is to be found is accidental damage, and two prepares must never have the same
//! identity by accident. XXH3 with all of its 128 bits is enough for that, at the speed of memory.

use twox_hash::XxHash3_128;

use super::HEADER_BYTES;

// Header and body have different seeds: the bytes of one are never valid as the other.
const HEADER_SEED: u64 = 0x5653_5248_4452_0001;
const BODY_SEED: u64 = 0x5653_5242_4459_0001;
const ARTIFACT_SEED: u64 = 0x5653_5241_5254_0001;

/// Checksum of a header: over everything behind the checksum itself.
pub fn checksum_header(header: &[u8; HEADER_BYTES]) -> u128 {
    XxHash3_128::oneshot_with_seed(HEADER_SEED, &header[16..])
}

/// Checksum of a body; of an empty one too.
pub fn checksum_body(body: &[u8]) -> u128 {
    XxHash3_128::oneshot_with_seed(BODY_SEED, body)
}

/// Digest of an artifact: a checkpoint, or a part of the state.
pub fn digest(artifact: &[u8]) -> u128 {
    XxHash3_128::oneshot_with_seed(ARTIFACT_SEED, artifact)
}
