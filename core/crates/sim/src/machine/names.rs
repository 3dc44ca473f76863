//! State machine of the simulator: names with versions and values.

use std::collections::BTreeMap;

use headrace_vsr::api::CommandReply;
use headrace_vsr::frame::digest;

use super::Execution;
use super::command::{Action, Answer, CONFLICT, Command, NOT_FOUND};

/// State. `history` is a rolling digest over everything executed, so that equal states have equal histories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    held: BTreeMap<u8, (u64, u64)>,
    versions: u64,
    history: u128,
}

impl Names {
    /// Execute all commands of an operation.
    pub fn execute_all(&mut self, execution: Execution<'_>) -> Vec<CommandReply> {
        let answers: Vec<Answer> = execution
            .commands
            .iter()
            .map(|command| self.execute(command))
            .collect();
        self.conclude(execution.op, execution.timestamp_ns, &answers);
        answers
            .iter()
            .map(|answer| CommandReply {
                status: answer.status,
                body: answer.encode(),
            })
            .collect()
    }

    /// Execute a command. Commands of a program are not supported.
    pub fn execute(&mut self, command: &Command) -> Answer {
        let held = self.held.get(&command.key).copied();
        let of = |status, (version, value)| Answer {
            status,
            version,
            value,
        };
        match (command.action, held) {
            (Action::Put, _) | (Action::PutNew, None) => of(0, self.set(command)),
            (Action::Swap, Some(held)) if held.0 == command.expected => of(0, self.set(command)),
            (Action::Swap | Action::PutNew, Some(held)) => of(CONFLICT, held),
            (Action::Delete, Some(held)) => {
                self.held.remove(&command.key);
                of(0, held)
            }
            (Action::Get, Some(held)) => of(0, held),
            (Action::Swap | Action::Delete | Action::Get, None) | (Action::Given, _) => {
                of(NOT_FOUND, (0, 0))
            }
        }
    }

    fn set(&mut self, command: &Command) -> (u64, u64) {
        self.versions += 1;
        let held = (self.versions, command.id);
        self.held.insert(command.key, held);
        held
    }

    /// Current value of a name.
    pub fn get(&self, key: u8) -> Answer {
        let (version, value) = self.held.get(&key).copied().unwrap_or_default();
        Answer {
            status: if version == 0 { NOT_FOUND } else { 0 },
            version,
            value,
        }
    }

    /// Update the history after an operation with these answers.
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

    /// Canonical encoding of the state.
    pub fn snapshot(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(self.versions.to_le_bytes());
        bytes.extend(self.history.to_le_bytes());
        for (key, (version, value)) in &self.held {
            bytes.push(*key);
            bytes.extend(version.to_le_bytes());
            bytes.extend(value.to_le_bytes());
        }
        bytes
    }

    /// Restore the state from a snapshot; `None` if the bytes are invalid.
    pub fn restore(bytes: &[u8]) -> Option<Self> {
        let versions = u64::from_le_bytes(*bytes.first_chunk()?);
        let history = u128::from_le_bytes(*bytes.get(8..)?.first_chunk()?);
        let names = bytes[24..].chunks(17).map(|entry| {
            let word = |at: usize| Some(u64::from_le_bytes(*entry.get(at..)?.first_chunk()?));
            Some((*entry.first()?, (word(1)?, word(9)?)))
        });
        Some(Self {
            held: names.collect::<Option<_>>()?,
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
    fn a_snapshot_holds_the_whole_state() {
        let mut machine = Names::default();
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
        assert_eq!(Names::restore(&machine.snapshot()), Some(machine));
    }

    #[test]
    fn a_swap_needs_its_version() {
        let mut machine = Names::default();
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
