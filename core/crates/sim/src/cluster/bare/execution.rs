//! State machine of a process, its checkpoints, and completions of disk requests.

use headrace_buffer::Slice;
use headrace_vsr::api::{ApplyOperation, Event as Input, FatalReason, Notice, ReadOutcome};
use headrace_vsr::frame::{Operation, digest};
use headrace_vsr::rules::Rules;

use super::alarms;
use super::files;
use super::node::Done;
use super::{Bare, BareEvent, Cluster, Part};
use crate::checker::{Check, Executed, Violation};
use crate::client::ClientResponse;
use crate::cluster::checks::SEAL_AFTER_NS;
use crate::machine::{Command, Execution};
use crate::mutants::HostFault;
use crate::options::MILLISECOND;
use crate::random::Domain;

impl<R: Rules + Clone> Cluster<Bare<R>> {
    /// Execute an operation; the response is scheduled.
    pub(super) fn execute(&mut self, node: u8, operation: &ApplyOperation) {
        let commands: Option<Vec<Command>> = operation
            .commands
            .iter()
            .map(|command| Command::decode(&command.body))
            .collect();
        let Some(commands) = commands else {
            let what = format!(
                "operation {} has a command that no client sent",
                operation.op
            );
            return self.fail(node, Violation::new(Check::Agreement, what));
        };
        let known = self.check_known(node, &commands);
        let Some(process) = &mut self.nodes[usize::from(node)].process else {
            return;
        };
        if process.executing {
            let what = format!(
                "operation {} is to be executed beside another one",
                operation.op
            );
            return self.fail(node, Violation::new(Check::Agreement, what));
        }
        let bodies: Vec<Slice> = operation
            .commands
            .iter()
            .map(|command| command.body.clone())
            .collect();
        let execution = Execution {
            op: operation.op,
            timestamp_ns: operation.timestamp_ns,
            commands: &commands,
            bodies: &bodies,
        };
        if let Err(violation) = known {
            return self.fail(node, violation);
        }
        let replies = match process.machine.execute(execution) {
            Ok(replies) => replies,
            Err(violation) => return self.fail(node, violation),
        };
        let previous = std::mem::replace(&mut process.executed, operation.op);
        process.executing = true;
        let incarnation = process.incarnation;
        let history = process.machine.history();
        self.tally.add("executions");
        self.tally
            .add_many("commands executed", commands.len() as u64);
        let first = operation.op > self.group.canon.newest_op();
        let followed = if first {
            self.group.reference.follow(execution, &replies, history)
        } else {
            Ok(())
        };
        let executed = Executed {
            checksum: operation.checksum,
            timestamp_ns: operation.timestamp_ns,
            commands,
            history,
        };
        if operation.operation == Operation::REGISTER {
            self.tally.add("registrations");
        }
        if operation.commands.len() > 1 {
            self.tally.add("operations of several commands");
        }
        let result = self.group.canon.executed(previous, operation.op, &executed);
        self.check(node, result.and(followed));
        if first {
            let result = self.check_time(operation.op, operation.timestamp_ns);
            self.check(node, result);
        }
        let late_ns = self.machine_delay_ns(node);
        self.schedule.plan_own(
            self.now_ns() + late_ns,
            1,
            BareEvent::Applied {
                node,
                incarnation,
                op: operation.op,
                replies,
            },
        );
    }

    /// Pass the result of an operation to the replica.
    pub(super) fn executed(&mut self, node: u8, op: u64) {
        if let Some(process) = &mut self.nodes[usize::from(node)].process
            && process.executed == op
        {
            process.executing = false;
        }
    }

    /// Write an image of the current state.
    pub(super) fn checkpoint(&mut self, node: u8, op: u64, clients: &Slice) {
        let Some(process) = &mut self.nodes[usize::from(node)].process else {
            return;
        };
        if process.executed != op {
            let what = format!(
                "a checkpoint of operation {op} while {} is executed",
                process.executed
            );
            return self.fail(node, Violation::new(Check::State, what));
        }
        let machine = match process.machine.snapshot() {
            Ok(machine) => machine,
            Err(violation) => return self.fail(node, violation),
        };
        let bytes = files::encode_image(&machine, clients);
        let done = Done::Checkpoint {
            op,
            length: bytes.len() as u64,
            digest: digest(&bytes),
        };
        let steps = files::checkpoint_steps(op, &bytes);
        let latency_ns = self.scenario.options.disk.append_mean_ns;
        self.begin(node, None, Part::Checkpoint, latency_ns, steps, done);
    }

