//! Canonical history: the list of executed operations that every replica must follow.

use std::collections::{BTreeMap, BTreeSet};

use super::violation::{Check, Violation};
use crate::machine::{Answer, Command};

/// Operation as executed by a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executed {
    /// Checksum of the prepare, which identifies it.
    pub checksum: u128,
    /// Timestamp of the operation.
    pub timestamp_ns: u64,
    /// Commands in order, without those that were executed before.
    pub commands: Vec<Command>,
    /// Digest of the whole history of the state after the operation.
    pub history: u128,
}

/// Canonical list: each operation as the first replica executed it.
#[derive(Debug, Default)]
pub struct CanonicalHistory {
    list: Vec<Executed>,
    ids: BTreeMap<u64, u64>,
    refused: BTreeSet<u64>,
}

impl CanonicalHistory {
    /// Newest operation executed by any replica.
    pub fn newest_op(&self) -> u64 {
        self.list.len() as u64
    }

    /// Operation, if any replica executed it.
    pub fn get(&self, op: u64) -> Option<&Executed> {
        self.list.get(usize::try_from(op).ok()?.checked_sub(1)?)
    }

    /// Operation that executed a command.
    pub fn op_of(&self, id: u64) -> Option<u64> {
        self.ids.get(&id).copied()
    }

