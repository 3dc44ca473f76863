//! Tests of power losses during the erasure of records.

use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

/// Operation that forged heads state to be durable. Nothing of a test is that high.
const FORGED: u64 = 1_000;

/// Create a prepare whose body consists of bytes that parse as heads, as a client may send them.
fn forging(op: u64, parent: u128, heads: usize) -> PrepareFrame {
    let origin = Origin {
        cluster: CLUSTER,
        group: 1,
        ..Origin::default()
    };
    let area = Prepare {
        parent,
        op,
        commit: op - 1,
        operation: Operation::NOOP,
        ..Prepare::default()
    };
    // Heads of records are 8-aligned: some of them lie across the border of two sectors.
    let mut body = vec![1; 8 * (heads % 4)];
    body.extend(RecordHeader::seal(FORGED, 0).encode().repeat(heads));
    Frame::seal(origin, area, Slice::from_vec(body))
}

/// Write and sync records of different lengths, so that their heads have different places in the sectors. Returns the
/// journal and its frames.
fn forged(heads: &[usize]) -> (Journal, Vec<PrepareFrame>) {
    let mut parent = PrepareHeader::root(CLUSTER, 1).checksum;
    let mut journal = Journal::new();
    let mut frames = Vec::new();
    for (op, &heads) in (1..).zip(heads) {
        let frame = forging(op, parent, heads);
        parent = frame.header.checksum;
        frames.push(frame);
    }
    journal.sync(&frames);
    journal.seal();
    (journal, frames)
}

/// Carry out the steps until the power fails before step `until`: of writes that no later sync covers, any sectors reach
/// the disk.
fn lose_power(journal: &mut Journal, steps: &[EraseStep], until: usize, persisted: &[bool]) {
    let steps = &steps[..until];
    let is_sync = |step: &EraseStep| matches!(step, EraseStep::Sync { .. });
    let synced = steps.iter().rposition(is_sync).map_or(0, |last| last + 1);
    for step in &steps[..synced] {
        journal.carry_out(step);
    }
    let durable = journal.bytes.clone();
    for step in &steps[synced..] {
        journal.carry_out(step);
    }
    let mut persisted = persisted.iter().cycle();
    for sector in (0..FILE).step_by(SECTOR) {
        let range = sector..sector + SECTOR;
        if journal.bytes[range.clone()] != durable[range.clone()]
            && !persisted.next().expect("cycles")
        {
            journal.bytes[range.clone()].copy_from_slice(&durable[range]);
        }
    }
}

/// Superblock of view 1, whose log began with these prepares. It is durable before the journal is cut. The view claims to
/// have begun far above them, so that it does not limit the statements of forged heads.
fn begun(kept: &[PrepareFrame]) -> Superblock {
    let mut superblock = superblock(3);
    superblock.view.number = 1;
    superblock.view.log_view = 1;
    superblock.view.head_op = kept.len() as u64;
    superblock.view.start_op = FORGED;
    superblock.view.headers = kept.last().map(|frame| frame.header).into_iter().collect();
    superblock
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// A scan never reads heads out of the body of a record that is being cut, which may have been written by a client.
    #[test]
    fn ctl_1_a_loss_of_power_during_a_cut_exposes_no_body(
        heads in prop::collection::vec(0..80usize, 1..8),
        from_op in any::<prop::sample::Index>(),
        until in any::<prop::sample::Index>(),
        persisted in prop::collection::vec(any::<bool>(), 64),
    ) {
        let (mut journal, frames) = forged(&heads);
        let from_op = 1 + from_op.index(heads.len()) as u64;
        let steps = journal.cut_steps(from_op);
        lose_power(&mut journal, &steps, until.index(steps.len() + 1), &persisted);
        let kept = &frames[..from_op as usize - 1];
        let scan = journal.scan(&begun(kept));
        prop_assert!(scan.witnessed <= frames.len() as u64, "{}", scan.witnessed);
        for op in 1..from_op {
            prop_assert!(intact(&scan).contains(&op));
        }
    }

    /// The same for a record that a crash has torn, and that the start after it erases.
    #[test]
    fn ctl_1_a_loss_of_power_during_a_start_exposes_no_body(
        heads in prop::collection::vec(1..80usize, 1..8),
        until in any::<prop::sample::Index>(),
        persisted in prop::collection::vec(any::<bool>(), 64),
    ) {
        let (mut journal, frames) = forged(&heads);
        let last = forging(frames.len() as u64 + 1, frames[frames.len() - 1].header.checksum, 40);
        let torn = journal.write(&[last]);
        journal.bytes[torn.start + 1_200..torn.end].fill(0);
        let superblock = superblock(3);
        let scan = journal.scan(&superblock);
        prop_assert_eq!(scan.torn, Some(frames.len() as u64 + 1));
        let steps: Vec<_> = erase(&scan.erase).collect();
        lose_power(&mut journal, &steps, until.index(steps.len() + 1), &persisted);
        let again = journal.scan(&superblock);
        prop_assert_eq!(again.witnessed, frames.len() as u64);
        prop_assert_eq!(intact(&again).len(), frames.len());
    }
}

/// A head that lies across the border of two sectors may be replaced in part, whatever the order of writes.
#[test]
fn ctl_1_a_half_written_seal_exposes_no_body() {
    let mut straddling = 0;
    for heads in 0..64 {
        let (journal, frames) = forged(&[heads, 16]);
        let offset = journal.places[1].1;
        if offset % SECTOR <= SECTOR - HEAD_BYTES {
            continue;
        }
        straddling += 1;
        for persisted in [[true, false], [false, true]] {
            for until in 0.. {
                let (mut journal, _) = forged(&[heads, 16]);
                let steps = journal.cut_steps(2);
                if until > steps.len() {
                    break;
                }
                lose_power(&mut journal, &steps, until, &persisted);
                let witnessed = journal.scan(&begun(&frames[..1])).witnessed;
                assert!(witnessed <= 2, "{heads} {until}: {witnessed}");
            }
        }
    }
    assert!(straddling > 0);
}

/// Logs that an earlier release has cut look like those that this one cuts.
#[test]
fn a_finished_cut_has_the_form_of_earlier_releases() {
    let (mut journal, _) = forged(&[3, 5, 7]);
    let mut expected = journal.bytes.clone();
    for (_, offset, len) in &journal.places[1..] {
        expected[*offset..offset + len].fill(0);
        expected[*offset..offset + HEAD_BYTES].copy_from_slice(&RecordHeader::seal(1, 0).encode());
    }
    journal.cut(2);
    assert!(journal.bytes == expected);
}
