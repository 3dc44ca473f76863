//! Scanning a journal. Input: replicas, checkpoint and highest synced operation (one byte each), then changes of a valid
//! file, each an offset (two bytes) and a value (one byte).
#![no_main]

use headrace_buffer::Slice;
use headrace_vsr::frame::area::Prepare;
use headrace_vsr::frame::{Frame, Intake, Operation, Origin, PrepareHeader};
use headrace_vsr::journal::{BLOCK_BYTES, GroupCommit, HEAD_BYTES, Scanner, encode_seal};
use headrace_vsr::superblock::Superblock;
use libfuzzer_sys::fuzz_target;

const INTAKE: Intake = Intake {
    cluster: 7,
    message_size_max: 1 << 20,
};

fuzz_target!(|bytes: &[u8]| {
    let Some((&[replicas, checkpoint, synced], changes)) = bytes.split_first_chunk() else {
        return;
    };
    let members = if replicas & 1 == 0 {
        vec![2]
    } else {
        vec![2, 3, 4]
    };
    let mut superblock = Superblock::new(7, 1, 2, 0, members, 0);
    superblock.checkpoint.op = u64::from(checkpoint % 8);

    let mut file = Vec::new();
    let mut parent = PrepareHeader::root(7, 1).checksum;
    let mut origin = Origin {
        cluster: 7,
        group: 1,
        ..Origin::default()
    };
    origin.view = u32::from(replicas >> 1 & 1);
    for first in [1, 4] {
        let mut group = GroupCommit::new(first - 1, origin.view);
        for op in first..first + 3 {
            let area = Prepare {
                parent,
                op,
                commit: op - 1,
                operation: Operation::NOOP,
                ..Prepare::default()
            };
            let frame = Frame::seal(origin, area, Slice::from_vec(vec![1; 500]));
            parent = frame.header.checksum;
            group.push(&frame);
        }
        file.extend_from_slice(&group.finish());
    }
    file.extend_from_slice(&encode_seal(u64::from(synced), 0));
    file.resize(file.len() + BLOCK_BYTES, 0);
    for &[low, high, value] in changes.as_chunks().0 {
        let offset = usize::from(u16::from_le_bytes([low, high])) % file.len();
        file[offset] = value;
    }

    let scan = |file: &[u8]| {
        let mut scanner = Scanner::new(&superblock, INTAKE);
        scanner.file(1, file);
        scanner.finish()
    };
    let first = scan(&file);
    assert!(first.entries.windows(2).all(|pair| pair[0].op < pair[1].op));
    assert!(
        first
            .entries
            .iter()
            .all(|entry| entry.op > superblock.checkpoint.op)
    );
    for place in &first.places {
        assert!(place.offset as usize + HEAD_BYTES <= file.len());
    }
    for entry in first.entries.iter().filter(|entry| entry.intact) {
        let header = entry.header.expect("of every intact record");
        assert_eq!(header.op(), entry.op);
        assert!(
            first
                .places
                .iter()
                .any(|place| place.checksum == header.checksum)
        );
    }
    // Erased records do not reappear.
    for span in &first.erase {
        for (place, byte) in file[span.offset as usize..].iter_mut().zip(span.bytes()) {
            *place = byte;
        }
    }
    let again = scan(&file);
    assert_eq!(again.entries, first.entries);
    assert!(again.erase.is_empty());
});
