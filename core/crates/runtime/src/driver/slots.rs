//! Slots of operations in flight, each addressable by a word that the kernel returns.

/// Operations in flight: slot index and generation identify one of them uniquely.
///
/// Slots are reused; the generation grows with each use, so that a late completion for a former operation is
/// recognised.
pub(super) struct Slots<T> {
    places: Vec<Place<T>>,
    /// Kept apart from `places`, because [`Slots::find`] scans all tokens.
    tokens: Vec<u64>,
    free: Vec<u32>,
}

struct Place<T> {
    generation: u32,
    value: Option<T>,
}

/// Identifier of one operation in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    place: u32,
    generation: u32,
}

impl Key {
    /// Encode the key in one word. Never `u64::MAX`: there are fewer slots.
    pub(super) fn word(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.place)
    }

    /// Decode a key from [`word`](Self::word).
    #[allow(clippy::cast_possible_truncation, reason = "takes the halves apart")]
    pub(super) fn from_word(word: u64) -> Self {
        Self {
            place: word as u32,
            generation: (word >> 32) as u32,
        }
    }
}

impl<T> Slots<T> {
    pub(super) fn new() -> Self {
        Self {
            places: Vec::new(),
            tokens: Vec::new(),
            free: Vec::new(),
        }
    }

    pub(super) fn insert(&mut self, token: u64, value: T) -> Key {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place {
                generation: 0,
                value: None,
            });
            self.tokens.push(0);
            u32::try_from(self.places.len() - 1).expect("memory ends before 2^32 operations")
        });
        let index = place as usize;
        self.tokens[index] = token;
        self.places[index].value = Some(value);
        Key {
            place,
            generation: self.places[index].generation,
        }
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.places
            .get_mut(key.place as usize)
            .filter(|place| place.generation == key.generation)?
            .value
            .as_mut()
    }

    /// Remove the operation and return it with its token.
    pub(super) fn remove(&mut self, key: Key) -> Option<(u64, T)> {
        let index = key.place as usize;
        let place = self
            .places
            .get_mut(index)
            .filter(|place| place.generation == key.generation)?;
        let value = place.value.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(key.place);
        Some((self.tokens[index], value))
    }

    /// Find the operation with `token` by a linear scan.
    pub(super) fn find(&self, token: u64) -> Option<Key> {
        (0..)
            .zip(self.tokens.iter().zip(&self.places))
            .find(|(_, (other, place))| **other == token && place.value.is_some())
            .map(|(place, (_, entry))| Key {
                place,
                generation: entry.generation,
            })
    }

    /// Keys of all operations in flight.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        (0..)
            .zip(&self.places)
            .filter(|(_, entry)| entry.value.is_some())
            .map(|(place, entry)| Key {
                place,
                generation: entry.generation,
            })
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_former_user_of_a_place_is_not_mistaken_for_the_present_one() {
        let mut slots = Slots::new();
        let first = slots.insert(7, "first");
        assert_eq!(slots.remove(first), Some((7, "first")));
        let second = slots.insert(7, "second");
        assert_eq!(first.place, second.place);
        assert_eq!(slots.get_mut(first), None);
        assert_eq!(slots.remove(first), None);
        assert_eq!(slots.get_mut(second), Some(&mut "second"));
        assert_eq!(Key::from_word(second.word()), second);
    }

    #[test]
    fn finds_by_token_only_what_is_in_flight() {
        let mut slots = Slots::new();
        let keys: Vec<Key> = (0..4).map(|token| slots.insert(token, token)).collect();
        slots.remove(keys[2]);
        assert_eq!(slots.find(2), None);
        assert_eq!(slots.find(3), Some(keys[3]));
        assert_eq!(slots.len(), 3);
        assert_eq!(
            slots.keys().collect::<Vec<_>>(),
            [keys[0], keys[1], keys[3]]
        );
    }
}
