//! Turns of the shards, and the effects that they ask for.

use headrace_model::{Level, Timestamp};
use headrace_proto::control::v1::Reply;
use headrace_shard::{ConnectionKey, Effect, Input};

use super::process::Process;
use super::{Cluster, Data, DataEvent};
use crate::checker::{Check, Violation};
use crate::options::{MICROSECOND, MILLISECOND};
use crate::random::Domain;

/// Time between two ticks of a host.
const TICK_NS: u64 = 20 * MILLISECOND;

impl Cluster<Data> {
    /// Start a process, unless one is running.
    pub(super) fn start(&mut self, node: u8) {
        let seed = self.draw(Domain::Core, node).word();
        let now_ns = self.now_ns();
        let state = &mut self.nodes[usize::from(node)];
        if state.process.is_some() {
            return;
        }
        state.starts += 1;
        let incarnation = state.starts;
        state.process = Some(Process::new(&self.scenario.options.data, incarnation, seed));
        self.group.calm_ns = self.group.calm_ns.max(now_ns);
        self.trace.event(now_ns, node, "start", &[incarnation]);
        self.trace
            .explain(now_ns, node, || format!("start of process {incarnation}"));
        self.plan_turn(node);
        self.plan_tick(node, incarnation);
    }

    fn plan_tick(&mut self, node: u8, incarnation: u64) {
        let at_ns = self.now_ns() + TICK_NS;
        self.schedule
            .plan_own(at_ns, 2, DataEvent::Tick { node, incarnation });
    }

    /// Let the shards take a turn soon.
    pub(super) fn plan_turn(&mut self, node: u8) {
        let turn_ns = self.scenario.options.turn_ns.max(MICROSECOND);
        let now_ns = self.now_ns();
        let Some(process) = &mut self.nodes[usize::from(node)].process else {
            return;
        };
        if !std::mem::replace(&mut process.is_turn_planned, true) {
            let incarnation = process.incarnation;
            let turn = DataEvent::Turn { node, incarnation };
            self.schedule.plan_own(now_ns + turn_ns, 2, turn);
        }
    }

    /// Time of a process, which never goes back.
    fn timestamp(&mut self, node: u8) -> Timestamp {
        let now_ns = self.now_ns();
        let state = &mut self.nodes[usize::from(node)];
        let micros = state.clock.wall_ns(now_ns) / MICROSECOND;
        let process = state.process.as_mut().expect("a running process");
        process.now_micros = process.now_micros.max(micros);
        Timestamp(process.now_micros)
    }

    pub(super) fn tick(&mut self, node: u8) {
        let now = self.timestamp(node);
        let process = self.nodes[usize::from(node)].process.as_mut();
        let process = process.expect("a running process");
        let incarnation = process.incarnation;
        let mut effects = Vec::new();
        for (index, shard) in process.shards.iter_mut().enumerate() {
            let mut own = Vec::new();
            shard.tick(now, &mut own);
            shard.end_of_turn(now, &mut own);
            effects.extend(own.into_iter().map(|effect| (index, effect)));
        }
        self.plan_tick(node, incarnation);
        self.execute(node, effects);
    }

    pub(super) fn turn(&mut self, node: u8) {
        let now = self.timestamp(node);
        let process = self.nodes[usize::from(node)].process.as_mut();
        let process = process.expect("a running process");
        process.is_turn_planned = false;
        let mut effects = Vec::new();
        for index in 0..process.shards.len() {
            let shard = &mut process.shards[index];
            let mut own = Vec::new();
            shard.begin_turn(now, &mut own);
            for input in std::mem::take(&mut process.inputs[index]) {
                shard.step(now, input, &mut own);
            }
            shard.end_of_turn(now, &mut own);
            effects.extend(own.into_iter().map(|effect| (index, effect)));
        }
        if process
            .shards
            .iter()
            .any(headrace_shard::Shard::awaits_turn)
        {
            self.plan_turn(node);
        }
        self.execute(node, effects);
    }

    /// Execute effects of shards, up to a planned crash.
    fn execute(&mut self, node: u8, effects: Vec<(usize, Effect)>) {
        for (executed, (shard, effect)) in effects.into_iter().enumerate() {
            let planned = &mut self.nodes[usize::from(node)].storage.crash_in_step;
            if let Some(crash) = planned.take_if(|crash| usize::from(crash.outputs) <= executed) {
                self.tally.add("crashes inside a turn");
                return self.crash(node, crash.power, crash.down_ns);
            }
            self.execute_one(node, shard, effect);
        }
    }

    fn execute_one(&mut self, node: u8, shard: usize, effect: Effect) {
        let process = self.nodes[usize::from(node)].process.as_mut();
        let Some(process) = process else {
            return;
        };
        match effect {
            Effect::Receive {
                connection,
                buffer,
                start,
                minimum,
                ..
            } => {
                if let Some(connection) = process.connection(connection) {
                    connection.receive = Some((buffer, start, minimum));
                }
                self.deliver(node, connection);
            }
            Effect::Send { connection, slices } => self.send(node, connection, &slices),
            Effect::Finish { connection } => self.say_closed(node, connection),
            Effect::Close { connection } => {
                self.say_closed(node, connection);
                self.forget(node, connection);
            }
            Effect::Move {
                connection,
                to,
                connection_state,
            } => {
                let moved = ConnectionKey {
                    generation: connection.generation + 1,
                    ..connection
                };
                let shard = usize::from(to.0);
                if let Some(end) = process.connection(connection) {
                    (end.key, end.shard) = (moved, shard);
                }
                process.inputs[shard].push_back(Input::Adopted {
                    connection: moved,
                    connection_state,
                });
                self.tally.add("connections moved to another shard");
                self.plan_turn(node);
            }
            Effect::Storage { namespace, request } => {
                self.begin_operation(node, shard, namespace, request);
            }
            Effect::RemoveDirectory { namespace, .. } => {
                process.inputs[shard].push_back(Input::DirectoryRemoved { namespace });
                self.plan_turn(node);
            }
            Effect::Mail { to, mail } => {
                process.inputs[usize::from(to.0)].push_back(Input::Mail(mail));
                self.plan_turn(node);
            }
            Effect::Control { origin, .. } => {
                let reply = Reply::default();
                process.inputs[shard].push_back(Input::ControlReply { origin, reply });
                self.plan_turn(node);
            }
            Effect::Report { level, message } => self.reported(node, level, &message),
            Effect::Connect { .. } | Effect::ReleaseFiles { .. } | Effect::Notice { .. } => {}
        }
    }

    /// Handle a message to the operator.
    fn reported(&mut self, node: u8, level: Level, message: &str) {
        let now_ns = self.now_ns();
        self.trace
            .explain(now_ns, node, || format!("{}: {message}", level.name()));
        if message.contains("panic") {
            let what = format!("a partition failed: {message}");
            return self.fail(node, Violation::new(Check::Invariant, what));
        }
        for partition in &mut self.group.partitions {
            let name = partition.namespace.to_string();
            let is_of_damage = ["damaged", "lost", "moved from", "not served"]
                .iter()
                .any(|word| message.contains(word));
            if is_of_damage && message.contains(&name) {
                partition.messages.damage_noted();
                self.tally.add("losses reported to the operator");
            }
        }
    }
}