    /// Complete the requests to a part of the storage that are done.
    pub(super) fn disk_done(&mut self, node: u8, incarnation: u64, part: Part) {
        if !self.runs(node, incarnation) {
            return;
        }
        let now_ns = self.now_ns();
        let state = &mut self.nodes[usize::from(node)];
        let Some(process) = &mut state.process else {
            return;
        };
        let finished = process.jobs(part).finish(now_ns, &mut state.storage.disk);
        for done in &finished {
            match done {
                Done::Appended { placed, .. } => {
                    process.store.appended(placed);
                    let newest = placed.iter().map(|(op, _)| *op).max().unwrap_or(0);
                    state.storage.held_through =
                        state.storage.held_through.map(|held| held.max(newest));
                    state.storage.forgotten.take_if(|op| *op <= newest);
                }
                Done::Truncated { from_op, .. } => {
                    let left = from_op.saturating_sub(1);
                    state.storage.held_through =
                        state.storage.held_through.map(|held| held.min(left));
                }
                _ => {}
            }
        }
        let is_cut = |done: &Done| matches!(done, Done::Truncated { .. });
        let result = if finished.iter().any(is_cut) {
            alarms::check_cut(&self.nodes[usize::from(node)])
        } else {
            Ok(())
        };
        self.check(node, result);
        if part == Part::Journal {
            // The disk starts the queued work at once; the replica learns of the completion independently.
            self.start_next_journal_work(node);
        }
        for done in finished {
            if !self.runs(node, incarnation) || self.violation.is_some() {
                return;
            }
            self.done(node, done);
        }
    }

    fn done(&mut self, node: u8, done: Done) {
        let now_ns = self.now_ns();
        let state = &mut self.nodes[usize::from(node)];
        let Some(process) = &mut state.process else {
            return;
        };
        let input = match done {
            Done::Nothing => return,
            Done::Appended { tokens, placed } => {
                for (op, _) in placed {
                    state.storage.damaged_ops.remove(&op);
                }
                let incarnation = process.incarnation;
                self.schedule.plan_own(
                    now_ns + SEAL_AFTER_NS,
                    1,
                    BareEvent::Idle { node, incarnation },
                );
                return self.appended(node, &tokens);
            }
            Done::Truncated { token, .. } => {
                // The truncated heads vouched for the durability of the records that remain.
                let incarnation = process.incarnation;
                self.schedule.plan_own(
                    now_ns + SEAL_AFTER_NS,
                    1,
                    BareEvent::Idle { node, incarnation },
                );
                Input::LogTruncated { token }
            }
            Done::Superblock {
                token,
                sequence,
                view,
                log,
                checkpoint_op,
            } => {
                state.storage.damaged_pair = None;
                process.is_superblock_durable = true;
                process.store.recorded(log);
                let result = state.progress.persisted(sequence, view, log.view);
                let old = files::old_checkpoints(&state.storage.disk, checkpoint_op);
                self.check(node, result);
                if !old.is_empty() {
                    let latency_ns = self.scenario.options.disk.append_mean_ns;
                    self.begin(node, None, Part::Checkpoint, latency_ns, old, Done::Nothing);
                }
                Input::SuperblockWritten { token }
            }
            Done::Checkpoint { op, length, digest } => Input::CheckpointDone { op, length, digest },
            Done::ChunkWritten { token } => Input::ChunkWritten { token },
            Done::Read {
                token,
                op,
                checksum,
            } => {
                let misread = std::mem::take(&mut state.storage.misreads);
                let frame = if misread {
                    self.tally.add("records read from elsewhere");
                    let store = &process.store;
                    // A record with a wrong checksum is read again.
                    store
                        .read_from(&state.storage.disk, op, checksum, crate::disk::SECTOR)
                        .or_else(|| store.read(&state.storage.disk, op, checksum))
                } else {
                    process.store.read(&state.storage.disk, op, checksum)
                };
                if frame.is_none() {
                    process.unreadable.insert(op);
                    self.tally.add("reads of damaged or missing records");
                }
                Input::ReadDone { token, frame }
            }
            Done::ChunkRead {
                token,
                op,
                offset,
                length,
            } => Input::ChunkRead {
                token,
                bytes: files::read_chunk(&state.storage.disk, op, offset, length),
            },
            Done::Install {
                token,
                op,
                length,
                digest,
            } => return self.install(node, token, op, length, digest),
        };
        self.trace.event(now_ns, node, "disk", &[token_of(&input)]);
        self.trace
            .explain(now_ns, node, || format!("disk: {}", brief(&input)));
        self.complete(node, input);
    }

    /// Complete the appends of a group commit one after the other.
    fn appended(&mut self, node: u8, tokens: &[u64]) {
        let now_ns = self.now_ns();
        let incarnation = self.nodes[usize::from(node)].starts;
        for token in tokens {
            if !self.runs(node, incarnation) || self.violation.is_some() {
                return;
            }
            self.trace.event(now_ns, node, "disk", &[*token]);
            self.trace
                .explain(now_ns, node, || format!("disk: appended {token}"));
            self.complete(node, Input::Appended { token: *token });
        }
    }

    /// Seal the journal, unless an append is in progress.
    pub(super) fn seal(&mut self, node: u8, incarnation: u64) {
        let state = &mut self.nodes[usize::from(node)];
        if let Some(process) = state
            .process
            .as_mut()
            .filter(|process| process.incarnation == incarnation)
            && process.journal.is_idle()
        {
            for step in process.store.seal() {
                step.carry_out(&mut state.storage.disk);
            }
        }
    }

