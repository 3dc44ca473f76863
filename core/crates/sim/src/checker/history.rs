//! History of client calls, and the check that one total order of all operations explains it.
//!
//! Operations are numbered, so no search is needed: the log is the order. It must respect real time (an operation that
//! was answered before another one was invoked precedes it), and executing it one by one on a reference must yield
//! every answer that a client received. A read has no number: it must return the state after some operation that is not
//! older than any operation answered before the read was invoked.

use super::search::{SEARCHED, search};
use super::{CanonicalHistory, Check, Reference, Violation};
use crate::machine::{Answer, Command};
use crate::tally::Tally;

/// Invocation of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invocation {
    /// Execute a command.
    Execute {
        /// The command; only its id is meaningful if the state machine is a program.
        command: Command,
    },
    /// Read the value of a name, linearizably, without the log.
    Read {
        /// Name to read.
        key: u8,
    },
}

/// Result of a call as known to its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallResult {
    /// Answered by operation `op`, or for a read as of it.
    Answered {
        /// Time of the answer.
        at_ns: u64,
        /// Operation that executed the command, or up to which the replica that served the read had executed.
        op: u64,
        /// Answer.
        answer: Answer,
    },
    /// Refused: the call certainly has no effect.
    Refused,
    /// Unknown: the call may have taken effect, may do so at any later time, or never.
    Unknown,
}

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Time of the invocation.
    pub invoked_ns: u64,
    /// Invocation.
    pub question: Invocation,
    /// Result.
    pub ending: CallResult,
}

/// All calls of a run.
#[derive(Debug, Default)]
pub struct History {
    calls: Vec<Call>,
}

impl History {
    /// Record the start of a call; returns its number.
    pub fn begin(&mut self, asked_ns: u64, question: Invocation) -> usize {
        self.calls.push(Call {
            invoked_ns: asked_ns,
            question,
            ending: CallResult::Unknown,
        });
        self.calls.len() - 1
    }

    /// Record the result of a call.
    pub fn end(&mut self, call: usize, ending: CallResult) {
        self.calls[call].ending = ending;
    }

    /// Number of calls that were answered.
    pub fn answered(&self) -> usize {
        self.calls
            .iter()
            .filter(|call| matches!(call.ending, CallResult::Answered { .. }))
            .count()
    }

    /// Number of reads that were answered.
    pub fn reads(&self) -> usize {
        let read = |call: &&Call| {
            matches!(
                (call.question, call.ending),
                (Invocation::Read { .. }, CallResult::Answered { .. })
            )
        };
        self.calls.iter().filter(read).count()
    }

    /// Check independently of the log that some order of the calls of each name explains every answer. Runs the search
    /// in one run of [`SEARCHED`].
    pub fn search_some(&self, seed: u64, tally: &mut Tally) -> Result<(), Violation> {
        if seed.is_multiple_of(SEARCHED) {
            let found = search(&self.calls)?;
            tally.add_many("names searched", found.explained);
            tally.add_many("names given up", found.undecided);
        }
        Ok(())
    }

    /// Check that the order of the log explains every answer.
    pub fn check(
        &self,
        canon: &CanonicalHistory,
        reference: &mut Reference,
    ) -> Result<(), Violation> {
        let answers = reference.answers(canon);
        for call in &self.calls {
            if let CallResult::Answered { op, answer, .. } = call.ending {
                match call.question {
                    Invocation::Execute {
                        command: Command { id, .. },
                    } => {
                        canon.acknowledged(id, op)?;
                        if answers.get(&id) != Some(&answer) {
                            return fault(format!(
                                "command {id} of operation {op} was answered {answer:?}, not {:?}",
                                answers.get(&id)
                            ));
                        }
                    }
                    Invocation::Read { key } => {
                        if op > canon.newest_op() {
                            return fault(format!(
                                "a read saw operation {op}, which no replica executed"
                            ));
                        }
                        let held = reference.held(canon, key, op);
                        if held != answer {
                            return fault(format!(
                                "a read of name {key} as of operation {op} was answered {answer:?}, not {held:?}"
                            ));
                        }
                    }
                }
            }
        }
        self.check_real_time()
    }

