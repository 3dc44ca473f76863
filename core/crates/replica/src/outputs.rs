//! Execution of the core's outputs.

use headrace_buffer::Slice;
use headrace_model::Level;
use headrace_vsr::api::{
    ApplyOperation, CommandReply, Event, FatalReason, Notice, Outcome, Output, ReadOutcome,
};
use headrace_vsr::frame::NO_REPLICA;

use crate::{
    events::{Refusal, ReplicaEvent},
    storage::{FileJob, ImageDigest, JournalJob},
    thread::ReplicaThread,
};

/// Event for the core after the state machine has applied an op.
pub(crate) fn applied(op: u64, replies: Vec<Slice>) -> Event {
    let reply = |body| CommandReply { status: 0, body };
    Event::Applied {
        op,
        replies: replies.into_iter().map(reply).collect(),
    }
}

impl ReplicaThread {
    /// Carry out all outputs in order. Immediate results become events.
    pub(crate) fn carry_out_outputs(&mut self) {
        for output in std::mem::take(&mut self.work.outputs) {
            self.carry_out(output);
        }
        self.journal
            .carry_out_waiting(&*self.machine, &mut self.work.events);
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Send { to, frame } => {
                if let Some(peers) = &mut self.peers
                    && self.trust.may_send(frame.header.command())
                {
                    self.shared.count(|counters| counters.sent_frames += 1);
                    peers.send(to, &frame);
                }
            }
            Output::Append { token, frames } => {
                self.journal_job(JournalJob::Append { token, frames });
            }
            Output::Truncate { token, from_op } => {
                self.journal_job(JournalJob::Truncate { token, from_op });
            }
            Output::Read {
                token,
                op,
                checksum,
            } => {
                self.journal_job(JournalJob::Read {
                    token,
                    op,
                    checksum,
                });
            }
            Output::Superblock { token, image } => {
                self.journal_job(JournalJob::Superblock { token, image });
            }
            Output::GcLog { below_op } => self.journal_job(JournalJob::Collect { below_op }),
            Output::Apply(operation) => self.apply(operation),
            Output::Checkpoint { op, clients } => {
                self.work.client_tables.insert(op, clients);
                self.work.host_events.push(ReplicaEvent::Checkpoint { op });
            }
            Output::ReadChunk {
                token,
                op,
                offset,
                length,
            } => {
                self.file_job(FileJob::ReadChunk {
                    token,
                    op,
                    offset,
                    length,
                });
            }
            Output::WriteChunk {
                token,
                op,
                offset,
                bytes,
            } => {
                self.file_job(FileJob::WriteChunk {
                    token,
                    op,
                    offset,
                    bytes,
                });
            }
            Output::Install {
                token,
                op,
                length,
                digest,
            } => {
                let name = ImageDigest { length, digest };
                self.file_job(FileJob::Install { token, op, name });
            }
            Output::Reply { client, frame } => self.answer_client(client, &frame),
            Output::Proposed {
                request_id: ticket,
                outcome,
            } => self.proposed(ticket, &outcome),
            Output::ReadReady { id, outcome } => self.read_ready(id, outcome),
            Output::Notice(notice) => self.notice(notice),
            Output::Fatal(reason) => self.halt(reason),
        }
    }

    fn journal_job(&mut self, job: JournalJob) {
        self.journal.submit(job);
    }

    fn apply(&mut self, operation: ApplyOperation) {
        let ApplyOperation {
            op,
            timestamp_ns,
            commands,
            ..
        } = operation;
        if commands.is_empty() {
            // No commands for the state machine: do not wake it.
            self.work.events.push(applied(op, Vec::new()));
            return;
        }
        self.work.applying = true;
        let count = commands.len() as u64;
        self.shared
            .count(|counters| counters.applied_commands += count);
        self.work.host_events.push(ReplicaEvent::Apply {
            op,
            timestamp_ns,
            commands: commands
                .into_iter()
                .map(|command| (command.request_id, command.body))
                .collect(),
        });
    }

    fn proposed(&mut self, ticket: u64, outcome: &Outcome) {
        let refusal = match *outcome {
            // The state machine received the request id with the command and has already answered.
            Outcome::Committed { .. } => return,
            Outcome::Redirected { primary } => self.redirected(primary),
            Outcome::Busy => Refusal::Busy,
            Outcome::Unknown => Refusal::Unknown,
            Outcome::Refused => Refusal::Oversize,
            Outcome::ReleaseNotInForce { .. } => Refusal::Release,
        };
        self.refuse(ticket, refusal);
    }

    fn read_ready(&mut self, ticket: u64, outcome: ReadOutcome) {
        if self.confirm_refusal(ticket, outcome) {
            return;
        }
        match outcome {
            ReadOutcome::Ready { op } => {
                self.shared.count(|counters| counters.reads += 1);
                self.work
                    .host_events
                    .push(ReplicaEvent::Read { ticket, op });
            }
            ReadOutcome::Redirected { primary } => {
                let refusal = self.redirected(primary);
                self.refuse(ticket, refusal);
            }
        }
    }

    pub(crate) fn redirected(&self, primary: u8) -> Refusal {
        // A primary-to-be that is not serving yet cannot name a better replica.
        let is_another = primary != self.replica && primary != NO_REPLICA;
        Refusal::NotPrimary(is_another.then_some(primary))
    }

    fn notice(&mut self, notice: Notice) {
        let line = match notice {
            // View changes are reported as roles.
            Notice::View { .. } | Notice::DuplicateRequest => return,
            Notice::Dropped(_) => {
                self.shared.count(|counters| counters.dropped_frames += 1);
                return;
            }
            Notice::HeaderRepaired { .. } | Notice::BodyRepaired { .. } => {
                self.shared.count(|counters| counters.repaired += 1);
                return;
            }
            Notice::Checkpointed { op } => {
                self.file_job(FileJob::KeepImages { op });
                return;
            }
            Notice::Truncated { from_op } => (
                Level::Info,
                format!(
                    "the metadata journal was cut before op {from_op}: those ops lost a view change"
                ),
            ),
            Notice::Faulty { op } => {
                self.shared.count(|counters| counters.faulty += 1);
                (
                    Level::Warning,
                    format!(
                        "op {op} of the metadata journal is damaged and is fetched from a peer"
                    ),
                )
            }
            Notice::StateTransferred { op } => {
                self.shared.count(|counters| counters.state_transfers += 1);
                self.file_job(FileJob::KeepImages { op });
                (
                    Level::Info,
                    format!("the metadata state of op {op} was fetched from a peer"),
                )
            }
            Notice::ReleaseInForce { release } => (
                Level::Info,
                format!(
                    "all metadata replicas run release {release} or a later one: what it brings is in force, and earlier \
                     releases are refused from now on"
                ),
            ),
            Notice::Deadlock { op } => (
                Level::Error,
                format!(
                    "no metadata replica has op {op}, which may have been acknowledged: the group waits for a replica \
                     that has it"
                ),
            ),
            Notice::Abdicated { view } => (
                Level::Warning,
                format!("the metadata replica gave up view {view}: it hears no quorum"),
            ),
        };
        self.log(line.0, line.1);
    }

    fn halt(&mut self, reason: FatalReason) {
        let mut text = reason.to_string();
        if let FatalReason::Release { needed, own } = reason {
            text = format!(
                "release {needed} is in force in this group, and this is {own}: run {needed} or a later one"
            );
        } else if let FatalReason::Storage(error) = reason {
            let system = std::io::Error::from_raw_os_error(error.errno);
            text = format!(
                "{:?} could not be written ({system}); what was acknowledged is safe: mend the disk and start again",
                error.part
            );
        } else {
            let inputs: Vec<String> = self
                .core
                .recent_inputs()
                .map(|input| format!("{input:?}"))
                .collect();
            self.log(
                Level::Error,
                format!("the last inputs before the halt: {}", inputs.join(" ")),
            );
        }
        self.disk.close();
        self.work.halted = Some(text);
    }
}
