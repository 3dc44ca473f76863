use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use headrace_buffer::Buffer;
use headrace_log::storage::{StorageCompletion, StorageOperation, StorageOutcome, StorageRequest};

use super::opening::FILE_BYTES_MAX;
use super::*;
use crate::record::RECORD_BYTES;

const ALICE: ConsumerKey = ConsumerKey::Consumer(1);
const GROUP: ConsumerKey = ConsumerKey::Group(1);
const CONSUMERS_MAX: usize = 100_000;

/// Execute the requested operations on `file`, one after the other.
fn settle(offsets: &mut StoredOffsets, out: &mut Vec<StorageRequest>, file: &mut Vec<u8>) -> usize {
    let mut executed = 0;
    while let Some(StorageRequest { id, operation }) = out.pop() {
        executed += 1;
        let outcome = match operation {
            StorageOperation::Create { .. } => {
                file.clear();
                StorageOutcome::Done
            }
            StorageOperation::Write {
                position, slices, ..
            } => {
                assert_eq!(position, file.len() as u64);
                file.extend(slices.iter().flat_map(|slice| slice.iter().copied()));
                StorageOutcome::Done
            }
            StorageOperation::Replace { contents, .. } => {
                *file = contents;
                StorageOutcome::Done
            }
            StorageOperation::Read {
                position, length, ..
            } => {
                let start = usize::try_from(position).expect("within the file");
                assert!(length <= 1 << 20, "a part at a time");
                let end = start + length as usize;
                StorageOutcome::Read(Buffer::unpooled(&file[start..end]))
            }
            _ => StorageOutcome::Done,
        };
        let completion = StorageCompletion {
            id,
            result: Ok(outcome),
        };
        offsets
            .complete(Timestamp(0), completion, out)
            .expect("success");
        offsets.start(out);
    }
    executed
}

fn reopened(file: &mut Vec<u8>, end: u64) -> StoredOffsets {
    let mut offsets = StoredOffsets::new(CONSUMERS_MAX);
    let mut out = Vec::new();
    offsets
        .load(file.len() as u64, &mut out)
        .expect("its length is right");
    settle(&mut offsets, &mut out, file);
    if !offsets.correct(Offset(end), &mut out) {
        settle(&mut offsets, &mut out, file);
        assert!(offsets.correct(Offset(end), &mut out));
    }
    offsets
}

/// LOG-10: offsets are stored, deleted and found again.
#[test]
fn changes_survive_a_restart() {
    let (mut offsets, mut out, mut file) =
        (StoredOffsets::new(CONSUMERS_MAX), Vec::new(), Vec::new());
    offsets.load(0, &mut out).expect("there is no file");
    assert!(offsets.correct(Offset(100), &mut out));
    offsets.change(ALICE, Some(Offset(5)), None);
    offsets.change(GROUP, Some(Offset(7)), None);
    let last = offsets.change(ALICE, None, None);
    offsets.start(&mut out);
    assert!(!offsets.is_written(last));
    let executed = settle(&mut offsets, &mut out, &mut file);
    assert_eq!(executed, 2, "created, then all changes in one write");
    assert!(offsets.is_written(last));
    let offsets = reopened(&mut file, 100);
    assert_eq!(
        (offsets.get(ALICE), offsets.get(GROUP)),
        (None, Some(Offset(7)))
    );
}

/// LOG-15: an offset beyond the last message is lowered, and stays lowered.
#[test]
fn offsets_beyond_the_log_are_lowered_for_good() {
    let (mut offsets, mut out, mut file) =
        (StoredOffsets::new(CONSUMERS_MAX), Vec::new(), Vec::new());
    offsets.change(ALICE, Some(Offset(99)), None);
    offsets.start(&mut out);
    settle(&mut offsets, &mut out, &mut file);
    assert_eq!(reopened(&mut file, 50).get(ALICE), Some(Offset(49)));
    assert_eq!(reopened(&mut file, 200).get(ALICE), Some(Offset(49)));
    assert_eq!(reopened(&mut file, 0).get(ALICE), None);
    assert_eq!(reopened(&mut file, 200).get(ALICE), None);
}

/// LOG-15: an offset superseded by a smaller one does not come back when the smaller one is lost.
#[test]
fn replaced_offsets_beyond_the_log_are_forgotten() {
    let (mut offsets, mut out, mut file) =
        (StoredOffsets::new(CONSUMERS_MAX), Vec::new(), Vec::new());
    for offset in [99, 10] {
        offsets.change(ALICE, Some(Offset(offset)), None);
        offsets.start(&mut out);
        settle(&mut offsets, &mut out, &mut file);
    }
    assert_eq!(reopened(&mut file, 50).get(ALICE), Some(Offset(10)));
    assert_eq!(file.len(), RECORD_BYTES);
}

