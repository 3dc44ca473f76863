//! State machines of the replicas: the simulator's own, or an external program.

mod command;
mod names;
mod pipe;
mod program;

use std::rc::Rc;

use headrace_buffer::Slice;
use headrace_vsr::api::CommandReply;

pub use command::{Action, Answer, COMMAND_BYTES, CONFLICT, Command, NEWER, NOT_FOUND, OLDER};
pub use names::Names;
pub use program::{Programs, Remote};

use crate::checker::Violation;
use crate::random::Draw;

/// Node number of the machine that executes everything once and is never restarted.
pub const UNINTERRUPTED: u8 = 5;

/// Operation to be executed by a state machine.
#[derive(Clone, Copy, Debug)]
pub struct Execution<'a> {
    /// Position in the log.
    pub op: u64,
    /// Timestamp, the only source of time for the state machine.
    pub timestamp_ns: u64,
    /// Commands in order.
    pub commands: &'a [Command],
    /// Encoded commands, in the same order.
    pub bodies: &'a [Slice],
}

/// Kind of the state machines of a run.
#[derive(Clone, Debug)]
pub enum Machines {
    /// [`Names`].
    Names,
    /// External programs, one for each replica.
    Programs(Rc<Programs>),
}

impl Machines {
    /// Create a machine in its initial state.
    pub fn fresh(&self, node: u8) -> Result<Machine, Violation> {
        Ok(match self {
            Self::Names => Machine::Names(Names::default()),
            Self::Programs(programs) => Machine::Remote(Remote::fresh(programs, node)?),
        })
    }

    /// Restore a machine from a snapshot; `None` if the bytes are invalid.
    pub fn restore(&self, node: u8, bytes: &[u8]) -> Result<Option<Machine>, Violation> {
        Ok(match self {
            Self::Names => Names::restore(bytes).map(Machine::Names),
            Self::Programs(programs) => {
                Remote::restore(programs, node, bytes)?.map(Machine::Remote)
            }
        })
    }

    /// Draw a command from the program; `None` if the state machine is not a program.
    ///
    /// `run` is the same for all commands of a run.
    pub fn draw(&self, run: u64, draw: &mut Draw, id: u64) -> Result<Option<Slice>, Violation> {
        let Self::Programs(programs) = self else {
            return Ok(None);
        };
        let command = Command {
            action: Action::Given,
            key: 0,
            id,
            expected: 0,
        };
        let payload = programs.draw(run, draw.word())?;
        Ok(Some(command.carrying(&payload)))
    }

    /// Answer in a reply; `None` if the reply is invalid.
    pub fn answer(&self, status: u32, body: &[u8]) -> Option<Answer> {
        match self {
            Self::Names => Answer::decode(status, body),
            Self::Programs(_) => Some(Answer::of_bytes(status, body)),
        }
    }
}

/// State machine of a process.
#[derive(Debug)]
pub enum Machine {
    /// State machine of the simulator.
    Names(Names),
    /// External program.
    Remote(Remote),
}

impl Machine {
    /// Execute all commands of an operation.
    pub fn execute(&mut self, execution: Execution<'_>) -> Result<Vec<CommandReply>, Violation> {
        match self {
            Self::Names(names) => Ok(names.execute_all(execution)),
            Self::Remote(remote) => remote.execute(execution),
        }
    }

    /// Current value of a name. A program returns its state for every name.
    pub fn get(&self, key: u8) -> Answer {
        match self {
            Self::Names(names) => names.get(key),
            Self::Remote(remote) => Answer::of_state(remote.history()),
        }
    }

    /// Digest of everything executed so far and of the resulting state.
    pub fn history(&self) -> u128 {
        match self {
            Self::Names(names) => names.history(),
            Self::Remote(remote) => remote.history(),
        }
    }

    /// Canonical encoding of the state.
    pub fn snapshot(&self) -> Result<Vec<u8>, Violation> {
        match self {
            Self::Names(names) => Ok(names.snapshot()),
            Self::Remote(remote) => remote.snapshot(),
        }
    }
}
