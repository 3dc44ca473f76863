//! Steps of the simulation: bytes arrive, the shard runs a turn, nodes answer, connections break.

use headrace_link::ToGateway;
use headrace_model::Timestamp;
use headrace_proto::control::v1 as control;
use headrace_shard::{Effect, Input};
use headrace_wire::{Status, frame::ResponseHeader};

use super::{End, World};
use crate::world::node::Served;

impl World {
    /// Run until nothing happens any more; in random mode, for only some steps.
    pub fn run(&mut self) {
        if self.random.is_some() {
            return;
        }
        while self.turn() {}
    }

    /// Run one turn of everything. Returns whether something has happened.
    pub fn turn(&mut self) -> bool {
        let mut is_busy = self.connect();
        is_busy |= self.carry();
        self.now += 10;
        let mut effects = Vec::new();
        while let Some(input) = self.inputs.pop_front() {
            is_busy = true;
            (self.shard).step(Timestamp(self.now), input, &mut effects);
        }
        (self.shard).end_of_turn(Timestamp(self.now), &mut effects);
        is_busy |= !effects.is_empty();
        self.execute(effects);
        for node in &mut self.nodes {
            node.work(&mut self.truth);
        }
        is_busy | self.answer()
    }

    fn chance(&mut self) -> bool {
        self.random.as_mut().is_none_or(fastrand::Rng::bool)
    }

    fn connect(&mut self) -> bool {
        let node_of = |address: &str| {
            let node = address.strip_prefix("node-").unwrap();
            node.parse::<usize>().unwrap() - 1
        };
        let silent = &self.silent;
        let next =
            (self.connecting.iter()).position(|(_, address)| !silent.contains(&node_of(address)));
        let Some(next) = next.filter(|_| self.chance()) else {
            return false;
        };
        let (link, address) = self.connecting.remove(next).unwrap();
        let node = node_of(&address);
        let result = if self.down.contains(&node) {
            Err("connection refused".into())
        } else {
            let socket = self.socket(End::Node(node));
            self.nodes[node].links.insert(socket, Served::default());
            Ok(self.sockets[socket].key)
        };
        self.inputs.push_back(Input::Connected { link, result });
        true
    }

    /// Deliver bytes.
    fn carry(&mut self) -> bool {
        let mut has_moved = false;
        for index in 0..self.sockets.len() {
            if !self.chance() {
                continue;
            }
            let some = |random: &mut Option<fastrand::Rng>, all: usize| match random {
                Some(random) => random.usize(0..=all),
                None => all,
            };
            let socket = &mut self.sockets[index];
            if socket.is_closed {
                continue;
            }
            let connection = socket.key;
            let is_held = socket.is_deaf || (self.is_held && socket.end != End::Client);
            if !is_held && socket.sending.take().is_some() {
                self.inputs.push_back(Input::Sent {
                    connection,
                    sent: true,
                });
                has_moved = true;
            }
            if let End::Node(node) = socket.end
                && !socket.is_ended
                && !is_held
                && let Some(served) = self.nodes[node].links.get_mut(&index)
            {
                let count = some(&mut self.random, socket.back.len());
                has_moved |= count > 0;
                served.unread.extend(socket.back.drain(..count));
            }
            let Some((_, start, minimum)) = &socket.receive else {
                continue;
            };
            let room = socket.receive.as_ref().unwrap().0.len() - start;
            let is_last = socket.is_ended && socket.towards.len() < *minimum;
            if socket.towards.len() < *minimum && !is_last {
                continue;
            }
            let least = (*minimum).min(socket.towards.len());
            let most = socket.towards.len().min(room);
            let count = least + some(&mut self.random, most - least);
            let (mut buffer, start, _) = socket.receive.take().unwrap();
            for place in &mut buffer[start..start + count] {
                *place = socket.towards.pop_front().unwrap();
            }
            has_moved = true;
            self.inputs.push_back(Input::Received {
                connection,
                buffer,
                count: Some(count),
            });
        }
        has_moved
    }