/// LOG-14: damage affects only the records it hits, and nothing is appended behind it.
#[test]
fn damaged_records_are_passed_over_and_cleaned_up() {
    let (mut offsets, mut out, mut file) =
        (StoredOffsets::new(CONSUMERS_MAX), Vec::new(), Vec::new());
    offsets.change(ALICE, Some(Offset(5)), None);
    offsets.change(GROUP, Some(Offset(6)), None);
    offsets.start(&mut out);
    settle(&mut offsets, &mut out, &mut file);
    offsets.change(ALICE, Some(Offset(7)), None);
    offsets.start(&mut out);
    settle(&mut offsets, &mut out, &mut file);
    file[2 * RECORD_BYTES] ^= 1;
    file.extend_from_slice(b"torn");
    let offsets = reopened(&mut file, 100);
    assert_eq!(
        (offsets.get(ALICE), offsets.get(GROUP)),
        (Some(Offset(5)), Some(Offset(6)))
    );
    assert_eq!(file.len(), 2 * RECORD_BYTES);
}

#[test]
fn a_long_file_is_rewritten() {
    let (mut offsets, mut out, mut file) =
        (StoredOffsets::new(CONSUMERS_MAX), Vec::new(), Vec::new());
    let mut longest = 0;
    for offset in 0..10_000 {
        offsets.change(ALICE, Some(Offset(offset)), None);
        offsets.start(&mut out);
        settle(&mut offsets, &mut out, &mut file);
        longest = longest.max(file.len());
    }
    assert!(longest < 70_000, "{longest}");
    assert_eq!(reopened(&mut file, 10_000).get(ALICE), Some(Offset(9_999)));
}

/// Group commit: one write is under way; later changes are combined in the next.
#[test]
fn changes_during_a_write_share_the_next_one() {
    let (mut offsets, mut out) = (StoredOffsets::new(CONSUMERS_MAX), Vec::new());
    offsets.load(0, &mut out).expect("there is no file");
    offsets.change(ALICE, Some(Offset(1)), None);
    offsets.start(&mut out);
    for offset in 2..10 {
        offsets.change(ALICE, Some(Offset(offset)), None);
        offsets.start(&mut out);
    }
    assert_eq!(out.len(), 1);
    assert_eq!(settle(&mut offsets, &mut out, &mut Vec::new()), 2);
}

/// SHARD-12: the queue is bounded by the number of consumers, not by the number of changes while nothing can be
/// written.
#[test]
fn of_what_waits_for_a_write_the_newest_of_each_consumer_is_kept() {
    let (mut offsets, mut out, mut file) =
        (StoredOffsets::new(CONSUMERS_MAX), Vec::new(), Vec::new());
    offsets.load(0, &mut out).expect("there is no file");
    offsets.change(ALICE, Some(Offset(1)), None);
    offsets.start(&mut out);
    settle(&mut offsets, &mut out, &mut file);
    let before = file.len();
    for offset in 0..10_000 {
        offsets.change(ALICE, Some(Offset(offset)), None);
        offsets.change(GROUP, (offset % 2 == 0).then_some(Offset(offset)), None);
    }
    assert_eq!(offsets.queue.len(), 2);
    let last = offsets.version();
    offsets.start(&mut out);
    settle(&mut offsets, &mut out, &mut file);
    assert!(offsets.is_written(last));
    assert_eq!(file.len() - before, 2 * RECORD_BYTES);
    let offsets = reopened(&mut file, 10_000);
    assert_eq!(
        (offsets.get(ALICE), offsets.get(GROUP)),
        (Some(Offset(9_999)), None)
    );
}

