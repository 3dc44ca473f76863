//! Digests: definition, addition of parts, and detection of every kind of damage.

use headrace_columns::digest::{Contents, digest};
use headrace_columns::{Binary, Column, Numbers, Positions, Validity};
use proptest::prelude::*;
use twox_hash::XxHash3_64;

/// A message: offset, time, key, payload.
type Message = (i64, i64, Option<Vec<u8>>, Vec<u8>);

/// Columns with buffers of their own.
#[derive(Default)]
struct Table {
    offsets: Vec<u8>,
    times: Vec<u8>,
    key_bits: Vec<u8>,
    key_ends: Vec<u8>,
    keys: Vec<u8>,
    value_ends: Vec<u8>,
    values: Vec<u8>,
    count: usize,
}

impl Table {
    fn of(messages: &[Message]) -> Self {
        let mut table = Self {
            key_ends: vec![0; 4],
            value_ends: vec![0; 4],
            key_bits: vec![0; messages.len() / 8 + 1],
            count: messages.len(),
            ..Self::default()
        };
        for (row, (offset, time, key, value)) in messages.iter().enumerate() {
            table.offsets.extend(offset.to_le_bytes());
            table.times.extend(time.to_le_bytes());
            if let Some(key) = key {
                table.key_bits[row / 8] |= 1 << (row % 8);
                table.keys.extend(key);
            }
            table.values.extend(value);
            let end = |bytes: &Vec<u8>| i32::try_from(bytes.len()).expect("short").to_le_bytes();
            table.key_ends.extend(end(&table.keys));
            table.value_ends.extend(end(&table.values));
        }
        table
    }

    fn contents(&self, first: usize, count: usize) -> Contents<'_> {
        let all = Validity {
            validity: None,
            first,
        };
        Contents {
            count,
            offset: Numbers {
                slots: all,
                values: &self.offsets,
            },
            timestamp: Numbers {
                slots: all,
                values: &self.times,
            },
            key: Binary {
                slots: Validity {
                    validity: Some(&self.key_bits),
                    first,
                },
                positions: Positions::Small(&self.key_ends),
                data: &self.keys,
            },
            value: Binary {
                slots: all,
                positions: Positions::Small(&self.value_ends),
                data: &self.values,
            },
        }
    }

    fn digest(&self) -> u64 {
        digest(&self.contents(0, self.count)).expect("whole")
    }
}

fn messages() -> impl Strategy<Value = Vec<Message>> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..300);
    let message = (
        any::<i64>(),
        any::<i64>(),
        prop::option::of(bytes()),
        bytes(),
    );
    prop::collection::vec(message, 1..20)
}

/// Digest as defined in the documentation.
fn expected(messages: &[Message]) -> u64 {
    let one = |(offset, time, key, value): &Message| {
        let payload = XxHash3_64::oneshot_with_seed(offset.cast_unsigned(), value);
        let seed = payload.wrapping_add(time.cast_unsigned());
        XxHash3_64::oneshot_with_seed(seed, key.as_deref().unwrap_or_default())
    };
    messages.iter().map(one).fold(0, u64::wrapping_add)
}

proptest! {
    #[test]
    fn parts_add_up(messages in messages(), cut in any::<prop::sample::Index>()) {
        let table = Table::of(&messages);
        prop_assert_eq!(table.digest(), expected(&messages));
        let cut = cut.index(messages.len() + 1);
        let parts = [(0, cut), (cut, messages.len() - cut)].map(|(first, count)| digest(&table.contents(first, count)).unwrap());
        prop_assert_eq!(parts[0].wrapping_add(parts[1]), table.digest());
    }

    #[test]
    fn every_change_shows(mut messages in messages(), row in any::<prop::sample::Index>(), what in 0..4_usize) {
        let before = Table::of(&messages).digest();
        let row = row.index(messages.len());
        let message = &mut messages[row];
        match what {
            0 => message.0 ^= 1,
            1 => message.1 ^= 1,
            2 => message.2.get_or_insert_default().push(7),
            _ => message.3.push(7),
        }
        prop_assert_ne!(Table::of(&messages).digest(), before);
    }

    #[test]
    fn short_buffers_are_refused(messages in messages(), cut in any::<prop::sample::Index>(), what in 0..6_usize) {
        let mut table = Table::of(&messages);
        let buffers = [
            &mut table.offsets, &mut table.times, &mut table.value_ends, &mut table.key_ends, &mut table.values, &mut table.keys,
        ];
        let buffer = buffers.into_iter().nth(what).unwrap();
        let whole = buffer.len();
        buffer.truncate(cut.index(whole.max(1)));
        prop_assume!(buffer.len() < whole);
        let keys_are_used = what != 3 || messages.last().unwrap().2.is_some();
        prop_assume!(keys_are_used);
        prop_assert!(digest(&table.contents(0, table.count)).is_err());
    }
}

#[test]
fn what_is_not_there_is_named() {
    let table = Table::of(&[(0, 0, None, vec![1]), (1, 0, None, vec![2])]);
    let mut contents = table.contents(0, 2);
    contents.value.slots.validity = Some(&[0b01]);
    let error = digest(&contents).unwrap_err();
    assert_eq!((error.row, error.column), (1, Column::Value));
    assert_eq!(
        error.to_string(),
        "row 1, column value: it is null, or its buffers do not hold it"
    );
}
