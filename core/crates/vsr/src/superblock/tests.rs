//! Tests of superblocks: any single fault leaves the newest one readable and never brings back an older one.

use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::frame::area::Prepare;
use crate::frame::{Operation, Origin, PrepareHeader};

const CLUSTER: u128 = 77;

fn first() -> Superblock {
    Superblock::new(CLUSTER, 1, 500, 1, vec![400, 500, 600], 0)
}

fn successor(previous: &Superblock) -> Superblock {
    Superblock {
        sequence: previous.sequence + 1,
        parent: previous.checksum(),
        view: RecordedView {
            number: previous.view.number + 1,
            ..previous.view.clone()
        },
        ..previous.clone()
    }
}

/// Create the headers of a log, from `head` down.
fn suffix(head: u64, count: usize) -> Vec<PrepareHeader> {
    let mut parent = 0;
    let mut headers: Vec<_> = (0..count as u64)
        .map(|index| {
            let origin = Origin {
                cluster: CLUSTER,
                group: 1,
                ..Origin::default()
            };
            let area = Prepare {
                parent,
                op: head + 1 + index - count as u64,
                operation: Operation::NOOP,
                ..Prepare::default()
            };
            let header = PrepareHeader::seal(origin, area, b"");
            parent = header.checksum;
            header
        })
        .collect();
    headers.reverse();
    headers
}

fn write(bytes: &mut [u8], superblock: &Superblock, copies: impl IntoIterator<Item = usize>) {
    for copy in copies {
        bytes[copy * COPY_BYTES..][..COPY_BYTES].copy_from_slice(&*superblock.encode(copy));
    }
}

fn written(superblock: &Superblock) -> Vec<u8> {
    let mut bytes = vec![0; SUPERBLOCK_BYTES];
    write(&mut bytes, superblock, 0..COPIES);
    bytes
}

#[test]
fn what_was_written_is_opened() {
    let superblock = first();
    let opened = open(&written(&superblock)).expect("whole");
    assert_eq!(opened.superblock, superblock);
    assert!(opened.repair.is_empty());
}

#[test]
fn without_two_copies_nothing_is_opened() {
    assert_eq!(open(&[0; 100]), Err(OpenError::Length(100)));
    assert_eq!(open(&vec![0; SUPERBLOCK_BYTES]), Err(OpenError::Empty));
    let mut bytes = written(&first());
    for copy in 0..3 {
        bytes[copy * COPY_BYTES + 500] ^= 1;
    }
    assert_eq!(open(&bytes), Err(OpenError::Damaged(CopyError::Checksum)));
}

#[test]
fn a_newer_version_is_named() {
    let mut bytes = written(&first());
    for copy in bytes.chunks_exact_mut(COPY_BYTES) {
        copy[40] = 2;
        let checksum = checksum_copy(copy.first_chunk().expect("a whole copy"));
        copy[..16].copy_from_slice(&checksum.to_le_bytes());
    }
    assert_eq!(open(&bytes), Err(OpenError::Version(2)));
}

#[test]
fn copies_in_the_place_of_others_do_not_count() {
    let superblock = first();
    let mut bytes = written(&superblock);
    let copy = superblock.encode(0);
    for place in 1..COPIES {
        bytes[place * COPY_BYTES..][..COPY_BYTES].copy_from_slice(&*copy);
    }
    assert_eq!(open(&bytes), Err(OpenError::Damaged(CopyError::Misplaced)));
}

#[test]
fn two_contents_of_one_sequence_are_refused() {
    let one = first();
    let other = Superblock {
        commit_max: 9,
        ..one.clone()
    };
    let mut bytes = written(&one);
    write(&mut bytes, &other, 2..4);
    assert_eq!(open(&bytes), Err(OpenError::Fork(1)));
}

#[test]
fn ctl_1_nothing_goes_backwards() {
    let previous = Superblock {
        commit_max: 5,
        incarnation: 3,
        view: RecordedView {
            number: 4,
            log_view: 4,
            ..first().view
        },
        ..successor(&first())
    };
    let next = successor(&previous);
    assert_eq!(next.check_succession(&previous), Ok(()));
    let changed = |change: &dyn Fn(&mut Superblock)| {
        let mut next = next.clone();
        change(&mut next);
        next.check_succession(&previous)
    };
    let backwards = |name| Err(SuccessionError::Backwards(name));
    assert_eq!(
        changed(&|next| next.sequence = previous.sequence),
        backwards("sequence")
    );
    assert_eq!(
        changed(&|next| (next.view.number, next.view.log_view) = (3, 3)),
        backwards("view")
    );
    assert_eq!(
        changed(&|next| next.view.log_view = 3),
        backwards("log_view")
    );
    assert_eq!(
        changed(&|next| next.incarnation = 2),
        backwards("incarnation")
    );
    assert_eq!(
        changed(&|next| next.commit_max = 4),
        backwards("commit_max")
    );
    assert_eq!(
        changed(&|next| next.node_id = 1),
        Err(SuccessionError::Identity)
    );
    assert_eq!(
        changed(&|next| next.view.log_view = 99),
        Err(SuccessionError::Content)
    );
    assert_eq!(
        changed(&|next| next.view.headers.clear()),
        Err(SuccessionError::Content)
    );
    assert_eq!(
        changed(&|next| next.view.head_op = 1),
        Err(SuccessionError::Content)
    );
}

