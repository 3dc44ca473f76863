//! Reference for the expected answers.
//!
//! For the state machine of the simulator the answers are computed by a second, independent implementation. A program
//! is its own reference: a machine that executes every operation once, and never crashes, restarts or installs a
//! snapshot.

use std::collections::BTreeMap;

use headrace_vsr::api::CommandReply;

use super::{CanonicalHistory, Check, Violation};
use crate::machine::{Action, Answer, Command, Execution, Machine, Machines, UNINTERRUPTED};

/// Source of the expected answers.
#[derive(Debug)]
pub struct Reference {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Names(Names),
    Program {
        machine: Machine,
        answers: BTreeMap<u64, Answer>,
        /// Digest of the initial state.
        first: u128,
    },
}

impl Reference {
    /// Reference of machines of this kind, before the first operation.
    pub fn new(machines: &Machines) -> Result<Self, Violation> {
        let kind = match machines {
            Machines::Names => Kind::Names(Names::default()),
            Machines::Programs(_) => {
                let machine = machines.fresh(UNINTERRUPTED)?;
                let first = machine.history();
                Kind::Program {
                    machine,
                    answers: BTreeMap::new(),
                    first,
                }
            }
        };
        Ok(Self { kind })
    }

    /// Record an operation at its first execution by any replica, with the replies and the digest of the history.
    pub fn follow(
        &mut self,
        execution: Execution<'_>,
        replies: &[CommandReply],
        history: u128,
    ) -> Result<(), Violation> {
        let Kind::Program {
            machine, answers, ..
        } = &mut self.kind
        else {
            return Ok(());
        };
        let expected = machine.execute(execution)?;
        if expected != replies || machine.history() != history {
            let what = format!(
                "operation {} leads elsewhere than on a machine that was never restarted",
                execution.op
            );
            return Err(Violation::new(Check::State, what));
        }
        for (command, reply) in execution.commands.iter().zip(&expected) {
            answers.insert(command.id, Answer::of_bytes(reply.status, &reply.body));
        }
        Ok(())
    }

    /// Answers to all commands of the canonical list.
    pub fn answers(&mut self, canon: &CanonicalHistory) -> BTreeMap<u64, Answer> {
        match &mut self.kind {
            Kind::Names(names) => canon.replay(|op, command| names.execute(op, command)),
            Kind::Program { answers, .. } => answers.clone(),
        }
    }

    /// Value of a name after an operation.
    pub fn held(&self, canon: &CanonicalHistory, key: u8, op: u64) -> Answer {
        match &self.kind {
            Kind::Names(names) => names.held(key, op),
            Kind::Program { first, .. } => {
                Answer::of_state(canon.get(op).map_or(*first, |executed| executed.history))
            }
        }
    }
}

/// Operation, and version and value of the name after it.
type Change = (u64, Option<(u64, u64)>);

/// Value of each name after each operation. Implemented independently of the state machine under test.
#[derive(Debug, Default)]
struct Names {
    changes: BTreeMap<u8, Vec<Change>>,
    versions: u64,
}

impl Names {
    fn execute(&mut self, op: u64, command: &Command) -> Answer {
        let now = self
            .changes
            .get(&command.key)
            .and_then(|changes| changes.last())
            .and_then(|change| change.1);
        let sets = match command.action {
            Action::Put => true,
            Action::PutNew => now.is_none(),
            Action::Swap => now.is_some_and(|(version, _)| version == command.expected),
            Action::Delete | Action::Get | Action::Given => false,
        };
        let deletes = command.action == Action::Delete && now.is_some();
        let status = match (command.action, now) {
            (Action::Swap | Action::Delete | Action::Get, None) => 404,
            (Action::Swap | Action::PutNew, Some(_)) if !sets => 409,
            _ => 0,
        };
        let mut after = now;
        if sets {
            self.versions += 1;
            after = Some((self.versions, command.id));
        }
        if sets || deletes {
            let entry = if deletes { None } else { after };
            self.changes
                .entry(command.key)
                .or_default()
                .push((op, entry));
        }
        let (version, value) = after.unwrap_or((0, 0));
        Answer {
            status,
            version,
            value,
        }
    }

    fn held(&self, key: u8, op: u64) -> Answer {
        let changes = self.changes.get(&key).map_or(&[][..], Vec::as_slice);
        let at = changes.partition_point(|change| change.0 <= op);
        match at.checked_sub(1).and_then(|at| changes[at].1) {
            Some((version, value)) => Answer {
                status: 0,
                version,
                value,
            },
            None => Answer {
                status: 404,
                version: 0,
                value: 0,
            },
        }
    }
}
