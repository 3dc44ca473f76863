//! External programs as state machines: one process for each replica, and one that is never restarted.
//!
//! The processes outlive the runs; a replica that starts makes its program open a new machine. Separate processes for
//! the replicas reveal nondeterminism: replicas that differ although their inputs are equal.

use std::cell::RefCell;
use std::io::{self, BufReader};
use std::process::{Child, ChildStdin, ChildStdout, Command as Process, Stdio};
use std::rc::Rc;

use headrace_buffer::Slice;
use headrace_vsr::api::CommandReply;
use headrace_vsr::frame::digest;

use super::pipe::{self, Answered, Kind, Parts};
use super::{COMMAND_BYTES, Execution, UNINTERRUPTED};
use crate::checker::{Check, Violation};

/// Programs for the runs of one thread.
#[derive(Debug)]
pub struct Programs {
    command: Vec<String>,
    /// Processes, started at their first request.
    running: RefCell<Vec<Option<Running>>>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Programs {
    /// Programs with this command line: words separated by spaces. Each program gets its number as an additional last
    /// word.
    pub fn new(command: &str) -> io::Result<Self> {
        let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        if command.is_empty() {
            return Err(io::Error::other(
                "the program of the state machine has no name",
            ));
        }
        let programs = Self {
            command,
            running: RefCell::new((0..=UNINTERRUPTED).map(|_| None).collect()),
        };
        // Start one program at once, so that a wrong command line is reported before the first run.
        programs
            .try_ask(UNINTERRUPTED, Kind::Open, &[])?
            .map_err(io::Error::other)?;
        Ok(programs)
    }

    /// Draw a command from the given words and the newest state.
    pub(super) fn draw(&self, run: u64, word: u64) -> Result<Vec<u8>, Violation> {
        let words = [run.to_le_bytes(), word.to_le_bytes()].concat();
        self.ask(UNINTERRUPTED, Kind::Draw, &words)
    }

    fn ask(&self, node: u8, kind: Kind, bytes: &[u8]) -> Result<Vec<u8>, Violation> {
        let violation = |what: String| {
            let whose = if node == UNINTERRUPTED {
                "that was never restarted".to_owned()
            } else {
                format!("of replica {node}")
            };
            Violation::new(
                Check::Machine,
                format!("the machine {whose}, {kind:?}: {what}"),
            )
        };
        match self.try_ask(node, kind, bytes) {
            Ok(answered) => answered.map_err(violation),
            Err(error) => {
                // The process is out of step with its requests and is replaced for the next run.
                self.running.borrow_mut()[usize::from(node)] = None;
                Err(violation(error.to_string()))
            }
        }
    }

    fn try_ask(&self, node: u8, kind: Kind, bytes: &[u8]) -> io::Result<Answered> {
        let mut all = self.running.borrow_mut();
        let slot = &mut all[usize::from(node)];
        let running = match slot {
            Some(running) => running,
            None => slot.insert(Running::start(&self.command, node)?),
        };
        pipe::ask(&mut running.to, &mut running.from, kind, bytes)
    }
}

impl Running {
    fn start(command: &[String], node: u8) -> io::Result<Self> {
        let mut child = Process::new(&command[0])
            .args(&command[1..])
            .arg(node.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| io::Error::other(format!("{}: {error}", command[0])))?;
        let to = child.stdin.take().expect("it is a pipe");
        let from = BufReader::new(child.stdout.take().expect("it is a pipe"));
        Ok(Self { child, to, from })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process needs no orderly shutdown; errors because it has already ended are ignored.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Machine in the program of a replica.
#[derive(Debug)]
pub struct Remote {
    programs: Rc<Programs>,
    node: u8,
    /// Digest of everything executed.
    past: u128,
    /// Digest of the state, computed by the program.
    state: u128,
}

impl Remote {
    pub(super) fn fresh(programs: &Rc<Programs>, node: u8) -> Result<Self, Violation> {
        let state = programs.ask(node, Kind::Open, &[])?;
        Self::with(programs, node, 0, &state)
    }

    pub(super) fn restore(
        programs: &Rc<Programs>,
        node: u8,
        bytes: &[u8],
    ) -> Result<Option<Self>, Violation> {
        let mut parts = Parts(bytes);
        let Some(past) = parts.digest() else {
            return Ok(None);
        };
        let state = programs.ask(node, Kind::Restore, parts.0)?;
        Self::with(programs, node, past, &state).map(Some)
    }

    fn with(
        programs: &Rc<Programs>,
        node: u8,
        past: u128,
        state: &[u8],
    ) -> Result<Self, Violation> {
        Ok(Self {
            programs: Rc::clone(programs),
            node,
            past,
            state: Parts(state).digest().ok_or_else(nonsense)?,
        })
    }

    /// Digest of everything executed and of the state.
    pub fn history(&self) -> u128 {
        digest(&[self.past.to_le_bytes(), self.state.to_le_bytes()].concat())
    }

    pub(super) fn execute(
        &mut self,
        execution: Execution<'_>,
    ) -> Result<Vec<CommandReply>, Violation> {
        let mut question = execution.op.to_le_bytes().to_vec();
        question.extend(execution.timestamp_ns.to_le_bytes());
        question.extend(length(execution.bodies.len()));
        for body in execution.bodies {
            let payload = &body[COMMAND_BYTES..];
            question.extend(length(payload.len()));
            question.extend(payload);
        }
        let answer = self.programs.ask(self.node, Kind::Apply, &question)?;
        self.state = Parts(&answer).digest().ok_or_else(nonsense)?;
        // The history includes all replies and notifications.
        let past = [&self.past.to_le_bytes()[..], &question, &answer].concat();
        self.past = digest(&past);
        replies(&answer, execution.bodies.len()).ok_or_else(nonsense)
    }

    pub(super) fn snapshot(&self) -> Result<Vec<u8>, Violation> {
        let mut bytes = self.past.to_le_bytes().to_vec();
        bytes.extend(self.programs.ask(self.node, Kind::Snapshot, &[])?);
        Ok(bytes)
    }
}

fn replies(answer: &[u8], count: usize) -> Option<Vec<CommandReply>> {
    let mut parts = Parts(answer);
    parts.bytes(32)?;
    let replies = (0..count)
        .map(|_| {
            let (status, length) = (parts.number()?, parts.number()?);
            let body = parts.bytes(length as usize)?.to_vec();
            Some(CommandReply {
                status,
                body: Slice::from_vec(body),
            })
        })
        .collect::<Option<_>>()?;
    parts.0.is_empty().then_some(replies)
}

fn length(of: usize) -> [u8; 4] {
    u32::try_from(of)
        .expect("operations are bounded")
        .to_le_bytes()
}

fn nonsense() -> Violation {
    Violation::new(
        Check::Machine,
        "a program answered something else than was asked",
    )
}
