//! Arbitrary damage to the files of a partition: no damaged message is served, no other message is lost, nothing
//! panics.

use headrace_model::{Durability, Offset};
use headrace_partition::storage::FileName;
use headrace_partition::{PartitionConfig, PartitionError, PollingStrategy, ReadError};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::support::disk::Crash;
use crate::support::messages::{got, sent};
use crate::support::world::{World, config};

#[derive(Debug, Clone)]
enum Harm {
    /// Flip one bit of a log file.
    FlipLog {
        file: Index,
        byte: Index,
    },
    CutLog {
        file: Index,
        length: Index,
    },
    LoseLog {
        file: Index,
    },
    FlipIndex {
        file: Index,
        byte: Index,
    },
    CutIndex {
        file: Index,
        length: Index,
    },
    LoseIndex {
        file: Index,
    },
    /// Exchange the index files of two segments.
    SwapIndexes {
        one: Index,
        other: Index,
    },
}

fn harms() -> impl Strategy<Value = Harm> {
    let index = any::<Index>;
    prop_oneof![
        (index(), index()).prop_map(|(file, byte)| Harm::FlipLog { file, byte }),
        (index(), index()).prop_map(|(file, length)| Harm::CutLog { file, length }),
        index().prop_map(|file| Harm::LoseLog { file }),
        (index(), index()).prop_map(|(file, byte)| Harm::FlipIndex { file, byte }),
        (index(), index()).prop_map(|(file, length)| Harm::CutIndex { file, length }),
        index().prop_map(|file| Harm::LoseIndex { file }),
        (index(), index()).prop_map(|(one, other)| Harm::SwapIndexes { one, other }),
    ]
}

fn logs(world: &World) -> Vec<FileName> {
    let mut files = world.disk.files();
    files.retain(|file| matches!(file, FileName::Log(_)));
    files
}

fn indexes(world: &World) -> Vec<FileName> {
    let mut files = world.disk.files();
    files.retain(|file| matches!(file, FileName::Index(_)));
    files
}