/// LOG-10: a file of any length is read in parts, including records on their boundaries.
#[test]
fn a_large_file_is_read_in_parts() {
    let (mut offsets, mut out, mut file) =
        (StoredOffsets::new(CONSUMERS_MAX), Vec::new(), Vec::new());
    offsets.load(0, &mut out).expect("there is no file");
    assert!(offsets.correct(Offset(u64::MAX), &mut out));
    for consumer in 0..70_000 {
        let offset = Offset(u64::from(consumer) * 2);
        offsets.change(ConsumerKey::Consumer(consumer), Some(offset), None);
    }
    offsets.start(&mut out);
    settle(&mut offsets, &mut out, &mut file);
    file.extend(vec![0; 3 << 20]);
    let offsets = reopened(&mut file, u64::MAX);
    for consumer in 0..70_000 {
        let stored = offsets.get(ConsumerKey::Consumer(consumer));
        assert_eq!(stored, Some(Offset(u64::from(consumer) * 2)));
    }
    assert!(offsets.damaged() > 0);
    assert_eq!(file.len(), 70_000 * RECORD_BYTES, "what was wrong is gone");
}

/// LOG-14: a file that cannot be one of stored offsets is refused by name, before anything is read.
#[test]
fn a_file_of_an_impossible_length_is_refused() {
    for length in [FILE_BYTES_MAX + 1, 5 << 30, u64::MAX] {
        let (mut offsets, mut out) = (StoredOffsets::new(CONSUMERS_MAX), Vec::new());
        let reason = offsets.load(length, &mut out).expect_err("too long");
        assert!(
            reason.contains("offsets") && reason.contains(&format!("{length}")),
            "{reason}"
        );
        assert!(out.is_empty());
    }
}

/// LOG-10: plain consumers are bounded; known ones and groups are not refused.
#[test]
fn consumers_are_bounded() {
    let mut offsets = StoredOffsets::new(2);
    let consumer = ConsumerKey::Consumer;
    for number in 1..=2 {
        assert!(offsets.check_store(consumer(number), None).is_ok());
        offsets.change(consumer(number), Some(Offset(5)), None);
        offsets.change(consumer(number), Some(Offset(6)), None);
    }
    assert!(offsets.check_store(consumer(1), None).is_ok());
    assert!(offsets.check_store(consumer(3), None).is_err());
    assert!(offsets.check_store(GROUP, None).is_ok());
    offsets.change(GROUP, Some(Offset(1)), None);
    offsets.change(consumer(3), None, None);
    assert!(offsets.check_store(consumer(3), None).is_err());
    offsets.change(consumer(2), None, None);
    assert!(offsets.check_store(consumer(3), None).is_ok());
}

const fn reader(id: u32) -> Committer {
    Committer {
        user: UserId(id),
        manages: false,
    }
}

const MANAGER: Option<Committer> = Some(Committer {
    user: UserId(1),
    manages: true,
});

/// CTL-9: the offset of a plain consumer belongs to the user who made it, also after a restart and after the file was
/// replaced; who manages the topic changes it and leaves it to its owner. A deleted offset has no owner.
#[test]
fn an_offset_belongs_to_who_made_it() {
    let (mut offsets, mut out, mut file) =
        (StoredOffsets::new(CONSUMERS_MAX), Vec::new(), Vec::new());
    offsets.load(0, &mut out).expect("there is no file");
    assert!(offsets.correct(Offset(100), &mut out));
    offsets.change(ALICE, Some(Offset(50)), Some(reader(7)));
    offsets.change(ALICE, Some(Offset(60)), MANAGER);
    offsets.change(GROUP, Some(Offset(5)), None);
    offsets.start(&mut out);
    settle(&mut offsets, &mut out, &mut file);
    assert_eq!(file.len(), 3 * RECORD_BYTES, "the owner is written once");
    let check = |offsets: &StoredOffsets| {
        let refused = Err(PartitionError::OffsetOfAnotherUser);
        assert_eq!(offsets.check_store(ALICE, Some(reader(8))), refused);
        assert_eq!(offsets.check_owner(ALICE, Some(reader(8))), refused);
        for by in [Some(reader(7)), MANAGER, None] {
            assert_eq!(offsets.check_store(ALICE, by), Ok(()));
            assert_eq!(offsets.check_owner(ALICE, by), Ok(()));
        }
        assert_eq!(offsets.get(ALICE), Some(Offset(60)));
    };
    check(&offsets);
    check(&reopened(&mut file, 100));
    file.extend_from_slice(b"torn");
    let mut offsets = reopened(&mut file, 100);
    assert_eq!(file.len(), 3 * RECORD_BYTES, "replaced");
    check(&offsets);

    // All of it before the next write.
    offsets.change(ALICE, None, Some(reader(7)));
    assert_eq!(offsets.check_store(ALICE, Some(reader(8))), Ok(()));
    offsets.change(ALICE, Some(Offset(60)), Some(reader(8)));
    offsets.start(&mut out);
    settle(&mut offsets, &mut out, &mut file);
    for offsets in [&offsets, &reopened(&mut file, 100)] {
        assert!(offsets.check_store(ALICE, Some(reader(7))).is_err());
        assert!(offsets.check_store(ALICE, Some(reader(8))).is_ok());
    }
    offsets.change(ALICE, None, Some(reader(8)));
    offsets.change(ALICE, Some(Offset(60)), None);
    offsets.start(&mut out);
    settle(&mut offsets, &mut out, &mut file);
    assert!(
        reopened(&mut file, 100)
            .check_store(ALICE, Some(reader(9)))
            .is_ok()
    );
}

