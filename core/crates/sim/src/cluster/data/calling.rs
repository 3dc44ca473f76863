//! Calls of clients: each has one at a time, on one connection, and repeats it if it has failed.

use headrace_buffer::Slice;
use headrace_wire::Status;
use headrace_wire::frame::{RESPONSE_HEADER_BYTES, ResponseHeader};

use super::calls::{frame, greeting};
use super::client::{Action, Call, FinalCall, Verdict};
use super::{Cluster, Data, Part, Segment};
use crate::checker::{Check, Violation};
use crate::cluster::Event;
use crate::network::FIRST_CLIENT;
use crate::options::{MILLISECOND, SECOND};
use crate::random::{Domain, Draw};

/// Time after which a client gives a call up.
const TIMEOUT_NS: u64 = 4 * SECOND;
/// Maximum number of messages of one poll.
const POLLED_MAX: u64 = 60;

impl Cluster<Data> {
    fn plan_client(&mut self, client: u8, after_ns: u64) {
        let at_ns = self.now_ns() + after_ns;
        self.group.clients[usize::from(client)].wake_ns = at_ns;
        self.schedule.plan(at_ns, 3, Event::Client(client));
    }

    /// Let a client begin its calls after healing.
    pub(super) fn make_final_calls(&mut self, client: u8, calls: Vec<FinalCall>) {
        let state = &mut self.group.clients[usize::from(client)];
        state.calls_left = 0;
        state.finals.extend(calls);
        if state.call.is_none() {
            self.plan_client(client, 0);
        }
    }

    pub(super) fn client_wakes(&mut self, client: u8) {
        let now_ns = self.now_ns();
        let state = &self.group.clients[usize::from(client)];
        if state.wake_ns != now_ns {
            return;
        }
        if state.call.is_some() {
            self.tally.add("calls without an answer");
            return self.give_up(client, true);
        }
        self.begin_call(client);
    }

    fn begin_call(&mut self, client: u8) {
        let mut draw = self.draw(Domain::Workload, client + FIRST_CLIENT);
        let state = &mut self.group.clients[usize::from(client)];
        let (partition, action) = if let Some(call) = state.finals.front() {
            match *call {
                FinalCall::Send(partition) => (partition, self.batch(partition, &mut draw)),
                FinalCall::Get(partition) => (partition, Action::Get),
                FinalCall::Audit(partition, from) => {
                    let count = u32::try_from(POLLED_MAX).expect("small");
                    let poll = Action::Poll {
                        from,
                        count,
                        stores: None,
                    };
                    (partition, poll)
                }
            }
        } else if state.calls_left > 0 {
            state.calls_left -= 1;
            self.any_action(client, &mut draw)
        } else {
            return;
        };
        self.submit(client, partition, action, &mut draw);
    }

    fn batch(&mut self, partition: usize, draw: &mut Draw) -> Action {
        let padding = self.scenario.options.workload.padding;
        let now_ns = self.now_ns();
        let count = u32::try_from(draw.within(1, 8)).expect("small");
        let bytes = usize::try_from(draw.below(u64::from(padding) + 1)).expect("small");
        let messages = &mut self.group.partitions[partition].messages;
        let batch = messages.sent(count, now_ns);
        Action::Send {
            batch,
            count,
            bytes,
        }
    }

    /// Draw a call.
    fn any_action(&mut self, client: u8, draw: &mut Draw) -> (usize, Action) {
        let count = self.group.partitions.len() as u64;
        let chosen = usize::try_from(draw.below(count)).expect("an index");
        let read_ppm = self.scenario.options.workload.read_ppm;
        let reads = draw.chance(read_ppm);
        let choice = draw.below(100);
        let partition = &mut self.group.partitions[chosen];
        let end = partition.messages.end_max();
        let stored = &mut partition.stored[usize::from(client)];
        let action = match choice {
            _ if reads => {
                let from = if draw.chance(300_000) {
                    end.saturating_sub(draw.below(8))
                } else {
                    draw.below(end + 2)
                };
                let many = draw.within(1, POLLED_MAX);
                let keeps = draw.chance(300_000);
                Action::Poll {
                    from,
                    count: u32::try_from(many).expect("small"),
                    stores: keeps.then(|| stored.begun(from, from + many - 1)),
                }
            }
            0..70 => self.batch(chosen, draw),
            70..82 => {
                let offset = if draw.chance(100_000) {
                    end + 1_000
                } else {
                    draw.below(end.max(1))
                };
                let number = stored.begun(offset, offset);
                Action::Store { offset, number }
            }
            82..92 => Action::Get,
            _ => Action::Flush {
                is_synced: draw.chance(500_000),
            },
        };
        (chosen, action)
    }

