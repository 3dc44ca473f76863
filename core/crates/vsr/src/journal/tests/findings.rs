//! Test cases of scan results.

use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::api::RecoveredEntry;

#[test]
fn heads_are_distinguished_from_other_bytes() {
    let head = RecordHeader {
        len: 256,
        op: 5,
        synced: 4,
        log_view: 3,
    };
    let bytes = head.encode();
    assert_eq!(RecordHeader::parse(&bytes), Some(head));
    assert_eq!(RecordHeader::parse(&bytes[..31]), None);
    assert_eq!(RecordHeader::parse(&[0; 32]), None);
    for at in 0..HEAD_BYTES {
        let mut damaged = bytes;
        damaged[at] ^= 1;
        assert_eq!(RecordHeader::parse(&damaged), None);
    }
    let seal = RecordHeader::seal(9, 2);
    assert!(seal.is_seal());
    assert_eq!(RecordHeader::parse(&encode_seal(9, 2)), Some(seal));
    let neither = RecordHeader { len: 256, ..seal };
    assert_eq!(RecordHeader::parse(&neither.encode()), None);
}

#[test]
fn ctl_1_an_undamaged_journal_is_read_completely() {
    let frames = chain(1, 10, 0, 3000);
    let mut journal = Journal::new();
    journal.sync(&frames[..1]);
    journal.sync(&frames[1..7]);
    journal.seal();
    journal.sync(&frames[7..]);
    for replicas in [1, 3] {
        let scan = journal.scan(&superblock(replicas));
        let expected: Vec<_> = frames
            .iter()
            .map(|frame| RecoveredEntry {
                op: frame.header.op(),
                header: Some(frame.header),
                intact: true,
            })
            .collect();
        assert_eq!(scan.entries, expected);
        assert_eq!(scan.position, journal.position as u64);
        // A start acknowledges what it recovered: the next head says so.
        assert_eq!((scan.torn, scan.synced), (None, 10));
        assert!(scan.erase.is_empty());
        let place = scan.places[4];
        assert_eq!((place.op, place.checksum), (5, frames[4].header.checksum));
        let at = place.offset as usize + HEAD_BYTES;
        let bytes = &journal.bytes[at..at + place.frame_bytes as usize];
        assert_eq!(bytes, frames[4].encode());
    }
}

#[test]
fn an_empty_journal_holds_nothing() {
    assert_eq!(
        Scanner::new(&superblock(3), INTAKE).finish(),
        Scan::default()
    );
    let empty = Journal::new().scan(&superblock(1));
    assert_eq!(empty, Scan::default());
}

#[test]
fn ctl_1_a_torn_append_is_forgotten_and_erased() {
    let frames = chain(1, 3, 0, 3000);
    let mut journal = Journal::new();
    journal.sync(&frames[..2]);
    let torn = journal.write(&frames[2..]);
    journal.bytes[torn.start + 1024..].fill(0);
    for replicas in [1, 3] {
        let scan = journal.scan(&superblock(replicas));
        assert_eq!(intact(&scan), [1, 2]);
        assert_eq!(faulty(&scan), []);
        assert_eq!(scan.torn, Some(3));
        assert_eq!(scan.erase.len(), 1);
        assert!(scan.position as usize > torn.start);
    }
}

#[test]
fn ctl_1_what_was_durable_and_is_damaged_is_faulty() {
    for at in [0, 8, 40, 700] {
        let frames = chain(1, 5, 0, 3000);
        let mut journal = Journal::new();
        journal.sync(&frames);
        journal.seal();
        journal.damage(5, at);
        let scan = journal.scan(&superblock(3));
        assert_eq!(intact(&scan), [1, 2, 3, 4]);
        assert_eq!(faulty(&scan), [5]);
        // The header is kept when only the body is damaged.
        assert_eq!(scan.entries[4].header.is_some(), at == 700);
        // A record without its head is indistinguishable from one that was never written.
        let has_head = at >= HEAD_BYTES;
        assert_eq!(scan.damaged().count(), usize::from(has_head));
        assert_eq!(scan.missing(), usize::from(!has_head));
        assert_eq!(
            faulty(&journal.scan(&superblock(1))),
            [5],
            "alone it is missed as well"
        );
    }
}

#[test]
fn ctl_1_a_lost_file_leaves_faulty_operations() {
    let frames = chain(1, 6, 0, 100);
    let mut journal = Journal::new();
    journal.sync(&frames[..3]);
    let mut second = Journal::new();
    second.synced = journal.synced;
    second.sync(&frames[3..5]);
    second.sync(&frames[5..]);

    let superblock = superblock(3);
    assert_eq!(faulty(&second.scan(&superblock)), [1, 2, 3]);

    let committed = Superblock {
        commit_max: 6,
        ..superblock
    };
    let scan = journal.scan(&committed);
    let why = "the file ends before what is committed";
    assert_eq!(faulty(&scan), [4, 5, 6], "{why}");
    // The record may never have been written: no reason to replace a disk.
    assert_eq!((scan.damaged().count(), scan.missing()), (0, 3));
}