/// Apply the damage. Returns the damaged file, its first affected message, and whether all following messages of the
/// segment are affected as well.
fn apply(
    world: &mut World,
    harm: &Harm,
    starts: &[(FileName, Vec<usize>)],
) -> Option<(FileName, usize, bool)> {
    let hit = |file: FileName, byte: usize| {
        let (_, starts) = starts.iter().find(|(name, _)| *name == file)?;
        Some(starts.partition_point(|start| *start <= byte) - 1)
    };
    match harm {
        Harm::FlipLog { file, byte } => {
            let logs = logs(world);
            let file = *logs.get(file.index(logs.len().max(1)))?;
            let length = world.disk.content(file).len();
            if length == 0 {
                return None;
            }
            let byte = byte.index(length);
            world.disk.flip(file, byte);
            Some((file, hit(file, byte)?, false))
        }
        Harm::CutLog { file, length } => {
            let logs = logs(world);
            let file = *logs.get(file.index(logs.len().max(1)))?;
            let size = world.disk.content(file).len();
            if size == 0 {
                return None;
            }
            let length = length.index(size);
            world.disk.truncate(file, length);
            Some((file, hit(file, length)?, true))
        }
        Harm::LoseLog { file } => {
            let logs = logs(world);
            let file = *logs.get(file.index(logs.len().max(1)))?;
            let length = world.disk.content(file).len();
            world.disk.lose(file);
            (length > 0).then_some((file, 0, true))
        }
        Harm::FlipIndex { file, byte } => {
            let indexes = indexes(world);
            let file = *indexes.get(file.index(indexes.len().max(1)))?;
            let length = world.disk.content(file).len();
            if length > 0 {
                world.disk.flip(file, byte.index(length));
            }
            None
        }
        Harm::CutIndex { file, length } => {
            let indexes = indexes(world);
            let file = *indexes.get(file.index(indexes.len().max(1)))?;
            let size = world.disk.content(file).len();
            world.disk.truncate(file, length.index(size + 1));
            None
        }
        Harm::LoseIndex { file } => {
            let indexes = indexes(world);
            world
                .disk
                .lose(*indexes.get(file.index(indexes.len().max(1)))?);
            None
        }
        Harm::SwapIndexes { one, other } => {
            let indexes = indexes(world);
            let one = *indexes.get(one.index(indexes.len().max(1)))?;
            let other = *indexes.get(other.index(indexes.len().max(1)))?;
            let (first, second) = (
                world.disk.content(one).to_vec(),
                world.disk.content(other).to_vec(),
            );
            world.disk.set_content(one, second);
            world.disk.set_content(other, first);
            None
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// LOG-11, LOG-12, LOG-14: arbitrary damage is contained.
    #[test]
    fn harm_is_contained(
        lengths in proptest::collection::vec(0_usize..6_000, 1..120),
        segment_size_bytes in prop_oneof![Just(5_000_u64), Just(100_000), Just(1_000_000)],
        is_closed: bool,
        harms in proptest::collection::vec(harms(), 1..4),
        order in proptest::collection::vec(any::<Index>(), 30),
    ) {
        let mut world = World::new(PartitionConfig {
            segment_size_bytes,
            tail_cache_bytes: 0,
            ..config(Durability::Fsync)
        });
        let mut starts: Vec<(FileName, Vec<usize>)> = Vec::new();
        for (number, length) in (0..).zip(&lengths) {
            let base = FileName::Log(Offset(number));
            world.append(&[sent(number + 1, *length)]).expect("appended");
            let began = starts.last().is_none_or(|(_, begun)| {
                let filled = begun.last().expect("not empty");
                *filled as u64 >= segment_size_bytes
            });
            if began {
                if let Some((_, begun)) = starts.last_mut() {
                    begun.pop();
                }
                starts.push((base, vec![0]));
            }
            let (_, begun) = starts.last_mut().expect("pushed");
            let start = *begun.last().expect("not empty");
            begun.push(start + 64 + (*length).max(8));
        }
        if let Some((_, begun)) = starts.last_mut() {
            begun.pop();
        }
        if is_closed {
            world.close();
        }
        world.crash(Crash::Kill);
        let total = lengths.len() as u64;
        prop_assert_eq!(world.partition.visible_end(), Offset(total));
        world.close();

        let mut gone = vec![false; lengths.len()];
        for harm in &harms {
            let Some((file, message, rest)) = apply(&mut world, harm, &starts) else {
                continue;
            };
            let FileName::Log(Offset(base)) = file else {
                continue;
            };
            let count = starts.iter().find(|(name, _)| *name == file).map_or(0, |(_, begun)| begun.len());
            let message = message.min(count - 1);
            let harmed = if rest { message..count } else { message..message + 1 };
            for message in harmed {
                gone[usize::try_from(base).expect("small") + message] = true;
            }
        }
        world.crash(Crash::Kill);
        prop_assert_eq!(world.partition.failure(), None);
        let end = world.partition.visible_end().0;
        // The log was closed, so that all of it is known to have been on the device.
        prop_assert_eq!(end, total);

        let mut offsets: Vec<u64> = order.iter().map(|index| index.index(lengths.len()) as u64).collect();
        offsets.extend(0..total);
        for offset in offsets.into_iter().filter(|offset| *offset < end) {
            match world.try_poll(PollingStrategy::Offset(offset), 1) {
                Ok(polled) => {
                    let messages = got(&polled);
                    // Lost messages are passed over.
                    let found = messages.first().map_or(end, |message| message.offset);
                    prop_assert!(found >= offset);
                    prop_assert!((offset..found).all(|lost| gone[usize::try_from(lost).expect("small")]));
                    if let Some(message) = messages.first() {
                        let length = lengths[usize::try_from(found).expect("small")];
                        prop_assert_eq!(&message.payload, &sent(found + 1, length).payload);
                    }
                }
                Err(PartitionError::Read(ReadError::Damaged { .. })) => {
                    prop_assert!(gone[usize::try_from(offset).expect("small")], "message {} was not harmed", offset);
                }
                Err(error) => return Err(TestCaseError::fail(error.to_string())),
            }
        }
        let polled = world.try_poll(PollingStrategy::Timestamp(0), 1000);
        prop_assert!(polled.is_ok() || gone.contains(&true));
        for number in 0..3 {
            world.append(&[sent(number, 6_000)]).expect("appended");
            prop_assert_eq!(world.poll(PollingStrategy::Last, 1).messages_count, 1);
        }
        world.restart();
        prop_assert_eq!(world.partition.visible_end().0, end + 3);
    }
}
