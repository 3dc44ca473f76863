//! Tests of scans after power losses at any point and any damage.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

/// Write a journal, sync most of it, and lose power.
fn crashed(
    groups: &[usize],
    synced: usize,
    persisted: &[bool],
) -> (Journal, Vec<PrepareFrame>, u64) {
    let total: usize = groups.iter().sum();
    let frames = chain(1, total as u64, 0, 900);
    let mut journal = Journal::new();
    let mut rest = &frames[..];
    let mut persisted = persisted.iter().cycle();
    for (index, &count) in groups.iter().enumerate() {
        let (group, after) = rest.split_at(count);
        rest = after;
        if index < synced {
            journal.sync(group);
        } else {
            // Any subset of the sectors may have reached the disk.
            for sector in journal.write(group).step_by(SECTOR) {
                if !persisted.next().expect("cycles") {
                    journal.bytes[sector..sector + SECTOR].fill(0);
                }
            }
        }
    }
    let durable = journal.synced;
    (journal, frames, durable)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn ctl_1_a_loss_of_power_loses_nothing_that_was_synced(
        groups in prop::collection::vec(1..6usize, 1..8),
        synced: prop::sample::Index,
        persisted in prop::collection::vec(any::<bool>(), 64),
    ) {
        let (mut journal, frames, durable) = crashed(&groups, synced.index(groups.len() + 1), &persisted);
        for replicas in [1, 3] {
            let superblock = superblock(replicas);
            let scan = journal.scan(&superblock);
            for frame in &frames[..durable as usize] {
                prop_assert!(intact(&scan).contains(&frame.header.op()));
            }
            for entry in scan.entries.iter().filter(|entry| entry.intact) {
                prop_assert_eq!(entry.header, Some(frames[entry.op as usize - 1].header));
            }
            prop_assert!(scan.position % BLOCK_BYTES as u64 == 0);
        }
        // With a single replica none of this is damage, and erased records stay erased.
        let superblock = superblock(1);
        let scan = journal.scan(&superblock);
        prop_assert_eq!(faulty(&scan), []);
        prop_assert_eq!(intact(&scan), (1..=scan.entries.len() as u64).collect::<Vec<_>>());
        journal.erase(&scan);
        let again = journal.scan(&superblock);
        prop_assert_eq!(&again.entries, &scan.entries);
        prop_assert_eq!(again.torn, None);
    }

    #[test]
    fn ctl_1_no_damage_makes_a_durable_record_disappear(
        groups in prop::collection::vec(1..6usize, 1..8),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<usize>()), 1..4),
        persisted in prop::collection::vec(any::<bool>(), 64),
    ) {
        // The last group is in flight; the one before it is covered by a seal.
        let (mut journal, frames, durable) = crashed(&groups, groups.len() - 1, &persisted);
        journal.seal();
        for (op, at) in damage {
            if durable > 0 {
                journal.damage(1 + op.index(durable as usize) as u64, at);
            }
        }
        for replicas in [1, 3] {
            let scan = journal.scan(&superblock(replicas));
            let listed: Vec<_> = scan.entries.iter().map(|entry| entry.op).collect();
            for op in 1..=durable {
                prop_assert!(listed.contains(&op), "{} is neither intact nor faulty", op);
            }
            for entry in &scan.entries {
                if let Some(header) = entry.header {
                    prop_assert_eq!(header, frames[entry.op as usize - 1].header);
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_scanned(
        at in 0..8 * BLOCK_BYTES,
        garbage in prop::collection::vec(any::<u8>(), 0..4000),
        checkpoint in 0..4u64,
    ) {
        let frames = chain(1, 12, 0, 900);
        let mut journal = Journal::new();
        for group in frames.chunks(3) {
            journal.sync(group);
        }
        journal.bytes[at..at + garbage.len()].copy_from_slice(&garbage);
        journal.bytes.truncate(8 * BLOCK_BYTES + at % 100);
        let mut superblock = superblock(3);
        superblock.checkpoint.op = checkpoint;
        let scan = journal.scan(&superblock);
        prop_assert!(scan.entries.windows(2).all(|pair| pair[0].op < pair[1].op));
        prop_assert!(scan.entries.iter().all(|entry| entry.op > checkpoint));
    }
}