    /// Check real time: no answer is older than one that was given before the call was invoked.
    fn check_real_time(&self) -> Result<(), Violation> {
        let mut answered: Vec<(u64, u64)> = Vec::new();
        let mut asked: Vec<(u64, u64, bool)> = Vec::new();
        for call in &self.calls {
            if let CallResult::Answered { at_ns, op, .. } = call.ending {
                answered.push((at_ns, op));
                asked.push((
                    call.invoked_ns,
                    op,
                    matches!(call.question, Invocation::Execute { .. }),
                ));
            }
        }
        answered.sort_unstable();
        asked.sort_unstable();
        let (mut next, mut newest) = (0, 0);
        for (asked_ns, op, executes) in asked {
            while next < answered.len() && answered[next].0 < asked_ns {
                newest = newest.max(answered[next].1);
                next += 1;
            }
            // A command needs a newer operation, unless it shares one with overlapping commands in a batch.
            if op < newest || (executes && op == newest) {
                return fault(format!(
                    "operation {op} was asked for at {asked_ns} ns, after operation {newest} had been answered"
                ));
            }
        }
        Ok(())
    }
}

fn fault(what: String) -> Result<(), Violation> {
    Err(Violation::new(Check::Linearizability, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::Executed;
    use crate::machine::{Action, Machines};

    /// Canonical list with two values of name 0, by operations 1 and 2.
    fn canon() -> CanonicalHistory {
        let mut canon = CanonicalHistory::default();
        for id in 1..=2 {
            let command = Command {
                action: Action::Put,
                key: 0,
                id,
                expected: 0,
            };
            let executed = Executed {
                checksum: id.into(),
                timestamp_ns: id,
                commands: vec![command],
                history: id.into(),
            };
            canon.executed(id - 1, id, &executed).unwrap();
        }
        canon
    }

    fn put(asked_ns: u64, id: u64, at_ns: u64, op: u64) -> Call {
        let answer = Answer {
            status: 0,
            version: id,
            value: id,
        };
        Call {
            invoked_ns: asked_ns,
            question: Invocation::Execute {
                command: Command {
                    action: Action::Put,
                    key: 0,
                    id,
                    expected: 0,
                },
            },
            ending: CallResult::Answered { at_ns, op, answer },
        }
    }

    fn read(asked_ns: u64, at_ns: u64, op: u64, value: u64) -> Call {
        let status = if value == 0 { 404 } else { 0 };
        let answer = Answer {
            status,
            version: value,
            value,
        };
        Call {
            invoked_ns: asked_ns,
            question: Invocation::Read { key: 0 },
            ending: CallResult::Answered { at_ns, op, answer },
        }
    }

    fn check(calls: &[Call]) -> Result<(), Check> {
        History {
            calls: calls.to_vec(),
        }
        .check(&canon(), &mut Reference::new(&Machines::Names).unwrap())
        .map_err(|violation| violation.check)
    }

    #[test]
    fn odd_but_legal_histories_are_accepted() {
        // Overlapping commands in either order.
        check(&[put(0, 1, 100, 1), put(1, 2, 50, 2)]).unwrap();
        check(&[put(0, 2, 50, 2), put(1, 1, 100, 1)]).unwrap();
        // A read concurrent with a command sees either state.
        check(&[
            put(0, 1, 5, 1),
            put(10, 2, 100, 2),
            read(20, 30, 1, 1),
            read(40, 50, 2, 2),
        ])
        .unwrap();
        // The result of a command is unknown, and other clients see its effect.
        let unknown = Call {
            ending: CallResult::Unknown,
            ..put(0, 1, 0, 0)
        };
        check(&[unknown, read(5, 10, 1, 1), put(11, 2, 30, 2)]).unwrap();
        // A read of a state without the name.
        check(&[read(0, 50, 0, 0), put(1, 1, 60, 1)]).unwrap();
    }

    #[test]
    fn stale_reads_wrong_answers_and_reversed_orders_are_rejected() {
        // A read misses a command that was answered before the read was invoked.
        assert_eq!(
            check(&[put(0, 1, 10, 1), put(11, 2, 20, 2), read(21, 30, 1, 1)]),
            Err(Check::Linearizability)
        );
        // Two reads, the later one of an older state.
        assert_eq!(
            check(&[read(0, 10, 2, 2), read(11, 20, 1, 1)]),
            Err(Check::Linearizability)
        );
        // Commands ordered against real time.
        assert_eq!(
            check(&[put(0, 2, 10, 2), put(11, 1, 20, 1)]),
            Err(Check::Linearizability)
        );
        // A value that was never set.
        assert_eq!(check(&[read(0, 10, 1, 2)]), Err(Check::Linearizability));
        // The answer differs from the reference: the reply to another command.
        let mut wrong = put(0, 2, 10, 2);
        if let CallResult::Answered { answer, .. } = &mut wrong.ending {
            answer.value = 1;
        }
        assert_eq!(check(&[wrong]), Err(Check::Linearizability));
        // Acknowledged but executed by no replica.
        assert_eq!(check(&[put(0, 3, 10, 3)]), Err(Check::Durability));
        // A read of a future state.
        assert_eq!(check(&[read(0, 10, 3, 2)]), Err(Check::Linearizability));
    }
}
