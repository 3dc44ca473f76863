//! Steps of a replica and execution of their outputs.

use headrace_buffer::Slice;
use headrace_vsr::api::{Event as Input, Output, StorageError, StoragePart};
use headrace_vsr::journal::RecordedLog;
use headrace_vsr::rules::Rules;

use super::describe::{describe, detail, name};
use super::files;
use super::node::{Done, JournalWork, Process};
use super::{Bare, BareEvent, Cluster, Part};
use crate::checker::{Check, Violation};
use crate::client::ClientResponse;
use crate::jobs::Step;
use crate::mutants::{HostFault, remove_seals};
use crate::options::{MICROSECOND, MILLISECOND, SECOND};
use crate::random::Domain;

/// `ENOSPC`.
const NO_SPACE: i32 = 28;
/// `EIO`.
const INPUT_OUTPUT: i32 = 5;
/// Period of the timers.
const TICK_NS: u64 = 10 * MILLISECOND;

impl<R: Rules + Clone> Cluster<Bare<R>> {
    /// Run a step of a replica with the collected inputs and `last`.
    pub(super) fn step(&mut self, node: u8, last: Option<Input>) {
        let now = self.now(node);
        let mut out = Vec::new();
        let Some(process) = &mut self.nodes[usize::from(node)].process else {
            return;
        };
        let inputs = std::mem::take(&mut process.inbox);
        process
            .replica
            .step(now, inputs.into_iter().chain(last), &mut out);
        self.after_step(node, out);
    }

    pub(super) fn tick(&mut self, node: u8, incarnation: u64) {
        let now_ns = self.now_ns();
        if !self.runs(node, incarnation) {
            return;
        }
        let now = self.now(node);
        let Some(process) = &mut self.nodes[usize::from(node)].process else {
            return;
        };
        if process.tick_ns.is_some_and(|tick_ns| tick_ns > now_ns) {
            return;
        }
        process.tick_ns = None;
        let mut out = Vec::new();
        process.replica.tick(now, &mut out);
        self.after_step(node, out);
    }

    pub(super) fn read_index(&mut self, node: u8, id: u64) {
        let now = self.now(node);
        let mut out = Vec::new();
        let Some(process) = &mut self.nodes[usize::from(node)].process else {
            return;
        };
        process.replica.read_index(now, id, &mut out);
        self.after_step(node, out);
    }

    pub(super) fn after_step(&mut self, node: u8, outputs: Vec<Output>) {
        let now_ns = self.now_ns();
        let index = usize::from(node);
        self.tally.add("steps");
        let crash = self.nodes[index]
            .storage
            .crash_in_step
            .filter(|_| !outputs.is_empty());
        let kept = crash.map_or(outputs.len(), |crash| {
            usize::from(crash.outputs).min(outputs.len())
        });
        let before = outputs.len();
        for output in outputs.into_iter().take(kept) {
            if self.nodes[index].process.is_none() || self.violation.is_some() {
                return;
            }
            self.carry_out(node, output);
        }
        if let Some(crash) = crash {
            self.nodes[index].storage.crash_in_step = None;
            self.trace
                .event(now_ns, node, "crash in step", &[kept as u64, before as u64]);
            self.tally.add("crashes inside a step");
            self.crash(node, crash.power, crash.down_ns);
            return;
        }
        let cost_ns = if self.healed {
            0
        } else {
            self.scenario.options.step_cost_ns
        };
        if cost_ns > 0 {
            let cost_ns = self.draw(Domain::Process, node).below(cost_ns + 1);
            let node = &mut self.nodes[index];
            node.busy_until_ns = node.busy_until_ns.max(now_ns) + cost_ns;
        }
        self.check_state(node);
        self.observe(node);
        self.plan_tick(node);
    }

    fn plan_tick(&mut self, node: u8) {
        let now_ns = self.schedule.now_ns();
        let state = &mut self.nodes[usize::from(node)];
        let Some(process) = &mut state.process else {
            return;
        };
        let Some(deadline_ns) = process.replica.next_deadline_ns() else {
            return;
        };
        let at_ns = state
            .clock
            .virtual_of(deadline_ns)
            .max(now_ns + 1)
            .next_multiple_of(TICK_NS);
        if process.tick_ns.is_none_or(|tick_ns| tick_ns > at_ns) {
            process.tick_ns = Some(at_ns);
            let incarnation = process.incarnation;
            self.schedule
                .plan_own(at_ns, 4, BareEvent::Tick { node, incarnation });
        }
    }

    fn process(&mut self, node: u8) -> &mut Process<R> {
        self.nodes[usize::from(node)]
            .process
            .as_mut()
            .expect("outputs are carried out while the process runs")
    }

