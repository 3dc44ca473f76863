//! Start, steps and end of a process.

use headrace_buffer::Slice;
use headrace_replica::{ReplicaEvent, StartError};
use headrace_vsr::api::CommandReply;
use headrace_vsr::frame::digest;

use super::node::Process;
use super::{Cluster, Host, HostEvent, alarms, talk};
use crate::checker::{Check, Executed, Violation};
use crate::cluster::checks::SEAL_AFTER_NS;
use crate::machine::{Command, Execution, NEWER};
use crate::options::{MICROSECOND, MILLISECOND, SECOND};
use crate::random::Domain;

/// Interval between retries of writes that wait for space.
const FULL_RETRY_NS: u64 = 50 * MILLISECOND;

/// Response of a state machine.
#[derive(Debug)]
pub(crate) enum MachineAnswer {
    Applied { op: u64, replies: Vec<Slice> },
    Checkpoint { op: u64, state: Slice },
    Restored { op: u64 },
}

impl Cluster<Host> {
    /// Start a process, unless one is running or the node cannot start any more.
    pub(super) fn start(&mut self, node: u8) {
        let now_ns = self.now_ns();
        let state = &mut self.nodes[usize::from(node)];
        if state.process.is_some() || state.is_removed || state.refused.is_some() {
            return;
        }
        state.starts += 1;
        let starts = state.starts;
        state.storage.directory.begin();
        state.storage.directory.fill(now_ns < state.full_until_ns);
        state.storage.clocks.set(state.clock.at(now_ns));
        self.trace.event(now_ns, node, "start", &[starts]);
        self.trace
            .explain(now_ns, node, || format!("start {starts}"));
        self.tally.add("starts");
        (
            state.storage.has_reported_full,
            state.storage.without_space_before,
        ) = (false, state.storage.directory.counts().without_space);
        let expected = alarms::expected(state, &self.scenario.options, node);
        let opened = state.open(&self.scenario.options, node, &self.kind.wires);
        if state.storage.directory.is_dead() {
            drop(opened);
            self.tally.add("crashes while opening");
            return self.crash_at_file_operation(node);
        }
        let state = &mut self.nodes[usize::from(node)];
        match opened {
            Ok((replica, stepped)) => {
                let fresh = match self.group.machines.fresh(node) {
                    Ok(fresh) => fresh,
                    Err(violation) => return self.fail(node, violation),
                };
                state.has_run_newer |= state.release == NEWER;
                state.storage.has_damaged_superblock = false;
                state.storage.superblock_scars.clear();
                let status = replica.status();
                state.process = Some(Process {
                    incarnation: starts,
                    replica,
                    stepped,
                    machine: fresh,
                    executed: 0,
                    waiting: std::collections::BTreeMap::new(),
                    wake_ns: None,
                    writes: false,
                    works_on_files: false,
                    wrote_ns: now_ns,
                });
                let incarnation = starts;
                let idle = HostEvent::Idle { node, incarnation };
                self.schedule.plan_own(now_ns + SEAL_AFTER_NS, 1, idle);
                let result = self.check_start_metrics(node, expected, &status);
                self.check(node, result);
                self.run_turn(node);
            }
            Err(error) => self.not_started(node, &error),
        }
    }

    fn not_started(&mut self, node: u8, error: &StartError) {
        let now_ns = self.now_ns();
        self.trace
            .explain(now_ns, node, || format!("refused: {error}"));
        self.end_process(node);
        let state = &mut self.nodes[usize::from(node)];
        match error {
            StartError::NewerRelease { .. } => return self.upgrade_refused(node),
            StartError::Storage { .. } => {
                // After a failed sync or with a full disk the operator tries again.
                self.tally.add("starts that could not write");
                return self.plan_start(node, SECOND / 2);
            }
            _ => {}
        }
        let excused = state.storage.has_damaged_superblock
            || state.storage.has_damaged_checkpoint
            || state.storage.has_lost_files;
        state.refused = Some(error.to_string());
        self.tally.add("starts refused");
        if !excused {
            let what = format!("replica {node} does not start: {error}");
            self.fail(node, Violation::new(Check::Recovery, what));
        }
    }

    pub(super) fn wake(&mut self, node: u8, incarnation: u64) {
        let now_ns = self.now_ns();
        if !self.runs(node, incarnation) {
            return;
        }
        if let Some(process) = &mut self.nodes[usize::from(node)].process
            && process.wake_ns.is_some_and(|wake_ns| wake_ns <= now_ns)
        {
            process.wake_ns = None;
            self.run_turn(node);
        }
    }

