//! Commands of a simulation and their answers, with their encoding.

use headrace_buffer::Slice;
use headrace_vsr::frame::{Release, digest};

/// Minimum length of an encoded command.
pub const COMMAND_BYTES: usize = 32;

/// Effect of a command on its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Set the value.
    Put,
    /// Set the value if the version is as expected.
    Swap,
    /// Remove the name.
    Delete,
    /// Return the value without a change.
    Get,
    /// Command of a program that serves as the state machine; the bytes that follow are opaque to the simulator.
    Given,
    /// Set the value only if there is none; supported by the newer of two releases.
    PutNew,
}

const ACTIONS: [Action; 6] = [
    Action::Put,
    Action::Swap,
    Action::Delete,
    Action::Get,
    Action::Given,
    Action::PutNew,
];

/// Command. Its `id` is unique in a run and is the value that it sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Effect.
    pub action: Action,
    /// Name.
    pub key: u8,
    /// Id, unique in the run.
    pub id: u64,
    /// Version that [`Action::Swap`] expects.
    pub expected: u64,
}

/// Answer to a command. Answers of a program are compared by length and digest only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Answer {
    /// 0, or the reason why nothing was changed.
    pub status: u32,
    /// Version of the name afterwards; 0 if the name does not exist.
    pub version: u64,
    /// Value of the name afterwards.
    pub value: u64,
}

/// Status: the name does not exist.
pub const NOT_FOUND: u32 = 404;
/// Status: the version differs from the expected one.
pub const CONFLICT: u32 = 409;

/// Older release of a run.
pub const OLDER: Release = Release::new(1, 0, 0);
/// Newer release of a run.
pub const NEWER: Release = Release::new(1, 1, 0);

impl Command {
    /// First release that supports this command.
    pub const fn since(&self) -> Release {
        match self.action {
            Action::PutNew => NEWER,
            _ => Release::FIRST,
        }
    }

    /// Encode the command, padded with a pattern that depends on the id.
    pub fn encode(&self, padding: usize) -> Slice {
        self.carrying(&vec![self.id.to_le_bytes()[0]; padding])
    }

    /// Encode the command, followed by `payload`.
    pub fn carrying(&self, payload: &[u8]) -> Slice {
        let mut bytes = Vec::with_capacity(COMMAND_BYTES + payload.len());
        bytes.push(
            ACTIONS
                .iter()
                .position(|action| *action == self.action)
                .map_or(0, |at| at.to_le_bytes()[0]),
        );
        bytes.push(self.key);
        bytes.resize(8, 0);
        bytes.extend(self.id.to_le_bytes());
        bytes.extend(self.expected.to_le_bytes());
        bytes.extend((payload.len() as u64).to_le_bytes());
        bytes.extend(payload);
        Slice::from_vec(bytes)
    }

    /// Decode a command; `None` if the bytes are invalid.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let id = word(8)?;
        let whole = usize::try_from(word(24)?)
            .ok()?
            .checked_add(COMMAND_BYTES)?
            == bytes.len();
        let action = *ACTIONS.get(usize::from(*bytes.first()?))?;
        let intact = action == Action::Given
            || bytes
                .get(COMMAND_BYTES..)?
                .iter()
                .all(|byte| *byte == id.to_le_bytes()[0]);
        if !whole || !intact {
            return None;
        }
        Some(Self {
            action,
            key: bytes[1],
            id,
            expected: word(16)?,
        })
    }
}

impl Answer {
    /// Encode the body of the reply; the status is sent separately.
    pub fn encode(&self) -> Slice {
        Slice::from_vec([self.version.to_le_bytes(), self.value.to_le_bytes()].concat())
    }

    /// Answer that represents the reply of a program.
    pub fn of_bytes(status: u32, body: &[u8]) -> Self {
        Self {
            status,
            version: body.len() as u64,
            value: low(digest(body)),
        }
    }

    /// Answer that represents the state of a program.
    pub fn of_state(history: u128) -> Self {
        Self {
            status: 0,
            version: 0,
            value: low(history),
        }
    }

    /// Decode an answer.
    pub fn decode(status: u32, body: &[u8]) -> Option<Self> {
        let (version, value) = (
            body.first_chunk::<8>()?,
            body.get(8..16)?.first_chunk::<8>()?,
        );
        Some(Self {
            status,
            version: u64::from_le_bytes(*version),
            value: u64::from_le_bytes(*value),
        })
    }
}

fn low(number: u128) -> u64 {
    let bytes = number.to_le_bytes();
    u64::from_le_bytes(std::array::from_fn(|at| bytes[at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_survive_encoding_and_damage_is_noticed() {
        let swap = Command {
            action: Action::Swap,
            key: 1,
            id: 77,
            expected: 3,
        };
        let bytes = swap.encode(100);
        assert_eq!(Command::decode(&bytes), Some(swap));
        assert_eq!(Command::decode(&bytes[..90]), None);
        let mut damaged = bytes.to_vec();
        damaged[100] ^= 1;
        assert_eq!(Command::decode(&damaged), None);
    }

    #[test]
    fn a_command_carries_the_bytes_of_a_program() {
        let given = Command {
            action: Action::Given,
            key: 0,
            id: 5,
            expected: 0,
        };
        let bytes = given.carrying(b"anything");
        assert_eq!(Command::decode(&bytes), Some(given));
        assert_eq!(&bytes[COMMAND_BYTES..], b"anything");
        assert_eq!(Command::decode(&bytes[..35]), None);
    }
}
