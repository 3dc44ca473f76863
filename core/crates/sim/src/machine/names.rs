//! The replicated state machine of the simulation: names with versions and values.

use std::collections::BTreeMap;

use headrace_buffer::Slice;
use headrace_vsr::frame::digest;

/// Smallest length of an encoded command.
pub const COMMAND_BYTES: usize = 32;

/// What a command does to its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sets the value.
    Put,
    /// Sets the value when the version is as expected.
    Swap,
    /// Removes the name.
    Delete,
    /// Changes nothing, answers with what is there.
    Get,
}

const ACTIONS: [Action; 4] = [Action::Put, Action::Swap, Action::Delete, Action::Get];

/// One command. Its `id` is unique in a run and is the value that it sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// What to do.
    pub action: Action,
    /// With which name.
    pub key: u8,
    /// Unique in the run.
    pub id: u64,
    /// Version that [`Action::Swap`] expects.
    pub expected: u64,
}

/// The answer to a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Answer {
    /// 0, or why nothing was changed.
    pub status: u32,
    /// Version of the name afterwards; 0 when there is none.
    pub version: u64,
    /// Its value.
    pub value: u64,
}

/// The name is not there.
pub const NOT_FOUND: u32 = 404;
/// The version is another one.
pub const CONFLICT: u32 = 409;

impl Command {
    /// The bytes, padded with a pattern that depends on the id.
    pub fn encode(&self, padding: usize) -> Slice {
        let mut bytes = Vec::with_capacity(COMMAND_BYTES + padding);
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
        bytes.extend((padding as u64).to_le_bytes());
        bytes.resize(COMMAND_BYTES + padding, self.id.to_le_bytes()[0]);
        Slice::from_vec(bytes)
    }

    /// Reads a command; `None` when the bytes are none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let id = word(8)?;
        let whole = usize::try_from(word(24)?)
            .ok()?
            .checked_add(COMMAND_BYTES)?
            == bytes.len();
        let intact = bytes
            .get(COMMAND_BYTES..)?
            .iter()
            .all(|byte| *byte == id.to_le_bytes()[0]);
        Some(Self {
            action: *ACTIONS
                .get(usize::from(*bytes.first()?))
                .filter(|_| whole && intact)?,
            key: bytes[1],
            id,
            expected: word(16)?,
        })
    }
}

impl Answer {
    /// The bytes of the reply's body; the status travels beside it.
    pub fn encode(&self) -> Slice {
        Slice::from_vec([self.version.to_le_bytes(), self.value.to_le_bytes()].concat())
    }

    /// Reads an answer.
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

/// The state. `history` is a rolling digest over everything executed, so that two equal states have equal pasts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    names: BTreeMap<u8, (u64, u64)>,
    versions: u64,
    history: u128,
}

impl Machine {
    /// Executes a command.
    pub fn execute(&mut self, command: &Command) -> Answer {
        let held = self.names.get(&command.key).copied();
        let of = |status, (version, value)| Answer {
            status,
            version,
            value,
        };
        match (command.action, held) {
            (Action::Put, _) => of(0, self.set(command)),
            (Action::Swap, Some(held)) if held.0 == command.expected => of(0, self.set(command)),
            (Action::Swap, Some(held)) => of(CONFLICT, held),
            (Action::Delete, Some(held)) => {
                self.names.remove(&command.key);
                of(0, held)
            }
            (Action::Get, Some(held)) => of(0, held),
            (Action::Swap | Action::Delete | Action::Get, None) => of(NOT_FOUND, (0, 0)),
        }
    }

    fn set(&mut self, command: &Command) -> (u64, u64) {
        self.versions += 1;
        let held = (self.versions, command.id);
        self.names.insert(command.key, held);
        held
    }

    /// What a name holds now.
    pub fn get(&self, key: u8) -> Answer {
        let (version, value) = self.names.get(&key).copied().unwrap_or_default();
        Answer {
            status: if version == 0 { NOT_FOUND } else { 0 },
            version,
            value,
        }
    }

    /// Notes that an operation was executed whole, with these answers.
    pub fn conclude(&mut self, op: u64, timestamp_ns: u64, answers: &[Answer]) {
        let mut bytes = Vec::with_capacity(32 + answers.len() * 24);
        bytes.extend(self.history.to_le_bytes());
        bytes.extend(op.to_le_bytes());
        bytes.extend(timestamp_ns.to_le_bytes());
        for answer in answers {
            bytes.extend(u64::from(answer.status).to_le_bytes());
            bytes.extend(answer.version.to_le_bytes());
            bytes.extend(answer.value.to_le_bytes());
        }
        self.history = digest(&bytes);
    }

    /// Digest of everything executed so far.
    pub const fn history(&self) -> u128 {
        self.history
    }

    /// Canonical bytes of the state.
    pub fn snapshot(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(self.versions.to_le_bytes());
        bytes.extend(self.history.to_le_bytes());
        for (key, (version, value)) in &self.names {
            bytes.push(*key);
            bytes.extend(version.to_le_bytes());
            bytes.extend(value.to_le_bytes());
        }
        bytes
    }

    /// The state of a snapshot; `None` when the bytes are none.
    pub fn restore(bytes: &[u8]) -> Option<Self> {
        let versions = u64::from_le_bytes(*bytes.first_chunk()?);
        let history = u128::from_le_bytes(*bytes.get(8..)?.first_chunk()?);
        let names = bytes[24..].chunks(17).map(|entry| {
            let word = |at: usize| Some(u64::from_le_bytes(*entry.get(at..)?.first_chunk()?));
            Some((*entry.first()?, (word(1)?, word(9)?)))
        });
        Some(Self {
            names: names.collect::<Option<_>>()?,
            versions,
            history,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(action: Action, id: u64, expected: u64) -> Command {
        Command {
            action,
            key: 1,
            id,
            expected,
        }
    }

    #[test]
    fn commands_survive_encoding_and_damage_is_noticed() {
        let swap = command(Action::Swap, 77, 3);
        let bytes = swap.encode(100);
        assert_eq!(Command::decode(&bytes), Some(swap));
        assert_eq!(Command::decode(&bytes[..90]), None);
        let mut damaged = bytes.to_vec();
        damaged[100] ^= 1;
        assert_eq!(Command::decode(&damaged), None);
    }

    #[test]
    fn a_snapshot_holds_the_whole_state() {
        let mut machine = Machine::default();
        for id in 1..10_u64 {
            let answer = machine.execute(&Command {
                action: Action::Put,
                key: id.to_le_bytes()[0] % 4,
                id,
                expected: 0,
            });
            machine.conclude(id, id, &[answer]);
        }
        machine.execute(&command(Action::Delete, 11, 0));
        assert_eq!(Machine::restore(&machine.snapshot()), Some(machine));
    }

    #[test]
    fn a_swap_needs_its_version() {
        let mut machine = Machine::default();
        assert_eq!(
            machine.execute(&command(Action::Swap, 1, 0)).status,
            NOT_FOUND
        );
        let put = machine.execute(&command(Action::Put, 2, 0));
        assert_eq!(
            machine
                .execute(&command(Action::Swap, 3, put.version + 1))
                .status,
            CONFLICT
        );
        assert_eq!(
            machine
                .execute(&command(Action::Swap, 4, put.version))
                .value,
            4
        );
        assert_eq!(machine.get(1).value, 4);
    }
}
