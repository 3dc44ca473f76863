//! Invariants of the readable messages.

use std::collections::BTreeMap;

use headrace_partition::PollingStrategy;

use super::run::{Run, is_staged};
use crate::support::messages::got;
use crate::support::world::World;

/// Numbers of all readable messages, in order.
pub fn visible(world: &mut World) -> Vec<u64> {
    let mut numbers = Vec::new();
    loop {
        let polled = world.poll(PollingStrategy::Offset(numbers.len() as u64), 10_000);
        let messages = got(&polled);
        if messages.is_empty() {
            return numbers;
        }
        for message in messages {
            assert_eq!(message.offset, numbers.len() as u64);
            let number = message.payload[..8].try_into().expect("eight bytes");
            numbers.push(u64::from_le_bytes(number));
        }
    }
}

impl Run {
    /// Check all invariants.
    pub fn check(&mut self) {
        let applied = self.world.partition.applied();
        let numbers = visible(&mut self.world);
        let mut places = BTreeMap::new();
        for (place, number) in numbers.iter().enumerate() {
            let before = places.insert(*number, place);
            assert!(
                before.is_none(),
                "message {number} is there twice: {numbers:?}"
            );
        }
        self.check_transactions(&numbers, applied);
        for number in &self.certain {
            assert!(
                places.contains_key(number),
                "message {number} was promised: {numbers:?}"
            );
        }
        // A message that was read once never changes.
        let common = self.seen.len().min(numbers.len());
        assert_eq!(self.seen[..common], numbers[..common], "it has changed");
        assert!(numbers.len() >= self.seen.len(), "some of it is gone");
        self.seen = numbers;
    }

    fn check_transactions(&self, numbers: &[u64], applied: u64) {
        let staged: Vec<(usize, u64)> = (numbers.iter().copied().enumerate())
            .filter(|(_, number)| is_staged(*number))
            .collect();
        let mut rest = &staged[..];
        for (number, expected) in &self.catalog.committed {
            let count = rest.len().min(expected.len());
            let (found, others) = rest.split_at(count);
            let is_prefix = found
                .iter()
                .map(|(_, message)| message)
                .eq(&expected[..count]);
            assert!(
                is_prefix,
                "publication {number} is {found:?}, not {expected:?}"
            );
            for pair in found.windows(2) {
                assert_eq!(
                    pair[0].0 + 1,
                    pair[1].0,
                    "publication {number} is not in one piece"
                );
            }
            if count < expected.len() {
                assert!(
                    *number > applied,
                    "{number} is not complete: {found:?} of {expected:?}"
                );
                assert!(others.is_empty(), "they are published in order");
                if let Some((place, _)) = found.last() {
                    assert_eq!(place + 1, numbers.len(), "another writer came in between");
                }
            }
            rest = others;
        }
        assert!(rest.is_empty(), "{rest:?} was never committed");
    }
}
