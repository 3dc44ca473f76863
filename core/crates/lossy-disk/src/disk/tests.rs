use fastrand::Rng;
use proptest::prelude::{
    Just, ProptestConfig, Strategy, any, prop, prop_assert, prop_oneof, proptest,
};

use super::*;

/// Operation on a file.
#[derive(Clone, Debug)]
enum Step {
    Write { start: usize, length: usize },
    Resize { length: usize },
    Clear { start: usize, length: usize },
    Sync,
    Cut { seed: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let place = 0..5 * 4096_usize;
    let step = prop_oneof![
        4 => (place.clone(), 1..6000_usize).prop_map(|(start, length)| Step::Write { start, length }),
        1 => place.clone().prop_map(|length| Step::Resize { length }),
        1 => (place, 1..6000_usize).prop_map(|(start, length)| Step::Clear { start, length }),
        2 => Just(Step::Sync),
        1 => any::<u64>().prop_map(|seed| Step::Cut { seed }),
    ];
    prop::collection::vec(step, 1..40)
}

fn node(content: Content) -> Node {
    Node {
        content,
        mode: 0o600,
        owner: 0,
        group: 0,
        changed: SystemTime::UNIX_EPOCH,
    }
}

fn file() -> Node {
    node(Content::File(Bytes::default()))
}

fn directory() -> Node {
    node(Content::Directory(Directory::default()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Without a cut the file behaves like any other. After a cut, bytes that were synced and not changed since are
    /// unchanged, and every other byte is one that the file had at that position since the last sync, or zero.
    #[test]
    fn what_was_synced_is_kept(steps in steps()) {
        let mut bytes = Bytes::default();
        let mut expected: Vec<u8> = Vec::new();
        let mut synced: Vec<u8> = Vec::new();
        // Values of each byte since the last sync, by position.
        let mut since: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        for (number, step) in steps.into_iter().enumerate() {
            let fill = u8::try_from(number % 250).unwrap() + 1;
            let mut put = |expected: &mut Vec<u8>, range: std::ops::Range<usize>, byte: u8| {
                for position in range {
                    expected[position] = byte;
                    since.entry(position).or_default().push(byte);
                }
            };
            match step {
                Step::Write { start, length } => {
                    bytes.write(start, &vec![fill; length]);
                    let before = expected.len();
                    expected.resize(before.max(start + length), 0);
                    put(&mut expected, before.min(start)..start, 0);
                    put(&mut expected, start..start + length, fill);
                }
                Step::Resize { length } => {
                    bytes.set_length(length);
                    let before = expected.len();
                    expected.resize(length, 0);
                    put(&mut expected, before.min(length)..length, 0);
                }
                Step::Clear { start, length } => {
                    let end = expected.len().min(start + length);
                    bytes.clear(start, start + length);
                    put(&mut expected, start.min(end)..end, 0);
                }
                Step::Sync => {
                    bytes.sync();
                    synced.clone_from(&expected);
                    since.clear();
                }
                Step::Cut { seed } => {
                    bytes.lose_power(&mut Rng::with_seed(seed));
                    let left = bytes.read(0, usize::MAX).to_vec();
                    let lengths = [synced.len(), expected.len()];
                    prop_assert!(lengths.iter().min().unwrap() <= &left.len());
                    prop_assert!(&left.len() <= lengths.iter().max().unwrap());
                    for (position, byte) in left.iter().enumerate() {
                        let old = synced.get(position).copied().unwrap_or(0);
                        let new = since.get(&position).map_or(&[][..], Vec::as_slice);
                        prop_assert!(*byte == old || *byte == 0 && !new.is_empty() || new.contains(byte), "byte {position}");
                    }
                    expected.clone_from(&left);
                    synced = left;
                    since.clear();
                }
            }
            prop_assert!(bytes.read(0, usize::MAX) == expected);
        }
    }

    /// A power loss keeps a prefix of the unsynced changes of a directory, each change atomically.
    #[test]
    fn changes_of_a_directory_are_kept_in_order(changes in prop::collection::vec((0..5_u8, 0..6_u8), 0..20), seed: u64) {
        let mut disk = Disk::new(0, 0);
        let listing = |disk: &Disk| disk.directory(ROOT).unwrap().names().clone();
        let mut states = vec![listing(&disk)];
        for (kind, name) in changes {
            let (name, other) = (format!("f{name}"), format!("f{}", (name + 1) % 6));
            let done = match kind {
                0..2 => disk.make(ROOT, &name, file()).is_ok(),
                2 => disk.remove_file(ROOT, &name).is_ok(),
                3 => disk.rename((ROOT, &name), (ROOT, &other)).is_ok(),
                _ => {
                    disk.sync(ROOT).unwrap();
                    states.clear();
                    true
                }
            };
            if done {
                states.push(listing(&disk));
            }
        }
        disk.lose_power(&mut Rng::with_seed(seed));
        prop_assert!(states.contains(&listing(&disk)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Files move between three directories. After a power loss each is in exactly one, what happened before a sync of a
    /// directory that it was in has happened, and directories agree about each move.
    #[test]
    fn a_move_between_directories_is_atomic(
        steps in prop::collection::vec((0..3_usize, 0..3_usize, 0..4_u8, 0..5_u8), 1..30), seed: u64,
    ) {
        let mut disk = Disk::new(0, 0);
        let places = ["a", "b", "c"].map(|name| disk.make(ROOT, name, directory()).unwrap());
        disk.sync(ROOT).unwrap();
        for name in 0..4_u8 {
            disk.make(places[0], &name.to_string(), file()).unwrap();
        }
        disk.sync(places[0]).unwrap();
        let place = |disk: &Disk, name: u8| {
            let found = places.iter().filter(|place| disk.find(**place, &name.to_string()).is_ok());
            let found: Vec<u64> = found.copied().collect();
            assert_eq!(found.len(), 1, "{name} is in {found:?}");
            found[0]
        };
        // Places of each file since the last sync of the one that it is in, or of the one that it came from.
        let mut possible: [Vec<u64>; 4] = [const { Vec::new() }; 4];
        for (name, possible) in (0..).zip(&mut possible) {
            possible.push(place(&disk, name));
        }
        for (from, to, name, kind) in steps {
            if kind == 0 {
                disk.sync(places[from]).unwrap();
                for (name, possible) in (0..).zip(&mut possible) {
                    if place(&disk, name) == places[from] {
                        *possible = vec![places[from]];
                    }
                }
            } else if from != to
                && disk.rename((places[from], &name.to_string()), (places[to], &name.to_string())).is_ok()
            {
                possible[usize::from(name)].push(places[to]);
            }
        }
        disk.lose_power(&mut Rng::with_seed(seed));
        for (name, possible) in (0..).zip(&possible) {
            prop_assert!(possible.contains(&place(&disk, name)), "{name}");
        }
    }
}

#[test]
fn a_sync_of_either_directory_makes_a_move_durable() {
    for is_source in [false, true] {
        for seed in 0..20 {
            let mut disk = Disk::new(0, 0);
            let inner = disk.make(ROOT, "inner", directory()).unwrap();
            let moved = disk.make(ROOT, "moved", directory()).unwrap();
            disk.make(moved, "in it", file()).unwrap();
            disk.sync(ROOT).unwrap();
            disk.sync(moved).unwrap();
            disk.rename((ROOT, "moved"), (inner, "there")).unwrap();
            disk.sync(if is_source { ROOT } else { inner }).unwrap();
            disk.lose_power(&mut Rng::with_seed(seed));
            assert_eq!(disk.find(ROOT, "moved"), Err(Refusal::NotFound));
            let there = disk.find(inner, "there").unwrap();
            assert!(disk.find(there, "in it").is_ok());
        }
    }
}

#[test]
fn a_file_whose_name_was_not_synced_is_lost_with_what_was_synced_in_it() {
    let lost = |seed| {
        let mut disk = Disk::new(0, 0);
        let file = disk.make(ROOT, "f", file()).unwrap();
        disk.file_mut(file).unwrap().write(0, b"synced");
        disk.sync(file).unwrap();
        disk.lose_power(&mut Rng::with_seed(seed));
        let is_lost = disk.find(ROOT, "f") == Err(Refusal::NotFound);
        assert_eq!(is_lost, disk.file(file).is_err());
        is_lost
    };
    // The outcome is random, and the same seed gives the same outcome.
    let first: Vec<bool> = (0..50).map(lost).collect();
    assert!(first.contains(&true) && first.contains(&false));
    assert_eq!(first, (0..50).map(lost).collect::<Vec<_>>());
}

#[test]
fn a_page_that_was_written_may_be_torn_between_sectors() {
    let mut found = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let mut bytes = Bytes::default();
        bytes.write(0, &[1; 4096]);
        bytes.sync();
        bytes.write(0, &[2; 4096]);
        bytes.lose_power(&mut Rng::with_seed(seed));
        let page = bytes.read(0, 4096);
        let kept = page.iter().take_while(|&&byte| byte == 2).count();
        assert!(page[kept..].iter().all(|&byte| byte == 1));
        assert_eq!(kept % 512, 0);
        found.insert(kept / 512);
    }
    assert_eq!(found.len(), 9, "from nothing to all of its eight sectors");
}

#[test]
fn what_is_removed_is_back_unless_its_directory_was_synced() {
    let is_back = |is_synced, seed| {
        let mut disk = Disk::new(0, 0);
        let file = disk.make(ROOT, "f", file()).unwrap();
        disk.file_mut(file).unwrap().write(0, b"kept");
        disk.sync(file).unwrap();
        disk.sync(ROOT).unwrap();
        disk.remove_file(ROOT, "f").unwrap();
        if is_synced {
            disk.sync(ROOT).unwrap();
        }
        disk.lose_power(&mut Rng::with_seed(seed));
        let found = disk.find(ROOT, "f");
        if found.is_ok() {
            assert_eq!(disk.file(file).unwrap().read(0, 10), b"kept");
        }
        found.is_ok()
    };
    assert!((0..50).any(|seed| is_back(false, seed)));
    assert!(!(0..50).any(|seed| is_back(true, seed)));
}

#[test]
fn what_cannot_be_done_is_refused_and_changes_nothing() {
    let mut disk = Disk::new(0, 0);
    let inner = disk.make(ROOT, "inner", directory()).unwrap();
    disk.make(ROOT, "file", file()).unwrap();
    disk.make(inner, "in it", file()).unwrap();
    let before = disk.directory(ROOT).unwrap().names().clone();
    assert_eq!(disk.make(ROOT, "file", file()), Err(Refusal::Exists));
    assert_eq!(disk.remove_file(ROOT, "inner"), Err(Refusal::IsADirectory));
    assert_eq!(disk.remove_file(ROOT, "nothing"), Err(Refusal::NotFound));
    assert_eq!(
        disk.remove_directory(ROOT, "file"),
        Err(Refusal::NotADirectory)
    );
    assert_eq!(disk.remove_directory(ROOT, "inner"), Err(Refusal::NotEmpty));
    assert_eq!(
        disk.rename((ROOT, "file"), (ROOT, "inner")),
        Err(Refusal::IsADirectory)
    );
    assert_eq!(
        disk.rename((ROOT, "inner"), (ROOT, "file")),
        Err(Refusal::NotADirectory)
    );
    assert_eq!(
        disk.rename((inner, "in it"), (ROOT, "inner")),
        Err(Refusal::IsADirectory)
    );
    assert_eq!(
        disk.rename((ROOT, "nothing"), (ROOT, "file")),
        Err(Refusal::NotFound)
    );
    assert_eq!(disk.directory(ROOT).unwrap().names(), &before);
}
