//! Bytes of the connections between clients and processes.

use std::net::SocketAddr;

use headrace_buffer::Slice;
use headrace_model::UserId;
use headrace_shard::{Arrival, ConnectionKey, Input};
use headrace_wire::CommandCode;
use headrace_wire::frame::{REQUEST_HEADER_BYTES, RequestHeader};

use super::process::Connection;
use super::{Cluster, Data, DataEvent, Part, Segment};
use crate::cluster::Event;
use crate::mutants::Mutant;
use crate::network::FIRST_CLIENT;
use crate::random::Domain;

impl Cluster<Data> {
    /// Send a part of a connection from a client to its node.
    pub(super) fn send_to_node(&mut self, client: u8, connection: u32, part: Part) {
        let (from, to) = (client + FIRST_CLIENT, 0);
        let bytes = bytes_of(&part);
        let [delivery, _] = self.network.send(self.now_ns(), from, to, &bytes);
        if let Some(delivery) = delivery {
            let ask = Segment {
                connection,
                life: 0,
                part,
            };
            let request = Event::Request { from, to, ask };
            self.schedule.plan(delivery.at_ns, 2, request);
        }
    }

    fn send_to_client(&mut self, node: u8, (client, connection): (u8, u32), part: Part) -> u64 {
        let (from, to) = (node, client + FIRST_CLIENT);
        let bytes = bytes_of(&part);
        let [delivery, _] = self.network.send(self.now_ns(), from, to, &bytes);
        let Some(delivery) = delivery else {
            return self.now_ns();
        };
        let starts = self.nodes[usize::from(node)].starts;
        let response = Segment {
            connection,
            life: usize::try_from(starts).expect("few").saturating_sub(1),
            part,
        };
        let response = Event::Response { from, to, response };
        self.schedule.plan(delivery.at_ns, 2, response);
        delivery.at_ns
    }

    /// Handle a part of a connection at its node.
    pub(super) fn segment_arrives(&mut self, from: u8, node: u8, segment: Segment) {
        let (now_ns, client) = (self.now_ns(), from - FIRST_CLIENT);
        self.trace.event(
            now_ns,
            node,
            "segment",
            &[from.into(), segment.connection.into()],
        );
        let shard_draw = self.draw(Domain::Process, from).word();
        let end = (client, segment.connection);
        let Some(process) = &mut self.nodes[usize::from(node)].process else {
            self.send_to_client(node, end, Part::Closed);
            return;
        };
        match segment.part {
            Part::Opened => {
                let shards = process.shards.len() as u64;
                let shard = usize::try_from(shard_draw % shards).expect("an index");
                let index = u32::try_from(process.ends.len()).expect("few") + 1;
                let key = ConnectionKey {
                    index,
                    generation: 1,
                };
                process.ends.insert(index, end);
                let connection = Connection {
                    shard,
                    key,
                    receive: None,
                    unread: [].into(),
                    is_ended: false,
                };
                process.connections.insert(end, connection);
                process.inputs[shard].push_back(Input::Accepted {
                    connection: key,
                    arrival: Arrival {
                        user: Some(UserId(0)),
                        ..Arrival::tcp(SocketAddr::from(([127, 0, 0, 1], 5000)))
                    },
                });
                self.plan_turn(node);
            }
            Part::Bytes(bytes) => match process.connections.get_mut(&end) {
                Some(connection) => {
                    let bytes = self
                        .kind
                        .bug
                        .map_or_else(|| bytes.to_vec(), |bug| altered(bug, &bytes));
                    connection.unread.extend(bytes);
                    let key = connection.key;
                    self.deliver(node, key);
                }
                None => {
                    self.send_to_client(node, end, Part::Closed);
                }
            },
            Part::Closed => {
                if let Some(connection) = process.connections.get_mut(&end) {
                    connection.is_ended = true;
                    let key = connection.key;
                    self.deliver(node, key);
                }
            }
        }
    }

