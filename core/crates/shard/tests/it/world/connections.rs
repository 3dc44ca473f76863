//! Connections to nodes, and the turns of the nodes that are models.

use std::net::SocketAddr;

use headrace_link::ToGateway;
use headrace_shard::{Arrival, Input};
use headrace_wire::{Status, frame::ResponseHeader};

use super::{World, node::Served, wire::Wire};

fn node_of(address: &str) -> u32 {
    let id = address.strip_prefix("node-").expect("a node's address");
    id.parse().expect("its id")
}

impl World {
    /// Process an attempt to connect.
    pub(super) fn connect_next(&mut self) -> bool {
        let is_heard = |address: &String| !self.silent.contains(&node_of(address));
        let next = (self.connecting.iter()).position(|(.., address)| is_heard(address));
        let Some(next) = next.filter(|_| self.chance()) else {
            return false;
        };
        let (process, link, address) = self.connecting.remove(next).expect("found");
        let id = node_of(&address);
        let index = self.wires.len();
        let far = (id as usize) < self.processes.len();
        let is_up = !self.down.contains(&id) && (far || self.nodes.contains_key(&id));
        let result = if is_up {
            let near = self.end(process, 0, (index, 0));
            let key = near.key;
            let far = far.then(|| self.accepted(id as usize, index));
            if let Some(node) = self.nodes.get_mut(&id) {
                node.links.insert(index, Served::default());
            }
            self.wires.push(Wire::new(near, far, Some(id)));
            Ok(key)
        } else {
            Err("connection refused".into())
        };
        self.processes[process].inputs[0].push_back(Input::Connected { link, result });
        true
    }

    fn accepted(&mut self, process: usize, wire: usize) -> super::wire::End {
        let host = &mut self.processes[process];
        host.last_shard = (host.last_shard + 1) % host.shards.len();
        let shard = host.last_shard;
        let end = self.end(process, shard, (wire, 1));
        self.processes[process].inputs[shard].push_back(Input::Accepted {
            connection: end.key,
            arrival: Arrival::tcp(SocketAddr::from(([127, 0, 0, 1], 5000))),
        });
        end
    }

    /// Deliver bytes to the models of nodes, and send their pending answers: in order, or in a random one.
    pub(super) fn serve(&mut self) -> bool {
        let mut is_busy = false;
        for (index, wire) in self.wires.iter_mut().enumerate() {
            let node = wire.node.and_then(|id| self.nodes.get_mut(&id));
            if let Some(served) = node.and_then(|node| node.links.get_mut(&index))
                && !wire.is_ended[0]
                && !self.is_held
            {
                let sent = &mut wire.towards[1];
                let count = if self.is_calm {
                    sent.len()
                } else {
                    self.random.usize(0..=sent.len())
                };
                is_busy |= count > 0;
                served.unread.extend(sent.drain(..count));
            }
        }
        for node in self.nodes.values_mut() {
            node.work(&mut self.truth);
            for (index, served) in &mut node.links {
                let wire = &mut self.wires[*index];
                let words = std::mem::take(&mut served.words);
                if !words.is_empty() {
                    is_busy = true;
                    wire.towards[0].extend(words);
                    wire.is_ended[0] = true;
                }
                if node.is_mute || served.is_over {
                    continue;
                }
                let mut owed = std::mem::take(&mut served.owed);
                let is_welcome = |frame: &ToGateway| matches!(frame, ToGateway::Welcome { .. });
                if !self.is_calm && !owed.first().is_some_and(is_welcome) {
                    self.random.shuffle(&mut owed);
                    served.owed = owed.split_off(self.random.usize(0..=owed.len()));
                }
                is_busy |= !owed.is_empty();
                wire.say(owed);
            }
        }
        is_busy
    }

    /// Links without faults.
    pub fn links(&self) -> Vec<usize> {
        let wires = self.wires.iter().enumerate();
        wires
            .filter(|(_, wire)| wire.node.is_some() && !wire.is_broken())
            .map(|(index, _)| index)
            .collect()
    }

    /// Links to a node that neither side has closed.
    pub fn links_to(&self, node: u32) -> Vec<usize> {
        let mut links = self.links();
        links.retain(|link| self.wires[*link].node == Some(node));
        links
    }

    /// Break a link: only this many bytes in transit to the node, and from it, still arrive.
    pub fn cut(&mut self, link: usize, to_node: usize, to_gateway: usize) {
        let wire = &mut self.wires[link];
        wire.towards[1].truncate(to_node);
        wire.towards[0].truncate(to_gateway);
        wire.is_ended = [true, true];
        let node = wire.node.and_then(|id| self.nodes.get_mut(&id));
        if let Some(node) = node
            && let Some(served) = node.links.get_mut(&link)
        {
            served.unread.append(&mut self.wires[link].towards[1]);
            node.work(&mut self.truth);
            node.links.remove(&link);
        }
        self.run();
    }

    /// Drain a link of a model: the node answers what it has executed, and executes nothing else.
    pub fn drain_link(&mut self, link: usize) {
        let wire = &mut self.wires[link];
        let node = wire.node.and_then(|id| self.nodes.get_mut(&id));
        let Some(served) = node.and_then(|node| node.links.get_mut(&link)) else {
            return;
        };
        served.is_over = true;
        wire.say(std::mem::take(&mut served.owed));
        wire.towards[0].extend(ResponseHeader::error(Status::DISCONNECTED).encode());
        wire.is_ended[0] = true;
        self.run();
    }
}

impl Wire {
    /// Send frames to the gateway.
    pub fn say(&mut self, frames: Vec<ToGateway>) {
        for slice in frames.into_iter().flat_map(ToGateway::encode) {
            self.towards[0].extend(&*slice);
        }
    }
}