#[test]
fn reserved_bytes_are_zero() {
    for reserved in [170, 232, 271] {
        let mut bytes = first().encode(0);
        bytes[reserved] = 1;
        let checksum = checksum_copy(&bytes);
        bytes[..16].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(Superblock::decode(&bytes, 0), Err(CopyError::Content));
    }
}

#[test]
fn headers_of_a_suffix_are_linked() {
    let mut superblock = first();
    superblock.view.head_op = 9;
    superblock.view.headers = suffix(9, 5);
    assert!(superblock.is_consistent());
    let mut blank = superblock.clone();
    blank.view.headers[2] = PrepareHeader::blank(7);
    assert!(blank.is_consistent(), "what is unknown contradicts nothing");
    superblock.view.headers.remove(2);
    assert!(!superblock.is_consistent());
}

proptest! {
    #[test]
    fn every_field_comes_back(
        numbers: (u128, u64, u64, u32, u64, u64, u128, bool),
        members in 1..=7usize,
        count in 1..=33usize,
        head in 33..1000u64,
        copy in 0..COPIES,
    ) {
        let (parent, sequence, node_id, view, commit_max, incarnation, boot_id, clean_shutdown) = numbers;
        let superblock = Superblock {
            parent,
            sequence: sequence.max(1),
            node_id,
            view: RecordedView {
                number: view,
                log_view: view / 2,
                loss_view: view / 3,
                head_op: head,
                headers: suffix(head, count),
                ..first().view
            },
            commit_max,
            incarnation,
            boot_id,
            clean_shutdown,
            members: (0..members as u64).map(|node| node ^ node_id).collect(),
            replica: 0,
            checkpoint: Checkpoint {
                op: head,
                header: suffix(head, 1)[0],
                id: parent ^ 1,
                artifact: node_id,
                len: commit_max,
                digest: boot_id,
            },
            ..first()
        };
        prop_assert_eq!(Superblock::decode(&superblock.encode(copy), copy), Ok(superblock));
    }

    /// A crash at any byte of a write leaves the previously durable superblock or the new one. Between two writes, one
    /// damaged byte has no effect.
    #[test]
    fn ctl_1_a_crash_leaves_the_newest_durable_superblock(
        cut in prop_oneof![Just(0), Just(SUPERBLOCK_BYTES), 0..=SUPERBLOCK_BYTES],
        damaged in 0..SUPERBLOCK_BYTES,
    ) {
        let old = successor(&first());
        let new = successor(&old);
        let mut bytes = written(&old);
        bytes[..cut].copy_from_slice(&written(&new)[..cut]);
        if cut == 0 || cut == SUPERBLOCK_BYTES {
            bytes[damaged] ^= 1;
        }
        let opened = open(&bytes).expect("one pair is whole");
        if cut == SUPERBLOCK_BYTES {
            prop_assert_eq!(&opened.superblock, &new);
        } else {
            prop_assert!(opened.superblock == old || opened.superblock == new);
        }
        // Rewriting the outdated copies makes all four agree.
        write(&mut bytes, &opened.superblock, opened.repair);
        let again = open(&bytes).expect("repaired");
        prop_assert_eq!(again.superblock, opened.superblock);
        prop_assert!(again.repair.is_empty());
    }

    #[test]
    fn one_damaged_copy_of_each_pair_is_survived(a in 0..2 * COPY_BYTES, b in 2 * COPY_BYTES..4 * COPY_BYTES, bits in 1..=255u8) {
        let superblock = successor(&first());
        let mut bytes = written(&superblock);
        bytes[a] ^= bits;
        bytes[b] ^= bits;
        let opened = open(&bytes).expect("two copies are whole");
        prop_assert_eq!(opened.superblock, superblock);
        prop_assert_eq!(opened.repair, [a / COPY_BYTES, b / COPY_BYTES]);
    }

    #[test]
    fn any_bytes_are_opened_or_refused(head in prop::collection::vec(any::<u8>(), 0..600), at in 0..SUPERBLOCK_BYTES) {
        let mut bytes = written(&first());
        let end = (at + head.len()).min(SUPERBLOCK_BYTES);
        bytes[at..end].copy_from_slice(&head[..end - at]);
        let _ = open(&bytes);
    }
}
