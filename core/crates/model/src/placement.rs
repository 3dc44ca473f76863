//! Assignment of namespaces to shards.

use core::num::NonZeroU16;

use crate::{Namespace, ShardId};

/// Return the shard that owns `namespace` among `shards` shards (SHARD-4).
///
/// Murmur3's low bits are weak for small integers, so the bits from the middle are used. Python computes the same with
/// `mmh3`; `tests/formats` pins both to the same vectors.
pub fn owner_shard(namespace: Namespace, shards: NonZeroU16) -> ShardId {
    let hash = murmur3_32(&namespace.packed().to_le_bytes(), 0);
    let index = (hash >> 16) % u32::from(shards.get());
    ShardId(u16::try_from(index).expect("smaller than a u16"))
}

/// `MurmurHash3_x86_32`.
pub fn murmur3_32(bytes: &[u8], seed: u32) -> u32 {
    let scramble = |block: u32| {
        block
            .wrapping_mul(0xcc9e_2d51)
            .rotate_left(15)
            .wrapping_mul(0x1b87_3593)
    };
    let (blocks, tail) = bytes.as_chunks::<4>();
    let mut hash = seed;
    for block in blocks {
        hash ^= scramble(u32::from_le_bytes(*block));
        hash = hash
            .rotate_left(13)
            .wrapping_mul(5)
            .wrapping_add(0xe654_6b64);
    }
    if !tail.is_empty() {
        let mut last = [0; 4];
        last[..tail.len()].copy_from_slice(tail);
        hash ^= scramble(u32::from_le_bytes(last));
    }
    hash ^= u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PartitionId, StreamId, TopicId};

    #[test]
    fn matches_the_published_vectors() {
        assert_eq!(murmur3_32(b"", 0), 0);
        assert_eq!(murmur3_32(b"", 1), 0x514e_28b7);
        assert_eq!(murmur3_32(b"test", 0), 0xba6b_d213);
        assert_eq!(murmur3_32(b"Hello, world!", 0), 0xc036_3e43);
        assert_eq!(
            murmur3_32(b"The quick brown fox jumps over the lazy dog", 0),
            0x2e4f_f723
        );
    }

    #[test]
    fn every_shard_gets_a_fair_share() {
        let shards = NonZeroU16::new(4).expect("not zero");
        let mut counts = [0_u32; 4];
        for partition in 0..1000 {
            let namespace =
                Namespace::new(StreamId(1), TopicId(1), PartitionId(partition)).expect("fits");
            counts[usize::from(owner_shard(namespace, shards).0)] += 1;
        }
        assert!(
            counts.iter().all(|count| (200..=300).contains(count)),
            "{counts:?}"
        );
    }
}