#[test]
fn ctl_1_alone_a_hole_in_an_unsynced_write_is_no_damage() {
    let frames = chain(1, 6, 0, 4000);
    let mut journal = Journal::new();
    journal.sync(&frames[..2]);
    let torn = journal.write(&frames[2..]);
    // Power loss: the second block of the write never reached the disk, the others did.
    journal.bytes[torn.start + 4096..torn.start + 8192].fill(0);
    let scan = journal.scan(&superblock(1));
    assert_eq!((intact(&scan), faulty(&scan)), (vec![1, 2], vec![]));
    journal.erase(&scan);
    let again = journal.scan(&superblock(1));
    assert_eq!(intact(&again), [1, 2]);
    assert!(again.erase.is_empty());
    // In a group, an operation known to be committed is repaired and not forgotten.
    journal.write(&frames[5..]);
    let scan = journal.scan(&superblock(3));
    assert_eq!(
        (intact(&scan), faulty(&scan)),
        (vec![1, 2, 6], vec![3, 4, 5])
    );
}

/// The same in a group. If all replicas lost power during the same group commit and took such a hole for damage, no
/// view could begin any more: none of them would nack an operation that none of them has.
#[test]
fn ctl_5_a_hole_in_an_unsynced_write_is_no_damage() {
    let frames = pipelined(6, 2, 4000);
    let mut journal = Journal::new();
    journal.sync(&frames[..2]);
    let torn = journal.write(&frames[2..]);
    // The second block of the write never reached the disk, which breaks operation 3, the others did.
    journal.bytes[torn.start + 4096..torn.start + 8192].fill(0);
    let superblock = superblock(3);
    let scan = journal.scan(&superblock);
    assert_eq!(faulty(&scan), []);
    assert!(!intact(&scan).contains(&3));
    assert_eq!(intact(&scan).last(), Some(&6), "a copy is a copy");
    assert_eq!(scan.synced, 2);
    // If the write is known to have been synced, the hole is damage.
    journal.synced = 6;
    journal.seal();
    assert!(faulty(&journal.scan(&superblock)).contains(&3));
}

/// The evidence of a torn record about earlier records stays valid when the record is overwritten.
#[test]
fn ctl_1_erasing_a_torn_record_keeps_its_evidence() {
    let frames = chain(1, 3, 0, 1000);
    for replicas in [1, 3] {
        let superblock = superblock(replicas);
        let mut journal = Journal::new();
        journal.sync(&frames[..2]);
        let torn = journal.write(&frames[2..]);
        journal.bytes[torn.start + 512..torn.end].fill(0);
        journal.damage(2, 700);
        let scan = journal.scan(&superblock);
        // With a single replica the server refuses to start and overwrites nothing.
        let expected = if replicas == 1 {
            (vec![2, 3], None)
        } else {
            (vec![2], Some(3))
        };
        assert_eq!((faulty(&scan), scan.torn), expected);
        journal.erase(&scan);
        assert_eq!(faulty(&journal.scan(&superblock)), faulty(&scan));
    }
}

#[test]
fn of_several_records_the_last_one_counts() {
    let frames = chain(1, 3, 0, 1000);
    let mut journal = Journal::new();
    journal.sync(&frames);
    journal.damage(2, 500);
    journal.sync(&frames[1..2]);
    assert_eq!(intact(&journal.scan(&superblock(3))), [1, 2, 3]);
    // The newer record is damaged, but an older one has the same bytes.
    let mut journal = Journal::new();
    journal.sync(&frames);
    journal.sync(&frames[1..2]);
    journal.seal();
    journal.damage(2, 500);
    assert_eq!(intact(&journal.scan(&superblock(3))), [1, 2, 3]);
    // If even its header is unreadable, the older record may belong to another prepare.
    journal.damage(2, 60);
    assert_eq!(faulty(&journal.scan(&superblock(3))), [2]);
}

#[test]
fn records_of_others_are_damage_at_best() {
    let frames = chain(1, 3, 0, 100);
    let mut journal = Journal::new();
    journal.sync(&frames);
    journal.seal();
    let unrelated = Superblock {
        group: 2,
        ..superblock(3)
    };
    assert_eq!(intact(&journal.scan(&unrelated)), []);
    // Misdirected write: the record is intact, but does not match its head.
    let (one, two) = (
        journal.places[0].1 + HEAD_BYTES,
        journal.places[1].1 + HEAD_BYTES,
    );
    let bytes = journal.bytes[one..one + 356].to_vec();
    journal.bytes[two..two + 356].copy_from_slice(&bytes);
    let scan = journal.scan(&superblock(3));
    assert_eq!((intact(&scan), faulty(&scan)), (vec![1, 3], vec![2]));
    assert_eq!(scan.entries[1].header, None);
}