/// CTL-9, LOG-10: the offsets that earlier versions stored belong to the user who stores them next.
#[test]
fn an_offset_without_an_owner_belongs_to_who_stores_next() {
    let (mut offsets, mut out, mut file) =
        (StoredOffsets::new(CONSUMERS_MAX), Vec::new(), Vec::new());
    offsets.load(0, &mut out).expect("there is no file");
    assert!(offsets.correct(Offset(100), &mut out));
    offsets.change(ALICE, Some(Offset(5)), None);
    offsets.start(&mut out);
    settle(&mut offsets, &mut out, &mut file);
    assert_eq!(file.len(), RECORD_BYTES, "as earlier versions wrote it");
    let mut offsets = reopened(&mut file, 100);
    for by in [Some(reader(7)), Some(reader(8))] {
        assert_eq!(offsets.check_store(ALICE, by), Ok(()));
    }
    offsets.change(ALICE, Some(Offset(6)), Some(reader(7)));
    offsets.start(&mut out);
    settle(&mut offsets, &mut out, &mut file);
    for offsets in [&offsets, &reopened(&mut file, 100)] {
        assert!(offsets.check_store(ALICE, Some(reader(8))).is_err());
        assert_eq!(offsets.get(ALICE), Some(Offset(6)));
    }
}

/// LOG-14: an owner whose record is damaged is forgotten, not the offset; one whose offset did not reach the file owns
/// nothing.
#[test]
fn owners_and_offsets_are_damaged_on_their_own() {
    let (mut offsets, mut out, mut file) =
        (StoredOffsets::new(CONSUMERS_MAX), Vec::new(), Vec::new());
    offsets.load(0, &mut out).expect("there is no file");
    assert!(offsets.correct(Offset(100), &mut out));
    offsets.change(ALICE, Some(Offset(5)), Some(reader(7)));
    offsets.start(&mut out);
    settle(&mut offsets, &mut out, &mut file);
    let mut without_owner = file.clone();
    without_owner[0] ^= 1;
    let offsets = reopened(&mut without_owner, 100);
    assert_eq!(offsets.get(ALICE), Some(Offset(5)));
    assert!(offsets.check_store(ALICE, Some(reader(8))).is_ok());
    file.truncate(RECORD_BYTES);
    let offsets = reopened(&mut file, 100);
    assert_eq!(offsets.get(ALICE), None);
    assert!(offsets.check_store(ALICE, Some(reader(8))).is_ok());
    assert!(offsets.named.is_empty());
}

/// CTL-15: one user has half of the consumers that others leave, or one.
#[test]
fn a_user_leaves_half_of_the_consumers_to_others() {
    let mut offsets = StoredOffsets::new(8);
    let mut next = 0;
    let mut take = |offsets: &mut StoredOffsets, by| {
        let mut taken = 0;
        loop {
            next += 1;
            let consumer = ConsumerKey::Consumer(next);
            match offsets.check_store(consumer, by) {
                Ok(()) => offsets.change(consumer, Some(Offset(1)), by),
                Err(error) => {
                    assert_eq!(error, PartitionError::TooManyConsumers);
                    break taken;
                }
            };
            taken += 1;
        }
    };
    assert_eq!(take(&mut offsets, Some(reader(1))), 4);
    assert_eq!(take(&mut offsets, Some(reader(2))), 2);
    assert_eq!(take(&mut offsets, Some(reader(3))), 1);
    assert_eq!(
        take(&mut offsets, Some(reader(4))),
        1,
        "one as long as there is one"
    );
    assert_eq!(take(&mut offsets, Some(reader(5))), 0);
    offsets.change(ConsumerKey::Consumer(1), None, Some(reader(1)));
    assert_eq!(take(&mut offsets, Some(reader(5))), 1);
    assert_eq!(offsets.values.owned_count(), 8);
}