    /// Run one turn of the replica's thread.
    pub(super) fn run_turn(&mut self, node: u8) {
        let now_ns = self.now_ns();
        let state = &mut self.nodes[usize::from(node)];
        let Some(process) = &mut state.process else {
            return;
        };
        if state.busy_until_ns > now_ns {
            let incarnation = process.incarnation;
            if process
                .wake_ns
                .is_none_or(|at_ns| at_ns > state.busy_until_ns)
            {
                process.wake_ns = Some(state.busy_until_ns);
                let wake = HostEvent::Wake { node, incarnation };
                self.schedule.plan_own(state.busy_until_ns, 2, wake);
            }
            return;
        }
        state.storage.directory.fill(now_ns < state.full_until_ns);
        state.storage.clocks.set(state.clock.at(now_ns));
        let is_alone = self.scenario.options.replicas == 1;
        state
            .storage
            .directory
            .fail_sync(is_alone && state.sync_error.is_some());
        process.stepped.process();
        state.storage.directory.fail_sync(false);
        if state.storage.directory.is_dead() {
            // The crash was during a write in this turn. All later work of the turn is void.
            return self.crash_at_file_operation(node);
        }
        if let Some(death) = state.storage.death.filter(|death| death.sent.is_some()) {
            let events = process.replica.take_events();
            self.trace.explain(now_ns, node, || {
                format!("dies with {} events untold", events.len())
            });
            self.tally.add("crashes amid sending");
            state.storage.death = None;
            return self.crash_sending(node, death);
        }
        let events = process.replica.take_events();
        self.send(node, None);
        let incarnation = self.nodes[usize::from(node)].starts;
        for event in events {
            if !self.runs(node, incarnation) || self.violation.is_some() {
                return;
            }
            self.event(node, event);
        }
        if self.runs(node, incarnation) {
            self.see(node);
            self.plan_work(node);
        }
    }

    /// Schedule the work of the other threads of a process.
    fn plan_work(&mut self, node: u8) {
        let now_ns = self.now_ns();
        let mut draw = self.draw(Domain::Disk, node);
        let state = &mut self.nodes[usize::from(node)];
        let options = &self.scenario.options.disk;
        let Some(process) = &mut state.process else {
            return;
        };
        let incarnation = process.incarnation;
        let factor = if now_ns < state.slow_until_ns {
            u64::from(state.slow_factor)
        } else {
            1
        };
        let is_full = now_ns < state.full_until_ns;
        let mut latency_ns = |mean_ns: u64| {
            let usual_ns = (draw.exponential(mean_ns) * factor).min(5 * SECOND) + MICROSECOND;
            usual_ns.max(if is_full { FULL_RETRY_NS } else { 0 })
        };
        if !process.writes && process.stepped.writer_has_jobs() {
            process.writes = true;
            let at_ns = now_ns + latency_ns(options.append_mean_ns);
            let writer = HostEvent::Writer { node, incarnation };
            self.schedule.plan_own(at_ns, 1, writer);
        }
        if !process.works_on_files && process.stepped.files_have_jobs() {
            process.works_on_files = true;
            let at_ns = now_ns + latency_ns(options.superblock_mean_ns);
            let files = HostEvent::Files { node, incarnation };
            self.schedule.plan_own(at_ns, 1, files);
        }
        if let Some(deadline_ns) = process.stepped.deadline_ns() {
            let at_ns = state
                .clock
                .virtual_of(deadline_ns)
                .max(now_ns + MICROSECOND);
            if process.wake_ns.is_none_or(|wake_ns| wake_ns > at_ns) {
                process.wake_ns = Some(at_ns);
                let wake = HostEvent::Wake { node, incarnation };
                self.schedule.plan_own(at_ns, 2, wake);
            }
        }
    }

    /// Run one step of the journal writer and notify the replica.
    pub(super) fn write(&mut self, node: u8, incarnation: u64) {
        if !self.runs(node, incarnation) {
            return;
        }
        let now_ns = self.now_ns();
        let state = &mut self.nodes[usize::from(node)];
        state.storage.directory.fill(now_ns < state.full_until_ns);
        state
            .storage
            .directory
            .fail_sync(state.sync_error.is_some());
        let Some(process) = &mut state.process else {
            return;
        };
        process.writes = false;
        process.wrote_ns = now_ns;
        process.stepped.write();
        state.storage.directory.fail_sync(false);
        self.trace
            .event(now_ns, node, "wrote", &[state.storage.directory.past()]);
        if state.storage.directory.is_dead() {
            return self.crash_at_file_operation(node);
        }
        let idle = HostEvent::Idle { node, incarnation };
        self.schedule.plan_own(now_ns + SEAL_AFTER_NS, 1, idle);
        self.run_turn(node);
    }