    fn carry_out(&mut self, node: u8, output: Output) {
        let now_ns = self.now_ns();
        self.trace
            .event(now_ns, node, name(&output), &detail(&output));
        self.trace.explain(now_ns, node, || describe(&output));
        match output {
            Output::Send { to, frame } => {
                let trust = &self.process(node).trust;
                if trust.may_send(frame.header.command()) {
                    self.send(node, to, &Slice::from_vec(frame.encode()));
                }
            }
            Output::Apply(operation) => self.execute(node, &operation),
            Output::Checkpoint { op, clients } => self.checkpoint(node, op, &clients),
            Output::Reply { client, frame } => {
                if let Some(to) = self.process(node).sessions.get(&client).copied() {
                    self.respond(
                        node,
                        to,
                        &ClientResponse::Frame(Slice::from_vec(frame.encode())),
                    );
                }
            }
            Output::Proposed {
                request_id: ticket,
                outcome,
            } => match self.process(node).proposed(ticket) {
                Some((to, call)) => {
                    self.respond(node, to, &ClientResponse::Proposed { call, outcome });
                }
                None => self.fail(
                    node,
                    Violation::new(Check::Tokens, format!("proposal {ticket} ended twice")),
                ),
            },
            Output::GcLog { below_op } => self.queue(node, None, JournalWork::Collect { below_op }),
            Output::Append { token, frames } => {
                let tokens = vec![token];
                self.queue(node, Some(token), JournalWork::Append { tokens, frames });
            }
            Output::Truncate { token, from_op } => {
                self.tally.add("journal cuts");
                self.queue(node, Some(token), JournalWork::Truncate { token, from_op });
            }
            Output::ReadReady { id, outcome } => self.read_ready(node, id, outcome),
            Output::Notice(notice) => self.notice(node, notice),
            Output::Fatal(reason) => self.fatal(node, reason),
            storage => self.store(node, storage),
        }
    }

    /// Execute an output for the disk.
    fn store(&mut self, node: u8, output: Output) {
        let disk = &self.scenario.options.disk;
        let (append_ns, superblock_ns, read_ns) = (
            disk.append_mean_ns,
            disk.superblock_mean_ns,
            disk.read_mean_ns,
        );
        let (token, part, mean_ns, steps, done) = match output {
            Output::Superblock { token, image } => {
                let done = Done::Superblock {
                    token,
                    sequence: image.sequence,
                    view: image.view.number,
                    log: RecordedLog::of(&image),
                    checkpoint_op: image.checkpoint.op,
                };
                (
                    Some(token),
                    Part::Superblock,
                    superblock_ns,
                    files::superblock_steps(&image),
                    done,
                )
            }
            Output::Read {
                token,
                op,
                checksum,
            } => (
                Some(token),
                Part::Checkpoint,
                read_ns,
                Vec::new(),
                Done::Read {
                    token,
                    op,
                    checksum,
                },
            ),
            Output::ReadChunk {
                token,
                op,
                offset,
                length,
            } => (
                Some(token),
                Part::Checkpoint,
                read_ns,
                Vec::new(),
                Done::ChunkRead {
                    token,
                    op,
                    offset,
                    length,
                },
            ),
            Output::WriteChunk {
                token,
                op,
                offset,
                bytes,
            } => {
                let steps = files::chunk_steps(op, offset, &bytes);
                (
                    Some(token),
                    Part::Checkpoint,
                    append_ns,
                    steps,
                    Done::ChunkWritten { token },
                )
            }
            Output::Install {
                token,
                op,
                length,
                digest,
            } => (
                Some(token),
                Part::Checkpoint,
                append_ns,
                Vec::new(),
                Done::Install {
                    token,
                    op,
                    length,
                    digest,
                },
            ),
            other => unreachable!("{other:?} does not concern the disk"),
        };
        self.begin(node, token, part, mean_ns, steps, done);
    }

    pub(super) fn send(&mut self, from: u8, to: u8, bytes: &Slice) {
        let state = &self.nodes[usize::from(from)];
        let life = state.storage.disk_generation;
        let Some(process) = state
            .process
            .as_ref()
            .filter(|process| process.is_superblock_durable)
        else {
            // No connections exist before the superblock of the start is durable.
            return;
        };
        let process = process.incarnation;
        for delivery in self
            .network
            .send(self.now_ns(), from, to, bytes)
            .into_iter()
            .flatten()
        {
            self.schedule.plan_own(
                delivery.at_ns,
                2,
                BareEvent::Frame {
                    from,
                    to,
                    life,
                    process,
                    bytes: delivery.bytes,
                    is_damaged: delivery.is_damaged,
                },
            );
        }
    }

    /// Queue work for the journal, and start it at once if its disk is idle.
    fn queue(&mut self, node: u8, token: Option<u64>, work: JournalWork) {
        if self.take_token(node, token) {
            self.process(node).queued.push_back(work);
            self.start_next_journal_work(node);
        }
    }