#[test]
fn ctl_1_a_cut_log_is_not_missed() {
    let mut journal = Journal::new();
    let old = chain(1, 8, 0, 500);
    journal.sync(&old[..6]);
    journal.sync(&old[6..]);
    journal.seal();
    // View 1 begins with op 5: the rest is cut, which seals and heads do not record.
    let mut superblock = superblock(3);
    superblock.view.number = 1;
    superblock.view.log_view = 1;
    superblock.view.head_op = 5;
    superblock.view.start_op = 5;
    superblock.view.headers = vec![old[4].header];
    let before = journal.scan(&superblock);
    assert_eq!(
        intact(&before),
        [1, 2, 3, 4, 5, 6, 7, 8],
        "the protocol cuts them, not the scan"
    );
    journal.cut(6);
    let scan = journal.scan(&superblock);
    assert_eq!(
        (intact(&scan), faulty(&scan)),
        (vec![1, 2, 3, 4, 5], vec![])
    );
    assert_eq!(scan.synced, 5);

    // Appends of view 1 count in full.
    journal.log_view = 1;
    let sixth = prepare(6, 1, old[4].header.checksum, 500);
    let seventh = prepare(7, 1, sixth.header.checksum, 500);
    journal.sync(&[sixth]);
    journal.sync(&[seventh]);
    journal.seal();
    assert_eq!(intact(&journal.scan(&superblock)).len(), 7);
    journal.damage(7, 600);
    let scan = journal.scan(&superblock);
    assert_eq!((scan.synced, faulty(&scan)), (7, vec![7]));
}

/// The superblock records the log head when a view is left, possibly beyond the records stored here. Seals from before
/// that view know nothing of those operations: an operation without a record was never stored here, and is nacked.
#[test]
fn ctl_1_seals_of_a_lost_view_say_nothing_of_what_took_its_place() {
    let old = chain(1, 8, 0, 500);
    let mut journal = Journal::new();
    journal.sync(&old);
    journal.seal();
    // View 1 began with op 5, advanced to op 8, and was left. This replica has its op 6 and the headers of two more.
    let sixth = prepare(6, 1, old[4].header.checksum, 500);
    let seventh = prepare(7, 1, sixth.header.checksum, 500);
    let mut superblock = superblock(3);
    superblock.view.number = 2;
    superblock.view.log_view = 1;
    superblock.view.head_op = 8;
    superblock.view.start_op = 5;
    superblock.view.headers = vec![
        PrepareHeader::blank(8),
        seventh.header,
        sixth.header,
        old[4].header,
    ];
    // The crash comes before the cut: the old records are strays and prove nothing about the new log.
    let scan = journal.scan(&superblock);
    assert_eq!((scan.synced, faulty(&scan)), (5, vec![]));

    journal.cut(6);
    journal.log_view = 1;
    journal.sync(&[sixth]);
    let scan = journal.scan(&superblock);
    assert_eq!(
        (intact(&scan), faulty(&scan)),
        (vec![1, 2, 3, 4, 5, 6], vec![])
    );
    journal.seal();
    journal.damage(6, 600);
    let scan = journal.scan(&superblock);
    assert_eq!((scan.synced, faulty(&scan)), (6, vec![6]));
}

/// A view that began with a shorter log lies between an old seal and the newest recorded view, which began beyond it: the
/// operations that the seal refers to were cut, and those that took their places were never stored here.
#[test]
fn ctl_1_seals_from_before_a_cut_say_nothing_of_a_later_and_longer_log() {
    let old = chain(1, 8, 0, 500);
    let mut journal = Journal::new();
    journal.sync(&old);
    journal.seal();
    // View 1 began with op 5, and this replica has its op 6.
    journal.cut(6);
    journal.log_view = 1;
    let sixth = prepare(6, 1, old[4].header.checksum, 500);
    let seventh = prepare(7, 1, sixth.header.checksum, 500);
    let eighth = prepare(8, 1, seventh.header.checksum, 500);
    let headers = vec![eighth.header, seventh.header, sixth.header];
    journal.sync(&[sixth]);
    // View 3 began with op 8, whose body is to be repaired.
    let mut superblock = superblock(3);
    superblock.view.number = 3;
    superblock.view.log_view = 3;
    superblock.view.head_op = 8;
    superblock.view.start_op = 8;
    superblock.view.headers = headers;
    let scan = journal.scan(&superblock);
    assert_eq!(
        (scan.synced, intact(&scan), faulty(&scan)),
        (6, vec![1, 2, 3, 4, 5, 6], vec![])
    );

    journal.log_view = 3;
    journal.sync(&[seventh]);
    journal.seal();
    journal.damage(7, 600);
    let scan = journal.scan(&superblock);
    assert_eq!((scan.synced, faulty(&scan)), (7, vec![7]));
}