    /// Send a call, or a part of it before the client hangs up.
    fn submit(&mut self, client: u8, partition: usize, action: Action, draw: &mut Draw) {
        let (now_ns, index) = (self.now_ns(), usize::from(client));
        self.trace
            .event(now_ns, client + FIRST_CLIENT, "call", &[partition as u64]);
        self.trace.explain(now_ns, client + FIRST_CLIENT, || {
            format!("partition {partition}: {action:?}")
        });
        let mut bytes = frame(&self.group.partitions[partition], client, &action);
        let hangup_ppm = self.scenario.options.data.hangup_ppm;
        let hangs_up = !self.healed && draw.chance(hangup_ppm);
        let sent = draw.below(bytes.len() as u64 * 2);
        let state = &mut self.group.clients[index];
        state.call = Some(Call {
            partition,
            action,
            sent_ns: now_ns,
        });
        if !state.is_connected {
            state.is_connected = true;
            state.connections += 1;
            state.greetings = 1;
            state.received.clear();
            let connection = state.connections;
            self.send_to_node(client, connection, Part::Opened);
            let greeting = Slice::from_vec(greeting());
            self.send_to_node(client, connection, Part::Bytes(greeting));
        }
        let connection = self.group.clients[index].connections;
        if hangs_up {
            bytes.truncate(usize::try_from(sent).expect("small"));
        }
        self.send_to_node(client, connection, Part::Bytes(Slice::from_vec(bytes)));
        if hangs_up {
            self.tally.add("connections that clients broke");
            self.give_up(client, true);
        } else {
            self.plan_client(client, TIMEOUT_NS);
        }
    }

    /// End a call without an answer. Whether it was executed is unknown.
    fn give_up(&mut self, client: u8, hangs_up: bool) {
        let state = &mut self.group.clients[usize::from(client)];
        state.call = None;
        let connection = state.connections;
        if std::mem::take(&mut state.is_connected) && hangs_up {
            self.send_to_node(client, connection, Part::Closed);
        }
        let mut draw = self.draw(Domain::Workload, client + FIRST_CLIENT);
        self.plan_client(client, draw.within(20, 400) * MILLISECOND);
    }

    pub(super) fn client_receives(&mut self, client: u8, segment: Segment) {
        let state = &mut self.group.clients[usize::from(client)];
        if !state.is_connected || segment.connection != state.connections {
            return;
        }
        match segment.part {
            Part::Opened => {}
            Part::Closed if state.call.is_some() => self.give_up(client, false),
            Part::Closed => state.is_connected = false,
            Part::Bytes(bytes) => {
                state.received.extend_from_slice(&bytes);
                while let Some((status, payload)) = self.next_answer(client) {
                    self.answered(client, status, &payload, segment.life);
                }
            }
        }
    }

    fn next_answer(&mut self, client: u8) -> Option<(Status, Vec<u8>)> {
        let state = &mut self.group.clients[usize::from(client)];
        let head = state.received.first_chunk::<RESPONSE_HEADER_BYTES>()?;
        let header = ResponseHeader::parse(head);
        let end = RESPONSE_HEADER_BYTES + header.length as usize;
        let frame = state.received.get(..end)?;
        let payload = frame[RESPONSE_HEADER_BYTES..].to_vec();
        state.received.drain(..end);
        Some((header.status, payload))
    }

    fn answered(&mut self, client: u8, status: Status, payload: &[u8], life: usize) {
        let (now_ns, node) = (self.now_ns(), client + FIRST_CLIENT);
        let state = &mut self.group.clients[usize::from(client)];
        if state.greetings > 0 {
            state.greetings -= 1;
            return;
        }
        let Some(call) = state.call.take() else {
            let what = "an answer arrives that no call waits for";
            return self.fail(node, Violation::new(Check::Tokens, what));
        };
        self.trace.explain(now_ns, node, || {
            format!("answer: {status:?}, {} B", payload.len())
        });
        let verdict = match self.judge(client, &call, (status, payload), life) {
            Ok(verdict) => verdict,
            Err(violation) => return self.fail(node, violation),
        };
        let mut pause_ns = self.scenario.options.workload.pause_mean_ns;
        if self.group.clients[usize::from(client)].finals.is_empty() {
            let mut draw = self.draw(Domain::Workload, node);
            pause_ns = draw.exponential(pause_ns.max(MILLISECOND));
        } else {
            self.final_call_answered(client, verdict);
            let is_refused = verdict == Verdict::Refused;
            pause_ns = if is_refused { 50 * MILLISECOND } else { 0 };
        }
        self.plan_client(client, pause_ns);
    }
}