    /// Start the next work of the journal, unless its disk is busy.
    pub(super) fn start_next_journal_work(&mut self, node: u8) {
        while let Some(process) = &mut self.nodes[usize::from(node)].process
            && process.journal.is_idle()
            && let Some(work) = process.next_journal_work()
        {
            let (steps, done) = match work {
                JournalWork::Append { tokens, frames } => {
                    let (steps, placed) = process.store.append(&frames);
                    if tokens.len() > 1 {
                        self.tally.add("group commits of several appends");
                    }
                    (steps, Done::Appended { tokens, placed })
                }
                JournalWork::Truncate { token, from_op } => {
                    let mut steps = process.store.truncate(from_op);
                    if self.kind.host_fault == Some(HostFault::CutUnsealed) {
                        remove_seals(&mut steps);
                    }
                    (steps, Done::Truncated { token, from_op })
                }
                JournalWork::Collect { below_op } => {
                    let steps = process.store.collect(below_op);
                    if steps.is_empty() {
                        continue;
                    }
                    self.tally.add("journal files removed");
                    (steps, Done::Nothing)
                }
            };
            self.journal(node, steps, done);
        }
    }

    /// Submit a request to the journal, which may find no space, or fail at its sync.
    fn journal(&mut self, node: u8, steps: Vec<Step>, done: Done) {
        let now_ns = self.now_ns();
        let state = &mut self.nodes[usize::from(node)];
        // Nothing waits for the removal of files: a planned error is kept for the next request.
        let is_awaited = !matches!(done, Done::Nothing);
        let planned = state.sync_error.take_if(|_| is_awaited);
        let failed = match (planned, state.full_until_ns > now_ns) {
            _ if !is_awaited => None,
            (Some(down_ns), _) => Some((INPUT_OUTPUT, down_ns)),
            (None, true) => Some((NO_SPACE, state.full_until_ns - now_ns)),
            (None, false) => None,
        };
        if let Some((errno, down_ns)) = failed {
            self.tally.add(if errno == NO_SPACE {
                "appends without space"
            } else {
                "failed syncs"
            });
            if self.kind.host_fault == Some(HostFault::ErrorsIgnored) {
                // The files are created, but the data is not written.
                let steps = steps
                    .into_iter()
                    .filter(|step| !matches!(step, Step::Write { .. }))
                    .collect();
                return self.begin(node, None, Part::Journal, MILLISECOND, steps, done);
            }
            if let Some(process) = &mut state.process {
                for step in &steps {
                    if let Step::Sync(name) = step {
                        state.storage.disk.fail_sync(name);
                    }
                }
                process.queued.clear();
            }
            self.step(
                node,
                Some(Input::StorageError(StorageError {
                    part: StoragePart::Journal,
                    errno,
                })),
            );
            if self.nodes[usize::from(node)].process.is_some() {
                self.crash(node, None, down_ns);
            }
            return;
        }
        let latency_ns = self.scenario.options.disk.append_mean_ns;
        self.begin(node, None, Part::Journal, latency_ns, steps, done);
    }

    /// Record a token that must be completed once. Returns false if it was already issued.
    fn take_token(&mut self, node: u8, token: Option<u64>) -> bool {
        let Some(token) = token else {
            return true;
        };
        let is_new = self.process(node).tokens.insert(token);
        if !is_new {
            let what = format!("token {token} was given out twice");
            self.fail(node, Violation::new(Check::Tokens, what));
        }
        is_new
    }

    /// Start a disk request.
    pub(super) fn begin(
        &mut self,
        node: u8,
        token: Option<u64>,
        part: Part,
        mean_ns: u64,
        mut steps: Vec<Step>,
        done: Done,
    ) {
        let now_ns = self.now_ns();
        if !self.take_token(node, token) {
            return;
        }
        if let Some(misdeed) = self.kind.host_fault {
            misdeed.change(part, &mut steps);
        }
        let mut draw = self.draw(Domain::Disk, node);
        let state = &mut self.nodes[usize::from(node)];
        let slow = if state.slow_until_ns > now_ns {
            u64::from(state.slow_factor)
        } else {
            1
        };
        let mean_ns = if self.healed {
            mean_ns.min(2 * MILLISECOND)
        } else {
            mean_ns
        };
        let latency_ns = (20 * MICROSECOND + draw.exponential(mean_ns) * slow).min(30 * SECOND);
        let Some(process) = &mut state.process else {
            return;
        };
        let incarnation = process.incarnation;
        let at_ns = process.jobs(part).push(now_ns, latency_ns, steps, done);
        self.schedule.plan_own(
            at_ns,
            1,
            BareEvent::Disk {
                node,
                incarnation,
                part,
            },
        );
    }
}
