//! Size classes of the pool (SHARD-8).

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Number of size classes.
pub const CLASS_COUNT: usize = 32;

/// Powers of two below 64 KiB; finer above, where rounding up costs real memory. The steps are closest just above
/// 1 MiB: a batch of a thousand messages of 1000 bytes is 1,080,000 bytes on the wire.
const SIZES_BYTES: [usize; CLASS_COUNT] = [
    256,
    512,
    KIB,
    2 * KIB,
    4 * KIB,
    8 * KIB,
    16 * KIB,
    32 * KIB,
    64 * KIB,
    96 * KIB,
    128 * KIB,
    192 * KIB,
    256 * KIB,
    384 * KIB,
    512 * KIB,
    768 * KIB,
    MIB,
    1152 * KIB,
    1280 * KIB,
    1536 * KIB,
    2 * MIB,
    3 * MIB,
    4 * MIB,
    6 * MIB,
    8 * MIB,
    12 * MIB,
    16 * MIB,
    32 * MIB,
    64 * MIB,
    128 * MIB,
    256 * MIB,
    512 * MIB,
];

/// Size of every buffer of a class in bytes.
///
/// # Panics
/// If `class` is not below [`CLASS_COUNT`].
pub const fn class_size_bytes(class: usize) -> usize {
    SIZES_BYTES[class]
}

/// Smallest class that holds `len_bytes`; None above 512 MiB.
pub(crate) fn class_for(len_bytes: usize) -> Option<usize> {
    let class = SIZES_BYTES.partition_point(|&size| size < len_bytes);
    (class < CLASS_COUNT).then_some(class)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHARD-8: 32 classes from 256 B to 512 MiB.
    #[test]
    fn classes_span_the_promised_range_in_ascending_order() {
        assert_eq!(SIZES_BYTES[0], 256);
        assert_eq!(SIZES_BYTES[CLASS_COUNT - 1], 512 * MIB);
        assert!(SIZES_BYTES.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(
            SIZES_BYTES
                .iter()
                .all(|size| *size < 4 * KIB || size % 4096 == 0)
        );
    }

    #[test]
    fn a_request_gets_the_smallest_class_that_holds_it() {
        assert_eq!(class_for(0), Some(0));
        assert_eq!(class_for(256), Some(0));
        assert_eq!(class_for(257), Some(1));
        assert_eq!(class_for(MIB + 64).map(class_size_bytes), Some(1152 * KIB));
        assert_eq!(class_for(1_080_020).map(class_size_bytes), Some(1152 * KIB));
        assert_eq!(class_for(512 * MIB), Some(CLASS_COUNT - 1));
        assert_eq!(class_for(512 * MIB + 1), None);
    }
}