    /// All operations from the first.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Executed)> {
        (1..).zip(&self.list)
    }

    /// Record that a replica executed `op` after `previous`.
    pub fn executed(
        &mut self,
        previous: u64,
        op: u64,
        executed: &Executed,
    ) -> Result<(), Violation> {
        if op != previous + 1 {
            return Err(Violation::new(
                Check::Agreement,
                format!("operation {op} was executed after {previous}"),
            ));
        }
        if op > self.newest_op() + 1 {
            return Err(Violation::new(
                Check::Agreement,
                format!("operation {op} was executed before its predecessor anywhere"),
            ));
        }
        if let Some(known) = self.get(op) {
            return compare(op, known, executed);
        }
        if self
            .list
            .last()
            .is_some_and(|last| last.timestamp_ns >= executed.timestamp_ns)
        {
            return Err(Violation::new(
                Check::Progress,
                format!("the timestamp of operation {op} does not grow"),
            ));
        }
        for command in &executed.commands {
            if self.refused.contains(&command.id) {
                return Err(Violation::new(
                    Check::ExactlyOnce,
                    format!(
                        "command {} was refused and is executed by operation {op}",
                        command.id
                    ),
                ));
            }
            if let Some(first) = self.ids.insert(command.id, op) {
                return Err(Violation::new(
                    Check::ExactlyOnce,
                    format!(
                        "command {} is executed by operation {first} and by {op}",
                        command.id
                    ),
                ));
            }
        }
        self.list.push(executed.clone());
        Ok(())
    }

    /// Record that a replica continues after `op` and has passed nothing to its state machine since `previous`: the
    /// operations in between must have no commands.
    pub fn passed(&mut self, previous: u64, op: u64) -> Result<(), Violation> {
        for passed in previous + 1..=op {
            match self.get(passed) {
                Some(known) if known.commands.is_empty() => {}
                Some(_) => {
                    return Err(Violation::new(
                        Check::Agreement,
                        format!("operation {passed} has commands, and a replica passed it over"),
                    ));
                }
                None if passed == self.newest_op() + 1 => {
                    let last = self.list.last();
                    self.list.push(Executed {
                        checksum: 0,
                        timestamp_ns: last.map_or(0, |last| last.timestamp_ns),
                        commands: Vec::new(),
                        history: last.map_or(0, |last| last.history),
                    });
                }
                None => {
                    return Err(Violation::new(
                        Check::Agreement,
                        format!(
                            "operation {passed} was passed over before its predecessor anywhere"
                        ),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Record that a replica installed a state as of `op` with this history.
    pub fn restored(&self, op: u64, history: u128) -> Result<(), Violation> {
        match self.get(op) {
            None if op == 0 => Ok(()),
            Some(known) if known.history == history => Ok(()),
            Some(_) => Err(Violation::new(
                Check::State,
                format!("a checkpoint of operation {op} has another past"),
            )),
            None => Err(Violation::new(
                Check::State,
                format!("a checkpoint of operation {op}, which no replica executed"),
            )),
        }
    }

    /// Record that a client was notified that its command will not be executed.
    pub fn refused(&mut self, id: u64) -> Result<(), Violation> {
        if let Some(op) = self.op_of(id) {
            return Err(Violation::new(
                Check::ExactlyOnce,
                format!("command {id} was executed by operation {op} and then refused"),
            ));
        }
        self.refused.insert(id);
        Ok(())
    }

    /// Check the acknowledgement of a command as executed by `op`.
    pub fn acknowledged(&self, id: u64, op: u64) -> Result<(), Violation> {
        match self.op_of(id) {
            Some(executed) if executed == op => Ok(()),
            Some(executed) => Err(Violation::new(
                Check::Durability,
                format!(
                    "command {id} was acknowledged at operation {op} but executed by {executed}"
                ),
            )),
            None => Err(Violation::new(
                Check::Durability,
                format!("command {id} was acknowledged at operation {op} and never executed"),
            )),
        }
    }

    /// Answers to all commands according to `reference`, which executes them one by one.
    pub fn replay(
        &self,
        mut reference: impl FnMut(u64, &Command) -> Answer,
    ) -> BTreeMap<u64, Answer> {
        self.iter()
            .flat_map(|(op, executed)| executed.commands.iter().map(move |command| (op, command)))
            .map(|(op, command)| (command.id, reference(op, command)))
            .collect()
    }
}

fn compare(op: u64, known: &Executed, executed: &Executed) -> Result<(), Violation> {
    let (check, what) = if known.checksum != executed.checksum {
        (Check::Agreement, "different prepares were executed as")
    } else if known.commands != executed.commands || known.timestamp_ns != executed.timestamp_ns {
        (Check::Agreement, "different commands were executed as")
    } else if known.history != executed.history {
        (Check::State, "states differ after")
    } else {
        return Ok(());
    };
    Err(Violation::new(check, format!("{what} operation {op}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Action;

    fn executed(checksum: u128, id: u64, history: u128) -> Executed {
        let command = Command {
            action: Action::Put,
            key: 0,
            id,
            expected: 0,
        };
        Executed {
            checksum,
            timestamp_ns: id,
            commands: vec![command],
            history,
        }
    }

    fn two() -> CanonicalHistory {
        let mut canon = CanonicalHistory::default();
        canon.executed(0, 1, &executed(11, 1, 101)).unwrap();
        canon.executed(1, 2, &executed(12, 2, 102)).unwrap();
        canon
    }

    fn check(result: Result<(), Violation>) -> Check {
        result.expect_err("a fault").check
    }

    #[test]
    fn replicas_that_follow_are_accepted() {
        let mut canon = two();
        canon.executed(0, 1, &executed(11, 1, 101)).unwrap();
        canon.executed(1, 2, &executed(12, 2, 102)).unwrap();
        // A replica that restarts from its checkpoint executes the following operations again.
        canon.executed(1, 2, &executed(12, 2, 102)).unwrap();
        canon.restored(2, 102).unwrap();
        canon.restored(0, 0).unwrap();
        let nothing = Executed {
            commands: Vec::new(),
            timestamp_ns: 3,
            ..executed(13, 3, 103)
        };
        canon.executed(2, 3, &nothing).unwrap();
    }

    #[test]
    fn other_operations_gaps_and_other_states_are_rejected() {
        assert_eq!(
            check(two().executed(1, 2, &executed(13, 2, 102))),
            Check::Agreement
        );
        assert_eq!(
            check(two().executed(0, 2, &executed(12, 2, 102))),
            Check::Agreement
        );
        assert_eq!(
            check(two().executed(3, 4, &executed(14, 4, 104))),
            Check::Agreement
        );
        assert_eq!(
            check(two().executed(1, 2, &executed(12, 3, 102))),
            Check::Agreement
        );
        assert_eq!(
            check(two().executed(1, 2, &executed(12, 2, 103))),
            Check::State
        );
        assert_eq!(check(two().restored(2, 7)), Check::State);
        assert_eq!(check(two().restored(3, 7)), Check::State);
        let late = Executed {
            timestamp_ns: 2,
            ..executed(13, 3, 103)
        };
        assert_eq!(check(two().executed(2, 3, &late)), Check::Progress);
    }

    #[test]
    fn a_command_is_executed_once_and_not_after_a_refusal() {
        let again = Executed {
            timestamp_ns: 3,
            ..executed(13, 2, 103)
        };
        assert_eq!(check(two().executed(2, 3, &again)), Check::ExactlyOnce);
        let mut canon = two();
        canon.refused(3).unwrap();
        assert_eq!(
            check(canon.executed(2, 3, &executed(13, 3, 103))),
            Check::ExactlyOnce
        );
        assert_eq!(check(two().refused(2)), Check::ExactlyOnce);
    }

    #[test]
    fn acknowledged_commands_are_where_the_answer_said() {
        two().acknowledged(2, 2).unwrap();
        assert_eq!(check(two().acknowledged(2, 1)), Check::Durability);
        assert_eq!(check(two().acknowledged(9, 2)), Check::Durability);
    }
}