    /// Complete a token, exactly once.
    fn complete(&mut self, node: u8, input: Input) {
        let token = token_of(&input);
        let Some(process) = &mut self.nodes[usize::from(node)].process else {
            return;
        };
        if token != 0 && !process.tokens.remove(&token) {
            return self.fail(
                node,
                Violation::new(Check::Tokens, format!("token {token} was completed twice")),
            );
        }
        self.step(node, Some(input));
    }

    /// Install a checkpoint received from another replica, if it is valid.
    fn install(&mut self, node: u8, token: u64, op: u64, length: u64, expected: u128) {
        let state = &mut self.nodes[usize::from(node)];
        let Some(process) = &mut state.process else {
            return;
        };
        let bytes = files::incoming(&state.storage.disk, op)
            .unwrap_or_default()
            .to_vec();
        let image = files::decode_image(&bytes)
            .filter(|_| bytes.len() as u64 == length && digest(&bytes) == expected);
        let restored = image.map_or(Ok(None), |(machine, clients)| {
            let machine = self.group.machines.restore(node, machine)?;
            Ok(machine.map(|machine| (machine, clients)))
        });
        let restored = match restored {
            Ok(restored) => restored,
            Err(violation) => return self.fail(node, violation),
        };
        let Some((machine, clients)) = restored else {
            self.tally.add("incoming checkpoints refused");
            return self.complete(
                node,
                Input::Installed {
                    token,
                    clients: None,
                },
            );
        };
        files::install(
            &mut state.storage.disk,
            op,
            self.kind.host_fault == Some(HostFault::DirectoryNotSynced),
        );
        let history = machine.history();
        process.machine = machine;
        process.executed = op;
        process.executing = false;
        state.storage.damaged_checkpoint = false;
        let result = self.group.canon.restored(op, history);
        self.check(node, result);
        self.complete(
            node,
            Input::Installed {
                token,
                clients: Some(clients),
            },
        );
    }

    pub(super) fn read_ready(&mut self, node: u8, id: u64, outcome: ReadOutcome) {
        let Some(process) = &mut self.nodes[usize::from(node)].process else {
            return;
        };
        let Some((to, call, key)) = process.read_ready(id) else {
            return self.fail(
                node,
                Violation::new(Check::Tokens, format!("read {id} ended twice")),
            );
        };
        let outcome = match outcome {
            ReadOutcome::Ready { op } if op > process.executed => {
                let what = format!(
                    "a read as of operation {op} while {} is executed",
                    process.executed
                );
                return self.fail(node, Violation::new(Check::Linearizability, what));
            }
            ReadOutcome::Ready { .. } => Ok((process.executed, process.machine.get(key))),
            ReadOutcome::Redirected { primary } => Err(primary),
        };
        self.respond(node, to, &ClientResponse::Read { call, outcome });
    }

    pub(super) fn notice(&mut self, node: u8, notice: Notice) {
        let result = self.judge_notice(node, notice);
        self.check(node, result);
        self.tally.add(match notice {
            Notice::View { .. } => "views and statuses entered",
            Notice::Dropped(_) => "frames dropped by replicas",
            Notice::Truncated { .. } => "logs cut",
            Notice::HeaderRepaired { .. } => "headers repaired",
            Notice::BodyRepaired { .. } => "bodies repaired",
            Notice::Faulty { .. } => "damaged records noticed",
            Notice::Checkpointed { .. } => "checkpoints",
            Notice::StateTransferred { .. } => "state transfers",
            Notice::Deadlock { .. } => "undecidable operations",
            Notice::Abdicated { .. } => "abdications",
            Notice::DuplicateRequest => "repeated requests",
            Notice::ReleaseInForce { .. } => "releases put in force",
        });
    }

    pub(super) fn fatal(&mut self, node: u8, reason: FatalReason) {
        match reason {
            FatalReason::Storage(_) => {
                self.tally.add("stops after storage errors");
                let down_ns = self.draw(Domain::Process, node).within(50, 1_500) * MILLISECOND;
                self.crash(node, None, down_ns);
            }
            FatalReason::Release { .. } => self.upgrade_refused(node),
            FatalReason::Invariant(_) | FatalReason::Diverged { .. } => {
                self.fail(
                    node,
                    Violation::new(Check::Invariant, format!("replica {node}: {reason}")),
                );
            }
        }
    }
}

fn token_of(input: &Input) -> u64 {
    match input {
        Input::Appended { token }
        | Input::LogTruncated { token }
        | Input::SuperblockWritten { token }
        | Input::ReadDone { token, .. }
        | Input::ChunkRead { token, .. }
        | Input::ChunkWritten { token }
        | Input::Installed { token, .. } => *token,
        _ => 0,
    }
}

fn brief(input: &Input) -> String {
    match input {
        Input::ReadDone { token, frame } => format!("ReadDone {token} {}", frame.is_some()),
        Input::ChunkRead { token, bytes } => {
            format!("ChunkRead {token} {:?}", bytes.as_ref().map(Slice::len))
        }
        Input::Installed { token, clients } => format!("Installed {token} {}", clients.is_some()),
        other => format!("{other:?}"),
    }
}