    /// Run one step of the other file thread.
    pub(super) fn work_on_files(&mut self, node: u8, incarnation: u64) {
        if !self.runs(node, incarnation) {
            return;
        }
        let now_ns = self.now_ns();
        let state = &mut self.nodes[usize::from(node)];
        state.storage.directory.fill(now_ns < state.full_until_ns);
        let Some(process) = &mut state.process else {
            return;
        };
        process.works_on_files = false;
        process.stepped.work_on_files();
        self.trace
            .event(now_ns, node, "files", &[state.storage.directory.past()]);
        if state.storage.directory.is_dead() {
            return self.crash_at_file_operation(node);
        }
        self.run_turn(node);
    }

    /// Seal the journal, unless a write has occurred in the meantime.
    pub(super) fn seal(&mut self, node: u8, incarnation: u64) {
        if !self.runs(node, incarnation) {
            return;
        }
        let now_ns = self.now_ns();
        let state = &mut self.nodes[usize::from(node)];
        // A seal may begin a journal file.
        state.storage.directory.fill(now_ns < state.full_until_ns);
        if let Some(process) = &mut state.process
            && process.wrote_ns + SEAL_AFTER_NS <= now_ns
        {
            if process.stepped.seal() {
                self.tally.add("seals");
            }
            if state.storage.directory.is_dead() {
                self.crash_at_file_operation(node);
            }
        }
    }

    /// Handle an event of a replica for its state machine or for clients.
    fn event(&mut self, node: u8, event: ReplicaEvent) {
        let now_ns = self.now_ns();
        self.trace.explain(now_ns, node, || format!("{event:?}"));
        match event {
            ReplicaEvent::Restore { op, state } => self.restore(node, op, &state),
            ReplicaEvent::Apply {
                op,
                timestamp_ns,
                commands,
            } => self.apply(node, op, timestamp_ns, commands),
            ReplicaEvent::Checkpoint { op } => {
                let passed = self.pass(node, op);
                self.check(node, passed);
                let Some(process) = &self.nodes[usize::from(node)].process else {
                    return;
                };
                match process.machine.snapshot() {
                    Ok(state) => {
                        self.tally.add("checkpoints");
                        let state = Slice::from_vec(state);
                        self.machine_works(node, MachineAnswer::Checkpoint { op, state });
                    }
                    Err(violation) => self.fail(node, violation),
                }
            }
            ReplicaEvent::RequestCompleted {
                request_id: ticket,
                session,
                reply,
            } => self.answered(node, ticket, session, &reply),
            ReplicaEvent::Refused { ticket, refusal } => self.refused(node, ticket, refusal),
            ReplicaEvent::Read { ticket, op } => self.read(node, ticket, op),
            ReplicaEvent::Log { level, message } => {
                let result = self.check_log_line(node, level, &message);
                self.check(node, result);
                if message.contains("has all of the state again") {
                    self.tally.add("replicas back with a new disk");
                }
            }
            ReplicaEvent::Role { .. } => {}
            ReplicaEvent::Stopped { reason } => self.stopped(node, &reason),
        }
    }

    /// Check that the operations up to `op` that a replica has not passed to its state machine have no commands.
    pub(super) fn pass(&mut self, node: u8, op: u64) -> Result<(), Violation> {
        let process = self.nodes[usize::from(node)].process.as_ref();
        let executed = process.map_or(op, |process| process.executed);
        self.group.canon.passed(executed, op)
    }

    fn restore(&mut self, node: u8, op: u64, bytes: &Slice) {
        let machine = match self.group.machines.restore(node, bytes) {
            Ok(Some(machine)) => machine,
            Ok(None) => {
                let what = format!("replica {node} restores what is no state");
                return self.fail(node, Violation::new(Check::State, what));
            }
            Err(violation) => return self.fail(node, violation),
        };
        self.tally.add("states restored");
        let history = machine.history();
        let result = self.group.canon.restored(op, history);
        let Some(process) = &mut self.nodes[usize::from(node)].process else {
            return;
        };
        process.machine = machine;
        process.executed = op;
        self.check(node, result);
        self.machine_works(node, MachineAnswer::Restored { op });
    }