/// A file may have no space for a seal behind the records that are cut. The next view begins with a longer log again, and the
/// append of the operation that takes the place of a cut one is torn.
#[test]
fn ctl_1_a_cut_is_sealed_in_the_place_of_the_records() {
    let old = chain(1, 8, 0, 500);
    let mut journal = Journal::new();
    journal.sync(&old);
    journal.seal();
    journal.cut(8);
    let eighth = prepare(8, 1, old[6].header.checksum, 500);
    let torn = journal.write(core::slice::from_ref(&eighth));
    journal.bytes[torn.start + SECTOR..torn.end].fill(0);
    let mut superblock = superblock(3);
    superblock.view.number = 2;
    superblock.view.log_view = 2;
    superblock.view.head_op = 8;
    superblock.view.start_op = 8;
    superblock.view.headers = vec![eighth.header, old[6].header];
    let scan = journal.scan(&superblock);
    assert_eq!((scan.synced, faulty(&scan)), (7, vec![]));
}

/// A host may write a seal after a view is recorded and before the view has cut the journal. It states what is cut then.
#[test]
fn ctl_1_a_seal_from_before_a_cut_of_the_same_view_says_nothing_of_what_took_its_place() {
    let old = chain(1, 8, 0, 500);
    let mut journal = Journal::new();
    journal.sync(&old);
    journal.log_view = 1;
    journal.seal();
    journal.cut(6);
    journal.seal();
    let mut superblock = superblock(3);
    superblock.view.number = 1;
    superblock.view.log_view = 1;
    superblock.view.head_op = 5;
    superblock.view.start_op = 5;
    superblock.view.headers = vec![old[4].header];
    let scan = journal.scan(&superblock);
    assert_eq!((scan.synced, faulty(&scan)), (5, vec![]));
    // The operation that takes the place of a cut one is torn: it was never durable here.
    let sixth = prepare(6, 1, old[4].header.checksum, 500);
    let torn = journal.write(&[sixth]);
    journal.bytes[torn.start + SECTOR..torn.end].fill(0);
    let scan = journal.scan(&superblock);
    assert_eq!((faulty(&scan), scan.torn), (vec![], Some(6)));
}

/// The first record of a view, the only one that proves that the view has written anything, is damaged or lost: the
/// seal behind it is sufficient evidence.
#[test]
fn ctl_1_the_first_record_of_a_view_is_missed() {
    for replicas in [1, 3] {
        let mut superblock = superblock(replicas);
        superblock.view.number = 3;
        superblock.view.log_view = 3;
        for at in [0, 20, 60, 400] {
            let mut journal = Journal::new();
            journal.log_view = 3;
            journal.sync(&chain(1, 1, 3, 500));
            journal.seal();
            journal.damage(1, at);
            assert_eq!(faulty(&journal.scan(&superblock)), [1]);
            let (_, offset, len) = journal.places[0];
            journal.bytes[offset..offset + len].fill(0);
            assert_eq!(faulty(&journal.scan(&superblock)), [1]);
        }
    }
}

#[test]
fn strays_do_not_make_holes_below_them_damage() {
    let old = chain(1, 8, 0, 500);
    let mut journal = Journal::new();
    journal.sync(&old);
    let mut superblock = superblock(3);
    superblock.view.number = 1;
    superblock.view.log_view = 1;
    superblock.view.head_op = 4;
    superblock.view.start_op = 4;
    superblock.view.headers = vec![old[3].header];
    // The cut progressed as far as op 6 before the crash.
    let (_, offset, len) = journal.places[5];
    journal.bytes[offset..offset + len].fill(0);
    let scan = journal.scan(&superblock);
    assert_eq!(
        (intact(&scan), faulty(&scan)),
        (vec![1, 2, 3, 4, 5, 7, 8], vec![])
    );
}

#[test]
fn operations_of_the_checkpoint_are_not_listed() {
    let frames = chain(1, 6, 0, 100);
    let mut journal = Journal::new();
    journal.sync(&frames);
    journal.damage(2, 100);
    let mut superblock = superblock(3);
    superblock.checkpoint.op = 4;
    superblock.checkpoint.header = frames[3].header;
    let scan = journal.scan(&superblock);
    assert_eq!(scan.entries.len(), 2);
    assert_eq!(scan.places.len(), 6, "they can be served all the same");

    // The log may end below its checkpoint: the checkpoint was transferred, or the log was lost with a file.
    superblock.checkpoint.op = 9;
    for file in [&journal, &Journal::new()] {
        let scan = file.scan(&superblock);
        assert_eq!((scan.entries, scan.torn), (vec![], None));
    }
}