    /// Complete the receive of a connection if enough bytes have arrived.
    pub(super) fn deliver(&mut self, node: u8, key: ConnectionKey) {
        let Some(process) = &mut self.nodes[usize::from(node)].process else {
            return;
        };
        let Some(connection) = process.connection(key) else {
            return;
        };
        let is_enough = |minimum: usize| connection.unread.len() >= minimum || connection.is_ended;
        let receive = &mut connection.receive;
        let Some((mut buffer, start, _)) = receive.take_if(|it| is_enough(it.2)) else {
            return;
        };
        let count = connection.unread.len().min(buffer.len() - start);
        for place in &mut buffer[start..start + count] {
            *place = connection.unread.pop_front().expect("counted");
        }
        let shard = connection.shard;
        process.inputs[shard].push_back(Input::Received {
            connection: key,
            buffer,
            count: Some(count),
        });
        self.plan_turn(node);
    }

    /// Send bytes of a process.
    pub(super) fn send(&mut self, node: u8, key: ConnectionKey, slices: &[Slice]) {
        let (now_ns, state) = (self.now_ns(), &mut self.nodes[usize::from(node)]);
        let Some(process) = &mut state.process else {
            return;
        };
        let incarnation = process.incarnation;
        let Some(end) = process.ends.get(&key.index).copied() else {
            return;
        };
        let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
        let sum = bytes.iter().fold(0_u64, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
        });
        self.trace.event(now_ns, node, "sent", &[end.0.into(), sum]);
        let part = Part::Bytes(Slice::from_vec(bytes));
        let at_ns = self.send_to_client(node, end, part);
        let sent = DataEvent::Sent {
            node,
            incarnation,
            connection: key,
        };
        self.schedule.plan_own(at_ns, 2, sent);
    }

    /// Report that sent bytes have left.
    pub(super) fn sent(&mut self, node: u8, key: ConnectionKey) {
        let process = self.nodes[usize::from(node)].process.as_mut();
        let Some(process) = process else {
            return;
        };
        let Some(connection) = process.connection(key) else {
            return;
        };
        let shard = connection.shard;
        process.inputs[shard].push_back(Input::Sent {
            connection: key,
            sent: true,
        });
        self.plan_turn(node);
    }

    /// Close the node's side of a connection.
    pub(super) fn say_closed(&mut self, node: u8, key: ConnectionKey) {
        let process = self.nodes[usize::from(node)].process.as_ref();
        let end = process.and_then(|process| process.ends.get(&key.index).copied());
        if let Some(end) = end {
            self.send_to_client(node, end, Part::Closed);
        }
    }

    /// Close the connections of a process that has ended. Without power the clients do not notice it.
    pub(super) fn hang_up_all(&mut self, node: u8, ends: Vec<(u8, u32)>, has_power: bool) {
        for end in ends {
            if has_power {
                self.send_to_client(node, end, Part::Closed);
            }
        }
    }

    /// Forget a connection that its process has closed.
    pub(super) fn forget(&mut self, node: u8, key: ConnectionKey) {
        let process = self.nodes[usize::from(node)].process.as_mut();
        if let Some(process) = process
            && let Some(end) = process.ends.get(&key.index)
        {
            process.connections.remove(end);
        }
    }
}

fn bytes_of(part: &Part) -> Slice {
    match part {
        Part::Bytes(bytes) => bytes.clone(),
        Part::Opened | Part::Closed => Slice::default(),
    }
}

/// Alter a whole request as a bug of the node would.
fn altered(bug: Mutant, request: &Slice) -> Vec<u8> {
    let mut bytes = request.to_vec();
    let Some(header) = request.first_chunk::<REQUEST_HEADER_BYTES>() else {
        return bytes;
    };
    let header = RequestHeader::parse(header);
    let whole = header
        .payload_bytes()
        .map(|it| it as usize + REQUEST_HEADER_BYTES);
    match (bug, CommandCode::try_from(header.code)) {
        _ if whole != Some(bytes.len()) => {}
        (Mutant::DataOffsetAhead, Ok(CommandCode::StoreConsumerOffset)) => {
            // The offset is the last field.
            let at = bytes.len() - 8;
            bytes[at] = bytes[at].wrapping_add(1);
        }
        (Mutant::DataBatchRepeated, Ok(CommandCode::SendMessages)) => bytes.extend(&**request),
        (Mutant::DataPollSkips, Ok(CommandCode::PollMessages)) => {
            // The starting point comes before the count and the last byte.
            let at = bytes.len() - 13;
            bytes[at] = bytes[at].wrapping_add(1);
        }
        _ => {}
    }
    bytes
}