    fn apply(&mut self, node: u8, op: u64, timestamp_ns: u64, given: Vec<(u64, Slice)>) {
        let (tickets, bodies): (Vec<u64>, Vec<Slice>) = given.into_iter().unzip();
        let commands: Option<Vec<Command>> =
            bodies.iter().map(|body| Command::decode(body)).collect();
        let Some(commands) = commands else {
            let what = format!("operation {op} has a command that no client sent");
            return self.fail(node, Violation::new(Check::Agreement, what));
        };
        if let Err(violation) = self.check_known(node, &commands) {
            return self.fail(node, violation);
        }
        let passed = self.pass(node, op - 1);
        let Some(process) = &mut self.nodes[usize::from(node)].process else {
            return;
        };
        let execution = Execution {
            op,
            timestamp_ns,
            commands: &commands,
            bodies: &bodies,
        };
        let replies = match process.machine.execute(execution) {
            Ok(replies) => replies,
            Err(violation) => return self.fail(node, violation),
        };
        let history = process.machine.history();
        let previous = std::mem::replace(&mut process.executed, op);
        let is_first = op > self.group.canon.newest_op();
        self.tally.add("executions");
        if commands.len() > 1 {
            self.tally.add("operations of several commands");
        }
        if previous >= op {
            let what = format!("operation {op} was executed after {previous}");
            return self.fail(node, Violation::new(Check::Agreement, what));
        }
        let executed = Executed {
            checksum: digest_of(&bodies),
            timestamp_ns,
            commands,
            history,
        };
        let result = passed.and_then(|()| self.group.canon.executed(op - 1, op, &executed));
        self.check(node, result);
        if is_first {
            let result = self.check_time(op, timestamp_ns);
            self.check(node, result);
        }
        self.reply_to(node, op, &tickets, &replies);
    }

    fn reply_to(&mut self, node: u8, op: u64, tickets: &[u64], replies: &[CommandReply]) {
        for (ticket, reply) in tickets
            .iter()
            .zip(replies)
            .filter(|(ticket, _)| **ticket != 0)
        {
            self.proposal_executed(node, *ticket, op, reply.clone());
        }
        let replies = replies.iter().map(|reply| talk::reply(op, reply)).collect();
        self.machine_works(node, MachineAnswer::Applied { op, replies });
    }

    /// Schedule the response of the state machine after a delay.
    fn machine_works(&mut self, node: u8, answer: MachineAnswer) {
        let late_ns = self.machine_delay_ns(node);
        let incarnation = self.nodes[usize::from(node)].starts;
        let answers = HostEvent::Machine {
            node,
            incarnation,
            answer,
        };
        self.schedule.plan_own(self.now_ns() + late_ns, 1, answers);
    }

    pub(super) fn machine_answers(&mut self, node: u8, incarnation: u64, answer: MachineAnswer) {
        if !self.runs(node, incarnation) {
            return;
        }
        let Some(process) = &self.nodes[usize::from(node)].process else {
            return;
        };
        match answer {
            MachineAnswer::Applied { op, replies } => process.replica.applied(op, replies),
            MachineAnswer::Checkpoint { op, state } => process.replica.checkpoint(op, state),
            MachineAnswer::Restored { op } => process.replica.restored(op),
        }
        self.run_turn(node);
    }

    fn see(&mut self, node: u8) {
        let Some(process) = &self.nodes[usize::from(node)].process else {
            return;
        };
        self.kind.views = self.kind.views.max(process.stepped.report().view);
        self.check_state(node);
    }

    /// Handle a replica that has stopped on its own.
    fn stopped(&mut self, node: u8, reason: &str) {
        let now_ns = self.now_ns();
        if reason.contains("restored from a backup") {
            return self.detect_rollback(node, false);
        }
        if reason.contains("is in force in this group") {
            return self.upgrade_refused(node);
        }
        let state = &mut self.nodes[usize::from(node)];
        if reason.contains("could not be written")
            && let Some(down_ns) = state.sync_error.take()
        {
            self.tally.add("failed syncs");
            return self.crash(node, None, down_ns);
        }
        let what = format!("replica {node} stops: {reason}");
        self.trace.explain(now_ns, node, || what.clone());
        self.fail(node, Violation::new(Check::Invariant, what));
    }
}

/// Digest of the commands of an operation, the only part of the log that reaches a state machine.
fn digest_of(bodies: &[Slice]) -> u128 {
    let bytes: Vec<u8> = bodies
        .iter()
        .flat_map(|body| body.iter().copied())
        .collect();
    digest(&bytes)
}
