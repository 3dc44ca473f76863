//! Masking: XOR with a key of four bytes, which undoes itself.

/// Mask or unmask `bytes`, the first of which is at `position` in the payload of its frame.
pub fn apply_mask(bytes: &mut [u8], mut key: [u8; 4], position: u64) {
    key.rotate_left(usize::from(position.to_le_bytes()[0] % 4));
    let [a, b, c, d] = key;
    let word = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (words, rest) = bytes.as_chunks_mut::<8>();
    // Plain words, which the compiler vectorizes.
    for chunk in words {
        *chunk = (u64::from_ne_bytes(*chunk) ^ word).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(key.iter().cycle()) {
        *byte ^= key;
    }
}

/// Append a copy of `bytes` to `out` and mask it like [`apply_mask`].
pub fn mask_into(out: &mut Vec<u8>, bytes: &[u8], key: [u8; 4], position: u64) {
    let start = out.len();
    out.extend_from_slice(bytes);
    apply_mask(&mut out[start..], key, position);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Masking words of pieces is equal to the byte-wise definition.
        #[test]
        fn pieces_are_masked_as_the_whole(
            payload in prop::collection::vec(any::<u8>(), 0..200),
            key in any::<[u8; 4]>(),
            cut in 0_usize..200,
        ) {
            let expected: Vec<u8> =
                payload.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key).collect();
            let mut masked = payload;
            let cut = cut.min(masked.len());
            let (front, back) = masked.split_at_mut(cut);
            apply_mask(front, key, 0);
            apply_mask(back, key, cut as u64);
            prop_assert_eq!(masked, expected);
        }
    }
}
