//! Hash functions fixed by the protocol.

use core::fmt;
use core::hash::Hasher as _;

use twox_hash::xxhash3_64::{DEFAULT_SECRET_LENGTH, RawHasher, SecretBuffer};
use twox_hash::{XxHash3_64, XxHash32};

/// XXH32 with seed 0: used for keys of named consumers, partitioning by messages key, and client ids.
pub fn xxh32(bytes: &[u8]) -> u32 {
    XxHash32::oneshot(0, bytes)
}

/// XXH3-64 with seed 0 and the default secret: checksums of messages.
#[inline]
pub fn xxh3_64(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// XXH3-64 of bytes that come in pieces.
#[derive(Clone)]
pub struct Xxh3(RawHasher<[u8; DEFAULT_SECRET_LENGTH]>);

impl Xxh3 {
    /// Begin with no bytes.
    ///
    /// # Panics
    /// Never: the secret has the length that it must have.
    pub fn new() -> Self {
        let secret = SecretBuffer::with_seed(0, [0; DEFAULT_SECRET_LENGTH]);
        Self(RawHasher::new(secret.expect("the length is right")))
    }

    /// Take the next bytes.
    pub fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// Hash of all bytes so far: what [`xxh3_64`] returns for them.
    pub fn hash(&self) -> u64 {
        self.0.finish()
    }
}

impl Default for Xxh3 {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Xxh3 {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Xxh3({:016x})", self.hash())
    }
}

/// Client id that the reference server assigns to a connection from this `ip:port` (`[ip]:port` for IPv6).
///
/// A server may assign other ids, as long as they are unique and not 0.
pub fn client_id(address: &str) -> u32 {
    xxh32(address.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Consumer, ConsumerKind, Identifier, Partitioning};

    /// Values from the protocol reference, section 8.
    #[test]
    fn matches_the_published_values() {
        let values: [(&[u8], u32, u64); 6] = [
            (b"", 0x02cc_5d05, 0x2d06_8005_38d3_94c2),
            (b"a", 0x550d_7456, 0xe6c6_32b6_1e96_4e1f),
            (b"abc", 0x32d1_53ff, 0x78af_5f94_892f_3950),
            (b"user-123", 0x0cc9_ec8c, 0xfc4b_76c4_e477_7e39),
            (b"my-consumer", 0x7e13_444f, 0xf990_6c59_d5b8_de31),
            (b"127.0.0.1:54321", 0x9df7_e1e5, 0x7272_a4f2_4240_8c98),
        ];
        for (bytes, short, long) in values {
            assert_eq!(xxh32(bytes), short);
            assert_eq!(xxh3_64(bytes), long);
            let mut hash = Xxh3::new();
            bytes.chunks(3).for_each(|piece| hash.write(piece));
            assert_eq!(hash.hash(), long);
        }
    }

    #[test]
    fn keys_follow_from_the_hash() {
        assert_eq!(Partitioning::partition_for_key(b"user-123", 3), Some(1));
        assert_eq!(Partitioning::partition_for_key(b"user-123", 0), None);
        let consumer = |id| Consumer {
            kind: ConsumerKind::Consumer,
            id,
        };
        assert_eq!(
            consumer(Identifier::Named("my-consumer")).key(),
            2_115_191_887
        );
        assert_eq!(consumer(Identifier::Numeric(7)).key(), 7);
        assert_eq!(client_id("127.0.0.1:54321"), 2_650_268_133);
    }
}
