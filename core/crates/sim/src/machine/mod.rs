//! State machines of the replicas: the one that comes with the simulator, or a program beside it.

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

/// Where the machine stands that executes everything once and is never restarted.
pub const UNINTERRUPTED: u8 = 5;

/// An operation for a state machine.
#[derive(Clone, Copy, Debug)]
pub struct Execution<'a> {
    /// Position in the log.
    pub op: u64,
    /// The only time of the state machine.
    pub timestamp_ns: u64,
    /// Commands in order.
    pub commands: &'a [Command],
    /// The bytes that each of them came in.
    pub bodies: &'a [Slice],
}

/// Of which kind the state machines of a run are.
#[derive(Clone, Debug)]
pub enum Machines {
    /// [`Names`].
    Names,
    /// A program each.
    Programs(Rc<Programs>),
}

impl Machines {
    /// A machine in its first state.
    pub fn fresh(&self, node: u8) -> Result<Machine, Violation> {
        Ok(match self {
            Self::Names => Machine::Names(Names::default()),
            Self::Programs(programs) => Machine::Remote(Remote::fresh(programs, node)?),
        })
    }

    /// The machine of a snapshot; `None` when the bytes are none.
    pub fn restore(&self, node: u8, bytes: &[u8]) -> Result<Option<Machine>, Violation> {
        Ok(match self {
            Self::Names => Names::restore(bytes).map(Machine::Names),
            Self::Programs(programs) => {
                Remote::restore(programs, node, bytes)?.map(Machine::Remote)
            }
        })
    }

    /// The bytes of a command, when it is a program that knows what its commands are.
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

    /// What a reply says; `None` when it is none.
    pub fn answer(&self, status: u32, body: &[u8]) -> Option<Answer> {
        match self {
            Self::Names => Answer::decode(status, body),
            Self::Programs(_) => Some(Answer::of_bytes(status, body)),
        }
    }
}

/// The state machine of a process.
#[derive(Debug)]
pub enum Machine {
    /// The one of the simulator.
    Names(Names),
    /// A program.
    Remote(Remote),
}

impl Machine {
    /// Executes an operation whole.
    pub fn execute(&mut self, execution: Execution<'_>) -> Result<Vec<CommandReply>, Violation> {
        match self {
            Self::Names(names) => Ok(names.execute_all(execution)),
            Self::Remote(remote) => remote.execute(execution),
        }
    }

    /// What a name holds now. A program answers for all names with its state.
    pub fn get(&self, key: u8) -> Answer {
        match self {
            Self::Names(names) => names.get(key),
            Self::Remote(remote) => Answer::of_state(remote.history()),
        }
    }

    /// Digest of everything executed so far and of the state that it led to.
    pub fn history(&self) -> u128 {
        match self {
            Self::Names(names) => names.history(),
            Self::Remote(remote) => remote.history(),
        }
    }

    /// Canonical bytes of the state.
    pub fn snapshot(&self) -> Result<Vec<u8>, Violation> {
        match self {
            Self::Names(names) => Ok(names.snapshot()),
            Self::Remote(remote) => remote.snapshot(),
        }
    }
}
