use headrace_buffer::Buffer;

use super::*;

const ALICE: ConsumerKey = ConsumerKey::Consumer(1);
const GROUP: ConsumerKey = ConsumerKey::Group(1);

/// Executes what is asked for on these bytes, one request after the other.
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
            StorageOperation::Read { .. } => StorageOutcome::Read(Buffer::unpooled(&file[..])),
            _ => StorageOutcome::Done,
        };
        let completion = StorageCompletion {
            id,
            result: Ok(outcome),
        };
        offsets.complete(Timestamp(0), completion).expect("success");
        offsets.start(out);
    }
    executed
}

fn reopened(file: &mut Vec<u8>, end: u64) -> StoredOffsets {
    let mut offsets = StoredOffsets::new();
    let mut out = Vec::new();
    offsets.load(file.len() as u64, &mut out);
    settle(&mut offsets, &mut out, file);
    if !offsets.correct(Offset(end), &mut out) {
        settle(&mut offsets, &mut out, file);
        assert!(offsets.correct(Offset(end), &mut out));
    }
    offsets
}

/// LOG-10: stored, deleted, found again.
#[test]
fn changes_survive_a_restart() {
    let (mut offsets, mut out, mut file) = (StoredOffsets::new(), Vec::new(), Vec::new());
    offsets.load(0, &mut out);
    assert!(offsets.correct(Offset(100), &mut out));
    offsets.change(ALICE, Some(Offset(5)));
    offsets.change(GROUP, Some(Offset(7)));
    let last = offsets.change(ALICE, None);
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
    let (mut offsets, mut out, mut file) = (StoredOffsets::new(), Vec::new(), Vec::new());
    offsets.change(ALICE, Some(Offset(99)));
    offsets.start(&mut out);
    settle(&mut offsets, &mut out, &mut file);
    assert_eq!(reopened(&mut file, 50).get(ALICE), Some(Offset(49)));
    assert_eq!(reopened(&mut file, 200).get(ALICE), Some(Offset(49)));
    assert_eq!(reopened(&mut file, 0).get(ALICE), None);
    assert_eq!(reopened(&mut file, 200).get(ALICE), None);
}

/// LOG-15: nor does an offset come back that was replaced by a smaller one, when the smaller one is lost.
#[test]
fn replaced_offsets_beyond_the_log_are_forgotten() {
    let (mut offsets, mut out, mut file) = (StoredOffsets::new(), Vec::new(), Vec::new());
    for offset in [99, 10] {
        offsets.change(ALICE, Some(Offset(offset)));
        offsets.start(&mut out);
        settle(&mut offsets, &mut out, &mut file);
    }
    assert_eq!(reopened(&mut file, 50).get(ALICE), Some(Offset(10)));
    assert_eq!(file.len(), RECORD_BYTES);
}

/// LOG-14: damage costs the records it hits, and nothing is appended behind it.
#[test]
fn damaged_records_are_passed_over_and_cleaned_up() {
    let (mut offsets, mut out, mut file) = (StoredOffsets::new(), Vec::new(), Vec::new());
    offsets.change(ALICE, Some(Offset(5)));
    offsets.change(GROUP, Some(Offset(6)));
    offsets.start(&mut out);
    settle(&mut offsets, &mut out, &mut file);
    offsets.change(ALICE, Some(Offset(7)));
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
    let (mut offsets, mut out, mut file) = (StoredOffsets::new(), Vec::new(), Vec::new());
    let mut longest = 0;
    for offset in 0..10_000 {
        offsets.change(ALICE, Some(Offset(offset)));
        offsets.start(&mut out);
        settle(&mut offsets, &mut out, &mut file);
        longest = longest.max(file.len());
    }
    assert!(longest < 70_000, "{longest}");
    assert_eq!(reopened(&mut file, 10_000).get(ALICE), Some(Offset(9_999)));
}

/// Group commit: one write under way, the rest waits for it and goes out together.
#[test]
fn changes_during_a_write_share_the_next_one() {
    let (mut offsets, mut out) = (StoredOffsets::new(), Vec::new());
    offsets.load(0, &mut out);
    offsets.change(ALICE, Some(Offset(1)));
    offsets.start(&mut out);
    for offset in 2..10 {
        offsets.change(ALICE, Some(Offset(offset)));
        offsets.start(&mut out);
    }
    assert_eq!(out.len(), 1);
    assert_eq!(settle(&mut offsets, &mut out, &mut Vec::new()), 2);
}

/// SHARD-12: what waits for a write is bounded by the consumers, not by what they do while nothing is written.
#[test]
fn of_what_waits_for_a_write_the_newest_of_each_consumer_is_kept() {
    let (mut offsets, mut out, mut file) = (StoredOffsets::new(), Vec::new(), Vec::new());
    offsets.load(0, &mut out);
    offsets.change(ALICE, Some(Offset(1)));
    offsets.start(&mut out);
    settle(&mut offsets, &mut out, &mut file);
    let before = file.len();
    for offset in 0..10_000 {
        offsets.change(ALICE, Some(Offset(offset)));
        offsets.change(GROUP, (offset % 2 == 0).then_some(Offset(offset)));
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