    /// Send the nodes' pending answers: in order, or in a random one.
    fn answer(&mut self) -> bool {
        let mut has_answered = false;
        for node in &mut self.nodes {
            for (socket, served) in &mut node.links {
                let words = std::mem::take(&mut served.words);
                if !words.is_empty() {
                    has_answered = true;
                    self.sockets[*socket].towards.extend(words);
                    self.sockets[*socket].is_ended = true;
                }
                if node.is_mute || served.is_over {
                    continue;
                }
                let mut owed = std::mem::take(&mut served.owed);
                if let Some(random) = &mut self.random {
                    let is_welcome = |frame: &ToGateway| matches!(frame, ToGateway::Welcome { .. });
                    if !owed.first().is_some_and(is_welcome) {
                        random.shuffle(&mut owed);
                        served.owed = owed.split_off(random.usize(0..=owed.len()));
                    }
                }
                for frame in owed {
                    has_answered = true;
                    for slice in frame.encode() {
                        self.sockets[*socket].towards.extend(&*slice);
                    }
                }
            }
        }
        has_answered
    }

    pub(super) fn execute(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Receive {
                    connection,
                    buffer,
                    start,
                    minimum,
                    ..
                } => {
                    assert!(minimum >= 1 && start + minimum <= buffer.len());
                    let socket = &mut self.sockets[connection.index as usize];
                    assert!(socket.receive.is_none(), "one receive at a time");
                    socket.receive = Some((buffer, start, minimum));
                }
                Effect::Send { connection, slices } => {
                    let socket = &mut self.sockets[connection.index as usize];
                    assert!(socket.sending.is_none(), "one send at a time");
                    for slice in &slices {
                        socket.back.extend(&**slice);
                    }
                    socket.sending = Some(slices);
                }
                Effect::Close { connection } => {
                    let index = connection.index as usize;
                    self.sockets[index].is_closed = true;
                    self.sockets[index].sending = None;
                    if let End::Node(node) = self.sockets[index].end {
                        self.nodes[node].links.remove(&index);
                    }
                }
                Effect::Connect { link, address } => {
                    self.connecting.push_back((link, address.to_string()));
                }
                Effect::Report { message } => self.reports.push(message),
                Effect::Control { origin, .. } => {
                    let reply = control::Reply {
                        status: 0,
                        body: Some(control::reply::Body::HostStatistics(
                            control::HostStatistics::default(),
                        )),
                        credential: None,
                    };
                    self.inputs.push_back(Input::ControlReply { origin, reply });
                }
                Effect::Finish { .. } | Effect::Notice { .. } => {}
                other => panic!("a gateway has nothing to do with {other:?}"),
            }
        }
    }

    /// Break a connection: only this many bytes in transit to the node, and from it, still arrive.
    pub fn cut(&mut self, socket: usize, to_node: usize, to_gateway: usize) {
        let End::Node(node) = self.sockets[socket].end else {
            panic!("a client");
        };
        if let Some(mut served) = self.nodes[node].links.remove(&socket) {
            let wire = &mut self.sockets[socket];
            let count = to_node.min(wire.back.len());
            served.unread.extend(wire.back.drain(..count));
            wire.back.clear();
            self.nodes[node].links.insert(socket, served);
            self.nodes[node].work(&mut self.truth);
            self.nodes[node].links.remove(&socket);
        }
        let wire = &mut self.sockets[socket];
        wire.towards.truncate(to_gateway);
        wire.is_ended = true;
        self.run();
    }

    /// Drain a link of a node: the node answers what it has executed, and executes nothing else.
    pub fn drain_link(&mut self, node: usize, socket: usize) {
        let Some(served) = self.nodes[node].links.get_mut(&socket) else {
            return;
        };
        served.is_over = true;
        let wire = &mut self.sockets[socket].towards;
        for frame in std::mem::take(&mut served.owed) {
            for slice in frame.encode() {
                wire.extend(&*slice);
            }
        }
        wire.extend(ResponseHeader::error(Status::DISCONNECTED).encode());
        self.sockets[socket].is_ended = true;
        self.run();
    }
}
