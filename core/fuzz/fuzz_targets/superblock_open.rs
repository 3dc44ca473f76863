//! Opening a superblock. Input: changes of a valid one, each a copy (one byte, also with a flag to correct the
//! checksum), an offset (two bytes) and a value (one byte).
#![no_main]

use headrace_vsr::superblock::{
    COPIES, COPY_BYTES, SUPERBLOCK_BYTES, Superblock, checksum_copy, open,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let superblock = Superblock::new(7, 1, 3, 1, vec![2, 3, 4], 0);
    let mut copies = Vec::with_capacity(SUPERBLOCK_BYTES);
    for copy in 0..COPIES {
        copies.extend_from_slice(&*superblock.encode(copy));
    }
    for &[copy, low, high, value] in bytes.as_chunks().0 {
        let offset = usize::from(u16::from_le_bytes([low, high])) % COPY_BYTES;
        let from = usize::from(copy % 4) * COPY_BYTES;
        copies[from + offset] = value;
        if copy & 0x80 != 0 {
            let bytes: &mut [u8; COPY_BYTES] =
                copies[from..].first_chunk_mut().expect("a whole copy");
            let checksum = checksum_copy(bytes);
            bytes[..16].copy_from_slice(&checksum.to_le_bytes());
        }
    }
    let Ok(opened) = open(&copies) else {
        return;
    };
    assert!(opened.superblock.is_consistent());
    assert!(opened.repair.len() <= 2);
    for copy in opened.repair {
        copies[copy * COPY_BYTES..][..COPY_BYTES].copy_from_slice(&*opened.superblock.encode(copy));
    }
    let again = open(&copies).expect("repaired");
    assert_eq!(again.superblock, opened.superblock);
    assert!(again.repair.is_empty());
});
